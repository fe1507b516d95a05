//! `masu prof`: who allocates what is in use.
//!
//! ```text
//! mod ─ record      runs a command with a profile that is written at its end
//!   ├─ raw          what the library writes
//!   ├─ symbols      from addresses to functions
//!   ├─ view         which figures, and how sure they are
//!   └─ text, stacks, pprof   the forms it comes in
//! ```

mod pprof;
mod raw;
mod record;
mod stacks;
mod symbols;
mod text;
mod view;

use std::ffi::OsString;
use std::fs;
use std::io::{Write as _, stdout};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use crate::failure::{Failure, REFUSED, USAGE, warn};
use raw::Profile;
use symbols::Symbols;
use view::View;

/// Who allocates what is in use? Sample a program's memory by the stacks that ask for it.
///
/// Runs COMMAND on masu with a heap profile, and shows which places in it had most memory in use when it had
/// most in use. Or shows a profile that was written before. Sampling costs the program little: one block in
/// every 512 KiB is looked at, and figures come with the margin that the truth lies in 95 times in a hundred.
#[derive(Args)]
#[command(after_help = "\
Examples:
  masu prof -- ./server                     the stacks with most memory at the peak
  masu prof --flame out.html -- ./server    a flame graph
  masu prof --pprof out.pb.gz -- ./server   for `go tool pprof`, speedscope, Pyroscope …
  masu prof --leaks -- ./server             what was still in use at the end
  masu prof --raw a.prof -- ./server        keep the profile, to look at it again:
  masu prof --lifetimes a.prof
  masu prof --growth --base a.prof b.prof   what the second had more in use

Names need symbols: a program that is not stripped, or files with debugging information beside it
(packages like libc6-dbg). Code without them shows as the file and a place in it.

Exit codes: the program's own; before that those of `masu run`; 2 mistyped, 125 there is no profile.")]
pub struct Prof {
    /// Bytes between two samples, on average: smaller is finer and costs more [default: 512KiB]
    #[arg(long, value_name = "SIZE")]
    pub rate: Option<String>,

    /// What was in use when most was (the default)
    #[arg(long, group = "view")]
    pub peak: bool,

    /// What was in use at the end
    #[arg(long, group = "view")]
    pub leaks: bool,

    /// All that was ever allocated
    #[arg(long, group = "view")]
    pub allocated: bool,

    /// All that was ever allocated, and how long it lived
    #[arg(long, group = "view")]
    pub lifetimes: bool,

    /// What was in use at the end beyond what was in BASE
    #[arg(long, group = "view", requires = "base")]
    pub growth: bool,

    /// The profile to compare with
    #[arg(long, value_name = "FILE", requires = "growth")]
    pub base: Option<PathBuf>,

    /// Write a report as text; `-`, the default if nothing else is written, is stdout
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub text: Option<PathBuf>,

    /// Write a flame graph: a page, or a picture if FILE ends in .svg
    #[arg(long, value_name = "FILE")]
    pub flame: Option<PathBuf>,

    /// Write the profile for pprof, compressed
    #[arg(long, value_name = "FILE")]
    pub pprof: Option<PathBuf>,

    /// Write folded stacks, a line each with its bytes
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,

    /// Keep the profile as the program wrote it
    #[arg(long, value_name = "FILE")]
    pub raw: Option<PathBuf>,

    /// The library to preload, instead of the libmasu.so that belongs to this command
    #[arg(long, value_name = "PATH")]
    pub lib: Option<PathBuf>,

    /// A profile that was written before
    #[arg(value_name = "FILE", conflicts_with_all = ["command", "rate", "lib"])]
    pub file: Option<PathBuf>,

    /// The program and its arguments
    #[arg(last = true, required_unless_present = "file", value_name = "COMMAND",
          value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// Does what `order` says; the exit code.
pub fn run(order: &Prof) -> Result<u8, Failure> {
    let (text, code) = match &order.file {
        Some(file) => (read(file)?, 0),
        None => record::record(order)?,
    };
    let name = order.file.as_deref().unwrap_or(Path::new("the profile"));
    let profile = parse(name, &text)?;
    let base = match &order.base {
        Some(file) => {
            let profile = parse(file, &read(file)?)?;
            let symbols = Symbols::of(&profile);
            Some((profile, symbols))
        }
        None => None,
    };
    if let Some(file) = &order.raw {
        write("--raw", file, text.as_bytes())?;
    }
    let symbols = Symbols::of(&profile);
    say_what_is_missing(&profile);
    let view = view(order);
    if let Some(file) = &order.pprof {
        let bytes = pprof::encode(&profile, &symbols, view).map_err(|e| Failure::output(&e))?;
        write("--pprof", file, &bytes)?;
    }
    let folded = || stacks::folded(&profile, &symbols, view);
    if let Some(file) = &order.folded {
        let mut lines = folded().join("\n");
        lines.push('\n');
        write("--folded", file, lines.as_bytes())?;
    }
    if let Some(file) = &order.flame {
        let is_page = file.extension().is_none_or(|kind| kind != "svg");
        let page = stacks::flame(&folded(), view, is_page).map_err(|error| {
            Failure::new(REFUSED, format!("there is nothing for a flame graph: {error}"))
                .remedy("a smaller --rate takes more samples")
        })?;
        write("--flame", file, &page)?;
    }
    let silent = order.flame.is_some() || order.pprof.is_some() || order.folded.is_some();
    let file = order.text.as_deref().or((!silent).then_some(Path::new("-")));
    if let Some(file) = file {
        let base = base.as_ref().map(|(profile, symbols)| (profile, symbols));
        let report = text::report(&profile, &symbols, view, base);
        write("--text", file, report.as_bytes())?;
    }
    Ok(code)
}

fn view(order: &Prof) -> View {
    match order {
        Prof { leaks: true, .. } => View::Live,
        Prof { allocated: true, .. } => View::Allocated,
        Prof { lifetimes: true, .. } => View::Lifetimes,
        Prof { growth: true, .. } => View::Growth,
        _ => View::Peak,
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    let bytes = fs::read(file).map_err(|error| {
        Failure::new(USAGE, format!("`{}` cannot be read: {error}", file.display()))
            .remedy("`masu prof -- COMMAND` runs a command and profiles it")
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn parse(file: &Path, text: &str) -> Result<Profile, Failure> {
    Profile::parse(text).map_err(|what| {
        Failure::new(USAGE, format!("`{}` {what}", file.display()))
            .remedy("`masu prof --raw FILE -- COMMAND` and the option prof_file write profiles")
    })
}

/// Warns of samples that are missing.
fn say_what_is_missing(profile: &Profile) {
    if profile.dropped != 0 {
        warn(&format!(
            "{} samples could not be kept, while the program forked or had no memory; figures are too small",
            profile.dropped
        ));
    }
}

/// Writes a file, or for `-` to stdout.
fn write(option: &str, file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if file == Path::new("-") {
        let mut out = stdout().lock();
        return out.write_all(bytes).and_then(|()| out.flush()).map_err(|e| Failure::output(&e));
    }
    fs::write(file, bytes).map_err(|error| {
        let problem = format!("{option}: `{}` cannot be written: {error}", file.display());
        Failure::new(USAGE, problem)
            .remedy(format!("{option} names a file in a directory that exists"))
    })
}
