//! The scenarios: one program each, or one server with its clients.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::huge_pages;
use super::services;
use super::stage::Stage;
use crate::paths;

/// A scenario.
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What happens, in a line.
    pub about: &'static str,
    /// How long a run takes on a quiet machine, in seconds.
    pub seconds: f64,
    /// Runs it.
    pub run: fn(&mut Stage) -> Result<()>,
}

/// All, in the order in which they run.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "ruby-fragmentation",
        about: "Ruby: ten threads keep every tenth of very different strings (N=100), then rest",
        seconds: 3.0,
        run: |stage| stage.program(ruby("fragmentation.rb")),
    },
    Scenario {
        name: "ruby-threads",
        about: "Ruby: eight threads parse, build and drop documents, each with a cache that turns over",
        seconds: 3.0,
        run: |stage| stage.program(ruby("threads.rb")),
    },
    Scenario {
        name: "ruby-jobs",
        about: "Ruby: ten workers take jobs from a queue, in bursts with pauses, then rest",
        seconds: 6.0,
        run: |stage| stage.program(ruby("jobs.rb")),
    },
    Scenario {
        name: "python-service",
        about: "Python: four threads answer in JSON from a cache that turns over; the cache is dropped",
        seconds: 4.0,
        run: |stage| stage.program(interpreted("python3", &[], "service.py")),
    },
    Scenario {
        name: "node-buffers",
        about: "Node: native buffers in a cache that turns over, compressed on the pool; dropped",
        seconds: 3.0,
        run: |stage| stage.program(interpreted("node", &["--expose-gc"], "buffers.js")),
    },
    Scenario {
        name: "postgresql",
        about: "PostgreSQL: pgbench's eight clients and large sorts and hashes, connections kept",
        seconds: 9.0,
        run: services::postgresql,
    },
    Scenario {
        name: "redis",
        about: "Redis: 300,000 values, two thirds deleted, longer ones put between, all deleted",
        seconds: 6.0,
        run: services::redis,
    },
    Scenario {
        name: "memcached",
        about: "memcached: filled to its 256 MB with values of 0.1 to 20 kB, then flushed",
        seconds: 4.0,
        run: services::memcached,
    },
    Scenario {
        name: "prefork",
        about: "C: a server with 44 MiB forks 64 workers, each of which works a little",
        seconds: 4.0,
        run: |stage| behaviour(stage, "prefork"),
    },
    Scenario {
        name: "burst",
        about: "C: eight threads fill some 90 MiB each, free all of it, and sleep",
        seconds: 4.0,
        run: |stage| behaviour(stage, "burst"),
    },
    Scenario {
        name: "batch",
        about: "C: two threads fill and free some 90 MiB in each of six phases, with pauses between",
        seconds: 9.0,
        run: |stage| behaviour(stage, "batch"),
    },
    Scenario {
        name: "short-threads",
        about: "C: ten thousand short threads, each of which leaves a block behind",
        seconds: 3.0,
        run: |stage| behaviour(stage, "short-threads"),
    },
    Scenario {
        name: "huge-pages-always",
        about: "C: a hundred threads with little each, then a dense heap and half of it; huge pages for all",
        seconds: 3.0,
        run: |stage| huge_pages::always(stage, command("huge-pages")?),
    },
    Scenario {
        name: "huge-pages-madvise",
        about: "the same; huge pages on request",
        seconds: 3.0,
        run: |stage| huge_pages::on_advice(stage, command("huge-pages")?),
    },
    Scenario {
        name: "huge-pages-never",
        about: "the same; no huge pages",
        seconds: 3.0,
        run: |stage| huge_pages::never(stage, command("huge-pages")?),
    },
];

/// Where the programs are.
pub fn programs() -> PathBuf {
    paths::lab().join("programs/memory")
}

fn interpreted(interpreter: &str, flags: &[&str], file: &str) -> Command {
    let mut command = Command::new(interpreter);
    command.args(flags).arg(programs().join(file));
    command
}

/// Ruby with its collector's own settings, whatever the surroundings say.
fn ruby(file: &str) -> Command {
    let mut command = interpreted("ruby", &[], file);
    for (key, _) in std::env::vars().filter(|(key, _)| key.starts_with("RUBY")) {
        command.env_remove(key);
    }
    command
}

fn behaviour(stage: &mut Stage, what: &str) -> Result<()> {
    stage.program(command(what)?)
}

fn command(what: &str) -> Result<Command> {
    let mut command = Command::new(compiled("behaviour", &[programs().join("behaviour.c")])?);
    command.arg(what);
    Ok(command)
}

/// Compiles a C program of ours, anew if one of its files changed.
pub fn compiled(name: &str, sources: &[PathBuf]) -> Result<PathBuf> {
    let place = paths::workspace().join("target/memory");
    std::fs::create_dir_all(&place)?;
    let program = place.join(name);
    let age = |path: &PathBuf| path.metadata().and_then(|data| data.modified()).ok();
    let newest = sources.iter().filter_map(age).max();
    if age(&program).is_some_and(|built| Some(built) > newest) {
        return Ok(program);
    }
    let status = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-fno-builtin", "-pthread", "-o"])
        .arg(&program)
        .args(sources)
        .status()
        .context("cannot start cc")?;
    ensure!(status.success(), "{name} does not compile");
    Ok(program)
}
