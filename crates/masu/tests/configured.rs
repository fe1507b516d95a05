//! A configuration that is compiled into the program, and how the environment changes it.

mod common;

use masu::{BackgroundThread, Config, Configured, Masu, ctl, limit};

#[global_allocator]
static GLOBAL: Configured = Masu::with_config(
    Config::new()
        .decay_ms(50)
        .budget(1 << 20)
        .background_thread(BackgroundThread::Off)
        .retain_full(7),
);

#[test]
fn the_program_is_configured_as_it_was_compiled() {
    assert_eq!(ctl::decay::read(), Ok(Some(50)));
    assert_eq!(ctl::budget::read(), Ok(1 << 20));
    assert_eq!(ctl::background_thread::read(), Ok(false));
    assert_eq!(ctl::retain_full::read(), Ok(7));
    assert_eq!(ctl::run_cache::read(), Ok(1 << 20));
}

#[test]
fn the_environment_wins() {
    if common::is_child() {
        assert_eq!(ctl::decay::read(), Ok(None));
        assert_eq!(ctl::budget::read(), Ok(2 << 20));
        assert_eq!(ctl::retain_full::read(), Ok(7));
        return;
    }
    let output = common::again("the_environment_wins", |child| {
        child.env("MASU_CONF", "decay:never,verbose:1,show_stats:1").env("MASU_BUDGET", "2MiB");
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}{said}", String::from_utf8_lossy(&output.stdout));
    let line = |key: &str| said.lines().find(|line| line.contains(key)).unwrap_or_default();
    assert!(line("decay ").ends_with("MASU_CONF"), "{said}");
    assert!(line("budget ").ends_with("MASU_BUDGET"), "{said}");
    assert!(line("retain_full ").ends_with("program"), "{said}");
    assert!(line("huge_pages ").ends_with("built-in"), "{said}");
    assert!(said.contains("masu: statistics"), "{said}");
}

#[test]
fn mistakes_in_the_environment_are_told_and_change_nothing() {
    if common::is_child() {
        assert_eq!(ctl::decay::read(), Ok(Some(50)));
        return;
    }
    let name = "mistakes_in_the_environment_are_told_and_change_nothing";
    let output = common::again(name, |child| {
        child.env("MASU_DEKAY", "1s").env("MASU_DECAY", "soon");
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("did you mean MASU_DECAY?"), "{said}");
    assert!(said.contains("MASU_DECAY: \"soon\" is not a time"), "{said}");
}

/// What a constructor sees, which runs before the standard library allocates anything.
extern "C" fn before_main() {
    limit::set_hard(Some(512 << 20));
    let decay = ctl::decay::read().ok().flatten().unwrap_or(0);
    BEFORE_MAIN.store(decay, std::sync::atomic::Ordering::Relaxed);
}

static BEFORE_MAIN: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = before_main;

#[test]
fn the_first_call_need_not_be_an_allocation() {
    if !common::is_child() {
        assert_eq!(BEFORE_MAIN.load(std::sync::atomic::Ordering::Relaxed), 50);
        let mut bytes = Vec::<u8>::new();
        assert!(bytes.try_reserve(1 << 30).is_err(), "a limit that was set first is in force");
        std::hint::black_box(&bytes);
    }
}
