//! The heap profile of a Rust program, which this test is.

#![cfg(feature = "prof")]

use std::ffi::OsStr;
use std::fs::File;
use std::future::Future;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::pin::pin;
use std::ptr::null_mut;
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

/// Maps a file whose name is not UTF-8, which `/proc/self/maps` then shows.
fn map_a_file_with_a_name_of_any_bytes() {
    let own = std::process::id().to_string();
    let name = [b"masu-prof-\xfc-".as_slice(), own.as_bytes()].concat();
    let path = std::env::temp_dir().join(OsStr::from_bytes(&name));
    std::fs::write(&path, [0u8; 4096]).expect("a file");
    let file = File::open(&path).expect("just written");
    std::fs::remove_file(&path).expect("just written");
    let (rights, kind) = (libc::PROT_READ, libc::MAP_PRIVATE);
    // SAFETY: a fresh mapping, which stays.
    let at = unsafe { libc::mmap(null_mut(), 4096, rights, kind, file.as_raw_fd(), 0) };
    assert_ne!(at, libc::MAP_FAILED);
}

// One test, since the profile is the process's.
#[test]
fn a_profile_is_taken() {
    map_a_file_with_a_name_of_any_bytes();
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
    let mut dump = Vec::new();
    // A process that had the same number may have been killed before it had removed its first file.
    let left = std::env::temp_dir().join(format!("masu-heap-{}-0", std::process::id()));
    std::fs::write(&left, "").expect("a file");
    let mut file = ctl.dump().expect("a file");
    std::fs::remove_file(left).expect("it is still there");
    file.read_to_end(&mut dump).expect("bytes");
    let mode = file.metadata().expect("an open file").mode();
    assert_eq!(mode & 0o077, 0, "others could open it while it had a name");
    let text = String::from_utf8_lossy(&dump);
    assert!(text.starts_with("heap_v2/4096\n") && text.contains("MAPPED_LIBRARIES:"), "{text}");
    now(jemalloc_pprof::deactivate_jemalloc_profiling());
    assert!(!prof::is_on() && prof::live_bytes() == 0);
    // The samples' own heap is not the program's.
    assert_eq!(masu::ctl::snapshot().shared_heaps, 0);

    // Each block from the start on, although the thread has some at hand.
    drop(blocks);
    prof::start(1).expect("memory");
    let before = prof::live_bytes();
    let blocks = kept(100);
    assert_eq!(prof::live_bytes() - before, 100 * (200 + size_of_val(&blocks[0]) as u64));
}
