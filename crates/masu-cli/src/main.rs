//! The command `masu`: runs any dynamically linked program on masu, or says why it cannot.
//!
//! ```text
//! main ─ cli            what can be typed
//!   ├─ run              the steps of `masu run`
//!   │    ├─ conf        --conf, judged by the engine's own parser
//!   │    ├─ library     where libmasu.so is, and whether it is an allocator at all
//!   │    │    └─ masu_inside  the one that `cargo install` built into the command
//!   │    ├─ program     PATH, #! lines, env: which file the kernel will load
//!   │    ├─ launcher    sudo, nice, env …: which command they start, with whose environment
//!   │    ├─ obstacle    what stands between masu and the program's file
//!   │    │    ├─ elf         what an ELF file says about itself
//!   │    │    ├─ allocators  which allocators are in it, masu among them
//!   │    │    ├─ php         whether it is a PHP whose extensions bind past a preloaded library
//!   │    │    └─ privilege   whether the dynamic loader will ignore LD_PRELOAD
//!   │    ├─ preload     libmasu.so in front of what LD_PRELOAD holds already
//!   │    └─ exec        the program takes this process over
//!   ├─ demo             `masu demo`: a service on the system's malloc and on masu, as a chart
//!   ├─ bench            `masu bench`: the same look at the program, then a race of allocators
//!   ├─ prof             `masu prof`: which code allocates the memory in use
//!   ├─ see              `masu explain`, …: what a running process does with its memory
//!   ├─ export           `masu export`: the same of every process, for Prometheus
//!   ├─ typed            slips on the command line that still parse
//!   │    └─ near        what a mistyped word was meant to be
//!   ├─ standard         standard output, also if it is closed
//!   ├─ columns          text that fits the terminal
//!   ├─ printable        names of processes, without what controls a terminal
//!   ├─ names            of functions, from files that may change meanwhile
//!   ├─ worker           a thread that reads one process after the other, or another one if it does not come back
//!   ├─ schemas          the JSON schemas of what it answers
//!   ├─ unit             `masu unit`: a systemd service on masu, by a drop-in file
//!   ├─ translate        `masu translate`: what another allocator's options are here
//!   ├─ doctor           `masu doctor`: does masu take effect, and is anything in its way?
//!   └─ man              manual pages, from what can be typed and from the engine's keys
//! ```
//!
//! `masu run` ends in `exec`: no parent process remains that would have to pass on signals, the
//! terminal, the exit status or the death by a signal, so nothing can be passed on wrongly. For the
//! same reason `main` is C's: Rust's own start-up ignores `SIGPIPE` and reopens closed standard
//! streams, and the program would inherit both.

#![cfg_attr(not(test), no_main)]

mod allocators;
#[cfg(feature = "bench")]
mod bench;
mod bytes;
mod cli;
mod columns;
mod conf;
mod demo;
mod doctor;
mod elf;
mod exec;
mod export;
mod failure;
mod hold;
mod launcher;
mod library;
mod man;
mod names;
mod near;
mod obstacle;
mod php;
mod preload;
mod printable;
mod privilege;
mod prof;
mod program;
mod run;
mod schemas;
mod see;
mod standard;
mod translate;
mod typed;
mod unit;
mod wake;
mod worker;
mod writable;

use std::ffi::OsString;

use clap::{CommandFactory, Parser};

use crate::cli::{Cli, Verb};
use crate::failure::Failure;

/// The process's entry point; see the module's documentation.
// SAFETY: libc's start-up code calls this name and signature, and no other `main` is linked,
// because `no_main` keeps rustc from making one.
#[cfg(not(test))]
#[unsafe(no_mangle)]
extern "C" fn main(argc: libc::c_int, argv: *const *const libc::c_char) -> libc::c_int {
    let count = usize::try_from(argc).unwrap_or(0);
    let arguments = (0..count)
        // SAFETY: the kernel passes `argc` pointers to C strings that live as long as the process.
        .map(|i| unsafe { std::ffi::CStr::from_ptr(*argv.add(i)) })
        .map(|argument| std::os::unix::ffi::OsStringExt::from_vec(argument.to_bytes().to_vec()))
        .collect();
    i32::from(start(arguments))
}

/// Carries out `arguments` and returns the exit code.
#[cfg_attr(test, expect(dead_code, reason = "the tests have an entry point of their own"))]
fn start(arguments: Vec<OsString>) -> u8 {
    let done = match Cli::try_parse_from(&arguments) {
        Ok(cli) => {
            typed::warn_of_misplaced(&arguments, &cli.verb);
            match typed::process_for_program(&cli.verb) {
                Some(failure) => Err(failure),
                None => dispatch(cli.verb),
            }
        }
        Err(answer) => {
            let said = typed::program_for_verb(&arguments, &answer)
                .or_else(|| typed::one_process(&arguments, &answer));
            if let Some(failure) = said {
                return failure.tell();
            }
            show(&answer)
        }
    };
    done.unwrap_or_else(|failure| failure.tell())
}

/// Shows what clap answers: a mistake, or help and the version, with exit code 0.
fn show(answer: &clap::Error) -> Result<u8, Failure> {
    let code = u8::try_from(answer.exit_code()).unwrap_or(2);
    standard::occupy();
    let text = answer.render().ansi().to_string();
    if answer.use_stderr() {
        standard::print_error(&text);
    } else {
        standard::print_styled(&columns::fit_help(&text))?;
    }
    Ok(code)
}

/// Returns a command as far as its help shows it: clap's scripts offer hidden options, too.
fn visible(command: &clap::Command) -> clap::Command {
    // This process ends when the script is written.
    let name: &str = command.get_name().to_owned().leak();
    let mut shown = clap::Command::new(name)
        .args(command.get_arguments().filter(|arg| !arg.is_hide_set()).cloned())
        .subcommands(command.get_subcommands().map(visible))
        .disable_help_subcommand(true)
        .disable_help_flag(command.is_disable_help_flag_set());
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    if let Some(about) = command.get_long_about() {
        shown = shown.long_about(about.clone());
    }
    if command.get_version().is_some() { shown.version("") } else { shown }
}

fn dispatch(verb: Verb) -> Result<u8, Failure> {
    // The program has its streams as they are.
    if !matches!(verb, Verb::Run(_)) {
        standard::occupy();
    }
    match verb {
        Verb::Run(order) => Err(run::run(&order)),
        Verb::Demo(order) => demo::run(&order),
        #[cfg(feature = "bench")]
        Verb::Bench(order) => bench::run(&order),
        #[cfg(not(feature = "bench"))]
        Verb::Bench { .. } => Err(failure::without_bench()),
        Verb::Prof(order) => prof::run(&order),
        Verb::Doctor(order) => doctor::run(&order),
        Verb::Explain(order) => see::explain::run(&order),
        Verb::Top(order) => see::top::run(&order),
        Verb::Watch(order) => see::watch::run(&order),
        Verb::Stats(order) => see::stats::run(&order),
        Verb::Purge(order) => see::purge::run(&order),
        Verb::Export(order) => export::run(&order),
        Verb::Unit(order) => unit::run(&order),
        Verb::Translate(order) => translate::run(&order),
        Verb::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut visible(&Cli::command()), "masu", &mut script);
            standard::put(&script)?;
            Ok(0)
        }
        Verb::Help { command } => {
            let words = ["masu".into()].into_iter().chain(command).chain(["--help".into()]);
            Cli::try_parse_from::<_, OsString>(words).map_or_else(|answer| show(&answer), |_| Ok(0))
        }
        Verb::Man { page, dir } => {
            match dir {
                Some(dir) => man::write(&dir),
                None => man::show(&page),
            }?;
            Ok(0)
        }
    }
}
