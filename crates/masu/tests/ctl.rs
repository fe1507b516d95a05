//! Statistics and control, in a program on masu. The tests read totals, so each runs in a separate
//! process.

mod common;

use masu::ctl::{self, HeapStats, epoch, stats, thread};
use std::sync::Barrier;

#[global_allocator]
static GLOBAL: masu::Masu = masu::Masu;

#[test]
fn figures_move_with_the_epoch_and_only_then() {
    common::alone("figures_move_with_the_epoch_and_only_then", || {
        figures_move_with_the_epoch_and_only_then_in_it().expect("every key can be read")
    });
}

fn figures_move_with_the_epoch_and_only_then_in_it() -> ctl::Result<()> {
    let e = epoch::mib()?;
    let allocated = stats::allocated::mib()?;
    e.advance()?;
    let before = allocated.read()?;
    let block = vec![1u8; 32 << 20];
    assert_eq!(allocated.read()?, before);
    let number = e.advance()?;
    assert_eq!(epoch::read()?, number);
    assert!(allocated.read()? >= before + block.len());
    assert!(stats::active::read()? >= stats::allocated::read()?);
    assert!(stats::resident::read()? >= stats::active::read()?);
    assert!(stats::mapped::read()? >= stats::active::read()?);
    assert!(stats::metadata::read()? > 0);
    let s = ctl::snapshot();
    assert_eq!(s.mapped, s.resident + s.retained);
    drop(block);
    e.advance()?;
    assert!(allocated.read()? < before + (1 << 20));
    Ok(())
}

#[test]
fn the_table_of_classes_adds_up() {
    common::alone("the_table_of_classes_adds_up", || {
        let boxes: Vec<_> = (0..5000u64).map(|n| Box::new([n; 25])).collect();
        let classes: Vec<_> = ctl::classes().into_iter().collect();
        assert!(classes.is_sorted_by_key(|class| class.size));
        let class = classes.iter().find(|class| class.size >= 200).expect("a class");
        assert!(class.blocks >= boxes.len() && class.blocks <= class.capacity, "{class:?}");
        let total: usize = classes.iter().map(|class| class.blocks * class.size).sum();
        assert!(total <= ctl::snapshot().allocated);
        let spans: usize = classes.iter().map(|class| class.spans).sum();
        // The pool's count includes spans that are just being handed over.
        assert!(spans.abs_diff(ctl::snapshot().spans as usize) <= 4);
    });
}

#[test]
fn the_table_of_heaps_has_a_row_for_each_thread() {
    common::alone("the_table_of_heaps_has_a_row_for_each_thread", || {
        let mut table = [HeapStats::default(); 256];
        let made = ctl::heaps(&mut table);
        assert_eq!(made as u64, ctl::snapshot().heaps);
        assert_eq!(ctl::heaps(&mut []), made);
        let in_use = |table: &[HeapStats]| table.iter().filter(|heap| heap.in_use).count();
        let before = in_use(&table);
        std::thread::spawn(move || {
            let _block = std::hint::black_box(vec![1u8; 500]);
            let mut table = [HeapStats::default(); 256];
            ctl::heaps(&mut table);
            assert_eq!(in_use(&table), before + 1);
        })
        .join()
        .expect("a row for this thread");
    });
}

#[test]
fn a_threads_bytes_are_exact() {
    common::alone("a_threads_bytes_are_exact", || {
        a_threads_bytes_are_exact_in_it().expect("every key can be read")
    });
}

fn a_threads_bytes_are_exact_in_it() -> ctl::Result<()> {
    std::thread::spawn(|| {
        let (allocated, freed) = (thread::allocatedp::read()?, thread::deallocatedp::read()?);
        let mut room = Vec::with_capacity(1000);
        // The sizes of classes, each often enough to need borrowed blocks and spans.
        for size in [16, 32, 64, 128, 1024, 8192] {
            for _ in 0..100 {
                let before = allocated.get();
                room.push(std::hint::black_box(Vec::<u8>::with_capacity(size)));
                assert_eq!(allocated.get() - before, size as u64);
            }
        }
        let before = (allocated.get(), freed.get());
        let large = std::hint::black_box(vec![0u8; 3 << 20]);
        assert_eq!(allocated.get() - before.0, 3 << 20);
        drop(large);
        assert_eq!(freed.get() - before.1, 3 << 20);
        drop(room);
        let all = allocated.get();
        ctl::thread_flush();
        assert_eq!(allocated.get(), all);
        Ok(())
    })
    .join()
    .expect("no panic")
}

#[test]
fn a_purge_gives_memory_back_now() {
    common::alone("a_purge_gives_memory_back_now", || {
        a_purge_gives_memory_back_now_in_it().expect("every key can be read")
    });
}

fn a_purge_gives_memory_back_now_in_it() -> ctl::Result<()> {
    ctl::decay::write(None)?;
    drop((0..2000).map(|n| vec![n as u8; 10_000]).collect::<Vec<_>>());
    let dirty = ctl::snapshot().dirty;
    assert!(dirty > 10 << 20, "{dirty}");
    assert!(ctl::purge());
    assert!(ctl::snapshot().dirty < 1 << 20);
    // With a decay time of 0 nothing stays.
    drop((0..2000).map(|n| vec![n as u8; 10_000]).collect::<Vec<_>>());
    ctl::decay::write(Some(0))?;
    assert!(ctl::snapshot().dirty < 4 << 20);
    ctl::decay::write(Some(500))
}

#[test]
fn jemallocs_options_read_as_they_are_here() {
    common::alone("jemallocs_options_read_as_they_are_here", || {
        jemallocs_options_in_it().expect("every key can be read")
    });
}

fn jemallocs_options_in_it() -> ctl::Result<()> {
    use ctl::opt;
    assert_eq!(ctl::version::read()?, env!("CARGO_PKG_VERSION"));
    assert_eq!((opt::dss::read()?, opt::junk::read()?), ("disabled", "false"));
    assert_eq!((opt::abort::read()?, opt::zero::read()?), (false, false));
    assert_eq!((opt::tcache::read()?, opt::lg_tcache_max::read()?), (true, 20));
    assert!(opt::background_thread::mib()?.read()?);
    assert_eq!(stats::allocated::NAME, "stats.allocated");
    assert_eq!(ctl::Error::Invalid.to_string(), "the key cannot have this value");
    Ok(())
}

#[test]
fn a_sink_that_panics_is_called_once_more_at_most() {
    let mut calls = 0;
    let printed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        ctl::stats_print(&mut |_| {
            calls += 1;
            panic!("no room");
        });
    }));
    assert!(printed.is_err() && calls == 1);
}

#[test]
fn what_is_refused_counts_as_nothing() {
    common::alone("what_is_refused_counts_as_nothing", || {
        // So many threads that the next one has blocks of others, and then so many that it has them of its processor.
        for others in [10, 20] {
            let (begun, end) = (&Barrier::new(others + 1), &Barrier::new(others + 1));
            std::thread::scope(|scope| {
                for _ in 0..others {
                    scope.spawn(move || {
                        drop(std::hint::black_box(Box::new(1)));
                        begun.wait();
                        end.wait();
                    });
                }
                begun.wait();
                let counted = scope.spawn(bytes_kept_after_refusals).join();
                end.wait();
                assert_eq!(counted.expect("a thread"), Ok(0), "beside {others} threads");
            });
        }
    });
}

/// By how much the thread's account grows while small blocks are refused, and all that were not are freed.
fn bytes_kept_after_refusals() -> ctl::Result<i64> {
    let (allocated, freed) = (thread::allocatedp::read()?, thread::deallocatedp::read()?);
    let kept = || allocated.get() as i64 - freed.get() as i64;
    let mut blocks = Vec::with_capacity(60_000);
    masu::limit::set_hard(Some(masu::limit::used() + (16 << 20)));
    let before = kept();
    let mut refused = 0;
    for round in 0..60_000 {
        let size = if round < 45_000 { 1000 } else { 16 + round % 60 * 16 };
        let layout = std::alloc::Layout::from_size_align(size, 16).expect("a layout");
        // SAFETY: the size is not 0.
        let p = unsafe { std::alloc::alloc(layout) };
        if p.is_null() { refused += 1 } else { blocks.push((p, layout)) }
    }
    for &(p, layout) in &blocks {
        // SAFETY: a live block of that layout, freed once.
        unsafe { std::alloc::dealloc(p, layout) };
    }
    let after = kept();
    masu::limit::set_hard(None);
    assert!(refused > 15_000, "{refused} refusals");
    Ok(after - before)
}
