//! `masu doctor --all`: which processes run on which allocator.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Child, Command as Process, Stdio};

use common::doctor::Machine;
use common::{Fixture, masu, stdout};
use serde_json::Value;

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(program: &Path, preload: &Path) -> Running {
    let mut command = Process::new(program);
    command.env("LD_PRELOAD", preload).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0; 3]).unwrap();
    Running(child)
}

fn waits(fixture: &Fixture, name: &str, flags: &[&str]) -> std::path::PathBuf {
    let source = "#include <stdio.h>\n#include <unistd.h>\n\
        int main(void) { puts(\"ok\"); fflush(stdout); sleep(600); }";
    fixture.cc(name, flags, source)
}

/// Processes of this machine, among all the others that run here.
#[test]
fn live_processes() {
    let fixture = Fixture::new();
    let library = fixture.path("libmasu.so");
    fs::copy(fixture.witness(), &library).unwrap();
    let (program, fixed) = (waits(&fixture, "server", &[]), waits(&fixture, "fixed", &["-static"]));
    let none = Path::new("");
    let on = start(&program, &library);
    let off = start(&program, none);
    // A program with several names is called by the one that it was started with.
    let other = fixture.path("another-name-of-it");
    std::os::unix::fs::symlink(&program, &other).unwrap();
    let linked = start(&other, none);
    let lost = start(&fixed, &library);
    // The kernel cuts a name within a character.
    let long = fixture.path("fourteen-bytes\u{e4}");
    std::os::unix::fs::symlink(&program, &long).unwrap();
    let cut = start(&long, none);

    let output = masu().args(["doctor", "--all", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "one was to run on masu and does not");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let processes = json["processes"].as_array().unwrap();
    let of = |running: &Running| {
        let entry = processes.iter().find(|process| process["id"] == running.0.id()).unwrap();
        let word = |field: &str| entry["malloc"][field].as_str().unwrap().to_owned();
        let (masu, asked) = (entry["masu"] == true, entry["asked"] == true);
        (word("allocator"), word("how"), masu, asked)
    };
    let is = |allocator: &str, how: &str, masu: bool, asked: bool| {
        (allocator.to_owned(), how.to_owned(), masu, asked)
    };
    let name = |id: u32| {
        let entry = processes.iter().find(|process| process["id"] == id).unwrap();
        entry["name"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        (name(on.0.id()).as_str(), name(linked.0.id()).as_str()),
        ("server", "another-name-of")
    );
    assert_eq!(name(cut.0.id()), "fourteen-bytes\u{fffd}");
    assert_eq!(of(&on), is("masu", "preloaded", true, true));
    assert_eq!(of(&off), is("glibc", "libc", false, false));
    assert_eq!(of(&lost), is("glibc", "libc", false, true));

    let text = stdout(&masu().args(["doctor", "--all"]).output().unwrap());
    // Other processes may run here, and other programs with these names.
    let has = |start: &str, what: &str| {
        text.lines().any(|line| line.starts_with(start) && line.contains(what))
    };
    assert!(has("  ✓ server ", "masu (preloaded)"), "{text}");
    assert!(has("    server ", "glibc"), "{text}");
    assert!(has("  ✗ fixed ", "glibc"), "{text}");
    assert!(has("    → masu doctor -p", &lost.0.id().to_string()), "{text}");
}

/// A machine made of files: the kernel's threads are not counted as processes.
#[test]
fn a_table_of_processes() {
    let machine = Machine::new();
    machine.set("etc/passwd", "www:x:33:33::/:/bin/sh");
    let status = |id: u32, name: &str, memory: &str| {
        let own = fs::read_to_string("/proc/self/status").unwrap();
        let line = |line: &str| match line.split_once(':').map_or("", |(name, _)| name) {
            "Name" => Some(format!("Name:\t{name}")),
            "Uid" => Some("Uid:\t33\t33\t33\t33".to_owned()),
            "VmSize" => (!memory.is_empty()).then(|| format!("VmSize:\t{memory} kB")),
            _ => Some(line.to_owned()),
        };
        let lines: Vec<_> = own.lines().filter_map(line).collect();
        machine.set(&format!("proc/{id}/status"), &lines.join("\n"));
    };
    let process = |id: u32, library: &str, environment: &str| {
        status(id, "worker-with-a-long-name", "1000");
        let maps = format!("1000-2000 r-xp 00000000 00:01 10 /lib/{library}");
        machine.set(&format!("proc/{id}/maps"), &maps);
        machine.set(&format!("proc/{id}/environ"), environment);
    };
    for id in 1000..1030 {
        process(id, "libmasu.so.0", "LD_PRELOAD=/lib/libmasu.so.0\0LAST=1");
    }
    process(2000, "libjemalloc.so.2", "LD_PRELOAD=/lib/libmasu.so.0\0LAST=1");
    status(2, "kthreadd", "");
    status(3000, "secret", "1000");
    machine.set("proc/3000/maps/is/no", "file");
    status(4000, "ended", "1000");

    let mut command = masu();
    command.args(["doctor", "--all", "--root"]).arg(machine.root());
    let output = command.output().unwrap();
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn the_schema_is_the_committed_one_and_answers_follow_it() {
    let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/doctor-all.schema.json");
    let output = masu().args(["doctor", "--all", "--schema"]).output().unwrap();
    let written = fs::read_to_string(committed).unwrap();
    assert!(stdout(&output) == written, "another schema");
    let validator = jsonschema::validator_for(&serde_json::from_str(&written).unwrap()).unwrap();
    let output = masu().args(["doctor", "--all", "--json"]).output().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let errors: Vec<_> = validator.iter_errors(&json).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert!(!validator.is_valid(&serde_json::json!({ "schema": "masu-doctor-all" })));
}
