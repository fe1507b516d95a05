//! `masu doctor -p PID`: processes that run on masu, and processes that do not.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::doctor::{Machine, Severity, answer, finding, findings};
use common::{Fixture, masu};
use serde_json::Value;

/// A process that is killed when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Starts it, and waits until it prints that it is ready.
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

/// A program that prints ok and waits.
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
    assert_eq!(
        headline,
        format!("masu serves process {id} (server); something could be improved.")
    );
    assert_eq!(json["process"]["masu"], library.to_str().unwrap());
    assert_eq!(json["process"]["binary"], program.to_str().unwrap());
    assert_eq!(finding(&json, "process.masu").severity, Severity::Ok);
    let options = finding(&json, "process.options").sentence;
    assert_eq!(options, "Options set: decay 2s (masu's command line).");
    let mistake = finding(&json, "environment.options");
    assert!(mistake.sentence.contains("did you mean MASU_BUDGET?"), "{}", mistake.sentence);

    let memory = &json["process"]["memory"];
    let bytes = |name: &str| memory[name].as_u64().unwrap();
    assert_eq!(bytes("rss"), bytes("anonymous") + bytes("file"));
    // Exact, unlike VmRSS in `status`, which each processor adds to in batches.
    let rollup = fs::read_to_string(format!("/proc/{id}/smaps_rollup")).unwrap();
    let rss = rollup.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
    let rss = rss.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024;
    // It may have touched some pages before it went to sleep.
    assert!(bytes("rss").abs_diff(rss) <= 512 << 10, "{} {rss}", bytes("rss"));
    let maps = fs::read_to_string(format!("/proc/{id}/maps")).unwrap();
    assert_eq!(json["process"]["mappings"], maps.lines().count());
    assert_eq!(json["process"]["threads"], 1);
}

#[test]
fn no_name_and_no_argument_of_a_process_controls_the_terminal() {
    let names = "#include <sys/prctl.h>\n__attribute__((constructor)) static void name(void) {\
                 prctl(PR_SET_NAME, \"a\\001\\302\\233b\"); }";
    let fixture = Fixture::new();
    let mut command = Process::new(waits(&fixture, "bare", &[], names));
    let process = Running::start(command.arg("\u{9b}31m\x1b[2J").env_remove("LD_PRELOAD"));
    let id = process.0.id().to_string();
    let output = masu().args(["doctor", "-p", &id]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("a??b"), "{text:?}");
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
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
    assert_eq!(found.sentence, "LD_PRELOAD names /no/such/libmasu.so, which does not exist.");
}

#[test]
fn other_allocators_in_the_process() {
    let fixture = Fixture::new();
    let masu = library(&fixture).display().to_string();
    let rival = fixture.rival("libjemalloc.so.2");
    let program = waits(&fixture, "plain", &[], "");
    let both = |first: &str, second: &str| start(&program, &format!("{first}:{second}"));
    let json = both(rival.to_str().unwrap(), &masu).doctor(1);
    let found = finding(&json, "process.masu");
    assert_eq!(found.severity, Severity::Problem);
    assert!(
        found.sentence.contains("libjemalloc.so.2 is preloaded before masu"),
        "{}",
        found.sentence
    );
    let json = both(&masu, rival.to_str().unwrap()).doctor(0);
    let found = finding(&json, "process.allocators");
    assert!(found.sentence.starts_with("jemalloc is mapped too: "), "{}", found.sentence);

    let je = "void *_rjem_malloc(unsigned long n) { return (void *)n; }";
    let json = start(&waits(&fixture, "inside", &[], je), &masu).doctor(0);
    let found = finding(&json, "process.allocators");
    assert_eq!(found.severity, Severity::Warning);
    assert!(found.sentence.contains("inside has jemalloc built in"), "{}", found.sentence);
}

/// Debian's redis is linked with jemalloc, and overwrites its environment with zeros.
#[test]
fn an_environment_that_was_overwritten() {
    const WIPE: &str = "#include <string.h>\n__attribute__((constructor)) static void wipe(int c, char **v, char **e) \
        { for (; *e; e++) memset(*e, 0, strlen(*e)); }";
    let fixture = Fixture::new();
    let rival = fixture.rival("libjemalloc.so.2");
    let path = format!("-Wl,-rpath,{}", rival.parent().unwrap().display());
    let flags = ["-Wl,--no-as-needed", rival.to_str().unwrap(), &path];
    let program = waits(&fixture, "redis", &flags, WIPE);
    let json = start(&program, library(&fixture).to_str().unwrap()).doctor(0);
    assert_eq!(json["effect"], true);
    let malloc = &json["process"]["malloc"];
    assert_eq!([&malloc["allocator"], &malloc["how"]], ["masu", "preloaded"]);
    assert_eq!(json["process"]["settings"], serde_json::json!([]));
    let options = finding(&json, "process.options").sentence;
    assert_eq!(options, "The process has overwritten its environment, so its options are unknown.");
    let found = finding(&json, "process.allocators");
    assert!(found.sentence.starts_with("jemalloc is mapped too: "), "{}", found.sentence);

    let json = start(&program, "").doctor(1);
    assert_eq!(json["process"]["malloc"]["how"], "linked");
    let found = finding(&json, "process.masu");
    let sentence = "masu is not mapped; the process has overwritten its environment, including LD_PRELOAD. \
                    It runs on jemalloc.";
    assert_eq!(found.sentence, sentence);
    assert_eq!(found.fix, format!("restart it with: masu run -- {} …", program.display()));
}

#[test]
fn what_has_no_memory_to_look_at() {
    let said = |id: u32| {
        let output = masu().args(["doctor", "-p", &id.to_string()]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let ended = Running(Process::new("true").spawn().unwrap());
    let stat = format!("/proc/{}/stat", ended.0.id());
    let deadline = Instant::now() + Duration::from_secs(60);
    while !fs::read_to_string(&stat).unwrap().contains(") Z ") {
        assert!(Instant::now() < deadline, "`true` does not end");
        thread::sleep(Duration::from_millis(5));
    }
    let zombie = said(ended.0.id());
    assert!(zombie.contains("it has ended, but its parent has not waited for it yet"), "{zombie}");
    // A container has no kernel threads.
    if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        assert!(said(2).contains("it is a kernel thread"), "{}", said(2));
    }
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

/// The note that every door of masu leaves, with this type.
fn note(door: u32) -> String {
    format!(
        "__asm__(\".pushsection .note.masu, \\\"a\\\", %note\\n.p2align 2\\n.long 5, 4, {door}\\n\"\n\
         \".asciz \\\"masu\\\"\\n.p2align 2\\n.asciz \\\"0.1\\\"\\n.popsection\");"
    )
}

#[test]
fn masu_linked_into_the_program() {
    let fixture = Fixture::new();
    for flag in ["-static", "-s"] {
        let json = start(&waits(&fixture, "linked", &[flag], &note(1)), "").doctor(0);
        assert_eq!(json["process"]["linked_in"], true);
        assert_eq!(json["process"]["malloc"]["how"], "inside");
        let sentence = "masu is linked into the program and serves malloc.";
        assert_eq!(finding(&json, "process.masu").sentence, sentence);
    }
    let json = start(&waits(&fixture, "rust", &[], &note(2)), "").doctor(0);
    assert_eq!(json["process"]["rust"], true);
    assert_eq!(json["process"]["malloc"]["allocator"], "glibc");
    let sentence = finding(&json, "process.masu").sentence;
    assert!(sentence.contains("global allocator"), "{sentence}");
    // With private names it serves nobody else; nor does a text about it make a program masu's.
    let json = start(&waits(&fixture, "private", &[], &note(3)), "").doctor(1);
    assert!(
        finding(&json, "process.allocators")
            .sentence
            .ends_with("has masu inside, for its own use.")
    );
    let text = "const char *volatile text = \"masu: effective configuration\";";
    let json = start(&waits(&fixture, "text", &[], text), "").doctor(1);
    assert_eq!(json["process"]["linked_in"], false);
}

/// `-p $(pidof ruby)`: one report for each, and the worst exit code of all.
#[test]
fn several_processes() {
    let fixture = Fixture::new();
    let (library, program) = (library(&fixture), waits(&fixture, "ruby", &[], ""));
    let on = start(&program, library.to_str().unwrap());
    let off = start(&program, "");
    let ask = |arguments: &[&str], code: i32| {
        let output = masu().arg("doctor").args(arguments).output().unwrap();
        let said =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert_eq!(output.status.code(), Some(code), "{said:?}");
        said
    };
    let (on_id, off_id) = (on.0.id().to_string(), off.0.id().to_string());
    let headline = |id: &str, does: &str| format!("masu {does} process {id} (ruby)");
    let (said, _) = ask(&["-p", &on_id, &off_id, &on_id], 1);
    let serves: Vec<_> = said.lines().filter(|line| line.starts_with("masu ")).collect();
    assert_eq!(serves.len(), 2, "{said}");
    assert!(serves[0].starts_with(&headline(&on_id, "serves")), "{said}");
    assert!(serves[1].starts_with(&headline(&off_id, "does not serve")), "{said}");
    // The machine is described only once.
    assert_eq!(said.matches("Pages are").count(), 1, "{said}");

    // A process that has ended does not suppress reports about the others.
    let (said, error) = ask(&["-p", &format!("4194305,{on_id}")], 2);
    assert!(said.starts_with(&headline(&on_id, "serves")), "{said}");
    assert!(error.contains("masu: there is no process 4194305\n"));
    // One answer after another, as jq reads them.
    let (said, _) = ask(&["--json", "-p", &on_id, &off_id], 1);
    let answers = serde_json::Deserializer::from_str(&said).into_iter::<Value>();
    let effects: Vec<_> = answers.map(|answer| answer.unwrap()["effect"].clone()).collect();
    assert_eq!(effects, [true, false]);
    // `pidof` found none.
    let (_, error) = ask(&["-p"], 2);
    assert!(error.starts_with("masu: -p needs the id of a process"), "{error}");
}

/// The kernel names the files of a process with a root of its own from outside that root.
#[test]
fn a_library_that_was_replaced_under_another_root() {
    let machine = Machine::new();
    for name in ["status", "limits", "smaps_rollup", "cgroup", "mountinfo"] {
        let own = fs::read_to_string(format!("/proc/self/{name}")).unwrap();
        machine.set(&format!("proc/77/{name}"), own.trim_end());
    }
    std::os::unix::fs::symlink("/srv/c", machine.root().join("proc/77/root")).unwrap();
    machine.set("proc/77/environ", "LD_PRELOAD=/opt/libmasu.so\0");
    machine.auxiliary("proc/77/auxv", &[6, 4096, 23, 0]);
    for mark in ["", " (deleted)"] {
        let libc = "1000-1fff r-xp 00000000 00:01 1 /srv/c/lib/libc.so.6";
        let masu = format!("2000-2fff r-xp 00000000 00:01 2 /srv/c/opt/libmasu.so{mark}");
        machine.set("proc/77/maps", &format!("{libc}\n{masu}"));
        let json = answer(machine.doctor().args(["-p", "77"]), 0);
        assert_eq!(json["effect"], true, "{mark}");
        assert_eq!(json["process"]["malloc"]["how"], "preloaded", "{mark}");
    }
}

/// A process with invented files, for states that a test cannot bring about.
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
    let decay = settings.iter().find(|setting| setting["key"] == "decay").expect("a setting");
    assert_eq!(decay["origin"], "built-in");
    // If a unit started the process, the advice is about the unit.
    set("libc.so", 0, "65530");
    machine.set("proc/77/cgroup", "0::/system.slice/web.service");
    let json = ask(1);
    assert_eq!(json["process"]["unit"], "web.service");
    let fix = finding(&json, "process.masu").fix;
    assert!(fix.starts_with("systemctl edit web.service"), "{fix}");
    assert!(fix.contains("Environment=LD_PRELOAD=/"), "{fix}");
    set("libc.so", 1, "65530");
    let found = finding(&ask(1), "process.masu");
    assert!(found.sentence.contains("more privileges than its caller"), "{}", found.sentence);
    assert!(found.fix.contains("/etc/ld.so.preload"), "{}", found.fix);
}

/// A path may be any bytes, and JSON is text.
#[test]
fn a_program_whose_path_is_not_text_is_in_the_answer() {
    let (fixture, name) = (Fixture::new(), OsStr::from_bytes(b"s\xff"));
    let program = waits(&fixture, "waits", &[], "");
    let renamed = program.with_file_name(name);
    fs::rename(&program, &renamed).unwrap();
    let process = start(&renamed, "");
    let is_shown = |path: &Value| path.as_str().unwrap().ends_with("/s\u{fffd}");
    let json = process.doctor(1);
    assert!(is_shown(&json["process"]["binary"]), "{json:#}");
    let output = masu().args(["doctor", "--all", "--json"]).output().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let id = process.0.id();
    let processes = json["processes"].as_array().unwrap();
    let entry = processes.iter().find(|process| process["id"] == id).unwrap();
    assert!(is_shown(&entry["binary"]), "{entry:#}");
    let mut command = masu();
    command.args(["doctor", "--lib"]).arg(library(&fixture));
    let output = command.args(["--json", "--"]).arg(&renamed).output().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let program = &json["program"];
    assert!(is_shown(&program["path"]) && is_shown(&program["binary"]), "{json:#}");
}
