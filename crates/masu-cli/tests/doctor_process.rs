//! `masu doctor -p PID`: processes that run on masu, and processes that do not.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};

use common::doctor::{Machine, Severity, answer, finding, findings};
use common::{Fixture, masu};
use serde_json::Value;

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Starts it, and waits until it says that it is there.
    fn start(command: &mut Process) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = [0; 3];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
        assert_eq!(&said, b"ok\n");
        Self(child)
    }

    #[track_caller]
    fn doctor(&self, code: i32) -> Value {
        answer(masu().args(["doctor", "-p", &self.0.id().to_string()]), code)
    }
}

/// A program that says ok and waits.
fn waits(fixture: &Fixture, name: &str, flags: &[&str], extra: &str) -> PathBuf {
    let source = format!(
        "#include <stdio.h>\n#include <unistd.h>\n{extra}\n\
         int main(void) {{ puts(\"ok\"); fflush(stdout); sleep(600); }}"
    );
    fixture.cc(name, flags, &source)
}

/// The stand-in under the library's own name.
fn library(fixture: &Fixture) -> PathBuf {
    let path = fixture.path("libmasu.so");
    fs::copy(fixture.witness(), &path).unwrap();
    path
}

fn start(program: &Path, preload: &str) -> Running {
    let mut command = Process::new(program);
    command.env_remove("LD_LIBRARY_PATH").env_remove("MALLOC_CONF");
    Running::start(command.env("LD_PRELOAD", preload))
}

#[test]
fn a_process_under_masu_run() {
    let fixture = Fixture::new();
    let (library, program) = (library(&fixture), waits(&fixture, "server", &[], ""));
    let mut command = Process::new(env!("CARGO_BIN_EXE_masu"));
    command.args(["run", "--conf", "decay:2s", "--lib"]).arg(&library).arg("--").arg(&program);
    let process = Running::start(command.env("MASU_BUGDET", "1MiB"));
    let json = process.doctor(0);
    assert_eq!(json["effect"], true);
    let headline = json["headline"].as_str().unwrap();
    let id = process.0.id();
    assert_eq!(headline, format!("masu serves process {id} (server); something could be better."));
    assert_eq!(json["process"]["masu"], library.to_str().unwrap());
    assert_eq!(json["process"]["binary"], program.to_str().unwrap());
    assert_eq!(finding(&json, "process.masu").severity, Severity::Ok);
    let options = finding(&json, "process.options").sentence;
    assert_eq!(options, "Options set: decay 2s (MASU_DECAY).");
    let mistake = finding(&json, "environment.options");
    assert!(mistake.sentence.contains("did you mean MASU_BUDGET?"), "{}", mistake.sentence);

    let memory = &json["process"]["memory"];
    let bytes = |name: &str| memory[name].as_u64().unwrap();
    assert_eq!(bytes("rss"), bytes("anonymous") + bytes("file"));
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let rss = rss.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024;
    // The process sleeps; the kernel counts a page or two in batches.
    assert!(bytes("rss").abs_diff(rss) <= 512 << 10, "{} {rss}", bytes("rss"));
    let maps = fs::read_to_string(format!("/proc/{id}/maps")).unwrap();
    assert_eq!(json["process"]["mappings"], maps.lines().count());
    assert_eq!(json["process"]["threads"], 1);
}

#[test]
fn a_process_without_masu() {
    let fixture = Fixture::new();
    let program = waits(&fixture, "bare", &[], "");
    let json = start(&program, "").doctor(1);
    assert_eq!(json["effect"], false);
    let found = finding(&json, "process.masu");
    assert_eq!(found.severity, Severity::Problem);
    assert!(found.sentence.contains("LD_PRELOAD does not name it"), "{}", found.sentence);
    assert_eq!(found.fix, format!("restart it with: masu run -- {}", program.display()));
}

#[test]
fn a_static_process() {
    let fixture = Fixture::new();
    let program = waits(&fixture, "static", &["-static"], "");
    let json = start(&program, library(&fixture).to_str().unwrap()).doctor(1);
    let found = finding(&json, "process.masu");
    assert!(found.sentence.contains("is statically linked"), "{}", found.sentence);
}

#[test]
fn a_preload_that_is_not_there() {
    let fixture = Fixture::new();
    let program = waits(&fixture, "plain", &[], "");
    let json = start(&program, "/no/such/libmasu.so").doctor(1);
    let found = finding(&json, "process.masu");
    assert_eq!(found.sentence, "LD_PRELOAD names /no/such/libmasu.so, which is not there.");
}

#[test]
fn other_allocators_in_the_process() {
    let fixture = Fixture::new();
    let masu = library(&fixture).display().to_string();
    let rival = fixture.cc("libjemalloc.so.2", &["-shared", "-fPIC"], "int rival;");
    let program = waits(&fixture, "plain", &[], "");
    let both = |first: &str, second: &str| start(&program, &format!("{first}:{second}"));
    let json = both(rival.to_str().unwrap(), &masu).doctor(1);
    let found = finding(&json, "process.masu");
    assert_eq!(found.severity, Severity::Problem);
    assert!(found.sentence.contains("libjemalloc.so.2 before masu"), "{}", found.sentence);
    let json = both(&masu, rival.to_str().unwrap()).doctor(0);
    let found = finding(&json, "process.allocators");
    assert!(found.sentence.starts_with("jemalloc is mapped too: "), "{}", found.sentence);

    let je = "void *_rjem_malloc(unsigned long n) { return (void *)n; }";
    let json = start(&waits(&fixture, "inside", &[], je), &masu).doctor(0);
    let found = finding(&json, "process.allocators");
    assert_eq!(found.severity, Severity::Warning);
    assert!(found.sentence.contains("inside has jemalloc built in"), "{}", found.sentence);
}

#[test]
fn a_library_that_was_replaced() {
    let fixture = Fixture::new();
    let masu = library(&fixture);
    let process = start(&waits(&fixture, "plain", &[], ""), masu.to_str().unwrap());
    assert!(findings(&process.doctor(0), "process.replaced").is_empty());
    fs::remove_file(&masu).unwrap();
    let json = process.doctor(0);
    assert_eq!(json["process"]["masu"], masu.to_str().unwrap());
    assert!(finding(&json, "process.replaced").fix.starts_with("restart"));
}

#[test]
fn masu_linked_into_the_program() {
    let fixture = Fixture::new();
    let sign = "const char *volatile sign = \"masu: effective configuration\";";
    let json = start(&waits(&fixture, "linked", &["-static"], sign), "").doctor(0);
    assert_eq!(json["process"]["linked_in"], true);
    assert_eq!(finding(&json, "process.masu").sentence, "masu is linked into the program.");
}

/// A process whose files are made up: what a test cannot bring about.
#[test]
fn rights_and_mappings() {
    let machine = Machine::new();
    let own = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).unwrap();
    for name in ["status", "limits", "smaps_rollup", "cgroup", "mountinfo"] {
        machine.set(&format!("proc/77/{name}"), own(name).trim_end());
    }
    let maps = |library: &str| -> String {
        let code = (1..10).map(|i| format!("{i}000-{i}fff r-xp 00000000 00:01 {i} /lib/{i}.so"));
        let masu = format!("a000-afff r-xp 00000000 00:01 10 /lib/{library}");
        code.chain([masu]).collect::<Vec<_>>().join("\n")
    };
    let set = |library: &str, secure: u64, most: &str| {
        machine.set("proc/77/maps", &maps(library));
        machine.set("proc/77/environ", "MASU_DECAY=2s");
        machine.auxiliary("proc/77/auxv", &[6, 4096, 23, secure]);
        machine.set("proc/sys/vm/max_map_count", most);
    };
    let ask = |code: i32| answer(machine.doctor().args(["-p", "77"]), code);

    set("libmasu.so", 0, "65530");
    assert_eq!(finding(&ask(0), "process.mappings").severity, Severity::Ok);
    set("libmasu.so", 0, "19");
    assert_eq!(finding(&ask(0), "process.mappings").severity, Severity::Warning);
    set("libmasu.so", 0, "11");
    let json = ask(1);
    assert_eq!(finding(&json, "process.mappings").severity, Severity::Problem);
    assert_eq!(json["effect"], true, "masu serves it nevertheless");

    set("libmasu.so", 1, "65530");
    let json = ask(0);
    assert_eq!(finding(&json, "process.options").severity, Severity::Note);
    let settings = json["process"]["settings"].as_array().unwrap();
    assert!(settings.iter().all(|setting| setting["origin"] != "MASU_DECAY"), "{settings:?}");
    set("libc.so", 1, "65530");
    let found = finding(&ask(1), "process.masu");
    assert!(found.sentence.contains("rights its caller has not"), "{}", found.sentence);
    assert!(found.fix.contains("/etc/ld.so.preload"), "{}", found.fix);
}
