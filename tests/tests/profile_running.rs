//! `masu prof -p`: the profile of a running process is right, each view has its own culprit first, and every failure is
//! reported in a sentence.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use masu_profile::Profile;
use masu_tests::pprof::{Decoded, go};
use masu_tests::{Compile, Program, is_masu, library, scratch};

/// The command with the library that is tested.
fn masu(arguments: &[&str]) -> Command {
    let library = library().expect("masu is a library");
    let mut command = Command::new(library.parent().expect("a directory").join("masu"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn done(command: &mut Command) -> (i32, String, String) {
    told(command.output().expect("the command is built"))
}

fn told(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// The rate at which a process is sampled.
fn rate(process: u32) -> u64 {
    let (memory, engines) = masu_inspect::engines(process).expect("it runs on masu");
    engines[0].profile_state(&memory).expect("readable").rate
}

/// Whether it has taken samples since it was asked for them.
fn has_samples(process: u32) -> bool {
    let (memory, engines) = masu_inspect::engines(process).expect("it runs on masu");
    let session = engines[0].profile_state(&memory).expect("readable").session;
    session != 0 && engines[0].samples(&memory).is_ok_and(|samples| !samples.live.is_empty())
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        sleep(Duration::from_millis(20));
    }
}

/// Waits until a command samples a process, and then for as long as it may take to read what is there.
fn await_sampling(process: u32) {
    until("it is sampled", || rate(process) != 0);
    sleep(Duration::from_millis(400));
}

/// A program with two hundred places that allocate, which waits for its first byte of input.
struct Sites(Child, #[expect(dead_code, reason = "keeps its file")] Program);

impl Sites {
    fn start() -> Sites {
        let program = Compile::c("c/sites.c").flags(["-O2", "-g"]).build();
        let mut command = Command::new(program.path());
        command.env("LD_PRELOAD", library().expect("masu")).env_remove("MASU_PROF");
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("text");
        assert_eq!(line, "ready\n");
        Sites(child, program)
    }

    fn id(&self) -> String {
        self.0.id().to_string()
    }

    fn begins(&mut self) {
        self.0.stdin.as_mut().expect("a pipe").write_all(b"x").expect("it reads");
    }

    /// `masu prof` of the program, started before it allocates anything.
    fn profiled(&mut self, arguments: &[&str]) -> (i32, String, String) {
        let id = self.id();
        let mut all = vec!["prof", "-p", &id, "--rate", "16KiB"];
        all.extend(arguments);
        let child = masu(&all).spawn().expect("the command is built");
        await_sampling(self.0.id());
        self.begins();
        told(child.wait_with_output().expect("it ends"))
    }

    fn rate(&self) -> u64 {
        rate(self.0.id())
    }
}

impl Drop for Sites {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// The innermost function of the first stack in a report.
fn first(report: &str) -> &str {
    let line = report.lines().find(|line| line.starts_with("         "));
    line.unwrap_or_default().split_whitespace().next().unwrap_or_default()
}

/// Checks a profile of `c/sites.c` from its start on as its readers see it: what it says of itself, and that
/// `go tool pprof` has the same culprit in each view.
fn readers_have_every_view(packed: &[u8], own_file: &str) {
    let decoded = Decoded::of(packed);
    let views = ["alloc", "inuse", "peak", "grown", "retained"];
    let types = views.map(|view| [format!("{view}_objects"), format!("{view}_space")]);
    assert_eq!(decoded.types, types.as_flattened());
    assert_eq!((&*decoded.default, decoded.period), ("retained_space", 16 << 10));
    assert!(decoded.duration > 1_000_000_000, "{} ns", decoded.duration);
    decoded.names_files(own_file);
    let culprits = [("peak", "cached"), ("grown", "cached"), ("retained", "fragment")];
    for (view, culprit) in culprits {
        for figure in ["objects", "space"] {
            let kind = format!("{view}_{figure}");
            assert!(decoded.sum(&kind, culprit) > 0, "{kind}");
            let top = go(&["-top", &format!("-sample_index={kind}")], packed);
            assert!(top.contains(&format!("Type: {kind}\n")), "{top}");
            let mut rows = top.lines().skip_while(|line| !line.contains("cum%")).skip(1);
            let first = rows.next().and_then(|row| row.split_whitespace().last());
            assert!(figure == "objects" || first == Some(culprit), "{top}");
        }
    }
}

#[test]
fn each_view_has_its_culprit_first() {
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    let place = scratch();
    let at = |name: &str| -> String { place.path().join(name).to_string_lossy().into_owned() };
    let mut sites = Sites::start();
    let (raw, graph, pprof) = (at("a.prof"), at("a.html"), at("a.pb.gz"));
    let files = ["-o", &raw, "-o", &graph, "-o", &pprof];
    let options = [&["--for", "2s", "--retained"][..], &files, &["--text"]].concat();
    let (code, said, wrong) = sites.profiled(&options);
    assert_eq!((code, &*wrong), (0, ""), "{said}");
    assert_eq!(first(&said), "fragment", "{said}");
    let (_, peak, _) = done(&mut masu(&["prof", "--peak", &raw]));
    assert_eq!(first(&peak), "cached", "{peak}");
    // The flame graph has the memory over time above it, even if it is made later.
    let again = at("again.html");
    assert_eq!(done(&mut masu(&["prof", "--flame", &again, &raw])).0, 0);
    for page in [graph, again] {
        let page = fs::read_to_string(page).expect("written");
        let timeline = page.find("class='memory'").expect("a timeline");
        assert!(page[timeline..].contains("fragment") && page.contains("highest seen"), "{page}");
    }
    let own = fs::read_link(format!("/proc/{}/exe", sites.id())).expect("it runs");
    let own = own.file_name().expect("a file").to_string_lossy().into_owned();
    readers_have_every_view(&fs::read(pprof).expect("written"), &own);
    assert_eq!(sites.rate(), 0);

    // The retained bytes add up to the free bytes that `masu explain` shows.
    let text = fs::read_to_string(&raw).expect("written");
    let profile = Profile::parse(&text).expect("a profile");
    let free = profile.free.expect("a line of what is free");
    let kept: f64 = profile.places.iter().map(|place| place.retained.bytes).sum();
    assert!((kept + free.unknown + free.samples - free.bytes).abs() < 1000.0, "{kept} of {free:?}");
    let (_, account, _) = done(&mut masu(&["explain", "--json", &sites.id()]));
    let account: serde_json::Value = serde_json::from_str(&account).expect("JSON");
    let parts = account["parts"].as_array().expect("parts");
    let part = parts.iter().find(|part| part["kind"] == "free_in_spans").expect("a part");
    let explained = part["bytes"].as_f64().expect("bytes");
    assert!((explained / free.bytes - 1.0).abs() < 0.2, "{explained} and {free:?}");

    // Memory allocated from now on that stays in use.
    let id = sites.id();
    let (code, grown, wrong) =
        done(&mut masu(&["prof", "-p", &id, "--rate", "16KiB", "--for", "2s", "--growth"]));
    assert_eq!((code, &*wrong), (0, ""), "{grown}");
    assert_eq!(first(&grown), "leak", "{grown}");
    assert!(grown.starts_with("Allocated during profiling and still in use: "), "{grown}");
}

#[test]
fn a_command_can_be_looked_at_for_what_it_retains() {
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    let program = Compile::c("c/sites.c").flags(["-O2", "-g"]).build();
    let path = program.path().to_string_lossy().into_owned();
    let library = library().expect("masu").to_string_lossy().into_owned();
    let options = ["prof", "--retained", "--rate", "16KiB", "--lib", &library, "--", &path, "40"];
    let (code, said, wrong) = done(&mut masu(&options));
    assert_eq!((code, &*wrong), (0, ""), "{said}");
    assert_eq!(first(&said), "fragment", "{said}");
}

#[test]
fn a_process_that_ends_meanwhile_leaves_what_was_read() {
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    let mut sites = Sites::start();
    let id = sites.id();
    let prof =
        masu(&["prof", "-p", &id, "--rate", "16KiB", "--for", "60s"]).spawn().expect("built");
    await_sampling(sites.0.id());
    sites.begins();
    until("it has samples", || has_samples(sites.0.id()));
    // Longer than the time between two looks.
    sleep(Duration::from_millis(2500));
    drop(sites.0.stdin.take());
    sites.0.wait().expect("it ends");
    let (code, said, wrong) = told(prof.wait_with_output().expect("it ends"));
    assert_eq!(code, 0, "{wrong}");
    assert!(said.starts_with("In use at the peak: ") && first(&said) == "cached", "{said}");
    assert!(wrong.contains(&format!("process {id} has ended; this is what was read")), "{wrong}");
}

#[test]
fn a_process_that_executes_another_program_leaves_what_was_read() {
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    let script = "read x; while [ ${#v} -lt 9999 ]; do v=1234$v; done; read x; exec sleep 60";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).env("LD_PRELOAD", library().expect("masu")).stdin(Stdio::piped());
    let mut shell = shell.spawn().expect("it runs");
    until("it runs on masu", || masu_inspect::engines(shell.id()).is_ok());
    let id = shell.id().to_string();
    let prof = masu(&["prof", "-p", &id, "--rate", "1KiB", "--for", "60s"]).spawn().expect("built");
    await_sampling(shell.id());
    let mut input = shell.stdin.take().expect("a pipe");
    input.write_all(b"\n").expect("it reads");
    until("it has samples", || has_samples(shell.id()));
    sleep(Duration::from_millis(2500));
    input.write_all(b"\n").expect("it reads");
    let (code, _, wrong) = told(prof.wait_with_output().expect("it ends"));
    shell.kill().and_then(|()| shell.wait()).expect("it has not ended before");
    let why = format!("process {id} has executed another program; this is what was read before");
    assert!(code == 0 && wrong.contains(&why), "{code}: {wrong}");
}

#[test]
fn two_at_once_and_what_the_program_does_itself() {
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    let mut sites = Sites::start();
    let id = sites.id();
    let mut prof = masu(&["prof", "-p", &id, "--for", "60s"]).spawn().expect("built");
    await_sampling(sites.0.id());
    sites.begins();
    assert_eq!(sites.rate(), 512 << 10);
    let (code, _, said) = done(&mut masu(&["prof", "-p", &id, "--for", "1s"]));
    assert_eq!(code, 2);
    assert!(
        said.starts_with(&format!("masu: process {id} is being profiled by another")),
        "{said}"
    );
    // A profiler that is killed leaves sampling on, and the next one takes over.
    prof.kill().expect("it ran");
    let _ = prof.wait();
    assert_eq!(sites.rate(), 512 << 10);
    let (code, _, said) = done(&mut masu(&["prof", "-p", &id, "--rate", "4KiB", "--for", "1s"]));
    assert_eq!((code, &*said), (0, ""));
    assert_eq!(sites.rate(), 0);
    // A profiler that is interrupted shows what it has.
    let prof = masu(&["prof", "-p", &id, "--rate", "4KiB", "--for", "60s"]).spawn().expect("built");
    until("it has samples", || sites.rate() != 0 && has_samples(sites.0.id()));
    // SAFETY: a signal to the child.
    unsafe { libc::kill(prof.id() as i32, libc::SIGINT) };
    let (code, said, _) = told(prof.wait_with_output().expect("it ends"));
    assert_eq!(code, 0);
    assert!(said.starts_with("In use at the peak: "), "{said}");
    assert_eq!(sites.rate(), 0);
}

/// The program's profile is read from outside at its last moment, or, behind a shell that outlives it, shortly before.
#[test]
fn ctrl_c_leaves_a_profile_of_the_program() {
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    // A shell that runs the test in the background has it ignored.
    // SAFETY: the default action; nothing here has a handler.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
    const HOLDS: &str = "import time\nkept = [bytes(1000) for _ in range(20000)]\n\
                         print('ready', flush=True)\ntime.sleep(600)\n";
    let place = scratch();
    let at = |name: &str| place.path().join(name).to_string_lossy().into_owned();
    let (script, file) = (at("holds.py"), at("a.prof"));
    fs::write(&script, HOLDS).expect("written");
    let library = library().expect("masu").to_string_lossy().into_owned();
    let shell = format!("python3 {script}; exit 7");
    for (command, reason) in [
        (&["python3", &script][..], None),
        (&["sh", "-c", &shell], Some("wrote no profile: this was read from it ")),
    ] {
        let options = ["prof", "--rate", "16KiB", "-o", &file, "--lib", &library, "--"];
        let read_after = |wait| {
            let mut prof = masu(&[&options[..], command].concat());
            let mut prof = prof.process_group(0).spawn().expect("the command is built");
            let lines = BufReader::new(prof.stdout.as_mut().expect("a pipe")).lines();
            assert_eq!(lines.map_while(Result::ok).next().as_deref(), Some("ready"));
            sleep(wait);
            // SAFETY: a signal to the group of the child.
            unsafe { libc::kill(-(prof.id() as i32), libc::SIGINT) };
            let (code, _, wrong) = told(prof.wait_with_output().expect("it ends"));
            // As if the signal had ended the program: 128 plus its number.
            assert_eq!(code, 128 + libc::SIGINT, "{wrong}");
            let text = fs::read_to_string(&file).unwrap_or_default();
            let places = Profile::parse(&text).map(|profile| profile.places).unwrap_or_default();
            let _ = fs::remove_file(&file);
            (places.iter().map(|place| place.peak.bytes).sum::<f64>(), wrong)
        };
        // Longer than the time between two looks: fifty times what a look takes, which is much on a busy machine.
        let mut last = (0.0, String::new());
        let is_right = [2500, 10_000, 40_000].into_iter().map(Duration::from_millis).any(|wait| {
            last = read_after(wait);
            let (kept, wrong) = &last;
            (15e6..40e6).contains(kept) && reason.is_none_or(|reason| wrong.contains(reason))
        });
        assert!(is_right, "{last:?}");
    }
}

/// A child that is forked meanwhile is not sampled.
#[test]
fn children_do_not_go_on_with_a_profile_from_outside() {
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    const FORKS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    char go;
    puts("ready");
    fflush(stdout);
    if (read(0, &go, 1) != 1) return 1;
    for (int i = 0; i < 100000; i++) *(char *volatile *)malloc(64) = 0;
    int child = fork();
    if (child == 0) {
        for (int i = 0; i < 100000; i++) *(char *volatile *)malloc(64) = 0;
        /* Before its own side of the fork is over, its memory is its parent's. */
        printf("%d\n", getpid());
        fflush(stdout);
        pause();
        return 0;
    }
    if (read(0, &go, 1) == 1) return 1;
    return 0;
}
"#;
    let place = scratch();
    let file = place.path().join("forks.c");
    fs::write(&file, FORKS).expect("written");
    let program = Compile::with("cc").flags(["-O0"]).file(&file).build();
    let mut command = Command::new(program.path());
    command.env("LD_PRELOAD", library().expect("masu"));
    let mut parent = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut out = BufReader::new(parent.stdout.take().expect("a pipe")).lines();
    assert_eq!(out.next().expect("a line").expect("text"), "ready");
    let id = parent.id().to_string();
    let prof = masu(&["prof", "-p", &id, "--rate", "4KiB", "--for", "60s"]).spawn().expect("built");
    await_sampling(parent.id());
    parent.stdin.as_mut().expect("a pipe").write_all(b"x").expect("it reads");
    let child: u32 = out.next().expect("a line").expect("text").parse().expect("a number");
    let rates = (rate(parent.id()), rate(child));
    // SAFETY: a signal to the child.
    unsafe { libc::kill(child as i32, libc::SIGKILL) };
    assert_eq!(rates, (4096, 0));
    // SAFETY: a signal to the child.
    unsafe { libc::kill(prof.id() as i32, libc::SIGINT) };
    let (code, said, _) = told(prof.wait_with_output().expect("it ends"));
    assert_eq!(code, 0, "{said}");
    drop(parent.stdin.take());
    parent.wait().expect("it ends");
}

/// A test that leaks more than allowed fails, and the limit is exact.
#[test]
fn leaks_beyond_what_is_allowed_are_a_failure() {
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    let source = "#include <stdlib.h>\n#include <string.h>\nvoid *volatile p;\n\
                  int main(int n, char **words) { for (int i = 0; i < 100; i++) {\n\
                  p = malloc(1000); if (i % 2) free(p); } return n > 1 ? 7 : 0; }";
    let place = scratch();
    let file = place.path().join("leaks.c");
    fs::write(&file, source).expect("written");
    let program = Compile::with("cc").flags(["-g", "-O0"]).file(&file).build();
    let path = program.path().to_string_lossy().into_owned();
    let library = library().expect("masu").to_string_lossy().into_owned();
    let ended = |most: &[&str], words: &[&str]| {
        let options = ["prof", "--leaks", "--rate", "1", "--lib", &library];
        done(&mut masu(&[&options[..], most, &["--", &path], words].concat()))
    };
    let (code, said, wrong) = ended(&["--most", "50000"], &[]);
    assert_eq!((code, &*wrong), (0, ""), "{said}");
    assert!(said.starts_with("In use at the end: 49 KiB ± 0 B in 50 blocks"), "{said}");
    let (code, _, wrong) = ended(&["--most", "49999"], &[]);
    assert_eq!(code, 3);
    assert_eq!(wrong, "masu: 50000 bytes are in use at the end, and --most allows 49999\n");
    assert_eq!(ended(&["--most", "0"], &[]).0, 3);
    // The program's own failure comes first.
    assert_eq!(ended(&["--most", "0"], &["fail"]).0, 7);
    let (code, _, wrong) = ended(&["--most", "much"], &[]);
    assert!(code == 2 && wrong.starts_with("masu: --most: "), "{wrong}");
    let (code, _, wrong) = done(&mut masu(&["prof", "--most", "1", "a.prof"]));
    assert!(code == 2 && wrong.contains("--leaks"), "{wrong}");
}

/// Distributions compress the debugging information of their packages.
#[test]
fn places_have_names_by_compressed_debugging_information() {
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    let source = "#include <stdlib.h>\nvoid *volatile p;\n\
                  __attribute__((noinline)) static void place(void) {\n\
                  p = malloc(900);\n}\nint main(void) { place(); return 0; }";
    let place = scratch();
    let file = place.path().join("names.c");
    fs::write(&file, source).expect("written");
    let library = library().expect("masu").to_string_lossy().into_owned();
    for compressed in ["-gz=none", "-gz=zlib"] {
        let program = Compile::with("cc").flags(["-g", "-O0", compressed]).file(&file).build();
        let path = program.path().to_string_lossy().into_owned();
        let options = ["prof", "--leaks", "--rate", "1", "--lib", &library, "--", &path];
        let (code, said, wrong) = done(&mut masu(&options));
        assert_eq!((code, &*wrong), (0, ""), "{said}");
        assert!(said.starts_with("In use at the end: 900 B ± 0 B in 1 block ("), "{said}");
        assert!(said.contains("  place  ") && said.contains("names.c:4\n"), "{compressed}: {said}");
    }
}

#[test]
fn what_cannot_be_had_is_said_with_the_way_out() {
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    let refused = |arguments: &[&str], sentence: &str, way: &str| {
        let (code, _, said) = done(&mut masu(arguments));
        assert_eq!(code, 2, "{said}");
        let mut lines = said.lines();
        assert_eq!(lines.next(), Some(sentence));
        assert!(lines.next().is_some_and(|line| line.contains(way)), "{said}");
    };
    refused(&["prof", "-p", "4194305"], "masu: there is no process 4194305", "pgrep");
    let mut plain = Command::new("sleep").arg("60").env_remove("LD_PRELOAD").spawn().expect("runs");
    let id = plain.id().to_string();
    refused(&["prof", "-p", &id], &format!("masu: process {id} does not run on masu"), "masu run");
    plain.kill().expect("it ran");
    plain.wait().expect("it ends");
    refused(
        &["prof", "-o", "heap.gz", "-p", "1"],
        "masu: -o: `heap.gz` does not end in the name of a format",
        ".pb.gz",
    );
    let place = scratch();
    let file: PathBuf = place.path().join("a.prof");
    fs::write(&file, "masu heap profile 1\nrate 1\nmaps\nend\n").expect("written");
    let cut = place.path().join("cut.prof");
    for text in ["place 16 1 65536 16 655", "maps\n400-500 r-xp 0 0 0 /bin/a\n"] {
        fs::write(&cut, format!("masu heap profile 1\nrate 1\n{text}")).expect("written");
        refused(
            &["prof", &cut.to_string_lossy()],
            &format!(
                "masu: `{}` is incomplete: did the process end while writing it?",
                cut.display()
            ),
            "--raw FILE",
        );
    }
    let file = file.to_string_lossy();
    refused(
        &["prof", "--retained", &file],
        "masu: the profile does not record what blocks retain",
        "-p PID",
    );
    refused(&["prof", "--growth", &file], "masu: the profile does not record what grew", "--base");
}
