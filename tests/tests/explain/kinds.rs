//! Memory that is easily taken for something else.

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use masu_tests::running::Running;
use masu_tests::{Compile, is_masu};

use super::{bytes, closes, explained};

/// What grows while it is read is masu's all the same.
#[test]
fn memory_that_comes_meanwhile_is_not_the_programs() {
    if !is_masu() {
        return;
    }
    let program = Compile::c("c/grows.c").build();
    for configuration in ["policy:hardened", "decay:never"] {
        let mut command = Command::new(program.path());
        let mut running = Running::start(command.env("MASU_CONF", configuration));
        running.says("ready");
        for _ in 0..10 {
            let account = explained(running.id());
            assert!(bytes(&account, "anonymous") < 256 << 10, "{account:#}");
            let of = |name: &str| account[name].as_f64().expect("a number");
            assert!(of("sum") < of("rss") * 1.1, "{account:#}");
            sleep(Duration::from_millis(20));
        }
    }
}

/// The kernel names shared anonymous memory like a deleted file.
#[test]
fn shared_memory_is_no_file() {
    if !is_masu() {
        return;
    }
    let script = "import mmap, os\n\
                  shared = mmap.mmap(-1, 20 << 20); shared[:] = b'1' * (20 << 20)\n\
                  zeroes = os.open('/dev/zero', os.O_RDWR)\n\
                  private = mmap.mmap(zeroes, 9 << 20, mmap.MAP_PRIVATE); private[:] = b'1' * (9 << 20)\n\
                  print('ready', flush=True); input()\n";
    let mut running = Running::start(Command::new("python3").args(["-c", script]));
    running.says("ready");
    let account = closes(running.id());
    let mib = |kind| bytes(&account, kind) >> 20;
    assert_eq!((mib("shared"), mib("files")), (20, 0), "{account:#}");
    assert!((9..20).contains(&mib("anonymous")), "{account:#}");
}
