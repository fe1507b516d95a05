//! `masu watch`: a program's memory over time, and when how much of it went back.
//!
//! ```text
//! run ─ a command, started on masu, or a process
//!   ├─ sampler    looks at it and at all that descend from it
//!   ├─ picture    the looks as charts and sentences
//!   └─ page       the same as a page
//! ```

use std::env;
use std::ffi::OsString;
use std::io::{IsTerminal, stdout};
use std::iter;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use clap::{Args, ValueHint};
use masu_watch::watch::ended;
use signal_hook::consts::{SIGCHLD, SIGHUP};

use super::picture::Frame;
use super::sampler::Sampler;
use super::{page, picture};
use crate::failure::{self, Failure, REFUSED, USAGE};
use crate::hold::{Hold, heeded};
use crate::printable::printable;
use crate::prof::follow::SHARED;
use crate::prof::output::check;
use crate::standard::{is_dumb, print, styled};
use crate::wake::{Sender, Wake};

/// Chart a program's memory over time.
///
/// Starts a command on masu, or follows a running process, and reads its memory ten times a second. One chart shows the
/// resident memory, another the free memory not yet returned; a table lists when memory was returned, and how much.
/// Child processes are included. A running process needs no preparation and is not stopped. Watching ends when the
/// program ends, on Ctrl-C, or after --for. A SIGHUP, SIGINT, SIGQUIT or SIGTERM that another process sends is passed on to
/// the command.
#[derive(Args)]
#[command(
    override_usage = "masu watch [OPTIONS] -- COMMAND…
       masu watch [OPTIONS] -p PID",
    after_help = "\
Examples:
  masu watch -- ruby app.rb
  masu watch -p $(pidof ruby) --for 1m
  masu watch --html memory.html -- make

On a terminal, the chart of a process is redrawn every second. The chart of a command is printed when the
command ends, since the command may write to the terminal itself.

Exit codes:
  the command's own, or 128 plus the number of the signal that ended it; 0 with -p, or if --for ended first
  2 with -p: no such process, a process without masu, or one that may not be read
  125 the charts could not be written; if the command failed, its own code counts"
)]
pub struct Order {
    /// Follow this process
    #[arg(short, long, value_name = "PID", value_parser = super::process, conflicts_with = "command")]
    pub pid: Option<u32>,

    /// Stop watching after this long, such as 30s or 5m; the command keeps running
    #[arg(long = "for", value_name = "T", value_parser = super::span)]
    pub most: Option<Duration>,

    /// Time between readings
    #[arg(long, value_name = "T", default_value = "100ms", value_parser = super::duration)]
    pub every: Duration,

    /// Also write the charts as an HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Also write the chart as an SVG image
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// The shortest time between two measurements.
const SHORTEST: Duration = Duration::from_millis(5);
/// Time between two drawings.
const REDRAW: Duration = Duration::from_secs(1);

/// Carries out `order` and returns the exit code.
pub fn run(order: &Order) -> Result<u8, Failure> {
    for (option, file) in [("--html", &order.html), ("--svg", &order.svg)] {
        if file.as_deref() == Some(Path::new("-")) {
            let problem = format!("{option}: `-` is not a file; the chart is on stdout already");
            return Err(Failure::new(USAGE, problem).remedy("name a file in place of `-`"));
        }
        file.iter().try_for_each(|file| check(option, file))?;
    }
    if order.pid.is_none() && order.command.is_empty() {
        return Err(Failure::new(USAGE, "nothing to watch: name a command, or a process")
            .remedy("masu watch -- COMMAND…\nmasu watch -p PID"));
    }
    let signals = heeded(&SHARED);
    let (hold, session) = (Hold::back(&signals), Session::of_this());
    let (child, process, name) = match order.pid {
        Some(process) => {
            // If the process cannot be watched, the user should learn so at once.
            masu_inspect::engines(process).map_err(|error| super::failure(&error))?;
            (None, process, masu_inspect::account::name(process))
        }
        None => {
            let child = start(&hold, &order.command)?;
            let name = order.command.first().map(|name| name.to_string_lossy().into_owned());
            let process = child.id();
            (Some(child), process, name.unwrap_or_default())
        }
    };
    // It goes to a terminal and into a picture.
    let name = printable(&name);
    let mut wake = Wake::new(&[&signals[..], &[SIGCHLD]].concat(), order.pid)?;
    drop(hold);
    let mut live = child.is_none() && stdout().is_terminal() && !is_dumb();
    let (mut sampler, begin) = (Sampler::new(process), Instant::now());
    let (mut drawn, mut last) = (0, Instant::now());
    // Whether the process is there at the end.
    let mut is_there = false;
    let end = loop {
        sampler.note_children();
        if let Some(ended) = child.as_ref().and_then(|child| ended(child).ok().flatten()) {
            break Some(ended);
        }
        let came = signals.iter().filter_map(|&signal| Some((signal, wake.take(signal)?)));
        let came: Vec<(i32, Sender)> = came.collect();
        for &(signal, sender) in came.iter().filter(|_| child.is_some()) {
            if session.is_for_this_alone(signal, sender) {
                // SAFETY: it has not been waited for, so the number is its own.
                unsafe { libc::kill(process as i32, signal) };
            }
        }
        if child.is_some() && is_launcher(process) {
            wake.wait(Some(SHORTEST / 5));
            continue;
        }
        let is_stopped = child.is_none() && !came.is_empty();
        let left = order.most.map(|most| most.saturating_sub(begin.elapsed()));
        is_there = sampler.look(begin.elapsed().as_secs_f64());
        if !is_there && child.is_none() || is_stopped || left.is_some_and(|left| left.is_zero()) {
            break None;
        }
        if live && last.elapsed() >= REDRAW {
            let peak = sampler.peak(true, None);
            let picture = picture::draw(&name, process, &sampler.samples, peak, terminal());
            // What goes wrong is told at the end, after the files.
            live = print(&over(drawn, &picture)).is_ok();
            (drawn, last) = (picture.lines().count(), Instant::now());
        }
        // A command may end soon.
        let soon = if child.is_some() { begin.elapsed() / 8 } else { order.every };
        let pause = order.every.min(soon).max(SHORTEST).max(sampler.pause());
        wake.wait(Some(left.map_or(pause, |left| left.min(pause))));
    };
    let status = end.map(|end| end.status);
    // A small program's peak is below that of this one, in which it began.
    let peak = end.map(|end| end.peak).filter(|&peak| peak > 2 * own_peak());
    let peak = sampler.peak(is_there && end.is_none(), peak);
    if child.is_some() && end.is_none() {
        failure::say(&format!("masu: `{name}` (process {process}) is still running"));
    }
    // A command that could not be started has reported it.
    if sampler.samples.is_empty() && !status.is_none_or(|status| status.success()) {
        return Ok(code(status));
    }
    // The last picture may be longer than the terminal is high.
    let frame = Frame { events: Frame::FILE.events, ..terminal() };
    let picture = picture::draw(&name, process, &sampler.samples, peak, frame);
    let html = order.html.iter().map(|file| {
        let page = page::render(&name, process, &sampler.samples, peak);
        write(file, &page)
    });
    let svg = order.svg.iter().map(|file| write(file, &page::svg(&name, &sampler.samples, peak)));
    // After the files: if nobody reads stdout, SIGPIPE ends this process.
    let chart = iter::once_with(|| print(&over(drawn, &picture)));
    failure::or_own(failure::all(html.chain(svg).chain(chart)), code(status))
}

/// The session of this process.
struct Session {
    /// Whether it has a terminal.
    has_terminal: bool,
    /// Whether this process leads it.
    is_led: bool,
}

impl Session {
    fn of_this() -> Session {
        let own = masu_watch::process::stat(process::id());
        let (terminal, leader) = own.map_or((0, 0), |own| (own.tty_nr, own.session));
        Session { has_terminal: terminal != 0, is_led: leader.cast_unsigned() == process::id() }
    }

    /// Whether a signal that this process has got may have come to it without its command.
    fn is_for_this_alone(&self, signal: i32, sender: Sender) -> bool {
        let is_lost = signal == SIGHUP && self.has_terminal && !Session::of_this().has_terminal;
        match is_lost {
            // The end of a terminal is told to the leader alone, whose shell, or whose end, tells all the others.
            true => self.is_led,
            // Other signals of a terminal come to all.
            false => sender == Sender::Process,
        }
    }
}

/// Starts a command on masu.
fn start(hold: &Hold, command: &[OsString]) -> Result<Child, Failure> {
    let failed = |error| Failure::new(REFUSED, format!("cannot start the command: {error}"));
    let me = env::current_exe().map_err(failed)?;
    hold.start(Command::new(me).args(["run", "--"]).args(command)).map_err(failed)
}

/// The most that this process has had resident, in KiB.
fn own_peak() -> u64 {
    masu_watch::process::peak(process::id()).unwrap_or(u64::MAX / 2)
}

/// Whether the process that is about to become the command is still this program, or has ended, so that it has no file.
fn is_launcher(process: u32) -> bool {
    let file = |process: &str| std::fs::read_link(format!("/proc/{process}/exe")).ok();
    // In this order: a process with a command line and then no file has ended in between. A process that has just
    // become this program has no command line yet.
    let process = masu_watch::process::memory_id(process);
    let words = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let Some(own) = file(&process.to_string()) else { return true };
    let launches = words.split(|&byte| byte == 0).skip(1).take(2).eq([&b"run"[..], b"--"]);
    (launches || words.is_empty()) && Some(own) == file("self")
}

/// Returns the exit code for a command's status.
fn code(status: Option<ExitStatus>) -> u8 {
    let status = status.map(|status| status.code().or(status.signal().map(|signal| 128 + signal)));
    status.map_or(0, |code| code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Returns the space on the terminal, or in a file if there is none.
fn terminal() -> Frame {
    match rustix::termios::tcgetwinsize(stdout()) {
        Ok(size) if size.ws_col > 0 => Frame::of_terminal(size.ws_col, size.ws_row),
        _ => Frame::FILE,
    }
}

/// Redraws over the previous lines, also on a terminal without colours. Each line is cleared beyond its end: clearing the
/// whole terminal could leave old content in its history.
fn over(lines: usize, picture: &str) -> String {
    let picture = styled(picture);
    if lines == 0 {
        return picture;
    }
    format!("\x1b[{lines}F{}\x1b[J", picture.replace('\n', "\x1b[K\n"))
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text).map_err(|error| {
        Failure::new(REFUSED, format!("cannot write `{}`: {error}", file.display()))
    })
}
