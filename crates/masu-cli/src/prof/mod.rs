//! `masu prof`: which code allocates the memory in use.
//!
//! ```text
//! mod ─ record      runs a command with a profile that is written at its end
//!   ├─ seize        from its first instruction on
//!   ├─ follow       to the moment before its end, when its memory is still there
//!   ├─ descendants  the processes that it starts, read from time to time
//!   ├─ attach       takes the profile of a running process
//!   │    ├─ session samples while it is read; for `masu export` too
//!   │    └─ look    one reading, from outside
//!   ├─ growth       runs a command, and finds what it allocated late and still has in use at its end
//!   ├─ retained     runs a command, and finds the moment when most memory is free beside its blocks
//!   ├─ timeline     memory over time, meanwhile
//!   ├─ output       the files it goes to
//!   └─ text         the report for a terminal
//! ```
//!
//! What a profile is, and its other formats, are in `masu_profile`.

mod attach;
mod descendants;
pub mod follow;
mod growth;
pub mod look;
pub mod output;
mod record;
mod retained;
mod seize;
pub mod session;
pub mod text;
mod timeline;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueHint};
use masu_profile::base::subtract;
use masu_profile::raw::FIRST_LINE;
use masu_profile::view::bytes;
use masu_profile::{Profile, View};

use crate::failure::{self, Failure, REFUSED, USAGE, warn};
use crate::standard::print;
use crate::{conf, names};
use output::Output;

/// More is in use at the end than the caller allows.
const TOO_MUCH: u8 = 3;

/// Show which code allocates the memory in use.
///
/// Profiles COMMAND on masu, profiles a running process, or shows profiles written earlier. By default, shows the code
/// that held the most memory at the peak. One block in every 512 KiB is sampled, which costs the program little. Each
/// figure has a margin of error, at 95 % confidence.
#[derive(Args)]
#[command(
    override_usage = "masu prof [OPTIONS] -- COMMAND…
       masu prof [OPTIONS] -p PID
       masu prof [OPTIONS] FILE…",
    after_help = "\
Examples:
  masu prof -- ./server                     the stacks that hold the most memory at the peak
  masu prof -p PID --for 30s                the same, for what a running process allocates in 30 seconds
  masu prof -p PID --growth --for 10m       what it allocates in ten minutes and still uses at the end
  masu prof --growth -- ./server            what it allocates in the second half of its run and still uses at the end
  masu prof -p PID --retained               the code whose blocks keep free memory resident
  masu prof -o out.html -- ./server         a flame graph
  masu prof -o out.pb.gz -p PID             for `go tool pprof`, speedscope, Perfetto …
  masu prof --leaks -- ./server             what was still in use at the end
  masu prof --leaks --rate 1 --most 1MiB -- ./test    fail if that is more than 1 MiB
  masu prof --raw a.prof -- ./server        save the profile, to show it later:
  masu prof --lifetimes a.prof
  masu prof --growth --base a.prof b.prof   what b has in use beyond a

Child processes are profiled too; the report covers the process that had the most in use. Only COMMAND
itself is read at its very end, so name the program, not a shell that starts it.

Function names need symbols: a program that is not stripped, or separate debugging information (packages such
as libc6-dbg). Code without symbols appears as a file and an offset.

A running process needs no preparation and is not stopped: masu switches sampling on in it, reads the samples from
outside, and switches sampling off again. Blocks allocated before that are not seen.

Exit codes:
  the program's own, or those of `masu run` if it cannot be started; 0 for a process or a file
  2 wrong command line, no such process, a process without masu, one that may not be read, or one already
  being profiled
  3 more is in use than --most allows
  125 no profile that --most could judge, a process that allocated nothing in the time, or the output could not be
  written; if the program failed, its own code counts"
)]
pub struct Prof {
    /// Average number of bytes between two samples; a smaller number is more precise and costs more [default: 512KiB]
    #[arg(long, value_name = "SIZE")]
    pub rate: Option<String>,

    /// Profile a running process that is on masu
    #[arg(short, long, value_name = "PID", value_parser = crate::see::process,
          conflicts_with_all = ["file", "command", "lib"])]
    pub pid: Option<u32>,

    /// Profile the process for this long, such as 30s or 10m; Ctrl-C stops sooner [default: 10s]
    #[arg(long = "for", value_name = "T", conflicts_with_all = ["file", "command"], value_parser = crate::see::span)]
    pub span: Option<Duration>,

    /// Show what was in use at the peak of memory use (the default)
    #[arg(long, group = "view")]
    pub peak: bool,

    /// Show what was still in use at the end
    #[arg(long, group = "view")]
    pub leaks: bool,

    /// Exit with code 3 if more than this is in use at the end; --rate 1 makes it exact
    // clap drops `requires` if another view is given.
    #[arg(long, value_name = "SIZE", requires = "leaks",
          conflicts_with_all = ["peak", "allocated", "lifetimes", "growth", "retained"])]
    pub most: Option<String>,

    /// Show everything that was ever allocated
    #[arg(long, group = "view")]
    pub allocated: bool,

    /// Show everything that was ever allocated, and how long it lived
    #[arg(long, group = "view")]
    pub lifetimes: bool,

    /// Show what is in use at the end and was allocated while profiling (with -p), in the second half of COMMAND's run,
    /// or after --after; with --base, show what is in use beyond the base profile
    #[arg(long, group = "view")]
    pub growth: bool,

    /// Count as growth what COMMAND allocates from this time after its start on, such as 30s or 10m
    #[arg(long, value_name = "T", requires = "growth", value_parser = crate::see::duration,
          conflicts_with_all = ["pid", "file", "base", "peak", "leaks", "allocated", "lifetimes", "retained"])]
    pub after: Option<Duration>,

    /// Show the code whose blocks in use keep free memory resident: around small blocks, and past the ends of huge ones.
    /// Medium blocks, from 16 KiB to 1 MiB, keep none
    #[arg(long, group = "view")]
    pub retained: bool,

    /// Compare with this profile
    #[arg(long, value_name = "FILE", requires = "growth",
          conflicts_with_all = ["peak", "leaks", "allocated", "lifetimes", "retained"])]
    pub base: Option<PathBuf>,

    /// Write FILE in the format that its name ends in: .pb.gz, .html, .svg, .folded, .prof or .txt
    #[arg(short, long, value_name = "FILE")]
    pub output: Vec<PathBuf>,

    /// Write a report as text to FILE, or to stdout; this is the default unless another report is written
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub text: Option<PathBuf>,

    /// Write a flame graph: an HTML page, or an image if FILE ends in .svg
    #[arg(long, value_name = "FILE")]
    pub flame: Option<PathBuf>,

    /// Write the profile in pprof's format, compressed
    #[arg(long, value_name = "FILE")]
    pub pprof: Option<PathBuf>,

    /// Write folded stacks, one line per stack with its bytes
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,

    /// Write the profile in masu's own format, for `masu prof FILE`
    #[arg(long, value_name = "FILE")]
    pub raw: Option<PathBuf>,

    /// Preload this library instead of the libmasu.so that belongs to this command
    #[arg(long, value_name = "PATH")]
    pub lib: Option<PathBuf>,

    /// Profiles written earlier; they are shown one after the other
    #[arg(value_name = "FILE", conflicts_with_all = ["command", "rate", "lib"])]
    pub file: Vec<PathBuf>,

    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// Carries out `order` and returns the exit code.
pub fn run(order: &Prof) -> Result<u8, Failure> {
    if order.pid.is_none() && order.file.is_empty() && order.command.is_empty() {
        return Err(Failure::new(
            USAGE,
            "nothing to profile: name a command, a process, or a profile",
        )
        .remedy("masu prof -- COMMAND…\nmasu prof -p PID\nmasu prof FILE…"));
    }
    let outputs = output::of(order)?;
    let view = view(order);
    let most = order.most.as_deref().map(conf::most_in_bytes).transpose()?;
    let base = match &order.base {
        Some(file) => {
            let profile = load(file)?;
            let symbols = names::of(&profile);
            Some((profile, symbols))
        }
        None => None,
    };
    let (profiles, code) = match order.pid {
        _ if !order.file.is_empty() => {
            if order.file.len() > 1 && outputs.iter().any(|output| !output.is_stdout()) {
                return Err(Failure::new(USAGE, "several profiles cannot go into one file")
                    .remedy(
                        "name one FILE, or no output file: the reports are then printed one after the other",
                    ));
            }
            (order.file.iter().map(|file| load(file)).collect::<Result<Vec<_>, _>>()?, 0)
        }
        Some(process) => (vec![attach::attach(order, process)?], 0),
        None => {
            let (profile, code) = match view {
                View::Retained => retained::record(order)?,
                View::Later => growth::record(order)?,
                _ => record::record(order)?,
            };
            // What nobody has seen is not below a limit.
            let code =
                if profile.is_none() && most.is_some() && code == 0 { REFUSED } else { code };
            (Vec::from_iter(profile), code)
        }
    };
    let (mut is_too_much, mut is_judged, mut written) = (false, true, Ok(()));
    for (i, profile) in profiles.iter().enumerate() {
        has(profile, view)?;
        let mut symbols = names::of(profile);
        say_what_is_missing(profile);
        let mut shown = Cow::Borrowed(profile);
        if let Some((base, named)) = &base {
            subtract(shown.to_mut(), &mut symbols, base, named);
        }
        let write = |output: &Output| {
            if i > 0 {
                print("\n")?;
            }
            output.write(profile, &shown, &symbols, view)
        };
        written = failure::all(outputs.iter().map(write));
        is_too_much |= most.is_some_and(|most| leaks(profile, most));
        is_judged &= most.is_none() || profile.dropped == 0;
        if written.is_err() {
            break;
        }
    }
    let judgement = match is_judged {
        _ if is_too_much => TOO_MUCH,
        true => 0,
        // As above.
        false => REFUSED,
    };
    failure::or_own(written, if code == 0 { judgement } else { code })
}

/// Whether more than `most` bytes are in use at the end of a profile; if so, says it.
fn leaks(profile: &Profile, most: u64) -> bool {
    let places = profile.places.iter();
    let leaked: f64 = places.map(|place| View::Live.of(place).bytes).sum();
    let is_more = leaked > most as f64;
    if is_more {
        let told = (bytes(leaked), bytes(most as f64));
        // Rounding could hide a small difference.
        let (leaked, most) = match told {
            (a, b) if a == b => (format!("{leaked:.0} bytes"), most.to_string()),
            differing => differing,
        };
        failure::say(&format!("masu: {leaked} are in use at the end, and --most allows {most}"));
    }
    is_more
}

fn view(order: &Prof) -> View {
    match order {
        Prof { leaks: true, .. } => View::Live,
        Prof { allocated: true, .. } => View::Allocated,
        Prof { lifetimes: true, .. } => View::Lifetimes,
        Prof { retained: true, .. } => View::Retained,
        Prof { growth: true, base: Some(_), .. } => View::Growth,
        Prof { growth: true, command, .. } if !command.is_empty() => View::Later,
        Prof { growth: true, .. } => View::Grown,
        _ => View::Peak,
    }
}

/// Whether a profile has the figures of a view.
fn has(profile: &Profile, view: View) -> Result<(), Failure> {
    let (missing, way) = match view {
        View::Grown | View::Later if !profile.outside => (
            "what grew",
            "`masu prof --growth --base OLD NEW` compares two profiles; `masu prof --growth -p PID` observes a process, and \
             `masu prof --growth -- COMMAND` a command",
        ),
        View::Retained if profile.free.is_none() => (
            "what blocks retain",
            "`masu prof --retained -p PID` and `masu prof --retained -- COMMAND` record that, and --raw saves it",
        ),
        _ => return Ok(()),
    };
    Err(Failure::new(USAGE, format!("the profile does not record {missing}")).remedy(way))
}

/// A profile that was written earlier.
fn load(file: &Path) -> Result<Profile, Failure> {
    let mut profile = parse(file, &read(file)?)?;
    let of_file = fs::metadata(file).ok().filter(fs::Metadata::is_file);
    let written = of_file.as_ref().map_or((i64::MAX, 0), |of| (of.mtime(), of.mtime_nsec()));
    profile.taken = of_file.and_then(|of| of.modified().ok());
    let calls: BTreeSet<u64> = profile.places.iter().flat_map(|it| &it.frames).copied().collect();
    let named = profile.mappings.iter().filter(|mapping| {
        mapping.has_file()
            && calls.range(mapping.start..).next().is_some_and(|&it| it < mapping.end)
    });
    let has_changed = |path: &&PathBuf| {
        fs::metadata(path).is_ok_and(|of| (of.ctime(), of.ctime_nsec()) > written)
    };
    for path in named.map(|it| &it.path).collect::<BTreeSet<_>>().into_iter().filter(has_changed) {
        warn(&format!(
            "`{}` has changed since `{}` was written: its functions may have wrong names",
            path.display(),
            file.display()
        ));
    }
    Ok(profile)
}

fn read(file: &Path) -> Result<String, Failure> {
    let bytes = bytes_of(file).map_err(|error| {
        Failure::new(USAGE, format!("`{}` cannot be read: {error}", file.display()))
            .remedy("`masu prof -- COMMAND` runs a command and profiles it")
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads a profile; of a file of another kind, which may be larger than the memory, the beginning.
fn bytes_of(file: &Path) -> io::Result<Vec<u8>> {
    let (mut file, mut bytes) = (File::open(file)?, Vec::new());
    file.by_ref().take(FIRST_LINE.len() as u64).read_to_end(&mut bytes)?;
    if bytes == FIRST_LINE.as_bytes() {
        file.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

fn parse(file: &Path, text: &str) -> Result<Profile, Failure> {
    Profile::parse(text).map_err(|what| {
        Failure::new(USAGE, format!("`{}` {what}", file.display()))
            .remedy("`masu prof --raw FILE -- COMMAND` and the option prof_file write profiles")
    })
}

/// Warns of missing samples.
fn say_what_is_missing(profile: &Profile) {
    if profile.dropped != 0 {
        warn(&format!(
            "{} samples could not be kept, because the program forked, had no memory, or had a million samples in use; \
             the figures are too low (a larger --rate takes fewer samples)",
            profile.dropped
        ));
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn a_saved_profile_was_taken_when_its_file_was_written() {
        let place = tempfile::tempdir().unwrap();
        let (path, then) = (place.path().join("old.prof"), UNIX_EPOCH + Duration::from_secs(7));
        fs::write(&path, "masu heap profile 1\nrate 1\nmaps\nend\n").unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(then).unwrap();
        assert_eq!(load(&path).unwrap().taken, Some(then));
    }
}
