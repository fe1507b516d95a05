//! What the pools promise: addresses, drops, bounds, and soundness when handles are forgotten, when
//! user code panics, and when it uses the pool that called it.

use masu::pool::{Lease, Manage};
use masu::{BufferPool, ObjectPool, Pool, PoolBox, SharedPool};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Records its drop.
struct Noted<'a>(usize, &'a RefCell<Vec<usize>>);

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.1.borrow_mut().push(self.0);
    }
}

#[test]
fn objects_stay_where_they_are_and_are_dropped_once() {
    let drops = RefCell::new(Vec::new());
    let pool = ObjectPool::new();
    let mut handles: Vec<_> = (0..300).map(|i| pool.alloc(Noted(i, &drops))).collect();
    let addresses: Vec<_> = handles.iter().map(|handle| std::ptr::from_ref(&**handle)).collect();
    assert_eq!(pool.len(), 300);
    for (i, handle) in handles.iter().enumerate() {
        assert_eq!((handle.0, std::ptr::from_ref(&**handle)), (i, addresses[i]));
        assert!(pool.is_from(addresses[i]));
    }
    drop(handles.remove(100));
    drop(handles.remove(200));
    assert_eq!(drops.take(), [100, 201]);
    let again = pool.alloc(Noted(1000, &drops));
    assert_eq!(std::ptr::from_ref(&*again), addresses[201], "the slot freed last comes first");
    let taken = PoolBox::into_inner(again);
    assert_eq!((taken.0, pool.len()), (1000, 298));
    drop(handles);
    assert!(pool.is_empty());
    assert_eq!(drops.take().len(), 298);
}

#[test]
fn what_is_left_is_dropped_with_the_pool_in_order() {
    let drops = RefCell::new(Vec::new());
    let pool = ObjectPool::new();
    let mut handles = Vec::new();
    for i in 0..200 {
        let handle = pool.alloc(Noted(i, &drops));
        match i % 4 {
            0 => std::mem::forget(handle),
            1 => PoolBox::leak(handle).0 += 0,
            2 => drop(PoolBox::into_raw(handle)),
            _ => handles.push(handle),
        }
    }
    drop(handles);
    assert_eq!(drops.take(), (3..200).step_by(4).collect::<Vec<_>>());
    drop(pool);
    assert_eq!(drops.take(), (0..200).filter(|i| i % 4 != 3).collect::<Vec<_>>());
}

#[test]
fn a_panic_in_a_drop_loses_no_other_object() {
    struct Bad<'a>(bool, &'a Cell<usize>);
    impl Drop for Bad<'_> {
        fn drop(&mut self) {
            self.1.set(self.1.get() + 1);
            assert!(!self.0, "in drop");
        }
    }
    let drops = Cell::new(0);
    let pool = ObjectPool::new();
    for i in 0..100 {
        pool.construct(Bad(i == 50, &drops));
    }
    assert!(catch_unwind(AssertUnwindSafe(|| drop(pool))).is_err());
    assert_eq!(drops.replace(0), 100);

    let pool = ObjectPool::new();
    let handle = pool.alloc(Bad(true, &drops));
    let address = std::ptr::from_ref(&*handle);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(handle))).is_err());
    assert!(pool.is_empty());
    assert_eq!(std::ptr::from_ref(&*pool.alloc(Bad(false, &drops))), address);
}

/// An object that uses its pool while it is dropped.
#[test]
fn objects_may_use_the_pool_they_are_in() {
    // Only the first few do so, or it would never end.
    thread_local!(static DEPTH: Cell<u32> = const { Cell::new(0) });
    struct Leaf {
        pool: &'static ObjectPool<Leaf>,
        next: Option<PoolBox<'static, Leaf>>,
    }
    impl Drop for Leaf {
        fn drop(&mut self) {
            if DEPTH.get() < 3 {
                DEPTH.set(DEPTH.get() + 1);
                let made: Vec<_> = (0..100)
                    .map(|_| self.pool.alloc(Leaf { pool: self.pool, next: None }))
                    .collect();
                assert_eq!(made.len(), 100);
            }
            self.next.take();
        }
    }
    let pool: &'static ObjectPool<Leaf> = Box::leak(Box::new(ObjectPool::new()));
    let inner = pool.alloc(Leaf { pool, next: None });
    let outer = pool.alloc(Leaf { pool, next: Some(inner) });
    drop(outer);
    assert!(pool.is_empty());
    // SAFETY: leaked above, and nothing refers to it any more.
    drop(unsafe { Box::from_raw(std::ptr::from_ref(pool).cast_mut()) });
}

#[test]
fn a_lease_comes_back_and_is_reset() {
    let made = Cell::new(0);
    let create = || {
        made.set(made.get() + 1);
        vec![made.get()]
    };
    let pool = Pool::new((create, |v: &mut Vec<i32>| v.truncate(1)));
    let mut a = pool.lease();
    let b = pool.lease();
    a.push(10);
    assert_eq!((&**a, &**b), (&[1, 10][..], &[2][..]));
    drop(b);
    drop(a);
    let again = [pool.lease(), pool.lease(), pool.lease()];
    assert_eq!(again.each_ref().map(|lease| lease[..].to_vec()), [[1], [2], [3]]);
    drop(again);
    assert_eq!((made.get(), pool.len()), (3, 3));
    pool.fill(10);
    assert_eq!((made.get(), pool.len()), (10, 10));
}

#[test]
fn bounds_hold_also_when_creation_fails() {
    let attempts = Cell::new(0);
    let pool = Pool::bounded(
        || {
            attempts.set(attempts.get() + 1);
            assert_ne!(attempts.get(), 2, "will not");
            attempts.get()
        },
        2,
    );
    let first = pool.lease();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(pool.lease()))).is_err());
    let second = pool.lease();
    assert_eq!((*first, *second), (1, 3));
    assert!(pool.try_lease().is_none());
    let refused = catch_unwind(AssertUnwindSafe(|| drop(pool.lease())));
    assert_eq!(refused.unwrap_err().downcast_ref(), Some(&"pool exhausted"));
    assert_eq!(Lease::into_inner(first), 1);
    assert_eq!(pool.len(), 1);
    assert!(pool.try_lease().is_some());
    std::mem::forget(second);
}

/// Keeps only even numbers, and panics above 13.
struct Even<'a>(&'a Cell<u32>);

impl Manage for Even<'_> {
    type Item = Box<u32>;
    fn create(&self) -> Box<u32> {
        self.0.set(self.0.get() + 1);
        Box::new(self.0.get())
    }
    fn recycle(&self, item: &mut Box<u32>) -> bool {
        assert_ne!(**item, 13, "unlucky");
        item.is_multiple_of(2)
    }
}

#[test]
fn what_is_not_kept_is_dropped() {
    let made = Cell::new(0);
    let pool = Pool::new(Even(&made));
    let leases: Vec<_> = (0..4).map(|_| pool.lease()).collect();
    drop(leases);
    assert_eq!(pool.len(), 2);
    assert_eq!([**pool.lease(), **pool.lease()], [4, 2]);
    drop(pool.lease());
    let mut lease = pool.lease();
    **lease = 13;
    assert!(catch_unwind(AssertUnwindSafe(|| drop(lease))).is_err());
    // Neither leased nor idle: it stays until the pool is dropped.
    assert_eq!((pool.len(), **pool.lease()), (2, 2));

    let shared = SharedPool::new((|| Box::new(1), |_: &mut Box<i32>| ()));
    std::mem::forget(shared.lease());
    drop(shared.lease());
    assert_eq!(*masu::pool::SharedLease::into_inner(shared.lease()), 1);
    assert_eq!(shared.len(), 1);
}

#[test]
fn a_manager_may_use_its_pool() {
    thread_local!(static POOL: Pool<fn() -> Vec<u8>> = const { Pool::new(nested) });
    fn nested() -> Vec<u8> {
        POOL.with(|pool| if pool.len() < 5 { pool.lease().clone() } else { vec![7] })
    }
    POOL.with(|pool| {
        assert_eq!(**pool.lease(), [7]);
        assert_eq!(pool.len(), 5);
    });
}

#[test]
fn shared_objects_are_leased_to_one_at_a_time() {
    const THREADS: usize = 4;
    let rounds = if cfg!(miri) { 20 } else { 5000 };
    static LIVE: AtomicUsize = AtomicUsize::new(0);
    struct Object {
        users: AtomicUsize,
        text: String,
    }
    impl Drop for Object {
        fn drop(&mut self) {
            LIVE.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let create = || {
        LIVE.fetch_add(1, Ordering::Relaxed);
        Object { users: AtomicUsize::new(0), text: String::new() }
    };
    let pool = SharedPool::bounded((create, |object: &mut Object| object.text.clear()), 3);
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    std::thread::scope(|s| {
        for number in 0..THREADS {
            let (pool, sender) = (&pool, sender.clone());
            s.spawn(move || {
                for _ in 0..rounds {
                    let Some(mut lease) = pool.try_lease() else {
                        std::thread::yield_now();
                        continue;
                    };
                    assert_eq!(lease.users.fetch_add(1, Ordering::Relaxed), 0, "leased twice");
                    assert!(lease.text.is_empty());
                    lease.text.push_str(&number.to_string());
                    assert_eq!(lease.users.fetch_sub(1, Ordering::Relaxed), 1, "leased twice");
                    // Another thread returns some.
                    let _ = sender.try_send(lease);
                }
            });
        }
        drop(sender);
        receiver.into_iter().for_each(drop);
    });
    assert!(pool.len() <= 3);
    assert_eq!(pool.len(), LIVE.load(Ordering::Relaxed));
    drop(pool);
    assert_eq!(LIVE.load(Ordering::Relaxed), 0);
}

#[test]
fn buffers_are_disjoint_aligned_and_in_one_region() {
    for (size, align) in [(4096, 4096), (8192, 4096), (512, 512), (1000, 64), (1, 64)] {
        if cfg!(miri) && size > 512 {
            continue; // minutes
        }
        let pool = BufferPool::new(10, size);
        let (region, bytes) = pool.region();
        assert!(region.addr().get().is_multiple_of(4096));
        let mut buffers: Vec<_> = std::iter::from_fn(|| pool.lease()).collect();
        assert_eq!(buffers.len(), 10);
        for (i, buffer) in buffers.iter_mut().enumerate() {
            assert_eq!((buffer.index(), buffer.len()), (i, size), "the lowest first");
            assert!(buffer.as_ptr().addr().is_multiple_of(align));
            assert!(buffer.iter().all(|byte| *byte == 0));
            buffer.fill(i as u8 + 1);
            let offset = buffer.as_ptr().addr() - region.addr().get();
            assert!(offset + size <= bytes);
            assert_eq!(pool.index_of(buffer.as_ptr().wrapping_add(size - 1)), Some(i));
        }
        for (i, buffer) in buffers.iter().enumerate() {
            assert!(buffer.iter().all(|byte| *byte == i as u8 + 1), "overlap");
        }
        buffers.swap_remove(4);
        assert_eq!(pool.lease().unwrap().index(), 4);
    }
}

#[test]
fn padding_between_buffers_is_in_none() {
    let pool = BufferPool::with_align(2, 100, 4096);
    let at = |offset| pool.index_of(pool.address(0).wrapping_add(offset));
    assert_eq!([99, 100, 4095, 4096, 4196].map(at), [Some(0), None, None, Some(1), None]);
}

/// Writes past the page cache must begin and end, in memory too, at multiples of a sector.
#[test]
#[cfg(all(
    not(miri),
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
fn buffers_do_for_direct_input_and_output() {
    use std::fs::File;
    use std::os::unix::fs::{FileExt, OpenOptionsExt};
    const O_DIRECT: i32 = if cfg!(target_arch = "x86_64") { 0o40000 } else { 0o200000 };

    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("direct");
    let mut options = File::options();
    let file = options.read(true).write(true).create(true).truncate(true);
    let Ok(file) = file.custom_flags(O_DIRECT).open(path) else {
        println!("the file system knows no direct input and output");
        return;
    };
    let pool = BufferPool::new(8, 4096);
    for n in 0..8u8 {
        let mut buffer = pool.lease().unwrap();
        buffer.fill(n);
        assert_eq!(file.write_at(&buffer, u64::from(n) * 4096).unwrap(), 4096);
    }
    let leases: Vec<_> = std::iter::from_fn(|| pool.lease()).collect();
    for mut buffer in leases {
        let index = buffer.index();
        buffer.fill(99);
        assert_eq!(file.read_at(&mut buffer, index as u64 * 4096).unwrap(), 4096);
        assert!(buffer.iter().all(|byte| usize::from(*byte) == index), "{index}");
    }
}

#[test]
fn owned_buffers_keep_their_pool() {
    let pool = Arc::new(BufferPool::new(2, 100));
    let mut buffer = BufferPool::lease_owned(&pool).unwrap();
    let given = BufferPool::lease_owned(&pool).unwrap().into_index();
    assert_eq!(Arc::strong_count(&pool), 2);
    assert!(pool.lease().is_none());
    // SAFETY: just given away.
    drop(unsafe { pool.from_index(given) });
    drop(pool);
    std::thread::spawn(move || buffer.fill(3)).join().unwrap();
}

#[test]
fn buffers_are_leased_to_one_at_a_time() {
    let rounds = if cfg!(miri) { 20 } else { 5000 };
    let pool = BufferPool::new(3, 64);
    std::thread::scope(|s| {
        for number in 0..4u8 {
            let pool = &pool;
            s.spawn(move || {
                for _ in 0..rounds {
                    if let Some(mut buffer) = pool.lease() {
                        buffer.fill(number);
                        assert!(buffer.iter().all(|byte| *byte == number));
                    }
                }
            });
        }
    });
    assert_eq!(std::iter::from_fn(|| pool.lease()).collect::<Vec<_>>().len(), 3);
}

#[test]
#[should_panic(expected = "capacity overflow")]
fn no_more_buffers_than_memory() {
    BufferPool::new(usize::MAX / 4096, 8192);
}
