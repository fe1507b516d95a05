//! `masu explain --core`: how a process ended that has left a core file, and which block its fault was at.

use std::fmt::Write as _;
use std::path::Path;

use masu_inspect::account::explain_core;
use masu_inspect::core_file::{Core, Signal};
use masu_inspect::find::engines_in;
use masu_inspect::guarded::{self, Guarded, Trace};
use masu_inspect::hardened;
use masu_inspect::memory::Memory;
use masu_inspect::tables::{Huge, Tables, Unit};
use masu_inspect::{Engine, Error};
use masu_profile::{Mapping, Place, Profile, Symbols};

use super::{failure, text};
use crate::failure::{Failure, USAGE};

/// What the processor says of an address that cannot be one: nothing.
const SI_KERNEL: i32 = 0x80;

/// What a core file says.
pub fn explain(path: &Path) -> Result<String, Failure> {
    let core = Core::open(path).map_err(|error| {
        let problem = match error.kind() {
            std::io::ErrorKind::InvalidData => format!("--core: `{}` {error}", path.display()),
            _ => format!("--core: `{}` cannot be read: {error}", path.display()),
        };
        Failure::new(USAGE, problem).remedy(
            "`ulimit -c unlimited` has the kernel write one; `coredumpctl dump -o FILE` gets one from systemd",
        )
    })?;
    let memory = Memory::of_core(core);
    let engines = engines_in(&memory).map_err(|error| unknown(&error, path))?;
    let mut text = ending(&memory, &engines);
    text.push_str(&place(&memory, &engines).map_err(|error| failure(&error))?);
    match explain_core(&memory, &engines) {
        Ok(account) => {
            text.push_str("\nIts memory, as far as it was dumped:\n");
            text.push_str(&text::render(&account, &[]));
        }
        Err(_) => text.push_str("\nToo little of its memory was dumped to say more.\n"),
    }
    Ok(text)
}

fn unknown(error: &Error, path: &Path) -> Failure {
    match error {
        Error::NoMasu(_) => Failure::new(
            USAGE,
            format!("--core: in `{}` there is no masu, or its file is no longer there", path.display()),
        )
        .remedy("the program's own files must be where they were, unchanged: read the core file on the same machine"),
        error => failure(error),
    }
}

fn core(memory: &Memory) -> &Core {
    memory.core().expect("made of one")
}

/// How the process ended.
fn ending(memory: &Memory, engines: &[Engine]) -> String {
    let core = core(memory);
    let masu = engines.first().map_or("", |engine| &engine.masu);
    let how = match core.signal {
        Some(signal) => format!("ended by {}", name(signal.number)),
        None => "dumped while it ran".into(),
    };
    let thread = core.threads.first().map_or(0, |thread| thread.id);
    let threads = core.threads.len();
    let which =
        if threads == 1 { String::new() } else { format!(" in thread {thread} of {threads}") };
    format!("process {} ({}) on masu {masu}: {how}{which}\n", core.process, core.name)
}

fn name(signal: i32) -> String {
    let name = match signal {
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGBUS => "SIGBUS",
        libc::SIGABRT => "SIGABRT",
        libc::SIGILL => "SIGILL",
        libc::SIGFPE => "SIGFPE",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGSYS => "SIGSYS",
        other => return format!("signal {other}"),
    };
    name.into()
}

/// Which block the fault was at.
fn place(memory: &Memory, engines: &[Engine]) -> Result<String, Error> {
    let core = core(memory);
    let here = core.threads.first().map(|thread| Trace {
        thread: thread.id,
        // As if it were where a call returns to.
        frames: vec![thread.counter.wrapping_add(1)],
    });
    let address = match core.signal {
        Some(Signal { number: libc::SIGSEGV | libc::SIGBUS, code, address }) if code > 0 => {
            if code == SI_KERNEL {
                let symbols = names(core, here.iter());
                let mut text = String::from(
                    "access to an address that no program can have: a pointer was overwritten\n",
                );
                say(&mut text, &symbols, "accessed", here.as_ref());
                return Ok(text);
            }
            address
        }
        _ => {
            let symbols = names(core, here.iter());
            let mut text = String::from("there was no fault that an address belongs to\n");
            say(&mut text, &symbols, "it was", here.as_ref());
            return Ok(text);
        }
    };
    let mut text = format!("access to {address:#x}: ");
    for engine in engines {
        if let Some(block) = guarded::nearest(memory, engine, address)? {
            let _ = writeln!(text, "{}", of_guarded(&block, address));
            let traces = [&here, &block.allocated, &block.freed];
            let symbols = names(core, traces.iter().filter_map(|trace| trace.as_ref()));
            for (what, trace) in ["accessed", "allocated", "freed"].into_iter().zip(traces) {
                say(&mut text, &symbols, what, trace.as_ref());
            }
            return Ok(text);
        }
    }
    let known = engines.iter().find_map(|engine| of_tables(memory, engine, address).transpose());
    let known = known.transpose()?;
    text.push_str(&known.unwrap_or_else(|| match address {
        0..4096 => "a null pointer, or a field of one".into(),
        _ => "this is not masu's memory".into(),
    }));
    text.push('\n');
    say(&mut text, &names(core, here.iter()), "accessed", here.as_ref());
    Ok(text)
}

/// Where an address lies beside a guarded block.
fn of_guarded(block: &Guarded, address: u64) -> String {
    let (start, end) = (block.start, block.start + block.bytes);
    let how = match address {
        _ if address < start => format!("{} bytes before the start of", start - address),
        _ if address >= end => format!("{} bytes beyond the end of", address - end + 1),
        _ => format!("{} bytes into", address - start),
    };
    let freed = if block.is_live { "" } else { ", which was freed" };
    format!("{how} the block of {} bytes at {start:#x}{freed}", block.bytes)
}

/// What masu's tables have at an address. `None`: it is not masu's.
fn of_tables(memory: &Memory, engine: &Engine, address: u64) -> Result<Option<String>, Error> {
    if let Some(block) = hardened::nearest(memory, engine, address)? {
        let (end, freed) =
            (block.start + block.bytes, if block.is_live { "" } else { ", which was freed" });
        let how = match address < end {
            true => format!("{} bytes into", address - block.start),
            false => format!("{} bytes beyond the end of", address - end + 1),
        };
        return Ok(Some(format!(
            "{how} a hardened block of up to {} bytes at {:#x}{freed}",
            block.bytes, block.start
        )));
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
        return Ok(Some(format!(
            "{} bytes into a small block of {} bytes at {block:#x}",
            address - block,
            span.size
        )));
    }
    if let Some(offset) = address.checked_sub(engine.base).filter(|offset| *offset < engine.limit) {
        let (chunk, unit) = (offset / l.chunk, offset % l.chunk / l.unit);
        let run = (0..=unit).rev().find(|first| tables.run(chunk, *first) > unit - first);
        let is_used = tables.unit(chunk, unit) == Unit::Used;
        return Ok(Some(match run.filter(|_| is_used) {
            Some(first) => {
                let start = engine.base + chunk * l.chunk + first * l.unit;
                let bytes = tables.run(chunk, first) * l.unit;
                format!("{} bytes into the block of {bytes} bytes at {start:#x}", address - start)
            }
            None => "free memory of masu's: no block is there".into(),
        }));
    }
    let found = tables.huge().find(|(at, len, _)| (*at..at + len).contains(&address));
    Ok(Some(match found {
        Some((at, _, Huge::Live(bytes))) => {
            let (end, into) = (at + bytes, address - at);
            match address < end {
                true => format!("{into} bytes into the block of {bytes} bytes at {at:#x}"),
                false => format!(
                    "{} bytes beyond the end of the block of {bytes} bytes at {at:#x}",
                    address - end + 1
                ),
            }
        }
        Some(_) => "a huge block that was freed was there".into(),
        None => "masu's own tables, or addresses that it has not used".into(),
    }))
}

/// The names of what some traces lead through.
fn names<'a>(core: &Core, traces: impl Iterator<Item = &'a Trace>) -> Symbols {
    let mappings = core.mapped.iter().filter(|mapped| mapped.is_code).map(|mapped| Mapping {
        start: mapped.range.0,
        end: mapped.range.1,
        offset: mapped.offset,
        path: mapped.path.clone(),
        file: None,
    });
    let places = traces.map(|trace| Place { frames: trace.frames.clone(), ..Place::default() });
    Symbols::of(&Profile {
        pid: core.process,
        mappings: mappings.collect(),
        places: places.collect(),
        ..Profile::default()
    })
}

fn say(text: &mut String, symbols: &Symbols, what: &str, trace: Option<&Trace>) {
    let Some(Trace { thread, frames }) = trace else { return };
    let _ = writeln!(text, "  {what} by thread {thread}");
    for (i, frame) in symbols.stack(frames).enumerate() {
        let _ = writeln!(text, "    #{i:<3}{frame}");
    }
}
