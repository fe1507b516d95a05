//! The heap profile of a Rust program, which this test is.

#![cfg(feature = "prof")]

use std::future::Future;
use std::io::Read;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use masu::prof::{self, jemalloc_pprof};

#[global_allocator]
static GLOBAL: masu::Masu = masu::Masu;

#[inline(never)]
#[expect(clippy::vec_box, reason = "each is an allocation of its own")]
fn kept(n: usize) -> Vec<Box<[u8; 200]>> {
    (0..n).map(|_| Box::new([7; 200])).collect()
}

/// The result of a future that never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

// One test, since the profile is the process's.
#[test]
fn a_profile_is_taken() {
    assert!(matches!(prof::snapshot(), Err(prof::Error::NotStarted)));
    assert!(!prof::is_on());
    prof::start(4096).expect("memory");
    let blocks = kept(50_000);
    let profile = prof::snapshot().expect("a profile");
    prof::stop();
    // Ten million bytes: a standard deviation is 2 %.
    let live = profile.live_bytes();
    assert!((8_000_000..13_500_000).contains(&live), "{live}");
    assert!(profile.peak_bytes() >= live / 2 && prof::live_bytes() >= live / 2);
    let text = String::from_utf8(profile.text()).expect("text");
    let deep = |line: &&str| line.split("0x").count() > 8;
    let places: Vec<&str> = text.lines().filter(|line| line.starts_with("place 224 ")).collect();
    assert!(!places.is_empty() && places.iter().all(deep), "{text}");
    assert_eq!(profile.pprof().expect("packed")[..2], [0x1f, 0x8b]);
    #[cfg(feature = "flamegraph")]
    assert!(
        String::from_utf8(profile.flamegraph().expect("drawn"))
            .expect("SVG")
            .contains("prof::kept")
    );
    drop(blocks);

    // The same through `jemalloc_pprof`.
    let mut ctl = now(jemalloc_pprof::PROF_CTL.as_ref().expect("always").lock());
    assert!(!ctl.activated() && ctl.get_md().start_time.is_none());
    now(jemalloc_pprof::activate_jemalloc_profiling());
    assert!(ctl.activated() && ctl.get_md().start_time.is_some());
    assert_eq!(ctl.lg_sample(), 12);
    let blocks = kept(20_000);
    assert_eq!(ctl.dump_pprof().expect("packed")[..2], [0x1f, 0x8b]);
    let mut text = String::new();
    ctl.dump().expect("a file").read_to_string(&mut text).expect("text");
    assert!(text.starts_with("heap_v2/4096\n") && text.contains("MAPPED_LIBRARIES:"), "{text}");
    now(jemalloc_pprof::deactivate_jemalloc_profiling());
    assert!(!prof::is_on() && prof::live_bytes() == 0);
    drop(blocks);
}
