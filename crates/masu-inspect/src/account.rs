//! Accounts for every resident byte of a process.
//!
//! Each of masu's pages belongs to one span, run, huge block or table. Memory that the kernel counts in masu's mappings
//! and that these do not explain has moved during the reading, and is reported as such. The rest is in mappings that
//! are not masu's, as the kernel counts them. So the parts add up to the RSS of `smaps`; the difference from that of
//! `smaps_rollup`, read at another moment, is what the process did in between.

use masu_watch::process;
use procfs_core::process::{MMapPath, MemoryMap};
use serde::Serialize;

use crate::elsewhere::{self, What};
use crate::engine::Engine;
use crate::error::Error;
use crate::find;
use crate::hardened;
use crate::hooked;
use crate::inside;
use crate::locked::Locked;
use crate::memory::Memory;
use crate::owned::Owned;

pub use crate::kind::{Kind, Part};

/// The largest difference, as a share of the RSS, at which the sum closes.
pub const CLOSED: f64 = 0.01;
/// Attempts at a process whose memory is changing.
const ATTEMPTS: usize = 5;

/// The small blocks of one size class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Class {
    /// The size of a block in bytes.
    pub size: u64,
    /// Spans of 64 KiB in use.
    pub spans: u64,
    /// Live blocks.
    pub live: u64,
    /// Blocks that fit into the spans.
    pub capacity: u64,
    /// Resident bytes of the live blocks.
    pub live_bytes: u64,
    /// Resident bytes of what is free in the spans, as `free_in_spans` counts them.
    pub free_bytes: u64,
}

/// The memory that a thread caches for its next requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Thread {
    /// The owner: `thread` and the number of its heap, `no thread` for memory that waits for the next one, `heap` for a
    /// first-class heap, `shared arena` for the arena of threads with little demand, `processors` for caches of processors.
    pub owner: String,
    /// The kernel's number of the thread, where it can be found out: with glibc.
    pub tid: Option<u32>,
    /// The name of the thread, if its number is known.
    pub name: Option<String>,
    /// Bytes of small blocks in its bins.
    pub bins: u64,
    /// Bytes of medium blocks in its cache.
    pub cache: u64,
    /// Bytes of blocks on their way to other threads.
    pub outbox: u64,
    /// Bytes that it has allocated.
    pub allocated: u64,
    /// Bytes that it has freed.
    pub freed: u64,
}

/// When free memory is returned to the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GoingBack {
    /// Milliseconds for which freed memory is kept; null if it is kept for ever.
    pub decay_ms: Option<u64>,
    /// Free bytes above which a background thread may start.
    pub budget: u64,
    /// Whether the background thread runs now.
    pub background: bool,
    /// Bytes returned so far.
    pub purged: u64,
}

/// The memory of a process.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Account {
    /// The process ID.
    pub process: u32,
    /// Its name.
    pub name: String,
    /// The version of masu in it.
    pub masu: String,
    /// The number of copies of masu in it.
    pub copies: usize,
    /// The RSS of `smaps_rollup`.
    pub rss: u64,
    /// The sum of all parts.
    pub sum: u64,
    /// Whether `sum` differs from `rss` by at most 1 %, and at most that much is in motion.
    pub closes: bool,
    /// The parts of the memory.
    pub parts: Vec<Part>,
    /// Bytes of the program's live blocks, by their size classes, resident or not. The sizes requested are
    /// not recorded.
    pub allocated: u64,
    /// The most of `allocated` that can be due to rounding up to size classes.
    pub rounding_at_most: u64,
    /// How much of `allocated` the program requested, about, if a profile of the process runs.
    pub requested_by_profile: Option<u64>,
    /// The rest of `allocated`, which is due to rounding, if a profile of the process runs.
    pub rounding_by_profile: Option<u64>,
    /// Live medium blocks.
    pub medium_blocks: u64,
    /// Live huge blocks.
    pub huge_blocks: u64,
    /// Live blocks of the hardened heap.
    pub hardened_blocks: u64,
    /// Bytes of masu's memory in pages of 2 MiB.
    pub huge_pages: u64,
    /// Bytes swapped out; they are not part of the RSS.
    pub swapped: u64,
    /// Bytes of spans in use whose pages were returned: free blocks that hold no memory, and so no part of the RSS.
    pub returned_in_spans: u64,
    /// When free memory is returned to the system.
    pub going_back: GoingBack,
    /// Small blocks by size.
    pub classes: Vec<Class>,
    /// What each thread caches, the most first.
    pub threads: Vec<Thread>,
}

impl Account {
    /// Makes an empty account.
    pub fn of(process: u32, name: String, engines: &[Engine]) -> Account {
        Account {
            process,
            name,
            masu: engines.first().map(|engine| engine.masu.clone()).unwrap_or_default(),
            copies: engines.len(),
            rss: 0,
            sum: 0,
            closes: false,
            parts: Vec::new(),
            allocated: 0,
            rounding_at_most: 0,
            requested_by_profile: None,
            rounding_by_profile: None,
            medium_blocks: 0,
            huge_blocks: 0,
            hardened_blocks: 0,
            huge_pages: 0,
            swapped: 0,
            returned_in_spans: 0,
            going_back: GoingBack { decay_ms: None, budget: 0, background: false, purged: 0 },
            classes: Vec::new(),
            threads: Vec::new(),
        }
    }

    /// Computes the totals, against an RSS of `rss` bytes.
    fn close(&mut self, rss: u64) {
        self.rss = rss;
        self.sum = self.parts.iter().map(|part| part.bytes).sum::<i64>().try_into().unwrap_or(0);
        self.closes = self.error() <= CLOSED;
        self.parts.retain(|part| part.bytes != 0);
        self.classes.retain(|class| class.spans != 0);
        self.threads.sort_by_key(|thread| u64::MAX - thread.bins - thread.cache - thread.outbox);
    }

    /// Returns the bytes of the parts of a kind.
    pub fn bytes(&self, kind: Kind) -> i64 {
        self.parts.iter().filter(|part| part.kind == kind).map(|part| part.bytes).sum()
    }

    /// Returns the bytes that masu holds beyond the program's blocks.
    pub fn overhead(&self) -> u64 {
        let parts = self.parts.iter().filter(|part| part.kind.is_overhead());
        parts.map(|part| part.bytes).sum::<i64>().try_into().unwrap_or(0)
    }

    /// Returns about how much of some resident bytes of the program's blocks is due to rounding, if a profile runs.
    pub fn rounding_in(&self, resident: u64) -> Option<u64> {
        let part = self.rounding_by_profile? as f64 / self.allocated.max(1) as f64;
        Some((resident as f64 * part) as u64)
    }

    /// Returns the error of the sum, as a share of the RSS.
    pub fn error(&self) -> f64 {
        let off = self.rss.abs_diff(self.sum).max(self.bytes(Kind::InMotion).unsigned_abs());
        off as f64 / self.rss.max(1) as f64
    }

    /// Adds to the part of a kind.
    pub(crate) fn add(&mut self, kind: Kind, bytes: u64) {
        let bytes = bytes.cast_signed();
        match self.parts.iter_mut().find(|part| part.kind == kind && part.name.is_none()) {
            Some(part) => part.bytes += bytes,
            None => self.parts.push(Part { kind, name: None, bytes }),
        }
    }
}

/// Accounts for the memory of a process. If it is changing, returns the best of a few attempts.
///
/// # Errors
/// If the process cannot be read, or masu is not in it.
pub fn explain(process: u32) -> Result<Account, Error> {
    let mut best: Option<Account> = None;
    for _ in 0..ATTEMPTS {
        let account = match attempt(process) {
            Ok(account) => account,
            // Addresses may have been unmapped in between.
            Err(Error::Damaged(_)) => continue,
            Err(error) => return Err(error),
        };
        if best.as_ref().is_none_or(|best| account.error() < best.error()) {
            best = Some(account);
        }
        if best.as_ref().is_some_and(|best| best.error() < CLOSED / 2.0) {
            break;
        }
    }
    best.ok_or(Error::Damaged(process))
}

fn attempt(process: u32) -> Result<Account, Error> {
    let (memory, engines) = find::engines(process)?;
    let mut account = Account::of(process, name(process), &engines);
    let owned = inside(&memory, &engines, &mut account)?;
    let rss = outside(&memory, &engines, owned, &mut account)?;
    account.close(rss);
    Ok(account)
}

/// Adds masu's memory. Returns its address ranges.
fn inside(memory: &Memory, engines: &[Engine], account: &mut Account) -> Result<Owned, Error> {
    let (mut owned, mut hooks) = (Vec::new(), Vec::new());
    let locked = Locked::of(memory)?;
    for engine in engines {
        inside::add(memory, engine, &locked, account)?;
        owned.extend(engine.owned());
        owned.append(&mut hardened::add(memory, engine, account)?);
        hooks.append(&mut hooked::add(memory, engine, account)?);
    }
    Ok(Owned::of(owned, hooks))
}

/// Accounts for a core file's part of its process's memory: the pages that were dumped and are not
/// all zero.
///
/// # Errors
/// If the core file is inconsistent.
pub fn explain_core(memory: &Memory, engines: &[Engine]) -> Result<Account, Error> {
    let Some(core) = memory.core() else { return Err(Error::NoProcess(memory.process)) };
    let mut account = Account::of(memory.process, core.name.clone(), engines);
    let owned = inside(memory, engines, &mut account)?;
    let explained: i64 = account.parts.iter().map(|part| part.bytes).sum();
    let (mut rss, mut ours) = (0, 0);
    for (start, end) in core.parts() {
        let pages = memory.pages(start, end)?.resident;
        let all = pages.bytes(start, end);
        let mut rest = all;
        let mut take = |range: (u64, u64)| {
            let bytes = pages.bytes(range.0.max(start), range.1.min(end).max(start)).min(rest);
            rest -= bytes;
            bytes
        };
        ours += owned.all.within(start, end).map(&mut take).sum::<u64>();
        for (kind, ranges) in APART {
            account.add(kind, engines.iter().map(ranges).map(&mut take).sum());
        }
        account.add(if core.is_mapped(start) { Kind::Programs } else { Kind::Anonymous }, rest);
        rss += all;
    }
    let bytes = ours.cast_signed() - explained;
    account.parts.push(Part { kind: Kind::InMotion, name: None, bytes });
    account.close(rss);
    Ok(account)
}

/// Returns the name of a process, as `ps -o comm` shows it; empty if the process does not exist.
pub fn name(process: u32) -> String {
    process::stat(process).map(|stat| stat.comm).unwrap_or_default()
}

/// Returns the RSS from `smaps_rollup`.
///
/// # Errors
/// If the process does not exist, or may not be read.
pub fn rss(process: u32) -> Result<u64, Error> {
    let rollup = process::smaps_rollup(process).ok_or(Error::Ended(process))?;
    let mapping = rollup.memory_map_rollup.into_iter().next();
    Ok(mapping.map_or(0, |map| elsewhere::resident(&map)))
}

/// Returns the range of an engine's memory of some kind.
type Range = fn(&Engine) -> (u64, u64);

/// Kinds with their own mappings.
const APART: [(Kind, Range); 4] = [
    (Kind::Profile, Engine::profiled),
    (Kind::Profile, |engine| engine.rules),
    (Kind::Guards, Engine::guarded),
    (Kind::GuardRecords, Engine::guard_records),
];

/// Adds the parts that are not masu's, and the part of masu's mappings that the others do not explain. Returns the RSS at
/// that moment.
fn outside(
    memory: &Memory,
    engines: &[Engine],
    mut owned: Owned,
    account: &mut Account,
) -> Result<u64, Error> {
    let maps = find::mappings(memory.process)?;
    let rss = rss(memory.process)?;
    owned.grow(memory, engines)?;
    let is_masus = |map: &MemoryMap| {
        matches!(&map.pathname, MMapPath::Path(path) if path.file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"libmasu")))
    };
    let begins = |from: u64| maps.0.iter().find(|map| map.address.0 == from).is_some_and(is_masus);
    let images = engines.iter().map(|engine| engine.image);
    let images: Vec<_> = images.filter(|&(from, _)| begins(from)).collect();
    let is_library =
        |map: &MemoryMap| images.iter().any(|&(from, to)| (from..to).contains(&map.address.0));
    let mut ours = 0;
    let mut others = Vec::new();
    for map in &maps.0 {
        let is_named = matches!(map.pathname, MMapPath::Path(_));
        account.swapped += map.extension.map.get("Swap").copied().unwrap_or(0);
        if is_library(map) {
            account.add(Kind::Library, elsewhere::resident(map));
            continue;
        }
        let (resident, mut rest) = (elsewhere::resident(map), elsewhere::resident(map));
        let (from, to) = map.address;
        let owned = if is_named { &owned.hooked } else { &owned.all };
        let owned = part(memory, map, owned.within(from, to))?.min(resident);
        rest -= owned;
        ours += owned;
        if !is_named {
            for (kind, ranges) in APART {
                let bytes = part(memory, map, engines.iter().map(ranges))?.min(rest);
                account.add(kind, bytes);
                rest -= bytes;
            }
            if owned != 0 {
                let huge = map.extension.map.get("AnonHugePages").copied().unwrap_or(0);
                account.huge_pages += huge.min(owned);
            }
        }
        others.push((map, rest));
    }
    let explained: i64 = account
        .parts
        .iter()
        .filter(|part| {
            part.kind != Kind::Library && APART.iter().all(|(kind, _)| *kind != part.kind)
        })
        .map(|part| part.bytes)
        .sum();
    account.parts.push(Part {
        kind: Kind::InMotion,
        name: None,
        bytes: ours.cast_signed() - explained,
    });
    for (what, bytes) in elsewhere::sort(&others) {
        let (kind, name) = match what {
            What::Programs => (Kind::Programs, None),
            What::Files => (Kind::Files, None),
            What::Shared => (Kind::Shared, None),
            What::Stacks => (Kind::Stacks, None),
            What::Brk => (Kind::Brk, None),
            What::Anonymous(name) => (Kind::Anonymous, name),
        };
        account.parts.push(Part { kind, name, bytes: bytes.cast_signed() });
    }
    Ok(rss)
}

/// Returns the bytes of a mapping that are resident in some ranges. The kernel merges similar neighbours into one
/// mapping, so a mapping may be partly masu's.
fn part(
    memory: &Memory,
    map: &MemoryMap,
    ranges: impl Iterator<Item = (u64, u64)>,
) -> Result<u64, Error> {
    let (from, to) = map.address;
    let mut bytes = 0;
    for (start, end) in ranges {
        let (start, end) = (start.max(from), end.min(to));
        if start >= end {
            continue;
        }
        bytes += match (start, end) == (from, to) {
            true => elsewhere::resident(map),
            false => memory.pages(start, end)?.resident.bytes(start, end),
        };
    }
    Ok(bytes)
}
