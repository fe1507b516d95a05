//! Tables: ensured memory is mapped, zero and kept; the layout leaves room for each.

use super::*;
use crate::region::*;

/// A base for a test's tables, where nothing else is mapped; `n` keeps tests apart.
#[cfg(not(miri))]
fn base(n: usize) -> usize {
    0x6000_0000_0000 + n * (64 << 30)
}

/// The same where Miri has room, beyond what the engine uses of its window.
#[cfg(miri)]
fn base(n: usize) -> usize {
    crate::sys::raw::start() + crate::region::BELOW + ((n + 1) << 26)
}

const BELOW: usize = if cfg!(miri) { 1 << 25 } else { 1 << 30 };

#[test]
fn what_is_ensured_can_be_used_and_stays() {
    let table = Table::new(BELOW, 64);
    let start = base(0) - BELOW;
    let mut last = 0;
    for entries in [1, 2, 1024, 1025, 40_000, 39_999, 200_000] {
        table.ensure(base(0), entries).expect("address space");
        assert!(table.mapped_bytes() >= entries * 64 && table.mapped_bytes() >= last);
        last = table.mapped_bytes();
        for entry in [0, entries / 2, entries - 1] {
            let word = (start + entry * 64) as *mut usize;
            // SAFETY: just ensured.
            unsafe {
                assert!(*word == 0 || *word == entry + 1, "entry {entry} was lost");
                *word = entry + 1;
            }
        }
    }
    table.drop_all(base(0));
    assert_eq!(table.mapped_bytes(), 0);
    mem::map_at(start, last).expect("all of it is unmapped");
    mem::unmap(start, last);
}

#[test]
fn growth_takes_few_mappings() {
    let table = Table::new(BELOW, 8);
    let mut steps = 0;
    for entries in 1..1_000_000 {
        let before = table.mapped_bytes();
        table.ensure(base(1), entries).expect("address space");
        steps += usize::from(table.mapped_bytes() != before);
    }
    assert!(steps <= 12, "{steps} mappings for 8 MB");
    table.drop_all(base(1));
}

#[test]
fn a_table_in_the_way_of_another_mapping_says_so_and_keeps_what_it_has() {
    let table = Table::new(BELOW, 64);
    let start = base(2) - BELOW;
    table.ensure(base(2), 1).expect("address space");
    let had = table.mapped_bytes();
    mem::map_at(start + had, had).expect("address space");
    assert_eq!(table.ensure(base(2), had), Err(Errno::EEXIST));
    assert_eq!(table.mapped_bytes(), had);
    mem::unmap(start + had, had);
    table.ensure(base(2), had).expect("the way is free now");
    table.drop_all(base(2));
}

/// From the base downwards, every table has room for all its entries.
#[test]
fn tables_do_not_overlap() {
    let granules = MAX_CAPACITY / GRANULE;
    let chunks = MAX_CAPACITY / CHUNK;
    let spans = [
        (PAGE_MAP_BELOW, granules * size_of::<PageMapEntry>()),
        (SPANS_BELOW, granules * LINE),
        (REMOTES_BELOW, granules * LINE),
        (RUN_CHUNKS_BELOW, chunks * RUN_CHUNK_STRIDE),
        (HEAPS_BELOW, MAX_HEAPS * HEAP_STRIDE),
        (UNITS_BELOW, (chunks + MAX_HUGE_UNITS) * UNIT_STRIDE),
    ];
    let mut above = 0;
    for (below, bytes) in spans {
        assert!(below - bytes >= above, "the table at -{below:#x} runs into the one above");
        above = below;
    }
    assert!(above <= crate::region::BELOW);
}
