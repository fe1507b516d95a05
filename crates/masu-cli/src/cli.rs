//! The command line of `masu`.

use std::ffi::OsString;
use std::path::PathBuf;
#[cfg(feature = "bench")]
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
#[cfg(feature = "bench")]
use masu_bench::race;

#[cfg(feature = "bench")]
use crate::see::whole;
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
  masu run -- ruby app.rb               run any program, unchanged
  masu run --stats -- sort big.txt      print statistics to stderr at exit
  masu run --conf decay:2s -- ./server  keep freed memory for two seconds
  masu demo                             see what masu does to a service's memory
  masu bench -- ./my-program            compare masu with other allocators
  masu prof -- ./my-program             find the code that allocates the memory in use
  masu doctor -p $(pidof ruby)          check whether masu takes effect there
  masu explain $(pidof ruby)            see what a process's memory consists of
  masu watch -- ruby app.rb             chart a program's memory over time
  masu export                           serve metrics of every process to Prometheus
  masu unit nginx                       run a systemd service on masu
  masu translate MALLOC_CONF=thp:never  translate another allocator's options

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
    /// Show the help of masu, or of a command
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

On a terminal, man shows the page; without man, mandoc or groff does. Otherwise the page's source is
printed, for `man -l -`.")]
    Man {
        /// The page
        #[arg(default_value = "masu")]
        page: String,
        /// Write all pages into this directory, as files such as masu-run.1
        #[arg(long, value_name = "DIR", conflicts_with = "page")]
        dir: Option<PathBuf>,
    },
}

/// Run a program with masu as its malloc.
///
/// Adds libmasu.so to the front of LD_PRELOAD and replaces itself with the program, so signals, the terminal and the
/// exit status are the program's own. Child processes inherit masu.
#[derive(Args)]
#[command(
    after_help = "\
Examples:
  masu run -- ruby app.rb
  masu run --stats -- sort big.txt
  masu run --limit 512MiB --policy container -- ./server

`masu run --help` lists the configuration keys and the exit codes.",
    after_long_help = "\
Examples:
  masu run -- ruby app.rb
  masu run --stats -- sort big.txt
  masu run --stats=/tmp/stats.%p --json -- make
  masu run --limit 512MiB --policy container -- ./server
  masu run --conf decay:2s,background_thread:off -- ./server --port 8080

Configuration keys with their defaults (size: 512KiB, 4MiB; time: 500ms, 2s, never):
  policy:default          a named set of values for the other keys
  decay:500ms             how long freed memory is kept before it is returned
  budget:4MiB             unused memory above which a background thread may start
  background_thread:auto  auto, on, off
  run_cache:1MiB          freed medium blocks that each thread caches
  huge_cache:1GiB         freed huge blocks kept until they decay
  retain_full:32          full 64 KiB spans a thread keeps once others allocate too
  huge_pages:1            back growing heaps and filled blocks with 2 MiB pages
  huge_pages_from:32MiB   memory in use above which a growing heap gets 2 MiB pages
  populate:0              fault memory in when it is taken from the system
  limit_soft:auto         above this much in use, free memory is returned at once
  limit_hard:0            above this much in use, malloc fails
  cgroup:1                follow the control group's limits and memory pressure
  show_stats:0            print statistics at exit: text or json
  stats_file:stderr       the file for statistics; %p is the process ID
  prof:0                  take a heap profile from the start
  prof_rate:512KiB        average number of bytes between two profile samples
  prof_file:none          the file for the profile at exit; %p is the process ID
  observe:0               let your other processes read this one under Yama
  verbose:0               print the effective configuration to stderr at start
  show_errors:1           print a line to stderr for bad options and bad frees
  on_error:abort          after a bad free: abort, report, ignore
  hardened:0              use the hardened heap for every block
  quarantine_random:16KiB size of the random quarantine for freed hardened blocks
  quarantine_queue:16KiB  size of the queue behind that quarantine
  guard_slabs:8           make one hardened slab in this many inaccessible
  hardened_tags:auto      memory tagging on AArch64: auto, on, off
  block_stacks:0          record stack traces of each hardened block for reports
  show_leaks:0            with block_stacks: report blocks in use at exit
  guard:off               share of small blocks between inaccessible pages: 1/5000
  guard_slots:256         number of guarded blocks, including freed ones
  guard_report:1          report faults near guarded blocks, with stack traces
  guard_file:none         the file for these reports; %p is the process ID

Exit codes:
  the program's own, or, if it could not be started:
  2 wrong command line       125 masu cannot serve this program
  126 not executable         127 not found"
)]
pub struct Run {
    /// Options for masu, as `key:value,…`; they override the environment and yield to the options below
    #[arg(long, value_name = "KEY:VALUE,…")]
    pub conf: Vec<String>,

    /// Hard limit on memory in use: an allocation that would exceed it fails
    #[arg(long, value_name = "SIZE")]
    pub limit: Option<String>,

    /// Soft limit: above this much in use, free memory is returned at once [default: 90 % of the container's limit]
    #[arg(long, value_name = "SIZE")]
    pub soft_limit: Option<String>,

    /// A named set of values for all options
    ///
    /// One of default, low-memory, throughput, container, realtime, hardened, debug; `masu man conf` says what each is
    /// for. NAME@1 keeps the values of this version in later versions. Options set individually override the policy.
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,

    /// Print statistics at exit, to stderr or to FILE; %p in FILE stands for the process ID
    ///
    /// FILE is truncated first. Each child process appends its own statistics when it exits.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub stats: Option<Option<PathBuf>>,

    /// Print the statistics as JSON, one line per process
    #[arg(long, requires = "stats")]
    pub json: bool,

    /// Preload this library instead of the libmasu.so that belongs to this command
    #[arg(long, value_name = "PATH")]
    pub lib: Option<PathBuf>,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND",
          value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// Show the effect of masu on a service's memory.
///
/// Runs a service that loads documents and then rests, once on the system's malloc and once on masu. Shows its
/// memory over time, how much of it is returned, and its processor time. Takes about nine seconds.
#[derive(Args)]
pub struct Demo {
    /// Run the service on this library instead of the libmasu.so that belongs to this command
    #[arg(long, value_name = "PATH")]
    pub lib: Option<PathBuf>,

    /// Be the service
    #[arg(long, hide = true)]
    pub service: bool,
}

#[cfg(feature = "bench")]
/// Compare masu with other allocators on a program.
///
/// Runs the program in turn under masu, the system's malloc and every other installed allocator. Compares time and
/// memory: which allocator wins, by how much, and whether the difference exceeds the noise. The program must print the
/// same output and exit with the same status under each allocator.
#[derive(Args)]
#[command(after_help = "\
Examples:
  masu bench -- ./my-program --its-options
  masu bench --rounds 20 --html report.html -- sort big.txt
  masu bench --against jemalloc,mine=./libmine.so -- ruby app.rb
  masu bench --suite quick                  the built-in workloads, in a few minutes
  masu bench --suite larson --against none  one of them, masu against the system's malloc

Allocators: names of installed ones (jemalloc, mimalloc, tcmalloc, snmalloc, rpmalloc, scudo, hoard,
tbbmalloc), paths of shared libraries, or NAME=PATH. The system's malloc and masu always take part.
The system's malloc takes part twice; the difference between its two entries is the noise.

Each program first runs once without being timed, while its memory is recorded. If standard input is a
file, every run reads it from the start; otherwise the program gets no input.

Exit codes:
  0 measured                 1 measured, but a program misbehaved under one of the allocators
  2 wrong command line       125 the program cannot be measured, it fails by itself, or the results cannot be written
  126 not executable         127 not found
  124 the time ran out before every allocator had run; the results so far are reported
  130 interrupted; the results so far are reported")]
pub struct Bench {
    /// The allocators to compare with: names, paths or NAME=PATH; `none` for none
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub against: Option<Vec<String>>,

    /// Number of runs under each allocator [default: 10; suites: 7, quick: up to 5]
    #[arg(long, value_name = "N", value_parser = whole::<u16>(1..=u16::MAX.into()))]
    pub rounds: Option<u16>,

    /// Finish within this total time, such as 30s or 5m [default: no limit; quick: 150s]
    #[arg(long, value_name = "T", value_parser = race::duration)]
    pub time: Option<Duration>,

    /// Stop a single run after this long [default: 10m; suites: 2m]
    #[arg(long, value_name = "T", value_parser = race::duration)]
    pub timeout: Option<Duration>,

    /// The program's standard input
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,

    /// Accept any exit status or signal, as long as it is the same under every allocator
    #[arg(short, long)]
    pub ignore_failure: bool,

    /// Also count instructions with callgrind; this needs valgrind and takes fifty times as long
    #[arg(long)]
    pub instructions: bool,

    /// Run built-in suites (`quick`, `workloads`, `programs`, `full`) or single workloads and programs
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub suite: Option<Vec<String>>,

    /// Write the report as an HTML page; `-` prints it to stdout instead of the table
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write the raw results as JSON; `-` prints them to stdout instead of the table
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write the tables as Markdown; `-` prints them to stdout instead of the table
    #[arg(long, value_name = "FILE")]
    pub md: Option<PathBuf>,

    /// Print the JSON schema of the results and exit
    #[arg(long)]
    pub schema: bool,

    /// Measure this libmasu.so instead of the one that belongs to this command
    #[arg(long, value_name = "PATH")]
    pub lib: Option<PathBuf>,

    /// The program and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
