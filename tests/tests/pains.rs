//! What users of allocators complained about; each test is named after the report's thread.
//!
//! The programs are in `crates/masu-workloads/programs/pains`. Each measures one number, such as the
//! memory that an idle process keeps, and has a limit for it that leaves room for a busy machine.
//! `masu-lab pains` measures the same on other allocators.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use masu_tests::{Compile, Program, Run, workspace};

static PROGRAM: LazyLock<Program> = LazyLock::new(|| {
    let place = workspace().join("crates/masu-workloads/programs/pains");
    let sources = ["pains.c", "going_back.c", "threads_and_forks.c", "address_space.c"];
    let compiler = std::env::var("CC").unwrap_or_else(|_| "gcc".into());
    let start = Compile::with(&compiler).flag("-std=gnu11").flag("-Werror");
    sources.iter().fold(start, |compile, file| compile.file(place.join(file))).build()
});

/// Measures a pain; its result is shown, and must pass.
#[track_caller]
fn holds(name: &str) {
    let outcome = Run::program(&PROGRAM).arg(name).timeout(Duration::from_secs(180)).run();
    print!("{}", outcome.stdout);
    let said = outcome.success().stdout;
    assert!(said.starts_with(name) && said.trim().ends_with("pass"), "{said}");
}

macro_rules! pains {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            holds(stringify!($name));
        })*

        #[test]
        fn every_pain_is_measured() {
            let listing = Run::program(&PROGRAM).bare().arg("--list").run().success().stdout;
            let listed: BTreeSet<_> = listing.lines().filter_map(|line| line.split('\t').next()).collect();
            assert_eq!(listed, BTreeSet::from([$(stringify!($name)),*]));
        }
    };
}

pains! {
    issue_jemalloc_2688_idle_decay,
    issue_mimalloc_333_idle_process,
    issue_mimalloc_351_pool_threads,
    issue_snmalloc_846_lazy_free,
    issue_hypha_976_trim,
    bug_ruby_14718_fragmentation,
    issue_rust_31885_page_faults,
    issue_mimalloc_693_growing_buffer,
    issue_jemalloc_1674_idle_threads,
    issue_flink_266_one_processor,
    issue_mimalloc_809_threads_that_were,
    issue_mimalloc_1372_owners_that_were,
    issue_redisearch_2402_forks_in_threads,
    issue_cwist_34_forked_workers,
    issue_mimalloc_1309_mappings,
    issue_mimalloc_1021_reserved,
    issue_jemalloc_2289_limited,
    issue_mimalloc_593_small_program,
}
