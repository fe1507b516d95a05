//! Heaps as programs use them, with masu as the global allocator beside them.

use allocator_api2::alloc::{Allocator, Layout};
use allocator_api2::boxed::Box as HeapBox;
use allocator_api2::vec::Vec as HeapVec;
use hashbrown::{DefaultHashBuilder, HashMap};
use masu::{ArcHeap, Heap, scope, unscoped};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;
use std::sync::mpsc;
use std::thread;

mod common;

#[global_allocator]
static GLOBAL: masu::Masu = masu::Masu;

fn heap() -> Heap {
    Heap::new().expect("memory for a heap")
}

#[test]
fn collections_live_in_heaps() {
    let heap = heap();
    let mut numbers = HeapVec::new_in(&heap);
    let mut names = HashMap::with_hasher_in(DefaultHashBuilder::default(), &heap);
    let mut boxes = HeapVec::new_in(&heap);
    for n in 0..50_000u64 {
        numbers.push(n);
        names.insert(n, n.to_string());
        boxes.push(HeapBox::new_in([n; 3], &heap));
    }
    assert!(heap.owns(numbers.as_ptr()) && heap.owns(&raw const *boxes[7]));
    assert!(!heap.owns(names[&7].as_ptr()), "a string comes from the global allocator");
    let stats = heap.stats();
    assert_eq!(stats.by_size().find(|(size, _)| *size == 32), Some((32, 50_000)));
    assert!(stats.allocated > 50_000 * (32 + 8 + 8 + 24), "{stats:?}");
    assert!(stats.requested <= stats.served && stats.active >= stats.allocated, "{stats:?}");
    assert!(numbers.iter().zip(0..).all(|(a, b)| *a == b));
    assert!(names.iter().all(|(n, name)| *name == n.to_string()));
    assert!(boxes.iter().zip(0..).all(|(block, n)| **block == [n; 3]));
    drop((numbers, names, boxes));
    let stats = heap.stats();
    assert_eq!((stats.allocated, stats.blocks), (0, 0), "{stats:?}");
}

/// The current version of allocator-api2 and the one that most crates still use, each through its own name and through
/// the re-export, which is the same trait.
macro_rules! version {
    ($name:ident, $api:ident) => {
        #[test]
        fn $name() {
            // The bound names the re-export's trait, and the crate's own is used.
            fn resized<A: masu::$api::alloc::Allocator>(a: A) {
                let (small, large) = (Layout::new::<[u8; 24]>(), Layout::new::<[u8; 5000]>());
                let block =
                    $api::alloc::Allocator::allocate_zeroed(&a, small).unwrap().cast::<u8>();
                // SAFETY: a block of this allocator with that layout, then with the new one.
                unsafe {
                    block.write_bytes(1, small.size());
                    let block = a.grow_zeroed(block, small, large).unwrap().cast::<u8>();
                    let bytes = std::slice::from_raw_parts(block.as_ptr(), large.size());
                    assert!(bytes[..24] == [1; 24] && bytes[24..].iter().all(|byte| *byte == 0));
                    let block = a.shrink(block, large, small).unwrap().cast::<u8>();
                    a.deallocate(block, small);
                }
                assert!(a.allocate(Layout::new::<[u8; 4 << 20]>()).is_err(), "beyond the limit");
            }
            let heap = Heap::builder().hard_limit(2 << 20).build().unwrap();
            let mut numbers = $api::vec::Vec::new_in(&heap);
            numbers.extend(0..50_000u64);
            numbers.truncate(10);
            numbers.shrink_to_fit();
            assert!(heap.owns(numbers.as_ptr()) && numbers.iter().sum::<u64>() == 45);
            resized(&heap);
            assert_eq!(heap.stats().blocks, 1);

            let shared = ArcHeap::from(self::heap());
            let kept = $api::boxed::Box::new_in([7u8; 100], shared.clone());
            assert_eq!(shared.stats().blocks, 1);
            drop(shared);
            assert_eq!(*kept, [7; 100]);
        }
    };
}

version!(allocator_api2_0_4, allocator_api2);
version!(allocator_api2_0_2, allocator_api2_02);

#[test]
fn a_heap_shared_by_threads_lives_as_long_as_what_is_in_it() {
    let heap = ArcHeap::from(heap());
    let (id, raw) = (heap.id(), heap.clone());
    let (give, take) = mpsc::channel::<HeapVec<u64, ArcHeap>>();
    let makers: Vec<_> = (0..3u64)
        .map(|seed| {
            let (heap, give) = (heap.clone(), give.clone());
            thread::spawn(move || {
                for round in 0..2_000 {
                    let mut vec = HeapVec::new_in(heap.clone());
                    vec.extend(seed..seed + round % 300);
                    give.send(vec).expect("somebody takes it");
                }
            })
        })
        .collect();
    drop((give, heap));
    let mut last = None;
    for vec in take {
        assert!(vec.windows(2).all(|pair| pair[0] + 1 == pair[1]));
        if vec.len() == 299 {
            last = Some(vec);
        }
    }
    makers.into_iter().for_each(|maker| maker.join().expect("it ends"));
    let last = last.expect("some were that long");
    assert_eq!(raw.stats().blocks, 1);
    drop(raw);
    assert_eq!(last.allocator().id(), id);
    assert_eq!(last.iter().count(), 299);
}

/// What a random program does with a heap.
#[derive(Clone, Debug)]
enum Step {
    Allocate { size: usize, align: u32, zeroed: bool },
    Resize { which: usize, size: usize, align: u32, zeroed: bool },
    Free { which: usize },
    Reset,
    Limit { room: usize },
    Trim,
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 0..400usize, 3 => 0..9000usize, 2 => 0..200_000usize, 1 => 0..3_000_000usize]
}

fn step() -> impl Strategy<Value = Step> {
    let align = 0..14u32;
    let zeroed = any::<bool>;
    let allocate = (size(), align.clone(), zeroed())
        .prop_map(|(size, align, zeroed)| Step::Allocate { size, align, zeroed });
    let resize = (any::<usize>(), size(), align, zeroed())
        .prop_map(|(which, size, align, zeroed)| Step::Resize { which, size, align, zeroed });
    prop_oneof![
        30 => allocate,
        20 => resize,
        20 => any::<usize>().prop_map(|which| Step::Free { which }),
        1 => Just(Step::Reset),
        1 => (0..4_000_000usize).prop_map(|room| Step::Limit { room }),
        1 => Just(Step::Trim),
    ]
}

/// A live block: its layout, and the seed of its contents.
struct Live {
    layout: Layout,
    seed: u8,
}

fn byte(seed: u8, i: usize) -> u8 {
    (i as u8).wrapping_mul(37) ^ (i >> 8) as u8 ^ seed
}

/// Bytes of a block that are written and checked: both ends, and some between.
fn places(size: usize) -> impl Iterator<Item = usize> {
    (0..size.min(50)).chain((50..size).step_by(487)).chain(size.saturating_sub(50).max(50)..size)
}

fn fill(block: NonNull<u8>, size: usize, seed: u8) {
    // SAFETY: the test's block, `size` bytes long.
    places(size).for_each(|i| unsafe { block.add(i).write(byte(seed, i)) });
}

fn holds(block: NonNull<u8>, size: usize, seed: u8, upto: usize) -> bool {
    // SAFETY: as above.
    places(size).filter(|i| *i < upto).all(|i| unsafe { block.add(i).read() } == byte(seed, i))
}

/// Runs steps on a heap beside a model of its contents.
fn run(heap: &mut Heap, steps: &[Step]) {
    let mut live: BTreeMap<usize, Live> = BTreeMap::new();
    let pick = |live: &BTreeMap<usize, Live>, which: usize| {
        let at = which % live.len().max(1);
        live.keys().nth(at).copied()
    };
    let pointer = |at: usize| NonNull::new(at as *mut u8).expect("not null");
    for (n, step) in steps.iter().enumerate() {
        let seed = n as u8;
        match *step {
            Step::Allocate { size, align, zeroed } => {
                let layout = Layout::from_size_align(size, 1 << align).expect("a layout");
                let allocator = &*heap;
                let block = match zeroed {
                    true => allocator.allocate_zeroed(layout),
                    false => allocator.allocate(layout),
                };
                let Ok(block) = block else { continue };
                let block = block.cast::<u8>();
                assert!((block.as_ptr() as usize).is_multiple_of(1 << align));
                if size == 0 {
                    continue;
                }
                // SAFETY: `size` bytes long.
                assert!(!zeroed || places(size).all(|i| unsafe { block.add(i).read() } == 0));
                fill(block, size, seed);
                live.insert(block.as_ptr() as usize, Live { layout, seed });
            }
            Step::Resize { which, size, align, zeroed } => {
                let Some(at) = pick(&live, which) else { continue };
                let size = size.max(1);
                let was = live.remove(&at).expect("a live block");
                let new = Layout::from_size_align(size, 1 << align).expect("a layout");
                let old = was.layout.size();
                let allocator = &*heap;
                // SAFETY: a live block with its layout.
                let block = unsafe {
                    match (size >= old, zeroed) {
                        (true, false) => allocator.grow(pointer(at), was.layout, new),
                        (true, true) => allocator.grow_zeroed(pointer(at), was.layout, new),
                        (false, _) => allocator.shrink(pointer(at), was.layout, new),
                    }
                };
                let Ok(block) = block else {
                    live.insert(at, was);
                    continue;
                };
                let block = block.cast::<u8>();
                assert!((block.as_ptr() as usize).is_multiple_of(1 << align));
                assert!(holds(block, old, was.seed, size.min(old)), "{old} to {size} bytes");
                if zeroed {
                    // SAFETY: `size` bytes long.
                    assert!((old..size).all(|i| unsafe { block.add(i).read() } == 0));
                }
                fill(block, size, seed);
                live.insert(block.as_ptr() as usize, Live { layout: new, seed });
            }
            Step::Free { which } => {
                let Some(at) = pick(&live, which) else { continue };
                let was = live.remove(&at).expect("a live block");
                assert!(holds(pointer(at), was.layout.size(), was.seed, usize::MAX));
                // SAFETY: a live block with its layout.
                unsafe { (&*heap).deallocate(pointer(at), was.layout) };
            }
            Step::Reset => {
                live.clear();
                heap.reset().expect("memory for a heap");
            }
            Step::Limit { room } => {
                heap.set_limits(None, (room > 500_000).then(|| heap.allocated() + room));
            }
            Step::Trim => {
                heap.trim();
            }
        }
        if n % 16 == 0 {
            let stats = heap.stats();
            let asked: usize = live.values().map(|block| block.layout.size()).sum();
            assert_eq!(stats.blocks, live.len() as u64);
            assert!(stats.allocated >= asked && stats.allocs - stats.frees == stats.blocks);
        }
    }
    for (at, was) in live {
        assert!(holds(pointer(at), was.layout.size(), was.seed, usize::MAX));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Two heaps at once, each on its own thread, and both dropped with blocks in them.
    #[test]
    fn any_sequence_of_operations_keeps_every_byte(
        first in prop::collection::vec(step(), 1..300),
        second in prop::collection::vec(step(), 1..300),
    ) {
        thread::scope(|threads| {
            threads.spawn(|| run(&mut heap(), &first));
            run(&mut heap(), &second);
        });
    }
}

#[test]
fn what_is_allocated_in_a_scope_belongs_to_its_heap_and_outlives_it() {
    let (outer, inner) = (heap(), heap());
    let before = Box::new([1u8; 100]);
    let (mut words, nested, outside) = scope(&outer, || {
        let words: Vec<String> = (0..1000).map(|n| format!("number {n}")).collect();
        let nested = scope(&inner, || vec![7u8; 3 << 20]);
        let outside = unscoped(|| Box::new([5u64; 2000]));
        (words, nested, outside)
    });
    assert!(outer.owns(words.as_ptr()) && words.iter().all(|word| outer.owns(word.as_ptr())));
    assert!(inner.owns(nested.as_ptr()) && !outer.owns(outside.as_ptr()));
    assert!(!outer.owns(before.as_ptr()));
    assert_eq!(outer.stats().blocks, 1001);
    assert_eq!(inner.stats().huge(), 1);
    let after = Box::new([2u8; 100]);
    assert!(!outer.owns(after.as_ptr()));
    drop((outer, inner));
    words.truncate(10);
    words.push(words.concat());
    assert!(words[10].starts_with("number 0number 1"));
    assert!(nested.iter().all(|byte| *byte == 7) && outside.iter().all(|n| *n == 5));
}

#[test]
fn a_panic_closes_the_scopes_that_it_leaves() {
    let heap = heap();
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        scope(&heap, || {
            let _word = String::from("lost");
            std::panic::resume_unwind(Box::new(1));
        })
    }));
    assert!(caught.is_err());
    assert!(!heap.owns(Box::new(3).as_ref()));
}

#[test]
fn reset_after_a_scope_leaves_what_escaped_alone() {
    let mut heap = heap();
    heap.set_limits(Some(1 << 20), Some(2 << 20));
    let escaped = scope(&heap, || String::from("still here"));
    heap.reset().expect("memory for a heap");
    assert_eq!(heap.stats().blocks, 0);
    assert!(!heap.owns(escaped.as_ptr()));
    let too_much = Layout::new::<[u8; 3 << 20]>();
    assert!((&heap).allocate(too_much).is_err(), "the limits are still in force");
    assert_eq!(escaped, "still here");
}

#[test]
fn memory_comes_back_when_heaps_go() {
    // What other tests have would hide what is lost.
    common::alone("memory_comes_back_when_heaps_go", || {
        let churn = || {
            let heap = heap();
            for n in 0..20_000usize {
                std::mem::forget(HeapBox::new_in([n; 8], &heap));
                if n % 50 == 0 {
                    let large = Layout::from_size_align(n * 20 + 9000, 64).expect("a layout");
                    (&heap).allocate(large).expect("memory");
                }
            }
        };
        churn();
        let active = |n: usize| {
            (0..n).for_each(|_| churn());
            masu::ctl::epoch::advance().expect("it advances");
            masu::ctl::stats::active::read().expect("it is known")
        };
        let (first, last) = (active(1), active(30));
        assert!(last < first + (16 << 20), "{first} and then {last} bytes");
    });
}

#[test]
fn a_block_freed_after_its_heap_is_reported() {
    let test = "a_block_freed_after_its_heap_is_reported";
    if common::is_child() {
        let mut heap = heap();
        let layout = Layout::new::<[u8; 100]>();
        let block = (&heap).allocate(layout).expect("memory").cast::<u8>();
        heap.reset().expect("it is empty");
        // SAFETY: this is wrong, and should be noticed.
        unsafe { (&heap).deallocate(block, layout) };
        return;
    }
    let output = common::again(test, |_| ());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("not the start of a live block"), "{said}");
}

#[test]
fn a_block_freed_twice_is_reported() {
    let test = "a_block_freed_twice_is_reported";
    if common::is_child() {
        let heap = heap();
        let layout = Layout::new::<[u8; 100]>();
        let _other = (&heap).allocate(layout).expect("memory");
        let block = (&heap).allocate(layout).expect("memory").cast::<u8>();
        // SAFETY: the second is wrong, and should be noticed.
        unsafe {
            (&heap).deallocate(block, layout);
            (&heap).deallocate(block, layout);
        }
        return;
    }
    let output = common::again(test, |_| ());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("double free"), "{said}");
}

/// A block has already moved when the callback runs, so a collection that caught its panic would still have the old one.
#[test]
fn a_panic_of_the_callback_ends_the_process() {
    if !common::is_child() {
        let output = common::again("a_panic_of_the_callback_ends_the_process", |_| ());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{errors}");
        assert!(errors.contains("the tenant is too large"), "{errors}");
        return;
    }
    let callback = |_: &_| panic!("the tenant is too large");
    let heap = Heap::builder().soft_limit(3000).on_soft_limit(callback).build().unwrap();
    let mut bytes = HeapVec::new_in(&heap);
    bytes.resize(2000, 1u8);
    let caught = std::panic::catch_unwind(AssertUnwindSafe(|| bytes.resize(6000, 2)));
    println!("the process goes on: {}", caught.is_err());
    std::process::exit(0);
}

#[test]
fn a_scope_that_allocates_nothing_leaves_the_heap_whole() {
    common::alone("a_scope_that_allocates_nothing_leaves_the_heap_whole", || {
        for _ in 0..70_000 {
            let heap = heap();
            std::mem::forget(HeapBox::new_in([1u8; 100], &heap));
            scope(&heap, || ());
        }
        let active = masu::ctl::snapshot().active;
        assert!(active < 64 << 20, "{active} bytes of heaps that are gone");
    });
}
