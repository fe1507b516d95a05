//! `masu demo`: one program on the system's malloc and on masu, its memory over time, and the memory left when it
//! rests.
//!
//! The program is the service in `masu-watch`, which this command runs as its child; only
//! LD_PRELOAD differs. The sentences follow from the figures as shown.

use std::env;
use std::io::{IsTerminal, Write, stderr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anstyle::Style;
use masu_watch::watch::{self, Run};
use masu_watch::{KIB_PER_MIB, chart, service};

use crate::cli::Demo;
use crate::columns::{at_most, fit, paragraph};
use crate::failure::{Failure, REFUSED};
use crate::library;
use crate::standard::print_styled;

const BOLD: Style = Style::new().bold();
/// Time between two measurements.
const BETWEEN: Duration = Duration::from_millis(20);
/// The share of the larger figure by which two runs of the same program differ: smaller differences do not count.
const NOISE: f64 = 0.1;

/// Carries out `order` and returns the exit code.
pub fn run(order: &Demo) -> Result<u8, Failure> {
    if order.service {
        println!("{}", service::run());
        return Ok(0);
    }
    // The service is this command, started again.
    if cfg!(target_feature = "crt-static") {
        let problem =
            "this command is statically linked, so it cannot preload a library into its service";
        return Err(Failure::new(REFUSED, problem).remedy(
            "./demo in the sources, or the command of a Debian package or of `cargo install`, can show it",
        ));
    }
    let library = library::find(order.lib.as_deref())?;
    let system = system();
    let say = |text: &str| print_styled(&fit(text));
    say(&introduction(&system))?;
    let on_system = measure(&system, None)?;
    let on_masu = measure("masu", Some(&library.path))?;
    if on_system.output != on_masu.output {
        return Err(Failure::new(REFUSED, "the program's results differ between the two runs"));
    }
    let curves = [(&*system, &on_system.curve), ("masu", &on_masu.curve)];
    say(&chart::draw_within(&curves, at_most(chart::WIDTH), chart::HEIGHT))?;
    say(&conclusion(&system, &Figures::of(&on_system), &Figures::of(&on_masu)))?;
    Ok(0)
}

/// Returns the system's malloc, by name and version.
fn system() -> String {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: a string that the C library owns.
        let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
        format!("glibc {}", version.to_string_lossy())
    }
    #[cfg(not(target_env = "gnu"))]
    "the system".into()
}

fn introduction(system: &str) -> String {
    let what = format!(
        "A service parses {} JSON documents with {} threads, drops all but one in {}, and rests; then it does \
         all that once more. Only LD_PRELOAD differs.",
        thousands(service::DOCUMENTS),
        service::WORKERS,
        service::CACHED,
    );
    format!(
        "{BOLD}masu {} and {system}'s malloc under the same program{BOLD:#}\n\n{}\n",
        env!("CARGO_PKG_VERSION"),
        paragraph("", &what, at_most(chart::WIDTH)),
    )
}

fn thousands(n: u64) -> String {
    if n < 1000 { n.to_string() } else { format!("{},{:03}", n / 1000, n % 1000) }
}

/// Runs the service, on a `library` or on the system's malloc.
fn measure(name: &str, library: Option<&Path>) -> Result<Run, Failure> {
    let failed =
        |why: String| Failure::new(REFUSED, format!("the program failed on {name}: {why}"));
    let me = env::current_exe().map_err(|error| failed(error.to_string()))?;
    let mut command = Command::new(me);
    command.args(["demo", "--service"]).env_remove("LD_PRELOAD");
    if let Some(library) = library {
        command.env("LD_PRELOAD", library);
    }
    for (variable, _) in env::vars_os() {
        if variable.to_string_lossy().starts_with("MASU_") {
            command.env_remove(variable);
        }
    }
    let terminal = stderr().is_terminal();
    let run = watch::run(&mut command, BETWEEN, |look| {
        if terminal {
            let mib = look.kib as f64 / KIB_PER_MIB;
            let line = format!("\r  on {name}: {:.1} s, {mib:.0} MiB \x1b[K", look.second);
            let _ = write!(stderr(), "{line}");
        }
        // A measurement of the wrong allocator is worthless.
        library.is_none_or(|library| look.second < 0.3 || look.has_mapped(library))
    });
    if terminal {
        let _ = write!(stderr(), "\r\x1b[K");
    }
    let run = run.map_err(|error| failed(error.to_string()))?;
    match (run.succeeded, run.served) {
        (true, true) => Ok(run),
        (false, _) => Err(failed("it ended with an error".into())),
        (true, false) => {
            Err(failed("the library was not loaded into it".into())
                .remedy("`masu doctor` says why"))
        }
    }
}

/// A run's figures, rounded as they are shown.
struct Figures {
    peak_mib: u64,
    rest_mib: u64,
    /// In hundredths.
    seconds: u64,
}

impl Figures {
    fn of(run: &Run) -> Figures {
        let mib = |kib: u64| (kib as f64 / KIB_PER_MIB).round() as u64;
        let end = run.curve.end();
        Figures {
            peak_mib: mib(run.curve.peak()),
            // The last measurements may catch the program's exit.
            rest_mib: mib(run.curve.at(end - 0.1)),
            seconds: (run.processor * 100.0).round() as u64,
        }
    }

    fn row(&self, name: &str) -> String {
        format!(
            "{name:<12}{:>8} MiB{:>9} MiB{:>9} MiB{:>14}.{:02} s\n",
            self.peak_mib,
            self.rest_mib,
            self.went_back(),
            self.seconds / 100,
            self.seconds % 100,
        )
    }

    fn went_back(&self) -> u64 {
        self.peak_mib.saturating_sub(self.rest_mib)
    }
}

/// Returns the table, the sentence and the suggested next step.
fn conclusion(system: &str, on_system: &Figures, on_masu: &Figures) -> String {
    let time = compare(on_masu.seconds, on_system.seconds);
    let rest = compare(on_masu.rest_mib, on_system.rest_mib);
    let sum = format!(
        "When it rests, the service holds {rest} on masu ({} MiB against {}), and its work takes {time}.",
        on_masu.rest_mib, on_system.rest_mib,
    );
    let sum = paragraph("", &sum, at_most(chart::WIDTH));
    format!(
        "\n{BOLD}{:<12}{:>12}{:>13}{:>13}{:>19}{BOLD:#}\n{}{}\n\
         {BOLD}{}{BOLD:#}\n\
         One run each, so on a busy machine the times say little.\n\n\
         Your own program:        {} run -- PROGRAM\n\
         Is masu better for it?   {}\n",
        "",
        "peak",
        "at rest",
        "went back",
        "processor time",
        on_system.row(system),
        on_masu.row("masu"),
        sum.trim_end(),
        command(),
        bench(),
    )
}

/// Describes how two figures, as shown, compare.
fn compare(masu: u64, system: u64) -> String {
    let (a, b) = (masu.max(1) as f64, system.max(1) as f64);
    match (a - b).abs() / a.max(b) {
        share if share < NOISE => "as much".into(),
        share if a < b => format!("{:.0} % less", share * 100.0),
        _ => format!("{:.0} % more", (a / b - 1.0) * 100.0),
    }
}

/// This command, as the user called it.
fn command() -> String {
    env::args_os().next().map_or_else(|| "masu".into(), |name| name.to_string_lossy().into_owned())
}

fn bench() -> String {
    if cfg!(feature = "bench") {
        format!("{} bench -- PROGRAM", command())
    } else {
        "cargo build --release, then target/release/masu bench -- PROGRAM".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_said_as_they_follow_from_the_figures() {
        assert_eq!(compare(25, 100), "75 % less");
        assert_eq!(compare(150, 100), "50 % more");
        assert_eq!(compare(95, 100), "as much");
        assert_eq!(compare(0, 0), "as much");
    }

    #[test]
    fn what_went_back_is_the_difference_of_what_is_shown() {
        let figures = Figures { peak_mib: 200, rest_mib: 30, seconds: 205 };
        let row = figures.row("masu");
        assert_eq!(
            row.split_whitespace().collect::<Vec<_>>().join(" "),
            "masu 200 MiB 30 MiB 170 MiB 2.05 s"
        );
        let less = Figures { peak_mib: 180, rest_mib: 15, seconds: 100 };
        let text = conclusion("glibc 2.36", &figures, &less);
        assert!(text.contains("holds 50 % less on masu (15 MiB against 30)"), "{text}");
        assert!(text.contains("takes 51 % less"), "{text}");
        assert!(text.contains("busy machine"), "{text}");
        let plain = text.replace("\x1b[1m", "").replace("\x1b[0m", "").replace(&command(), "masu");
        assert!(plain.lines().all(|line| line.chars().count() <= 80), "{plain}");
    }
}
