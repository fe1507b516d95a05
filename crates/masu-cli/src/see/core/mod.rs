//! `masu explain --core`: how a process that left a core file ended, and the block at which its fault was.

mod place;
mod text;

use std::path::Path;

use masu_inspect::account::{Account, explain_core};
use masu_inspect::core_file::{Core, Signal};
use masu_inspect::find::engines_in;
use masu_inspect::guarded::Trace;
use masu_inspect::memory::Memory;
use masu_inspect::{Engine, Error};
use masu_profile::symbols::Frame;
use masu_profile::{Mapping, Profile, Symbols};
use serde::Serialize;

use super::{failure, report};
use crate::failure::{Failure, USAGE};
use crate::names;
use crate::printable::printable;
use place::Place;

pub use text::render;

/// The kernel's code for a fault at an impossible address, which the processor does not report.
const SI_KERNEL: i32 = 0x80;

/// The answer of `masu explain --core`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ended {
    /// The name of the format: `masu-explain-core`.
    schema: &'static str,
    /// The version of the format. It grows whenever a field changes its meaning.
    version: u32,
    /// The process ID.
    process: u32,
    /// Its name.
    name: String,
    /// The version of masu in it.
    masu: String,
    /// Its threads.
    threads: usize,
    /// The signal that ended it; null if it was dumped while it was running.
    signal: Option<Ending>,
    /// The access that faulted; null if the signal has no address.
    fault: Option<Fault>,
    /// The stack of the thread that got the signal.
    at: Option<Stack>,
    /// Its memory, as far as it was dumped; null if too little was.
    memory: Option<Account>,
}

/// A signal that ended a process.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Ending {
    /// Its number.
    number: i32,
    /// Its name.
    name: String,
}

/// An access that faulted.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Fault {
    /// The address, in hexadecimal digits; null if no program can have that address, so that a pointer was overwritten.
    address: Option<String>,
    /// What lies there.
    #[serde(flatten)]
    place: Place,
    /// The same as a sentence.
    text: String,
}

/// A recorded stack of a thread.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Stack {
    /// The thread.
    thread: u32,
    /// Its functions, innermost first.
    frames: Vec<Function>,
}

/// A function on a stack.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Function {
    /// Its name; without a symbol, the file and the offset in it.
    name: String,
    /// The source file, if debugging information names it.
    file: Option<String>,
    /// The line in the source file.
    line: Option<u32>,
    /// All of that.
    #[serde(skip)]
    text: String,
}

/// Returns it as JSON, with a newline at its end.
pub fn json(ended: &Ended) -> String {
    report::pretty(ended)
}

/// Explains a core file.
pub fn explain(path: &Path) -> Result<Ended, Failure> {
    let core = Core::open(path).map_err(|error| {
        let problem = match error.kind() {
            std::io::ErrorKind::InvalidData => format!("--core: `{}` {error}", path.display()),
            _ => format!("--core: `{}` cannot be read: {error}", path.display()),
        };
        Failure::new(USAGE, problem).remedy(
            "with `ulimit -c unlimited`, the kernel writes one; `coredumpctl dump -o FILE` gets one from systemd",
        )
    })?;
    let memory = Memory::of_core(core);
    let engines = engines_in(&memory).map_err(|error| unknown(&error, path))?;
    of(&memory, &engines).map_err(|error| failure(&error))
}

fn unknown(error: &Error, path: &Path) -> Failure {
    match error {
        Error::NoMasu(_) => Failure::new(
            USAGE,
            format!("--core: `{}` contains no masu, or the file of masu no longer exists", path.display()),
        )
        .remedy("the program's files must be unchanged and in the same place: read the core file on the same \
                 machine"),
        error => failure(error),
    }
}

fn of(memory: &Memory, engines: &[Engine]) -> Result<Ended, Error> {
    let core = memory.core().expect("made of one");
    let here = core.threads.first().map(|it| Trace { thread: it.id, frames: core.stack(it) });
    let found = match core.signal {
        Some(Signal { number: libc::SIGSEGV | libc::SIGBUS, code, address }) if code > 0 => {
            let address = (code != SI_KERNEL).then_some(address);
            let found = match address {
                Some(address) => place::at(memory, engines, address)?,
                None => place::Found::impossible(),
            };
            Some((address, found))
        }
        _ => None,
    };
    let traces = found.iter().flat_map(|(_, found)| found.traces()).chain(&here);
    let symbols = named(core, traces);
    let fault = found.map(|(address, found)| {
        let (place, text) = found.named(&symbols);
        Fault { address: address.map(|address| format!("{address:#x}")), place, text }
    });
    Ok(Ended {
        schema: "masu-explain-core",
        version: 1,
        process: core.process,
        name: core.name.clone(),
        masu: engines.first().map(|engine| engine.masu.clone()).unwrap_or_default(),
        threads: core.threads.len(),
        signal: core.signal.map(|it| Ending { number: it.number, name: name(it.number) }),
        fault,
        at: here.map(|trace| Stack::of(&trace, &symbols)),
        memory: explain_core(memory, engines).ok(),
    })
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

/// Returns the symbols on some traces.
fn named<'a>(core: &Core, traces: impl Iterator<Item = &'a Trace>) -> Symbols {
    let mappings = core.mapped.iter().filter(|mapped| mapped.is_code).map(|mapped| Mapping {
        start: mapped.range.0,
        end: mapped.range.1,
        offset: mapped.offset,
        path: mapped.path.clone(),
        file: None,
    });
    let places = traces
        .map(|trace| masu_profile::Place { frames: trace.frames.clone(), ..Default::default() });
    names::of(&Profile {
        pid: core.process,
        mappings: mappings.collect(),
        places: places.collect(),
        ..Profile::default()
    })
}

impl Stack {
    fn of(trace: &Trace, symbols: &Symbols) -> Stack {
        let function = |frame: &Frame| Function {
            name: frame.name.clone(),
            file: frame.file.clone(),
            line: (frame.line != 0).then_some(frame.line),
            text: printable(&frame.to_string()),
        };
        let frames = symbols.stack(&trace.frames).map(function).collect();
        Stack { thread: trace.thread, frames }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_committed_schema_is_that_of_the_type() {
        crate::schemas::check::<super::Ended>("explain-core", crate::schemas::EXPLAIN_CORE);
    }
}
