//! The command line of `masu`.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
#[cfg(feature = "bench")]
use std::time::Duration;

#[cfg(feature = "bench")]
use clap::value_parser;
use clap::{Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
#[cfg(feature = "bench")]
use masu_bench::race;

use crate::failure::Failure;
use crate::{doctor, export, prof, see, translate, unit};

/// Run programs on masu, a memory allocator that gives memory back.
#[derive(Parser)]
#[command(
    name = "masu",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  masu run -- ruby app.rb               any program, unchanged
  masu run --stats -- sort big.txt      statistics on stderr at exit
  masu run --conf decay:2s -- ./server  keep freed memory for two seconds
  masu demo                             what it does to a program's memory
  masu bench -- ./my-program            is masu better for it?
  masu prof -- ./my-program             who allocates what is in use?
  masu doctor -p $(pidof ruby)          does it take effect there?
  masu explain $(pidof ruby)            what holds its memory?
  masu watch -- ruby app.rb             its memory over time, and what goes back when
  masu export                           metrics of every process, for Prometheus
  masu unit nginx                       a systemd service on masu
  masu translate MALLOC_CONF=thp:never  another allocator's options

`masu run --help` lists the configuration keys and the exit codes."
)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Subcommand)]
pub enum Verb {
    #[command(alias = "exec")]
    Run(Run),
    Demo(Demo),
    #[cfg(feature = "bench")]
    Bench(Bench),
    /// Not part of this build
    #[cfg(not(feature = "bench"))]
    #[command(hide = true, disable_help_flag = true)]
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _any: Vec<OsString>,
    },
    Prof(prof::Prof),
    Doctor(doctor::order::Order),
    Explain(see::explain::Order),
    Watch(see::watch::Order),
    Top(see::top::Order),
    Stats(see::stats::Order),
    Purge(see::purge::Order),
    Export(export::Order),
    Unit(unit::Unit),
    Translate(translate::Translate),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Show what can be typed, or what can be typed after a command
    // clap's own would be in the manual pages, too.
    #[command(hide = true)]
    Help {
        /// The command
        command: Option<OsString>,
    },
    /// Show a manual page, or write all of them into a directory
    #[command(after_help = "\
Pages: masu, run, demo, bench, prof, doctor, explain, watch, top, stats, purge, export, unit, translate, completions, man,
libmasu (the library), masu-conf (its settings).

In a terminal the page is shown by man, or by mandoc or groff where there is no man. Into a file or a
pipe goes its source, for `man -l -`.")]
    Man {
        /// The page
        #[arg(default_value = "masu")]
        page: String,
        /// Write all pages there, each as a file like masu-run.1
        #[arg(long, value_name = "DIR", conflicts_with = "page")]
        dir: Option<PathBuf>,
    },
}

/// Writes to stdout.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::output(&error))
}

/// Run a program with masu as its malloc.
///
/// Puts libmasu.so in front of LD_PRELOAD and becomes the program, so signals, the terminal and the
/// exit status are the program's own. Its children inherit masu.
#[derive(Args)]
#[command(after_help = "\
Examples:
  masu run -- ruby app.rb
  masu run --stats -- sort big.txt
  masu run --stats=/tmp/stats.%p --json -- make
  masu run --limit 512MiB --policy container -- ./server
  masu run --conf decay:2s,background_thread:off -- ./server --port 8080

Configuration keys (size: 512KiB, 4MiB; time: 500ms, 2s, never):
  policy:default          values for all other keys, by what you run
  decay:500ms             how long freed memory is kept before it goes back
  budget:4MiB             stale memory above which a background thread may start
  background_thread:auto  auto, on, off
  run_cache:1MiB          medium blocks a thread keeps for itself
  huge_cache:1GiB         freed huge blocks kept until they decay
  retain_full:32          full spans a thread keeps once others allocate too
  huge_pages:1            growing heaps and filled blocks take pages of 2 MiB
  populate:0              fresh memory is faulted in when it is taken
  limit_soft:auto         above this much in use, free memory goes back at once
  limit_hard:0            above this much in use, malloc fails
  cgroup:1                limits and pressure of the control group count
  show_stats:0            statistics at exit: text or json
  stats_file:stderr       the file for them; %p is the process
  prof:0                  a heap profile from the start on
  prof_rate:512KiB        bytes between two samples of it, on average
  prof_file:none          the file it goes to at exit; %p is the process
  observe:0               your other processes may read this one under Yama
  verbose:0               the effective configuration on stderr at start
  show_errors:1           a line on stderr for bad options and bad frees
  on_error:abort          after a bad free: abort, report, ignore
  hardened:0              every block where mistakes harm least
  quarantine_random:16KiB freed blocks that wait at drawn places, by size
  quarantine_queue:16KiB  and then in a queue
  guard_slabs:8           one slab in this many is inaccessible
  hardened_tags:auto      memory tags, on AArch64: on, off
  block_stacks:0          each hardened block's stacks in reports
  show_leaks:0            with them: what is in use at exit
  guard:off               small blocks between inaccessible pages: 1/5000
  guard_slots:256         room for them, freed ones included
  guard_report:1          a fault near one is told of, with stacks
  guard_file:none         the file for these reports; %p is the process

Exit codes:
  the program's own, since it takes this process over; before that
  2 mistyped command line    125 masu cannot serve this program
  126 not executable         127 not found")]
pub struct Run {
    /// Options for masu, `key:value,…`; they win over the environment
    #[arg(long, value_name = "KEY:VALUE,…")]
    pub conf: Vec<String>,

    /// Memory in use that malloc does not exceed: it fails, and the program can say so
    #[arg(long, value_name = "SIZE")]
    pub limit: Option<String>,

    /// Memory in use above which free memory goes back at once [default: 90 % of the container's]
    #[arg(long, value_name = "SIZE")]
    pub soft_limit: Option<String>,

    /// Values for all options, by what you run
    ///
    /// default, low-memory, throughput, container, realtime, hardened or debug; with @1 as it is in this
    /// version, for ever. What is set one by one wins.
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,

    /// Statistics when the program exits: on stderr, or in FILE, where %p is the process
    ///
    /// FILE is begun anew; every process that the program starts adds its own statistics when it exits.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub stats: Option<Option<PathBuf>>,

    /// Statistics as JSON, one line for each process
    #[arg(long, requires = "stats")]
    pub json: bool,

    /// The library to preload, instead of the libmasu.so that belongs to this command
    #[arg(long, value_name = "PATH")]
    pub lib: Option<PathBuf>,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND",
          value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// See on this machine what masu does to a program's memory.
///
/// Runs a service that takes in documents and rests, once on the system's malloc and once on masu, for some
/// nine seconds in all: its memory over time, what goes back, and its processor time.
#[derive(Args)]
pub struct Demo {
    /// The library to show, instead of the libmasu.so that belongs to this command
    #[arg(long, value_name = "PATH")]
    pub lib: Option<PathBuf>,

    /// Be the service
    #[arg(long, hide = true)]
    pub service: bool,
}

#[cfg(feature = "bench")]
/// Is masu better for this program? Measure it under several allocators.
///
/// Runs the program in turns under masu, the system's malloc and every other allocator that is
/// installed, compares time and memory, and says who wins, by how much, and whether that is more
/// than noise. What it prints and its exit status have to be the same everywhere.
#[derive(Args)]
#[command(after_help = "\
Examples:
  masu bench -- ./my-program --its-options
  masu bench --rounds 20 --html report.html -- sort big.txt
  masu bench --against jemalloc,mine=./libmine.so -- ruby app.rb
  masu bench --suite quick                  the built-in workloads, in a few minutes
  masu bench --suite larson --against none  one of them, masu against the system's malloc

Allocators: names of installed ones (jemalloc, mimalloc, tcmalloc, snmalloc, rpmalloc, scudo, hoard,
tbbmalloc), paths of shared libraries, or NAME=PATH. The system's malloc and masu always take part;
the system's does so twice, and what its two entries differ by is the noise.

Each program runs once unmeasured first: its memory is watched then. Standard input is read anew in
every run if it is a file; otherwise the program reads nothing.

Exit codes:
  0 measured                 1 measured, but a program misbehaved under one of the allocators
  2 mistyped command line    125 the program cannot be measured, or fails by itself
  126 not executable         127 not found
  124 the time was up before every allocator had run; what was measured until then is reported
  130 interrupted; what was measured until then is reported")]
pub struct Bench {
    /// The other allocators: names, paths or NAME=PATH; `none` for no others
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub against: Option<Vec<String>>,

    /// How often the program runs under each allocator [default: 10; suites: 7, quick: up to 5]
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..))]
    pub rounds: Option<u16>,

    /// Be done after this long in all, such as 30s or 5m [default: as long as it takes; quick: 150s]
    #[arg(long, value_name = "T", value_parser = race::duration)]
    pub time: Option<Duration>,

    /// Give a single run up after this long [default: 10m; suites: 2m]
    #[arg(long, value_name = "T", value_parser = race::duration)]
    pub timeout: Option<Duration>,

    /// What the program reads on standard input
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,

    /// Accept any exit status, as long as it is the same under every allocator
    #[arg(short, long)]
    pub ignore_failure: bool,

    /// Count instructions under callgrind too (needs valgrind, takes fifty times as long)
    #[arg(long)]
    pub instructions: bool,

    /// Run built-in suites (`quick`, `workloads`, `programs`, `full`) or single workloads and programs
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub suite: Option<Vec<String>>,

    /// Write a report as one HTML page; `-` for stdout, without the table
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write the raw results as JSON; `-` as above
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write the tables as Markdown; `-` as above
    #[arg(long, value_name = "FILE")]
    pub md: Option<PathBuf>,

    /// Print the JSON schema of the results and do nothing else
    #[arg(long)]
    pub schema: bool,

    /// The libmasu.so to measure, instead of the one that belongs to this command
    #[arg(long, value_name = "PATH")]
    pub lib: Option<PathBuf>,

    /// The program and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
