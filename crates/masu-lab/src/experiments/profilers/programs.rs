//! The programs that are profiled: the race of fifteen, and one in Python.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use masu_bench::work;

/// A program with a name, and the command that does a share of its work.
pub struct Program {
    pub name: &'static str,
    /// Whether it has one thread: callgrind, which lets only one run at a time, then counts what runs without it too.
    pub one_thread: bool,
    command: Vec<String>,
    has_shares: bool,
}

impl Program {
    /// What runs that share of its work.
    pub fn command(&self, share: f64) -> Vec<String> {
        let share = self.has_shares.then(|| share.to_string());
        self.command.iter().cloned().chain(share).collect()
    }

    /// The part of a race's work that it does if it is asked for a share: the one in Python always does all of it.
    pub fn work(&self, share: f64) -> f64 {
        if self.has_shares { share } else { 1.0 }
    }
}

/// The race of fifteen, and whether each has one thread.
const WORKLOADS: [(&str, bool); 15] = [
    ("churn", true),
    ("server", false),
    ("prodcons", false),
    ("burst", true),
    ("buffers", true),
    ("threads100", false),
    ("larson", false),
    ("mt-local", false),
    ("small2mb", true),
    ("medium", true),
    ("documents", false),
    ("phase-change", false),
    ("frag", true),
    ("json", true),
    ("hash-strings", true),
];
/// A program in Python, for profilers of Python.
pub const PYTHON: &str = "Python";
/// It says its own peak, as the workloads do.
const SCRIPT: &str = "\
import json
for i in range(6):
    json.loads(json.dumps({str(k): [k] * 10 for k in range(8000)}))
for line in open('/proc/self/status'):
    if line.startswith('VmHWM:'):
        print('peak_kib', line.split()[1])
";

/// The programs that are asked for; all if none is.
pub fn all(only: &[String], place: &Path) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for (name, one_thread) in WORKLOADS {
        programs.push(Program { name, one_thread, command: workload(name)?, has_shares: true });
    }
    let script = place.join("work.py");
    fs::write(&script, SCRIPT)?;
    let command = vec![interpreter()?, script.to_string_lossy().into_owned()];
    programs.push(Program { name: PYTHON, one_thread: true, command, has_shares: false });
    let known = || programs.iter().map(|it| it.name).collect::<Vec<_>>().join(", ");
    for name in only {
        ensure!(programs.iter().any(|it| it.name == name), "no `{name}`; there are {}", known());
    }
    programs.retain(|it| only.is_empty() || only.iter().any(|name| name == it.name));
    Ok(programs)
}

/// The Python itself: what the path has by its name may be a script that starts it, which profilers and callgrind would
/// follow in its place.
fn interpreter() -> Result<String> {
    let output = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let output = output.context("cannot start python3")?;
    ensure!(output.status.success(), "python3: {}", output.status);
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// What runs a workload, but for the share of its work.
pub fn workload(name: &str) -> Result<Vec<String>> {
    let work = work::build()?.to_string_lossy().into_owned();
    Ok([&work, "run", name, "1"].map(str::to_owned).to_vec())
}
