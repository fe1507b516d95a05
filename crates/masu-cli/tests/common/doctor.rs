//! Answers of `masu doctor --json`, and machines made of files.

use std::fs;
use std::path::PathBuf;

use assert_cmd::Command;
use serde_json::Value;

use super::{Fixture, masu};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Ok,
    Note,
    Warning,
    Problem,
}

#[derive(Debug)]
pub struct Finding {
    pub severity: Severity,
    pub sentence: String,
    pub fix: String,
}

/// The findings with that name.
pub fn findings(json: &Value, id: &str) -> Vec<Finding> {
    let all = json["findings"].as_array().expect("findings");
    let named = all.iter().filter(|finding| finding["id"] == id);
    named
        .map(|finding| Finding {
            severity: match finding["severity"].as_str() {
                Some("ok") => Severity::Ok,
                Some("note") => Severity::Note,
                Some("warning") => Severity::Warning,
                Some("problem") => Severity::Problem,
                other => panic!("{other:?}"),
            },
            sentence: finding["sentence"].as_str().expect("a sentence").to_owned(),
            fix: finding["fix"].as_str().unwrap_or_default().to_owned(),
        })
        .collect()
}

/// The one finding with that name.
#[track_caller]
pub fn finding(json: &Value, id: &str) -> Finding {
    let mut found = findings(json, id);
    assert_eq!(found.len(), 1, "{id}: {found:?} in {json:#}");
    found.remove(0)
}

/// Runs it and expects it to exit with `code`; returns the answer.
#[track_caller]
pub fn answer(command: &mut Command, code: i32) -> Value {
    let output = command.arg("--json").output().expect("runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let out = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(code), "{said}{out}");
    assert_eq!(said, "");
    serde_json::from_str(&out).expect("JSON")
}

/// The files of a machine, which is sound until a test changes something.
pub struct Machine {
    pub fixture: Fixture,
}

impl Machine {
    pub fn new() -> Self {
        let machine = Self { fixture: Fixture::new() };
        machine.kernel("6.12.0");
        machine.set("proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0");
        machine.page_size(4096);
        machine.huge_pages("always [madvise] never", "always defer defer+madvise [madvise] never");
        machine.set("sys/kernel/mm/transparent_hugepage/shmem_enabled", "always [never] force");
        machine.set("proc/sys/vm/overcommit_memory", "0");
        machine.set("proc/sys/vm/overcommit_ratio", "50");
        machine.set("proc/sys/vm/max_map_count", "65530");
        machine.meminfo(8 << 20, 4 << 20, 1 << 20);
        machine.copy("status");
        machine.status("NoNewPrivs", "0");
        machine.status("Seccomp", "0");
        machine.status("VmLck", "0 kB");
        machine.copy("limits");
        for row in ["Max address space", "Max data size"] {
            machine.limit(row, "unlimited");
        }
        machine.cgroup2("/app", &[("memory.max", "max"), ("memory.current", "104857600")]);
        machine
    }

    /// Its root directory.
    pub fn root(&self) -> PathBuf {
        self.fixture.path("root")
    }

    /// Writes a file with this text.
    pub fn set(&self, path: &str, text: &str) {
        self.write(path, format!("{text}\n").as_bytes());
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub fn remove(&self, path: &str) {
        fs::remove_file(self.root().join(path)).unwrap();
    }

    /// Copies a file of this process, so that its form is the kernel's own.
    fn copy(&self, name: &str) {
        let text = fs::read(format!("/proc/self/{name}")).unwrap();
        self.write(&format!("proc/self/{name}"), &text);
    }

    pub fn kernel(&self, release: &str) {
        self.set("proc/sys/kernel/osrelease", release);
    }

    pub fn page_size(&self, bytes: u64) {
        const AT_PAGESZ: u64 = 6;
        self.auxiliary("proc/self/auxv", &[AT_PAGESZ, bytes]);
    }

    /// An auxiliary vector of these keys and values.
    pub fn auxiliary(&self, path: &str, words: &[u64]) {
        let words = words.iter().chain(&[0, 0]);
        self.write(path, &words.flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>());
    }

    pub fn huge_pages(&self, enabled: &str, defrag: &str) {
        self.set("sys/kernel/mm/transparent_hugepage/enabled", enabled);
        self.set("sys/kernel/mm/transparent_hugepage/defrag", defrag);
    }

    /// Kilobytes of memory, of the commit limit, and of committed memory.
    pub fn meminfo(&self, total: u64, limit: u64, committed: u64) {
        let own = fs::read_to_string("/proc/meminfo").unwrap();
        let line = |line: &str| match line.split_once(':').map_or("", |(name, _)| name) {
            "MemTotal" => format!("MemTotal: {total} kB"),
            "CommitLimit" => format!("CommitLimit: {limit} kB"),
            "Committed_AS" => format!("Committed_AS: {committed} kB"),
            _ => line.to_owned(),
        };
        self.set("proc/meminfo", &own.lines().map(line).collect::<Vec<_>>().join("\n"));
    }

    /// Replaces a line of /proc/self/status.
    pub fn status(&self, name: &str, value: &str) {
        let path = self.root().join("proc/self/status");
        let text = fs::read_to_string(path).unwrap();
        let start = format!("{name}:");
        let others = text.lines().filter(|line| !line.starts_with(&start)).map(str::to_owned);
        let lines: Vec<_> = others.chain([format!("{name}:\t{value}")]).collect();
        self.set("proc/self/status", &lines.join("\n"));
    }

    /// Replaces the soft limit in a row of /proc/self/limits.
    pub fn limit(&self, row: &str, soft: &str) {
        let path = self.root().join("proc/self/limits");
        let text = fs::read_to_string(path).unwrap();
        let line = |line: &str| match line.strip_prefix(row) {
            Some(_) => format!("{row:<25} {soft:<20} unlimited            bytes     "),
            None => line.to_owned(),
        };
        self.set("proc/self/limits", &text.lines().map(line).collect::<Vec<_>>().join("\n"));
    }

    pub fn mountinfo(&self, lines: &str) {
        self.set("proc/self/mountinfo", lines);
    }

    /// Puts the process into the group `path` of version 2, with these files.
    pub fn cgroup2(&self, path: &str, files: &[(&str, &str)]) {
        self.set("proc/self/cgroup", &format!("0::{path}"));
        self.mountinfo("1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup rw");
        for (name, text) in files {
            self.set(&format!("sys/fs/cgroup{path}/{name}"), text);
        }
    }

    /// `masu doctor` on that machine.
    pub fn doctor(&self) -> Command {
        let mut command = masu();
        command.args(["doctor", "--lib"]).arg(self.fixture.witness());
        command.arg("--root").arg(self.root());
        command
    }

    /// Its answer.
    #[track_caller]
    pub fn json(&self) -> Value {
        answer(&mut self.doctor(), 0)
    }
}
