//! Limits on memory that the allocator itself keeps, and what it takes from the system's limits.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::thread::sleep;
use std::time::Duration;

use masu_tests::{Compile, Program, Run, case, check_case_list, check_offered, is_masu, left_out};

fn program() -> &'static Program {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| common::c_program("bounds"));
    &PROGRAM
}

/// Makes a test of each case, run under options of masu's.
macro_rules! under {
    ($($options:literal: $($name:ident),+;)+) => {
        $($(#[test]
        fn $name() {
            if !is_masu() {
                println!("the options are masu's");
                return;
            }
            check_offered(case(program(), stringify!($name)).env("MASU_CONF", $options).run());
        })+)+

        #[test]
        fn every_case_is_driven() {
            check_case_list(program(), &[$($(stringify!($name)),+),+]);
        }
    };
}

under! {
    "limit.hard:128MiB":
        a_leak_ends_in_enomem_and_the_program_goes_on,
        the_reserve_is_there_for_every_failure,
        a_growing_block_reaches_the_limit,
        the_reserve_is_there_when_growth_has_failed,
        free_memory_makes_room_for_growth,
        a_block_that_moves_counts_once,
        free_memory_makes_room_for_other_sizes,
        threads_meet_the_limit_together,
        the_limit_holds_in_a_forks_child;
    "limit.soft:100MiB":
        the_callback_is_called_once_for_each_crossing,
        untouched_memory_does_not_count_for_the_soft_limit,
        memory_touched_later_counts_for_the_soft_limit;
    "limit.soft:100MiB,limit.hard:180MiB":
        a_leak_is_told_before_it_is_refused;
    "limit.soft:100MiB,decay:1h":
        beyond_the_soft_limit_nothing_free_is_kept,
        a_purge_that_suffices_is_no_crossing;
    "decay:1h,background_thread:on,budget:1MiB":
        pressure_gives_everything_back;
    "cgroup:0":
        a_control_group_is_not_looked_at_if_not_wanted;
    "populate:1":
        populated_memory_is_resident_before_it_is_used;
    "policy:realtime":
        after_a_warm_up_nothing_faults;
    "":
        limits_can_be_set_by_the_program,
        the_soft_limit_comes_from_the_control_group,
        statistics_are_cheap_to_poll,
        a_hundred_polls_a_second_cost_no_thousandth,
        statistics_are_of_the_moment;
}

/// When the kernel refuses (`ulimit -v`), the callback has been called, and the program goes on.
#[test]
fn a_leak_under_a_limit_of_the_kernels_is_told_before() {
    if !is_masu() {
        println!("the options are masu's");
        return;
    }
    let run = case(program(), "a_leak_is_told_before_it_is_refused");
    let run = run.through("sh", &["-c", "ulimit -v 262144; exec \"$@\"", "sh"]);
    let outcome = run.env("MASU_LIMIT_SOFT", "128MiB").run().success();
    assert!(outcome.stdout.contains("limit 134217728 bytes"), "{}", outcome.describe());
}

/// In a control group of 256 MiB the callback needs no configuration; it is called at nine tenths.
#[test]
fn a_leak_in_a_control_group_is_told_before() {
    if !is_masu() {
        println!("the options are masu's");
        return;
    }
    let Some(group) = Group::with_limit(256 << 20) else {
        left_out("a leak in a control group", "none can be made here");
        return;
    };
    let run = case(program(), "a_leak_is_told_before_it_is_refused");
    let enter = format!("echo $$ >'{}'; exec \"$@\"", group.0.join("cgroup.procs").display());
    let run = run.through("sh", &["-ec", &enter, "sh"]);
    let outcome = run.env("MASU_LIMIT_HARD", "240MiB").run().success();
    let nine_tenths = (256 << 20) / 10 * 9;
    let told = outcome.stdout.split_once("limit ").and_then(|(_, rest)| rest.split(' ').next());
    let limit: u64 = told.and_then(|told| told.parse().ok()).expect("a limit");
    assert!(limit.abs_diff(nine_tenths) < 1 << 20, "{}", outcome.describe());
}

/// A separate control group for memory, of version 1 or 2.
struct Group(PathBuf);

impl Group {
    /// A group with this limit in bytes; `None` where the system does not let us.
    fn with_limit(limit: u64) -> Option<Group> {
        let kinds = [("memory", "memory.limit_in_bytes"), ("", "memory.max")];
        kinds.into_iter().find_map(|(controller, file)| {
            let place = Path::new("/sys/fs/cgroup").join(controller);
            let place = place.join(format!("masu-test-{}", std::process::id()));
            fs::create_dir(&place).ok()?;
            let group = Group(place);
            let file = group.0.join(file);
            (file.exists() && fs::write(&file, limit.to_string()).is_ok()).then_some(group)
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // It is empty as soon as its last process has been cleaned up.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            sleep(Duration::from_millis(20));
        }
    }
}

/// `operator new` throws, its reserve leaves room for the message, and the program ends well.
#[test]
fn operator_new_throws_at_the_limit() {
    if !is_masu() {
        println!("the options are masu's");
        return;
    }
    let program = Compile::cxx("cxx/bounds.cc").build();
    let outcome = Run::program(&program).env("MASU_LIMIT_HARD", "64MiB").run().success();
    assert!(outcome.stdout.contains("std::bad_alloc after 5"), "{}", outcome.describe());
}

/// Services in Python do this on a timer; it returns free memory.
#[test]
fn malloc_trim_from_python_gives_memory_back() {
    const SCRIPT: &str = "
import ctypes
def resident(): return int(open('/proc/self/statm').read().split()[1]) * 4 // 1024
blocks = [bytearray(n) for n in (1000, 40000, 3000000) for _ in range(40000000 // n)]
del blocks
before = resident()
ctypes.CDLL(None).malloc_trim(0)
print(before - resident() >= 80, before, resident())";
    let run = Run::new("python3").args(["-c", SCRIPT]).env("MASU_DECAY", "never");
    let outcome = run.run().success();
    assert!(outcome.stdout.starts_with("True") || !is_masu(), "{}", outcome.describe());
}
