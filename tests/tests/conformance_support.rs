//! The support library itself: a suite that cannot fail proves nothing.

use std::panic::catch_unwind;
use std::time::Duration;

use masu_tests::{Compile, Run, library};

#[test]
fn malloc_comes_from_the_library_under_test() {
    let hello = Compile::c("c/hello.c").build();
    let outcome = Run::program(&hello).run().success();
    let expected = library().map_or("libc.so".into(), |path| path.to_string_lossy().into_owned());
    assert!(outcome.stdout.contains(&expected), "{}", outcome.describe());
    let bare = Run::program(&hello).bare().run().success();
    assert!(bare.stdout.contains("libc.so"), "{}", bare.describe());
}

#[test]
fn a_failing_program_fails_its_test() {
    let hello = Compile::c("c/hello.c").build();
    assert!(catch_unwind(|| Run::program(&hello).arg("3").run().success()).is_err());
    assert!(catch_unwind(|| Run::program(&hello).run().killed_by(libc::SIGABRT)).is_err());
}

#[test]
fn a_program_that_hangs_is_killed_and_said_to_have_timed_out() {
    let outcome = Run::new("sleep").arg("60").timeout(Duration::from_millis(200)).run();
    assert!(outcome.timed_out && outcome.elapsed < Duration::from_secs(20));
    assert!(catch_unwind(move || outcome.success()).is_err());
}

#[test]
fn a_library_that_was_not_mapped_is_noticed() {
    if library().is_none() {
        return; // nothing is preloaded, so nothing can be missing
    }
    // A static program cannot be preloaded.
    let program = Compile::c("c/static_true.c").flag("-static").build();
    assert!(catch_unwind(|| Run::program(&program).run().success()).is_err());
}

#[test]
fn a_missing_tool_is_named() {
    let error = catch_unwind(|| masu_tests::tool("no-such-tool-anywhere")).unwrap_err();
    let message = error.downcast_ref::<String>().expect("a message");
    assert!(message.contains("no-such-tool-anywhere") && message.contains("install-tools"));
}
