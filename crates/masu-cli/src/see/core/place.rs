//! What is at an address: a block of masu's, a former one, or none of its memory.

use masu_inspect::guarded::{self, Trace};
use masu_inspect::hardened;
use masu_inspect::memory::Memory;
use masu_inspect::tables::{Huge, Tables, Unit};
use masu_inspect::{Engine, Error};
use masu_profile::Symbols;
use serde::Serialize;

use super::Stack;

/// What lies at an address.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Place {
    /// Its kind.
    pub what: What,
    /// The block at the address, or the last one that was there.
    pub block: Option<Block>,
}

/// What lies at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// No program can have memory there.
    Impossible,
    /// A null pointer, or a field behind one.
    Null,
    /// A guarded block, between inaccessible pages.
    Guarded,
    /// A block of the hardened heap.
    Hardened,
    /// A small block, in use or free.
    Small,
    /// A medium block.
    Medium,
    /// A huge block.
    Huge,
    /// Free memory of masu, without a block.
    Free,
    /// masu's tables, or addresses that it has reserved and not used.
    Tables,
    /// Not masu's memory.
    Elsewhere,
}

/// A block.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Block {
    /// Its address, in hexadecimal digits.
    start: String,
    /// Its size in bytes; if the size is not recorded, the largest possible one.
    bytes: u64,
    /// The offset of the address from its start, in bytes.
    offset: i64,
    /// Whether it is in use; null if that is not known.
    is_live: Option<bool>,
    /// For a guarded block, the stack that allocated it.
    allocated: Option<Stack>,
    /// For a guarded block, the stack that freed it.
    freed: Option<Stack>,
}

impl Block {
    /// Returns the stacks of its allocation and its free.
    pub fn stacks(&self) -> [(&'static str, Option<&Stack>); 2] {
        [("allocated", self.allocated.as_ref()), ("freed", self.freed.as_ref())]
    }
}

/// A result whose traces have no names so far.
pub struct Found {
    what: What,
    text: String,
    block: Option<Raw>,
}

/// A block.
struct Raw {
    start: u64,
    bytes: u64,
    address: u64,
    is_live: Option<bool>,
    traces: [Option<Trace>; 2],
}

impl Raw {
    /// Describes the address's position in words that precede the block's name.
    fn position(&self) -> String {
        let (start, end, address) = (self.start, self.start + self.bytes, self.address);
        match address {
            _ if address < start => format!("{} before the start of", bytes(start - address)),
            _ if address >= end => format!("{} beyond the end of", bytes(address - end + 1)),
            _ => format!("{} into", bytes(address - start)),
        }
    }
}

/// So many bytes.
fn bytes(n: u64) -> String {
    if n == 1 { "1 byte".into() } else { format!("{n} bytes") }
}

impl Found {
    /// An address that no program can have.
    pub fn impossible() -> Found {
        let text = "a pointer was overwritten";
        Found { what: What::Impossible, text: text.into(), block: None }
    }

    fn none(what: What, text: &str) -> Found {
        Found { what, text: text.into(), block: None }
    }

    /// A block, with the name of its kind.
    fn block(what: What, kind: &str, block: Raw) -> Found {
        let article = if kind == "block of" { "the" } else { "a" };
        let freed = if block.is_live == Some(false) { ", which was freed" } else { "" };
        let position = block.position();
        let Raw { start, bytes, .. } = block;
        let text = format!("{position} {article} {kind} {bytes} bytes at {start:#x}{freed}");
        Found { what, text, block: Some(block) }
    }

    /// Yields the stacks that need names.
    pub fn traces(&self) -> impl Iterator<Item = &Trace> {
        self.block.iter().flat_map(|block| block.traces.iter().flatten())
    }

    /// Adds names.
    pub fn named(self, symbols: &Symbols) -> (Place, String) {
        let block = self.block.map(|block| {
            let [allocated, freed] =
                block.traces.map(|trace| trace.map(|trace| Stack::of(&trace, symbols)));
            Block {
                start: format!("{:#x}", block.start),
                bytes: block.bytes,
                offset: block.address.wrapping_sub(block.start).cast_signed(),
                is_live: block.is_live,
                allocated,
                freed,
            }
        });
        (Place { what: self.what, block }, self.text)
    }
}

/// Finds what is at an address.
///
/// # Errors
/// If the core file is inconsistent.
pub fn at(memory: &Memory, engines: &[Engine], address: u64) -> Result<Found, Error> {
    for engine in engines {
        if let Some(block) = guarded::nearest(memory, engine, address)? {
            let is_live = Some(block.is_live);
            let traces = [block.allocated, block.freed];
            let (start, bytes) = (block.start, block.bytes);
            let block = Raw { start, bytes, address, is_live, traces };
            return Ok(Found::block(What::Guarded, "block of", block));
        }
    }
    let known = engines.iter().find_map(|engine| of_tables(memory, engine, address).transpose());
    Ok(known.transpose()?.unwrap_or_else(|| match address {
        0..4096 => Found::none(What::Null, "a null pointer, or a field of one"),
        _ => Found::none(What::Elsewhere, "memory that is not masu's"),
    }))
}

/// Returns what masu's tables say about an address. `None` if it is not masu's.
fn of_tables(memory: &Memory, engine: &Engine, address: u64) -> Result<Option<Found>, Error> {
    let raw = |start, bytes, is_live| Raw { start, bytes, address, is_live, traces: [None, None] };
    if let Some(block) = hardened::nearest(memory, engine, address)? {
        let block = raw(block.start, block.bytes, Some(block.is_live));
        return Ok(Some(Found::block(What::Hardened, "hardened block of up to", block)));
    }
    if !engine.owned().iter().any(|(from, to)| (*from..*to).contains(&address)) {
        return Ok(None);
    }
    let (tables, l) = (Tables::read(memory, engine)?, &engine.layout);
    if let Some((granule, _)) = tables.span_at(address)
        && let Some(span) = tables.span(granule)
    {
        let start = engine.base + granule * l.granule;
        let block = start + (address - start) / span.size * span.size;
        return Ok(Some(Found::block(What::Small, "small block of", raw(block, span.size, None))));
    }
    if let Some(offset) = address.checked_sub(engine.base).filter(|offset| *offset < engine.limit) {
        let (chunk, unit) = (offset / l.chunk, offset % l.chunk / l.unit);
        let run = (0..=unit).rev().find(|first| tables.run(chunk, *first) > unit - first);
        let is_used = tables.unit(chunk, unit) == Unit::Used;
        return Ok(Some(match run.filter(|_| is_used) {
            Some(first) => {
                let start = engine.base + chunk * l.chunk + first * l.unit;
                let bytes = tables.run(chunk, first) * l.unit;
                Found::block(What::Medium, "block of", raw(start, bytes, None))
            }
            None => Found::none(What::Free, "free memory of masu: no block is there"),
        }));
    }
    let found = tables.huge().find(|(at, len, _)| (*at..at + len).contains(&address));
    Ok(Some(match found {
        Some((at, _, Huge::Live(bytes))) => {
            Found::block(What::Huge, "block of", raw(at, bytes, Some(true)))
        }
        Some(_) => Found::none(What::Free, "a huge block was there, and was freed"),
        None => Found::none(What::Tables, "masu's own tables, or addresses that it has not used"),
    }))
}
