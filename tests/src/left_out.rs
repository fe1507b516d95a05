//! What a run of the tests left out, and why: `./check` lists it at its end.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

/// Says that a part is left out, and why: on standard output, which passing tests do not show, and in the file that
/// `MASU_TEST_LEFT_OUT` names. With `MASU_TEST_ALL=1` that is a failure.
pub fn left_out(what: &str, because: &str) {
    let line = format!("left out: {what}, because {because}\n");
    print!("{line}");
    assert!(std::env::var_os("MASU_TEST_ALL").is_none(), "everything is to be tested; {line}");
    let Some(path) = std::env::var_os("MASU_TEST_LEFT_OUT") else { return };
    // Another root file system, as of a release in a chroot, has no such directory. In one piece, as other tests write too.
    if let Ok(mut file) = OpenOptions::new().append(true).create(true).open(path) {
        let _ = file.write_all(line.as_bytes());
    }
}

/// The path of a tool in `PATH`; if it is not installed, `what` is left out. For tools that `tests/install-tools` may not be
/// able to install; the others are a [`tool`](crate::tool).
pub fn optional_tool(name: &str, what: &str) -> Option<PathBuf> {
    let found = crate::in_path(name);
    if found.is_none() {
        left_out(what, &format!("{name} is not installed"));
    }
    found
}
