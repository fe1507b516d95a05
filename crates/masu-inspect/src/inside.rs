//! masu's parts of the memory: the resident bytes of each span, run, huge block and table.

use std::collections::HashMap;

use masu_core::size_class::{class_of, medium_units, size_of_class};

use crate::account::{Account, Class, GoingBack, Kind, Thread};
use crate::engine::Engine;
use crate::error::Error;
use crate::fill::Fill;
use crate::heaps::{self, Heaps, Held, Owner};
use crate::locked::{Locked, Unused};
use crate::memory::{Memory, Pages};
use crate::tables::{Huge, Tables, Unit};
use crate::threads::{self, Known};

/// Adds the parts of an engine.
///
/// # Errors
/// If the process cannot be read.
pub fn add(
    memory: &Memory,
    engine: &Engine,
    locked: &Locked,
    account: &mut Account,
) -> Result<(), Error> {
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
    // Mapped, but not yet in use.
    let rest = (engine.base + engine.limit, engine.base + engine.end.max(engine.limit));
    let pages = memory.pages(engine.base, rest.1)?;
    let heaps = heaps::read(memory, engine, &tables, &pages)?;
    let window = Window { engine, tables: &tables, pages: &pages, locked, heaps: &heaps };
    window.small(account);
    window.medium(account);
    unused(account, locked.unused(&pages, rest.0, rest.1));

    let end = engine.huge_base + engine.huge_units * l.chunk;
    let far = memory.pages(engine.huge_base, end)?;
    for (at, len, what) in tables.huge() {
        let bytes = far.resident.bytes(at, at + len);
        match what {
            Huge::Live(size) => {
                let live_end = at + size.min(len);
                let live = far.resident.bytes(at, live_end);
                let locked = locked.unused(&far, live_end, at + len).locked;
                account.add(Kind::LiveHuge, live);
                account.add(Kind::Locked, locked);
                account.add(Kind::HugeEnds, bytes - live - locked);
                account.allocated += size;
                account.huge_blocks += 1;
                // Whole pages, without those that an alignment adds.
                account.rounding_at_most += (l.unit - 1).min(live);
            }
            Huge::Dirty => account.add(Kind::DirtyHuge, bytes),
            Huge::Clean => unused(account, locked.unused(&far, at, at + len)),
        }
    }
    let below = memory.pages(engine.base - l.below, engine.base)?;
    account.add(Kind::Tables, below.resident.bytes(engine.base - l.below, engine.base));
    let known = threads::of(memory, engine);
    account.threads.extend(heaps.held.iter().map(|held| thread(held, &known)));
    Ok(())
}

/// Adds what no block has used.
fn unused(account: &mut Account, unused: Unused) {
    account.add(Kind::HugePages, unused.huge);
    account.add(Kind::Locked, unused.locked);
}

fn thread(held: &Held, known: &HashMap<u64, Known>) -> Thread {
    let known = match held.owner {
        Owner::Thread(index) => known.get(&index),
        _ => None,
    };
    Thread {
        tid: known.map(|known| known.tid),
        name: known.map(|known| known.name.clone()),
        owner: match held.owner {
            Owner::Thread(index) => format!("thread {index}"),
            Owner::Waiting(_) => "no thread".into(),
            Owner::Arena(index) => format!("heap {index}"),
            Owner::SharedArena => "shared arena".into(),
            Owner::Processors => "processors".into(),
        },
        bins: held.bins,
        cache: held.cache,
        outbox: held.outbox,
        allocated: held.flow.0,
        freed: held.flow.1,
    }
}

/// The data read from an engine's window.
struct Window<'a> {
    engine: &'a Engine,
    tables: &'a Tables<'a>,
    pages: &'a Pages,
    locked: &'a Locked,
    heaps: &'a Heaps,
}

impl Window<'_> {
    /// Adds spans, as [`Fill`] gives them.
    fn small(&self, account: &mut Account) {
        let l = &self.engine.layout;
        let sizes = &l.sizes[..=l.last_class as usize];
        account.classes.resize(sizes.len(), Class::default());
        for granule in 0..self.tables.granules() {
            let Some(span) = self.tables.span(granule) else { continue };
            let fill = Fill::of(self.engine, granule, &span, self.pages, self.locked, self.heaps);
            let free = fill.free - fill.unused.bytes();
            account.add(Kind::LiveSmall, fill.live_bytes);
            account.add(Kind::Bins, fill.bins);
            account.add(Kind::Outboxes, fill.outboxes);
            account.add(Kind::FreeInSpans, free);
            unused(account, fill.unused);
            let class = &mut account.classes[span.class];
            class.size = span.size;
            class.spans += 1;
            class.live += fill.live;
            class.capacity += l.granule / span.size;
            class.live_bytes += fill.live_bytes;
            class.free_bytes += free;
            account.allocated += fill.live * span.size;
            account.returned_in_spans += fill.returned;
            account.rounding_at_most += fill.live * rounding(span.class);
        }
    }

    /// Adds runs and free pages.
    fn medium(&self, account: &mut Account) {
        let Window { engine, tables, pages, locked, heaps } = self;
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
                    // To the pool, a cache's runs count as taken.
                    Unit::Used if run != 0 && heaps.cached.contains(&at) => {
                        account.add(Kind::Caches, resident)
                    }
                    Unit::Used if run != 0 => {
                        account.add(Kind::LiveMedium, resident);
                        account.allocated += run * l.unit;
                        account.rounding_at_most += run_rounding(run, l.unit).min(resident);
                        account.medium_blocks += 1;
                    }
                    Unit::Dirty | Unit::Old => account.add(Kind::DirtyPages, resident),
                    Unit::Clean => unused(account, locked.unused(pages, at, at + l.unit)),
                    Unit::Used => {}
                }
                unit += n;
            }
        }
    }
}

/// Returns the maximum waste of rounding to a block of a class.
pub fn rounding(class: usize) -> u64 {
    let size = size_of_class(class);
    // A block as long as the class below may be of this one: see `size_class`.
    let mut served = size_of_class(class - 1).saturating_sub(16)..size;
    (size - served.find(|&asked| class_of(asked) == class).unwrap_or(size)) as u64
}

/// Returns the maximum waste of rounding to a run of `units` units.
fn run_rounding(units: u64, unit: u64) -> u64 {
    let is_length = |n: &u64| medium_units((n * unit) as usize) as u64 == *n;
    let shorter = (1..units).rev().find(is_length).unwrap_or(0);
    (units - shorter) * unit - 1
}

#[cfg(test)]
mod tests {
    use masu_core::size_class::{LAST_CLASS, MEDIUM_MAX, SMALL_MAX, UNIT};

    use super::*;

    #[test]
    fn no_block_is_rounded_up_by_more_than_is_said() {
        let mut most = [0; LAST_CLASS + 1];
        for asked in 0..=SMALL_MAX {
            let class = class_of(asked);
            most[class] = most[class].max(size_of_class(class) - asked);
        }
        for (class, most) in most.into_iter().enumerate().skip(1) {
            assert_eq!(rounding(class), most as u64, "class {class}");
        }
        for asked in (SMALL_MAX + 1..=MEDIUM_MAX).step_by(777) {
            let units = medium_units(asked);
            let (waste, said) = (units * UNIT - asked, run_rounding(units as u64, UNIT as u64));
            assert!(waste as u64 <= said && said <= (units * UNIT / 4) as u64, "{asked}");
        }
    }
}
