//! The parts of the memory that are masu's: what each span, run, huge block and table has of it.

use std::collections::HashMap;

use crate::account::{Account, Class, GoingBack, Kind, Thread};
use crate::engine::Engine;
use crate::error::Error;
use crate::heaps::{self, Held, Owner};
use crate::memory::{Memory, Pages};
use crate::tables::{Huge, Tables, Unit};

/// Adds the parts of an engine.
///
/// # Errors
/// The process cannot be read.
pub fn add(memory: &Memory, engine: &Engine, account: &mut Account) -> Result<(), Error> {
    let figures = &engine.figures;
    account.going_back = GoingBack {
        decay_ms: (figures.decay != u64::MAX).then_some(figures.decay),
        budget: figures.budget,
        background: account.going_back.background || figures.background,
        purged: account.going_back.purged + figures.purged,
    };
    if engine.base == 0 {
        return Ok(());
    }
    let l = &engine.layout;
    let tables = Tables::read(memory, engine)?;
    let window = memory.pages(engine.base, engine.base + engine.limit)?;
    let heaps = heaps::read(memory, engine, &tables, &window)?;
    small(engine, &tables, &window, &heaps, account);
    medium(engine, &tables, &window, &heaps, account);

    let end = engine.huge_base + engine.huge_units * l.chunk;
    let pages = memory.pages(engine.huge_base, end)?;
    for (at, len, what) in tables.huge() {
        let bytes = pages.resident.bytes(at, at + len);
        match what {
            Huge::Live(size) => {
                let live = pages.resident.bytes(at, at + size.min(len));
                account.add(Kind::LiveHuge, live);
                account.add(Kind::HugeEnds, bytes - live);
                account.allocated += size;
                account.huge_blocks += 1;
            }
            Huge::Dirty => account.add(Kind::DirtyHuge, bytes),
            // What else is resident of it has just been something else.
            Huge::Clean => account.add(Kind::HugePages, pages.huge.bytes(at, at + len)),
        }
    }
    let below = memory.pages(engine.base - l.below, engine.base)?;
    account.add(Kind::Tables, below.resident.bytes(engine.base - l.below, engine.base));
    account.threads.extend(heaps.held.iter().map(thread));
    Ok(())
}

fn thread(held: &Held) -> Thread {
    Thread {
        owner: match held.owner {
            Owner::Thread(index) => format!("thread {index}"),
            Owner::Waiting(_) => "no thread".into(),
            Owner::Arena(index) => format!("heap {index}"),
            Owner::SharedArena => "shared arena".into(),
        },
        bins: held.bins,
        cache: held.cache,
        outbox: held.outbox,
        allocated: held.flow.0,
        freed: held.flow.1,
    }
}

/// Spans. What is resident of one goes to what its blocks are, live ones first: which of its pages are whose only
/// a walk through all its free blocks could tell.
fn small(
    engine: &Engine,
    tables: &Tables,
    pages: &Pages,
    heaps: &heaps::Heaps,
    account: &mut Account,
) {
    let l = &engine.layout;
    let sizes = &l.sizes[..=l.last_class as usize];
    account.classes.resize(sizes.len(), Class::default());
    for granule in 0..tables.granules() {
        let Some(span) = tables.span(granule) else { continue };
        let at = engine.base + granule * l.granule;
        let mut left = pages.resident.bytes(at, at + l.granule);
        let of = |map: &HashMap<u64, u64>| map.get(&granule).copied().unwrap_or(0);
        let (binned, sent) = (of(&heaps.binned).min(span.out), of(&heaps.sent));
        let sent = sent.min(span.out - binned);
        let live = span.out - binned - sent;
        let mut part = |blocks: u64| {
            let bytes = (blocks * span.size).min(left);
            left -= bytes;
            bytes
        };
        account.add(Kind::LiveSmall, part(live));
        account.add(Kind::Bins, part(binned));
        account.add(Kind::Outboxes, part(sent));
        let unused = at + (span.carved * span.size).next_multiple_of(l.unit).min(l.granule);
        let whole = pages.huge.bytes(unused, at + l.granule).min(left);
        account.add(Kind::FreeInSpans, left - whole);
        account.add(Kind::HugePages, whole);
        let class = &mut account.classes[span.class];
        class.size = span.size;
        class.spans += 1;
        class.live += live;
        class.capacity += l.granule / span.size;
        class.free_bytes += left;
        account.allocated += live * span.size;
        account.rounding_at_most += live * (span.size - sizes[span.class - 1] - 1);
    }
}

/// Runs and free pages.
fn medium(
    engine: &Engine,
    tables: &Tables,
    pages: &Pages,
    heaps: &heaps::Heaps,
    account: &mut Account,
) {
    let l = &engine.layout;
    let in_granule = l.granule / l.unit;
    for chunk in 0..tables.chunks() {
        let mut unit = 0;
        while unit < l.units {
            let at = engine.base + chunk * l.chunk + unit * l.unit;
            if unit % in_granule == 0 && tables.is_span((at - engine.base) / l.granule) {
                unit += in_granule;
                continue;
            }
            let what = tables.unit(chunk, unit);
            let run = if what == Unit::Used { tables.run(chunk, unit) } else { 0 };
            let n = run.max(1);
            let resident = pages.resident.bytes(at, at + n * l.unit);
            match what {
                // A cache's runs are taken, to the pool.
                Unit::Used if run != 0 && heaps.cached.contains(&at) => {
                    account.add(Kind::Caches, resident)
                }
                Unit::Used if run != 0 => {
                    account.add(Kind::LiveMedium, resident);
                    account.allocated += run * l.unit;
                    account.rounding_at_most += rounding(run, l.unit).min(resident);
                    account.medium_blocks += 1;
                }
                Unit::Dirty | Unit::Old => account.add(Kind::DirtyPages, resident),
                Unit::Clean => {
                    account.add(Kind::HugePages, pages.huge.bytes(at, at + l.unit));
                }
                Unit::Used => {}
            }
            unit += n;
        }
    }
}

/// The most that rounding to a run of so many units can waste.
fn rounding(units: u64, unit: u64) -> u64 {
    let is_length = |n: &u64| masu_core::size_class::medium_units((n * unit) as usize) as u64 == *n;
    let shorter = (1..units).rev().find(is_length).unwrap_or(0);
    (units - shorter) * unit - 1
}
