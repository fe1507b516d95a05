//! Kernels that lack one feature, and filters that refuse one: masu asks, is refused, and goes on.

use std::fs;
use std::sync::LazyLock;
use std::time::Duration;

use masu_tests::{Compile, Program, Run, huge_pages, is_masu, left_out, library, scratch};

/// A use of a system call, and how it fails.
struct Refused {
    /// As `strace` writes it in the call's line.
    asked: &'static str,
    call: (&'static str, libc::c_long),
    /// The argument that identifies the use: its index, its bits, their value.
    argument: (u32, u32, u32),
    error: i32,
    /// The configuration under which masu asks.
    conf: &'static str,
}

const ALL: (u32, u32, u32) = (0, 0, 0);

const REFUSED: [(&str, Refused); 11] = {
    const fn madvise(asked: &'static str, advice: libc::c_int, conf: &'static str) -> Refused {
        let argument = (2, u32::MAX, advice as u32);
        Refused { asked, call: ("madvise", libc::SYS_madvise), argument, error: libc::EINVAL, conf }
    }
    const fn any(
        name: &'static str,
        call: libc::c_long,
        error: i32,
        conf: &'static str,
    ) -> Refused {
        Refused { asked: name, call: (name, call), argument: ALL, error, conf }
    }
    const MREMAP: Refused = any("mremap", libc::SYS_mremap, libc::EPERM, "");
    [
        // Linux before 5.14.
        (
            "no MADV_POPULATE_WRITE",
            madvise("MADV_POPULATE_WRITE", libc::MADV_POPULATE_WRITE, "populate:on"),
        ),
        ("no MADV_HUGEPAGE", madvise("MADV_HUGEPAGE", libc::MADV_HUGEPAGE, "")),
        // Linux before 6.13.
        ("no MADV_GUARD_INSTALL", madvise("0x66", 102, "guard:1/100")),
        // Linux before 4.14, gVisor, and filters.
        ("no membarrier", any("membarrier", libc::SYS_membarrier, libc::ENOSYS, "")),
        ("membarrier refused", any("membarrier", libc::SYS_membarrier, libc::EPERM, "")),
        // Linux before 5.7.
        (
            "no MREMAP_DONTUNMAP",
            Refused {
                asked: "MREMAP_DONTUNMAP",
                argument: (3, 4, 4),
                error: libc::EINVAL,
                ..MREMAP
            },
        ),
        ("mremap refused", MREMAP),
        ("mincore refused", any("mincore", libc::SYS_mincore, libc::EPERM, "")),
        ("no getrandom", any("getrandom", libc::SYS_getrandom, libc::ENOSYS, "policy:hardened")),
        // The C library's call; older ones do not make it.
        ("no rseq", any("rseq", libc::SYS_rseq, libc::ENOSYS, "")),
        ("no clone3", any("clone3", libc::SYS_clone3, libc::ENOSYS, "")),
    ]
};

fn refuse() -> &'static Program {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| Compile::c("c/refuse.c").build());
    &PROGRAM
}

fn program() -> &'static Program {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| {
        Compile::c("c/check_main.c").file("c/old_kernel.c").flag("-pthread").build()
    });
    &PROGRAM
}

impl Refused {
    /// A run on such a kernel.
    fn on(&self, run: Run) -> Run {
        let (argument, mask, value) = self.argument;
        let words = [self.call.1 as u32, argument, mask, value, self.error as u32];
        let words = words.map(|word| word.to_string());
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        run.through(&refuse().path().to_string_lossy(), &words)
    }
}

#[test]
fn masu_goes_on_whatever_the_kernel_lacks() {
    let Some(library) = library() else {
        println!("only masu is known to do without");
        return;
    };
    for (kernel, refused) in REFUSED {
        let directory = scratch();
        let log = directory.path().join("log");
        let preload = format!("LD_PRELOAD={}", library.display());
        let conf = format!("MASU_CONF={}", refused.conf);
        let trace = format!("trace={}", refused.call.0);
        let words =
            ["-f", "-qq", "-e", &trace, "-o", &log.to_string_lossy(), "-E", &preload, "-E", &conf];
        let run = refused.on(Run::program(program())).bare().through("strace", &words);
        let outcome = run.timeout(Duration::from_secs(180)).run();
        assert!(outcome.status.success(), "{kernel}: {}", outcome.describe());
        // The kernel was asked, and refused.
        let log = fs::read_to_string(&log).expect("strace wrote its log");
        let asked = |line: &&str| line.contains(refused.asked) && line.contains(" = -1 E");
        assert!(log.lines().any(|line| asked(&line)), "{kernel}: never asked in\n{log}");
    }
}

/// Where the kernel makes no split huge page whole (Linux before 6.1, and filters), they stay split, and masu asks once.
#[test]
fn masu_goes_on_with_split_huge_pages() {
    let Some(library) = library().filter(|_| is_masu()) else { return };
    let aged = Compile::c("c/check_main.c").file("c/split.c").build();
    let preload = format!("LD_PRELOAD={}", library.display());
    // Every line in which masu asks for it.
    let asked = |error: Option<i32>| -> Vec<String> {
        let directory = scratch();
        let log = directory.path().join("log");
        let (path, conf) = (log.to_string_lossy(), "MASU_CONF=decay:200ms,background_thread:on");
        let words = ["-f", "-qq", "-e", "trace=madvise", "-o", &path, "-E", &preload, "-E", conf];
        let mut run = Run::program(&aged).bare();
        if let Some(error) = error {
            let call = ("madvise", libc::SYS_madvise);
            let argument = (2, u32::MAX, libc::MADV_COLLAPSE as u32);
            run = Refused { asked: "", call, argument, error, conf: "" }.on(run);
        }
        let outcome = run.through("strace", &words).timeout(Duration::from_secs(180)).run();
        assert!(outcome.status.success(), "{error:?}: {}", outcome.describe());
        let log = fs::read_to_string(&log).expect("strace wrote its log");
        log.lines().filter(|line| line.contains("MADV_COLLAPSE")).map(str::to_owned).collect()
    };
    // After one that took long, as on a busy machine, a process requests no huge pages for a while.
    let found = |error, suffices: &dyn Fn(&[String]) -> bool| {
        huge_pages::found(192 << 20, || Some(asked(error)).filter(|lines| suffices(lines)))
    };
    let never = |lines: &[String]| lines.first().is_some_and(|line| line.contains(" = -1 "));
    let made = |lines: &[String]| lines.iter().skip(1).any(|line| line.ends_with(" = 0"));
    let Some(lines) = found(None, &|lines| never(lines) || made(lines)) else {
        left_out("huge pages that are not made whole", "this machine gives none, or is slow to");
        return;
    };
    if never(&lines) {
        left_out("huge pages that are not made whole", "this kernel never makes them so");
        return;
    }
    for error in [libc::EINVAL, libc::EPERM, libc::ENOSYS] {
        let Some(lines) = found(Some(error), &|lines| !lines.is_empty()) else {
            left_out(
                "huge pages that are not made whole",
                "this machine has become slow to give them",
            );
            return;
        };
        assert!(lines.len() == 1 && lines[0].contains(" = -1 E"), "{error}: {lines:#?}");
    }
}

/// What masu never asks for: kernels and filters need not have it.
#[test]
fn masu_never_asks_for_what_is_newer_than_it_needs() {
    let Some(library) = library() else { return };
    let directory = scratch();
    let log = directory.path().join("log");
    let preload = format!("LD_PRELOAD={}", library.display());
    let words = ["-f", "-qq", "-o", &log.to_string_lossy(), "-E", &preload];
    let run = Run::program(program()).bare().through("strace", &words);
    let outcome = run.timeout(Duration::from_secs(180)).run();
    assert!(outcome.status.success(), "{}", outcome.describe());
    let log = fs::read_to_string(&log).expect("strace wrote its log");
    assert!(log.contains("MADV_DONTNEED"), "{log}");
    for name in ["MADV_COLD", "MADV_PAGEOUT", "userfaultfd", "io_uring"] {
        assert!(!log.contains(name), "{name}");
    }
}

/// Ranges go back as lists, if the kernel takes them. Once refused, masu does not ask again; in a process with a filter,
/// or that may open no file to see whether it has one, it never asks.
#[test]
fn lists_of_ranges_are_asked_for_where_that_harms_nobody() {
    let Some(library) = library() else { return };
    let preload = format!("LD_PRELOAD={}", library.display());
    let asked = |more: &[&str], conf: &str, kernel: Option<&Refused>| {
        let directory = scratch();
        let log = directory.path().join("log");
        let (path, conf) = (log.to_string_lossy(), format!("MASU_CONF={conf}"));
        let mut words = vec!["-f", "-qq", "-e", "trace=process_madvise,madvise", "-o", &path];
        words.extend(more);
        words.extend(["-E", &preload, "-E", &conf]);
        let run = Run::program(program()).bare();
        let run = if let Some(refused) = kernel { refused.on(run) } else { run };
        let outcome = run.through("strace", &words).timeout(Duration::from_secs(180)).run();
        assert!(outcome.status.success(), "{}", outcome.describe());
        let log = fs::read_to_string(&log).expect("strace wrote its log");
        assert!(log.contains(" madvise("), "{log}");
        log.lines().filter(|line| line.contains("process_madvise(")).count()
    };
    let refusal = ["-e", "inject=process_madvise:error=ENOSYS"];
    // Threads that ask at the same time are all refused.
    let refused = asked(&refusal, "", None);
    assert!((1..=4).contains(&refused), "asked {refused} times");
    let (_, harmless) = REFUSED.iter().find(|(name, _)| *name == "no rseq").expect("in the list");
    assert_eq!(asked(&[], "", Some(harmless)), 0, "with a filter");
    assert_eq!(asked(&[], "cgroup:off", None), 0, "without files");
}

/// `masu explain` on Linux before 6.7, which cannot list resident pages in one call.
#[test]
fn explain_goes_on_without_pagemap_scan() {
    use masu_tests::running::{Running, command};
    let Some(library) = library() else { return };
    let explained = Compile::c("c/explained.c").flag("-pthread").build();
    let mut running = Running::start_on(
        &library.to_string_lossy(),
        &mut std::process::Command::new(explained.path()),
    );
    running.says("ready");
    let id = running.id().to_string();
    let refused = Refused {
        asked: "",
        call: ("ioctl", libc::SYS_ioctl),
        argument: (1, u32::MAX, 0xc060_6610),
        error: libc::ENOTTY,
        conf: "",
    };
    let outcome =
        refused.on(Run::new(command()).bare().args(["explain", "--json", &id])).run().success();
    let account: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert!(account["rss"].as_u64().is_some_and(|bytes| bytes > 1 << 20), "{account}");
}
