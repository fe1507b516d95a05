//! Profiles of running processes over HTTP: complete, right, and no hindrance to others.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use masu_inspect::account;
use masu_tests::pprof::{Decoded, go};
use masu_tests::{Compile, Program, is_masu, library};

use crate::client::{Client, Running, exporter, get, masu};
use crate::fleet;

/// A program with two hundred places that allocate, already at work.
fn sites(conf: &str) -> (Running, Program) {
    let (mut process, program) = waiting_sites(conf);
    begin(&mut process);
    (process, program)
}

/// The same before it begins.
fn waiting_sites(conf: &str) -> (Running, Program) {
    let program = Compile::c("c/sites.c").flags(["-O2", "-g"]).build();
    let mut command = Command::new(program.path());
    command.env("LD_PRELOAD", library().expect("masu")).env("MASU_CONF", conf);
    let (process, line) = Running::start(&mut command);
    assert_eq!(line, "ready\n");
    (process, program)
}

fn begin(process: &mut Running) {
    process.0.stdin.as_mut().expect("a pipe").write_all(b"x").expect("it reads");
}

/// The rate at which a process is sampled.
fn rate(process: &Running) -> u64 {
    let (memory, engines) = masu_inspect::engines(process.id()).expect("it runs on masu");
    engines[0].profile_state(&memory).expect("readable").rate
}

/// How many samples it has taken.
fn samples(process: &Running) -> u64 {
    let (memory, engines) = masu_inspect::engines(process.id()).expect("it runs on masu");
    let samples = engines[0].samples(&memory);
    // They may have changed too much while they were read.
    samples.map_or(0, |samples| samples.sites.iter().map(|site| site.samples).sum())
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_profile_is_right_and_metrics_are_served_meanwhile() {
    if !is_masu() {
        return;
    }
    let (process, _program) = sites("");
    let (_exporter, address) = exporter(&["--rate", "16KiB"]);
    // On a busy machine metrics may take as long as a short profile.
    let answer = [6, 30].into_iter().find_map(|seconds| {
        let path = format!("/{}/debug/pprof/heap?seconds={seconds}", process.id());
        let (to, start) = (address.clone(), Instant::now());
        let asks = thread::spawn(move || get(&to, &path));
        until("it samples", || rate(&process) == 16 << 10);
        assert_eq!(get(&address, "/metrics").status, 200);
        let is_meanwhile = start.elapsed() < Duration::from_secs(seconds) && !asks.is_finished();
        let answer = asks.join().expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.text());
        until("sampling goes on", || rate(&process) == 0);
        is_meanwhile.then_some(answer)
    });
    let answer = answer.expect("metrics waited for a profile");
    let profile = Decoded::for_collectors(&answer.body);
    assert_eq!((&*profile.default, profile.period), ("inuse_space", 16 << 10));
    // Alloy has room for no more.
    let types = ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"];
    assert_eq!(profile.types, types);
    profile.names_files(&own_file(&process));
    // Leaked memory is in use; what was freed again was only allocated.
    let sum = |kind, name: &str| profile.sum(kind, name);
    let leaked = (sum("alloc_space", "leak"), sum("inuse_space", "leak"));
    assert!(leaked.0 > 0 && (leaked.0 - leaked.1).abs() * 50 < leaked.0, "{leaked:?}");
    let temporary = (sum("alloc_space", "site_100"), sum("inuse_space", "site_100"));
    assert!(temporary.1 < temporary.0, "{temporary:?}");
    let top = go(&["-top", "-sample_index=inuse_space"], &answer.body);
    assert!(top.contains(" leak\n") && top.contains("Type: inuse_space"), "{top}");
}

/// The name of the program's own file.
fn own_file(process: &Running) -> String {
    let exe = fs::read_link(format!("/proc/{}/exe", process.id())).expect("it runs");
    exe.file_name().expect("a file").to_string_lossy().into_owned()
}

#[test]
fn requests_that_overlap_share_the_sampling() {
    if !is_masu() {
        return;
    }
    let (mut process, _program) = waiting_sites("");
    let (_exporter, address) = exporter(&["--rate", "16KiB"]);
    let id = process.id();
    let ask = |what: &str, seconds| {
        let path = format!("/debug/pprof/{what}?pid={id}&seconds={seconds}");
        let to = address.clone();
        thread::spawn(move || get(&to, &path))
    };
    let first = ask("allocs", 4);
    until("it samples", || rate(&process) != 0);
    begin(&mut process);
    until("it fills its cache of 20 MB", || account::rss(id).expect("it runs") > 24 << 20);
    let (second, delta) = (ask("allocs", 8), ask("delta_heap", 6));
    let first = first.join().expect("an answer");
    assert_eq!(rate(&process), 16 << 10, "the first to be done has ended it for the others");
    // Another command is told so.
    let refused = masu().args(["prof", "-p", &id.to_string()]).output().expect("built");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        refused.status.code() == Some(2) && said.contains("being profiled by another"),
        "{said}"
    );
    let answers = [first, delta.join().expect("an answer"), second.join().expect("an answer")];
    let [_, delta, all] = answers.map(|answer| {
        assert_eq!(answer.status, 200, "{}", answer.text());
        Decoded::for_collectors(&answer.body)
    });
    // Memory allocated before the request is not in its difference.
    let (cached, whole) = (delta.sum("alloc_space", "cached"), all.sum("alloc_space", "cached"));
    assert!(cached * 2 < whole, "{cached} of {whole}");
    let leaked = delta.sum("alloc_space", "leak");
    assert!(leaked > 0 && leaked < all.sum("alloc_space", "leak"), "{leaked}");
    until("sampling goes on", || rate(&process) == 0);
}

#[test]
fn what_the_program_samples_itself_is_there_at_once() {
    if !is_masu() {
        return;
    }
    let (process, _program) = sites("prof:1,prof_rate:8KiB");
    let (_exporter, address) = exporter(&[]);
    let rss = || account::rss(process.id()).expect("it runs");
    until("it fills its cache of 20 MB", || rss() > 24 << 20);
    let path = format!("/{}/debug/pprof/allocs", process.id());
    // To sample it would take five seconds each time. A busy machine may be slow once.
    let at_once = (0..5).find_map(|_| {
        let (start, answer) = (Instant::now(), get(&address, &path));
        (start.elapsed() < Duration::from_secs(4)).then_some(answer)
    });
    let answer = at_once.expect("it was sampled");
    let profile = Decoded::for_collectors(&answer.body);
    assert_eq!((profile.period, rate(&process)), (8 << 10, 8 << 10));
    assert!(profile.sum("alloc_space", "cached") > 10 << 20);
}

#[test]
fn a_process_that_does_nothing_has_an_empty_profile() {
    if !is_masu() {
        return;
    }
    let program = fleet();
    let process = Running::on_masu(program.path(), "1", "");
    let (_exporter, address) = exporter(&[]);
    let answer = get(&address, &format!("/{}/debug/pprof/heap?seconds=1", process.id()));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let profile = Decoded::for_collectors(&answer.body);
    assert!(profile.samples.is_empty() && profile.mappings.len() > 2);
    go(&["-raw"], &answer.body);
}

/// Clients ask for the head alone to see whether there is something.
#[test]
fn a_head_is_there_at_once() {
    if !is_masu() {
        return;
    }
    let (process, _program) = waiting_sites("");
    let (exporter, address) = exporter(&[]);
    let begin = Instant::now();
    let mut client = Client::new(&address);
    for (id, status) in [(process.id(), 200), (exporter.id(), 404)] {
        let path = format!("/{id}/debug/pprof/allocs?seconds=20");
        let head = client.ask("HEAD", &path, "");
        assert_eq!(head.status, status, "{}", head.head);
        assert_eq!(head.head.contains("Content-Length"), status != 200, "{}", head.head);
    }
    assert!(begin.elapsed() < Duration::from_secs(10));
    assert_eq!(rate(&process), 0, "nothing is sampled");
}

#[test]
fn an_exporter_that_is_stopped_leaves_no_process_sampling() {
    if !is_masu() {
        return;
    }
    let (process, _program) = sites("");
    let (exporter, address) = exporter(&["--rate", "16KiB"]);
    let path = format!("/{}/debug/pprof/delta_heap?seconds=60", process.id());
    let asks = thread::spawn(move || get(&address, &path));
    // The program leaks a seventieth of what it allocates.
    until("it takes two thousand samples", || samples(&process) > 2000);
    let start = Instant::now();
    assert_eq!(exporter.stop(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    assert_eq!(rate(&process), 0);
    // The client gets what was read until then.
    let answer = asks.join().expect("an answer");
    assert!(Decoded::for_collectors(&answer.body).sum("alloc_space", "leak") > 0);
}

#[test]
fn what_cannot_be_had_is_said() {
    if !is_masu() {
        return;
    }
    let program = fleet();
    let process = Running::on_masu(program.path(), "1", "");
    let (_none, address) = exporter(&["--no-profiles"]);
    let refused = get(&address, &format!("/{}/debug/pprof/allocs", process.id()));
    let said = refused.text();
    assert!(refused.status == 403 && said.contains("--no-profiles"), "{said}");
    assert!(!get(&address, "/").text().contains("pprof"));
    let (_exporter, address) = exporter(&[]);
    let page = get(&address, "/").text();
    assert!(page.contains(&format!("<a href=\"{}/debug/pprof/allocs\">", process.id())), "{page}");
    let missing = get(&address, &format!("/debug/pprof/heap?pid={}", std::process::id()));
    let said = missing.text();
    assert!(missing.status == 404 && said.contains("does not run on masu"), "{said}");
    // A process that `masu prof` profiles is left to it.
    let id = process.id().to_string();
    let mut prof = masu();
    prof.args(["prof", "-p", &id, "--for", "60s"]).stderr(Stdio::null()).stdout(Stdio::null());
    let mut prof = prof.spawn().expect("built");
    until("it samples", || rate(&process) != 0);
    let taken = get(&address, &format!("/{id}/debug/pprof/heap?seconds=1"));
    let _ = prof.kill();
    let _ = prof.wait();
    let said = taken.text();
    assert!(taken.status == 409 && said.contains("being profiled by another"), "{said}");
    // The killed profiler left sampling on; the next request takes it over, and ends it.
    let answer = get(&address, &format!("/{id}/debug/pprof/heap?seconds=1"));
    assert_eq!((answer.status, rate(&process)), (200, 0));
}
