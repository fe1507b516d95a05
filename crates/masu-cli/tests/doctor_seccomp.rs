//! `masu doctor` under seccomp filters: it finds out which calls are refused by making them.

#![cfg(target_arch = "x86_64")]

mod common;

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use common::Fixture;
use common::doctor::{Severity, findings};
use serde_json::Value;

/// What a filter does with one call; all others pass.
#[derive(Clone, Copy)]
enum Action {
    Refuse(i32),
    Kill,
}

/// Installs a filter in this thread.
fn install(call: libc::c_long, action: Action) -> io::Result<()> {
    let verdict = match action {
        Action::Refuse(error) => libc::SECCOMP_RET_ERRNO | error as u32,
        Action::Kill => libc::SECCOMP_RET_KILL_PROCESS,
    };
    let step =
        |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    // The number of the call is the first word that the filter sees.
    let filter = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, verdict),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the first call takes no pointers; `program` and its filter outlive the second, which
    // copies them.
    let failed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0
    };
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What the doctor says under a filter about `call`, and its exit code.
fn under(call: libc::c_long, action: Action) -> (Value, Option<i32>) {
    let fixture = Fixture::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_masu"));
    command.args(["doctor", "--json", "--lib"]).arg(fixture.witness());
    // SAFETY: between fork and exec only two system calls are made, and nothing is allocated.
    unsafe { command.pre_exec(move || install(call, action)) };
    let output = command.output().unwrap();
    let json = serde_json::from_slice(&output.stdout);
    (json.unwrap_or_else(|_| panic!("{output:?}")), output.status.code())
}

#[test]
fn a_filter_that_lets_all_of_masu_through() {
    let (json, code) = under(libc::SYS_swapon, Action::Refuse(libc::EPERM));
    assert_eq!(code, Some(0), "{json:#}");
    assert_eq!(json["ground"]["kernel"]["seccomp"], 2);
    let calls = findings(&json, "kernel.calls");
    assert_eq!((calls.len(), calls[0].severity), (1, Severity::Ok));
    // The filter needed this flag, so set-user-ID programs would run on masu.
    assert_eq!(findings(&json, "kernel.no_new_privileges").len(), 1);
}

#[test]
fn a_call_that_is_refused() {
    for (call, name) in [
        (libc::SYS_membarrier, "membarrier"),
        (libc::SYS_madvise, "madvise"),
        (libc::SYS_mremap, "mremap"),
        (libc::SYS_mincore, "mincore"),
        (libc::SYS_sched_getaffinity, "sched_getaffinity"),
    ] {
        let (json, code) = under(call, Action::Refuse(libc::EPERM));
        assert_eq!(code, Some(0));
        let calls = findings(&json, "kernel.calls");
        assert_eq!((calls.len(), calls[0].severity), (1, Severity::Warning), "{name}: {calls:?}");
        assert!(calls[0].sentence.starts_with(&format!("`{name}` is refused")), "{calls:?}");
        assert!(calls[0].fix.starts_with(&format!("allow `{name}` in the seccomp profile")));
    }
}

#[test]
fn a_call_that_kills() {
    let (json, code) = under(libc::SYS_membarrier, Action::Kill);
    assert_eq!(code, Some(1));
    let calls = findings(&json, "kernel.calls");
    assert_eq!((calls.len(), calls[0].severity), (1, Severity::Problem));
    assert_eq!(
        calls[0].sentence,
        "The seccomp filter kills the process when it calls `membarrier`."
    );
}

#[test]
fn no_filter_no_finding() {
    let fixture = Fixture::new();
    let mut command = common::masu();
    let json = common::doctor::answer(command.args(["doctor", "--lib"]).arg(fixture.witness()), 0);
    if json["ground"]["kernel"]["seccomp"] == 0 {
        assert!(findings(&json, "kernel.calls").is_empty());
    }
}
