//! Limits on the memory of the whole program: what collections see of them.

use masu::{Config, Configured, Heap, Masu, ObjectPool, Policy, SharedSlab, limit};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

#[global_allocator]
static GLOBAL: Configured =
    Masu::with_config(Config::new().policy(Policy::LowMemory).limit_hard(256 << 20).decay_ms(7));

static CALLS: AtomicUsize = AtomicUsize::new(0);

/// One test, since the limits are the process's.
#[test]
fn a_collection_meets_the_limit_and_the_program_goes_on() {
    assert_eq!(masu::ctl::decay::read(), Ok(Some(7)), "what is set wins over the policy");
    assert_eq!(masu::ctl::retain_full::read(), Ok(4), "the policy's");
    let before = limit::used();
    let mut bytes: Vec<Vec<u8>> = Vec::new();
    let refused = loop {
        let mut more = Vec::new();
        if let Err(refused) = more.try_reserve_exact(3 << 20) {
            break refused;
        }
        more.resize(3 << 20, 1);
        bytes.push(more);
        assert!(bytes.len() < 1000, "no limit");
    };
    let held = bytes.len() * (3 << 20);
    assert!(held > 200 << 20 && held <= 256 << 20, "{held} bytes");
    assert!(limit::used() >= before + held && limit::used() <= 256 << 20);
    // The reserve is for a text or a message.
    assert!(format!("{refused} after {held} bytes").contains("memory"));
    drop(bytes);

    limit::set_hard(None);
    limit::set_soft(Some(64 << 20));
    limit::on_soft_limit(|used, limit| {
        assert!(used > limit && limit == 64 << 20, "{used} of {limit}");
        drop(vec![0u8; 100_000]);
        CALLS.fetch_add(1, Relaxed);
    });
    let many: Vec<Box<[u8; 1000]>> = (0..100_000).map(|_| Box::new([1; 1000])).collect();
    assert_eq!(CALLS.load(Relaxed), 1);
    drop(many);
    limit::set_soft(None);
    drop(vec![1u8; 200 << 20]);
    assert_eq!(CALLS.load(Relaxed), 1);

    the_callback_may_use_what_is_growing();
}

thread_local! {
    static POOL: ObjectPool<Checked> = const { ObjectPool::new() };
}
static SHARED: LazyLock<SharedSlab<u64>> = LazyLock::new(SharedSlab::new);

/// Fails if it is dropped without having been made.
struct Checked(u64, String);

impl Drop for Checked {
    fn drop(&mut self) {
        assert_eq!(self.1, self.0.to_string());
    }
}

fn put(i: u64) {
    POOL.with(|pool| std::mem::forget(pool.alloc(Checked(i, i.to_string()))));
}

/// The callback runs in the middle of an allocation: of a pool's chunk, a shared slab's page, a heap.
fn the_callback_may_use_what_is_growing() {
    let crossing = |grows: &mut dyn FnMut()| {
        let before = CALLS.load(Relaxed);
        // So that what grows takes fresh memory.
        masu::ctl::purge();
        limit::set_soft(Some(1));
        grows();
        limit::set_soft(None);
        assert_eq!(CALLS.load(Relaxed), before + 1);
    };
    limit::on_soft_limit(|_, _| {
        CALLS.fetch_add(1, Relaxed);
        put(7);
        SHARED.insert(7);
        let _heaps = masu::heap::all();
    });
    thread::spawn(move || {
        let is_full = || POOL.with(|pool| pool.len() == pool.capacity() && pool.len() > 100_000);
        (0..).take_while(|_| !is_full()).for_each(put);
        crossing(&mut || put(0));
        assert!(POOL.with(|pool| pool.capacity()) < 400_000, "the chunk that came second stays");
    })
    .join()
    .expect("every object was made before it is dropped");
    while SHARED.len() < (1 << 18) - 2 {
        SHARED.insert(0);
    }
    let (before, mut inserted) = (SHARED.len(), 0);
    crossing(&mut || {
        // Until it needs another page, of a size that is looked at.
        let calls = CALLS.load(Relaxed);
        while CALLS.load(Relaxed) == calls && inserted < 1 << 20 {
            SHARED.insert(0);
            inserted += 1;
        }
    });
    assert_eq!(SHARED.len(), before + inserted + 1);
    crossing(&mut || {
        let heaps: Vec<_> = (0..3000).map(|_| Heap::new().expect("memory")).collect();
        assert_eq!(masu::heap::all().len(), heaps.len());
    });
}
