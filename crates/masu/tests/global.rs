//! Programs on the global allocator: this test is one.

mod common;

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::sync::mpsc;
use std::thread;

#[global_allocator]
static GLOBAL: masu::Masu = masu::Masu;

const _: () = assert!(size_of::<masu::Masu>() == 0);

/// Bytes of this process that are resident.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("readable");
    let pages: usize = statm.split(' ').nth(1).expect("a figure").parse().expect("a number");
    pages * 4096
}

/// Places in a block from `from` to `to`: both ends, and some between.
fn places(from: usize, to: usize) -> impl Iterator<Item = usize> {
    let ends = (from..to.min(from + 64)).chain(to.saturating_sub(64).max(from)..to);
    ends.chain((from..to).step_by(1021))
}

fn fill(p: *mut u8, from: usize, to: usize) {
    for at in places(from, to) {
        // SAFETY: the caller's block is `to` bytes long.
        unsafe { p.add(at).write(at as u8 ^ (at >> 8) as u8) };
    }
}

/// Checks the first `len` bytes against what was filled.
fn check(p: *const u8, len: usize, filled: &[(usize, usize)]) {
    let all = filled.iter().flat_map(|&(from, to)| places(from, to));
    for at in all.filter(|&at| at < len) {
        // SAFETY: the caller's block is `len` bytes long.
        assert_eq!(unsafe { p.add(at).read() }, at as u8 ^ (at >> 8) as u8, "byte {at} of {len}");
    }
}

#[test]
fn every_size_at_every_alignment_can_be_allocated_grown_shrunk_and_freed() {
    let sizes = [1, 15, 16, 17, 112, 129, 1000, 4096, 8192, 8193, 70_000, 1 << 20, (1 << 20) + 1];
    for align in (0..=22).map(|shift| 1usize << shift) {
        for size in sizes {
            let layout = Layout::from_size_align(size, align).expect("a layout");
            // SAFETY: no size is 0; each block is used within its size and freed with its layout.
            unsafe {
                let mut p = alloc(layout);
                assert!(!p.is_null() && p.addr().is_multiple_of(align), "{layout:?}");
                assert!(GLOBAL.usable_size(p) >= size);
                fill(p, 0, size);
                let (mut held, mut filled) = (size, vec![(0, size)]);
                for new in [size + 1, size * 2, size * 3 + 7, size / 2 + 1, 1] {
                    p = realloc(p, Layout::from_size_align_unchecked(held, align), new);
                    assert!(!p.is_null() && p.addr().is_multiple_of(align), "{layout:?} to {new}");
                    check(p, held.min(new), &filled);
                    fill(p, held.min(new), new);
                    filled.push((held.min(new), new));
                    held = new;
                }
                dealloc(p, Layout::from_size_align_unchecked(held, align));
            }
        }
    }
}

#[test]
fn what_is_asked_for_zeroed_is_zero() {
    for align in [1, 64, 4096, 1 << 21] {
        for size in [1, 100, 5000, 100_000, 3 << 20] {
            for _ in 0..2 {
                let layout = Layout::from_size_align(size, align).expect("a layout");
                // SAFETY: no size is 0; the block is used within its size and freed once.
                unsafe {
                    let p = alloc_zeroed(layout);
                    assert!(p.addr().is_multiple_of(align));
                    let bytes = std::slice::from_raw_parts_mut(p, size);
                    assert!(bytes.iter().all(|&byte| byte == 0), "{layout:?}");
                    bytes.fill(0xff);
                    dealloc(p, layout);
                }
            }
        }
    }
}

#[test]
fn fresh_zeroed_pages_are_not_touched() {
    common::alone("fresh_zeroed_pages_are_not_touched", || {
        let before = resident();
        let pages = black_box(vec![0u8; 256 << 20]);
        assert!(resident().saturating_sub(before) < 16 << 20);
        assert_eq!(pages[pages.len() / 2], 0);
    });
}

/// Like the buffers of Arrow: 128-byte lines.
#[repr(align(128))]
#[derive(Clone, Copy)]
struct Line([u64; 16]);

#[test]
fn a_vector_of_aligned_lines_grows_in_place_once_it_is_large() {
    let mut lines = Vec::new();
    let mut places = Vec::new();
    for n in 0..(64 << 20) / 128u64 {
        if lines.len() == lines.capacity() {
            lines.reserve(1);
            places.push(lines.as_ptr());
        }
        lines.push(Line([n; 16]));
    }
    assert!(places.iter().all(|place: &*const Line| place.addr().is_multiple_of(128)));
    assert!(lines.iter().enumerate().all(|(n, line)| line.0 == [n as u64; 16]));
    // Doubling from 2 MiB to 64: most of these grow in place.
    let large = &places[places.len() - 5..];
    let moves = large.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(moves <= 3, "{moves} moves in the last {} doublings", large.len() - 1);
}

#[test]
fn collections_may_go_from_thread_to_thread() {
    let (send, receive) = mpsc::channel::<(u32, BTreeMap<u32, String>)>();
    let consumer = thread::spawn(move || {
        let mut total = HashMap::new();
        for (producer, map) in receive {
            assert!(map.iter().all(|(n, text)| *text == format!("{producer}-{n}")));
            *total.entry(producer).or_insert(0) += map.len();
        }
        total
    });
    let producers: Vec<_> = (0..4)
        .map(|producer| {
            let send = send.clone();
            thread::spawn(move || {
                for round in 0..50 {
                    let map = (0..round * 3).map(|n| (n, format!("{producer}-{n}"))).collect();
                    send.send((producer, map)).expect("the consumer lives");
                }
            })
        })
        .collect();
    drop(send);
    producers.into_iter().for_each(|thread| thread.join().expect("no panic"));
    let total = consumer.join().expect("no panic");
    assert!(total.len() == 4 && total.values().all(|&n| n == 3 * 49 * 50 / 2));
}

#[test]
fn what_cannot_be_had_is_null_and_the_block_stays() {
    // SAFETY: no size is 0; the block is used within its size and freed once.
    unsafe {
        let most = Layout::from_size_align(isize::MAX as usize - 4096, 1).expect("a layout");
        // A compiler that sees that a block is not used may omit the request.
        assert!(black_box(alloc(most)).is_null());
        assert!(black_box(alloc_zeroed(most)).is_null());
        let layout = Layout::from_size_align(100, 64).expect("a layout");
        let p = alloc(layout);
        fill(p, 0, 100);
        assert!(black_box(realloc(p, layout, isize::MAX as usize - 4096)).is_null());
        check(p, 100, &[(0, 100)]);
        dealloc(p, layout);
        let far = Layout::from_size_align(1, 2 << 30).expect("a layout");
        assert!(black_box(alloc(far)).is_null());
    }
}

#[test]
fn the_engine_is_this_one() {
    let blocks: Vec<_> = (0..100).map(|_| black_box(vec![1u8; 1 << 20])).collect();
    assert!(masu::ctl::snapshot().allocated >= 100 << 20);
    drop(blocks);
}

/// `CString::from_raw` of what C's `strdup` allocated is a common mistake.
#[test]
fn a_block_of_another_allocator_is_told_and_left_alone() {
    unsafe extern "C" {
        fn strdup(text: *const std::ffi::c_char) -> *mut std::ffi::c_char;
        fn free(p: *mut std::ffi::c_void);
    }
    if common::is_child() {
        // SAFETY: the mistake here is the test; the text is still the C library's.
        unsafe {
            let text = strdup(c"text".as_ptr());
            dealloc(text.cast(), Layout::array::<u8>(5).expect("a layout"));
            assert_eq!(std::ffi::CStr::from_ptr(text), c"text");
            free(text.cast());
        }
        return;
    }
    let output = common::again("a_block_of_another_allocator_is_told_and_left_alone", |_| ());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("not allocated by masu"), "{said}");
}
