//! `masu export` is right about every process, costs next to nothing, and follows the rules of HTTP; and the files for
//! Prometheus, Grafana, systemd and Kubernetes work with it.

mod client;
mod confined;
mod observe;
mod own;
mod profiles;
mod prometheus;

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use client::{Client, Running, exporter, figure, get, masu};
use masu_tests::{Compile, Program, is_masu, patience};

/// The share of a processor that a hundred scrapes a second may take.
const SHARE: f64 = 0.02;
/// Scrapes, and the time between two of them.
const SCRAPES: u32 = 1000;
const PACE: Duration = Duration::from_millis(10);
/// A busy machine may need this much longer for them.
const SLACK: f64 = 1.1;
/// Processes in the fleet that is scraped so often.
const MANY: usize = 200;

fn fleet() -> Program {
    Compile::c("c/fleet.c").build()
}

#[test]
fn the_figures_are_those_of_the_process() {
    if !is_masu() {
        return;
    }
    let program = fleet();
    let process = Running::on_masu(program.path(), "40", "limit_hard:100MiB,decay:20s");
    let (_exporter, address) = exporter(&["--max-age", "0s"]);
    let metrics = get(&address, "/metrics").text();
    let of = |name: &str| {
        figure(&metrics, name, process.id()).unwrap_or_else(|| panic!("{name}: {metrics}"))
    };
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    assert!((40.0..40.5).contains(&mib(of("masu_allocated_bytes"))), "{metrics}");
    assert!((40.0..60.0).contains(&mib(of("masu_process_resident_bytes"))), "{metrics}");
    assert!((40.0..60.0).contains(&mib(of("masu_resident_bytes"))), "{metrics}");
    assert!((40.0..41.0).contains(&mib(of("masu_alloc_bytes_total"))), "{metrics}");
    assert_eq!((mib(of("masu_hard_limit_bytes")), of("masu_decay_seconds")), (100.0, 20.0));
    assert_eq!((of("masu_threads"), of("masu_medium_allocs_total")), (1.0, 640.0));
    let said = masu().args(["stats", "--json", "-p", &process.id().to_string()]).output();
    let said: serde_json::Value =
        serde_json::from_slice(&said.expect("it runs").stdout).expect("JSON");
    for name in ["allocated", "active", "resident", "mapped", "metadata", "dirty"] {
        let expected = said["statistics"][name].as_f64();
        assert_eq!(Some(of(&format!("masu_{name}_bytes"))), expected, "{name}");
    }
    let started = of("masu_process_start_time_seconds");
    let now = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs_f64();
    assert!((now - 60.0..=now + 1.0).contains(&started), "{started} {now}");
    let id = process.id();
    drop(process);
    let deadline = Instant::now() + Duration::from_secs(20);
    while figure(&get(&address, "/metrics").text(), "masu_allocated_bytes", id).is_some() {
        assert!(Instant::now() < deadline, "a process that has ended is still shown");
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_largest_processes_are_shown_and_the_others_counted() {
    if !is_masu() {
        return;
    }
    let program = fleet();
    let _small: Vec<_> = (0..3).map(|_| Running::on_masu(program.path(), "1", "")).collect();
    let large = Running::on_masu(program.path(), "400", "");
    let (_exporter, address) = exporter(&["--most", "1"]);
    let metrics = get(&address, "/metrics").text();
    assert!(figure(&metrics, "masu_allocated_bytes", large.id()).is_some(), "{metrics}");
    assert!(metrics.contains("\nmasu_processes 1\n"), "{metrics}");
    let left_out = metrics.lines().find_map(|line| line.strip_prefix("masu_processes_left_out "));
    assert!(left_out.and_then(|n| n.parse::<u32>().ok()).expect("a count") >= 3, "{metrics}");
}

#[test]
fn manners() {
    if !is_masu() {
        return;
    }
    let (exporter, address) = exporter(&[]);
    let mut client = Client::new(&address);
    let open =
        client.ask("GET", "/metrics", "Accept: application/openmetrics-text;version=1.0.0\r\n");
    assert!(
        open.head.contains("\r\nContent-Type: application/openmetrics-text; version=1.0.0;"),
        "{}",
        open.head
    );
    assert!(open.text().ends_with("# EOF\n"));
    // The connection persists.
    let older = client.ask("GET", "/metrics", "Accept-Encoding: gzip\r\n");
    assert!(
        older.head.contains("text/plain; version=0.0.4")
            && older.head.contains("Content-Encoding: gzip")
    );
    assert!(older.body.starts_with(&[0x1f, 0x8b]));
    let head = client.ask("HEAD", "/metrics", "");
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(client.ask("GET", "/healthz", "").text(), "ok\n");
    let refused = client.ask("POST", "/debug/pprof/allocs", "");
    assert!(refused.status == 405 && refused.head.contains("Allow: GET, HEAD"), "{}", refused.head);
    // A second one says that it is taken.
    let second = masu().args(["export", "--listen", &address]).output().expect("it runs");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("{address} is already in use")), "{said}");
    assert_eq!(exporter.stop(), Some(0));
}

/// A hundred scrapes a second of two hundred processes that work, in processor time, which a busy machine stretches little.
#[test]
fn scrapes_are_cheap() {
    if !is_masu() {
        return;
    }
    let program = fleet();
    let library = masu_tests::library().expect("masu is a library");
    let start = || {
        let mut command = Command::new(program.path());
        command
            .args(["1", "works"])
            .env("LD_PRELOAD", library)
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        Running(command.spawn().expect("it runs"))
    };
    let _fleet: Vec<_> = (0..MANY).map(|_| start()).collect();
    let (exporter, address) = exporter(&["--max-age", "1s"]);
    let mut client = Client::new(&address);
    // What Prometheus sends.
    let headers = "Accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1\r\n\
                   Accept-Encoding: gzip\r\n";
    let deadline = Instant::now() + Duration::from_secs(30);
    let processes = |text: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix("masu_processes "));
        found.and_then(|n| n.parse::<usize>().ok()).expect("a count")
    };
    while processes(&get(&address, "/metrics").text()) < MANY {
        assert!(Instant::now() < deadline, "not all processes were found");
        sleep(Duration::from_millis(200));
    }
    let mut seen = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(120) * patience();
    // On a busy machine processor time is longer, too, and it may be late: it needs a few tries.
    while Instant::now() < deadline {
        let (start, before) = (Instant::now(), exporter.processor_time());
        let mut bytes = 0;
        for scrape in 1..=SCRAPES {
            let answer = client.ask("GET", "/metrics", headers);
            assert_eq!(answer.status, 200);
            bytes = answer.body.len();
            sleep((PACE * scrape).saturating_sub(start.elapsed()));
        }
        let took = start.elapsed().as_secs_f64();
        let share = (exporter.processor_time() - before) / took;
        let said = format!(
            "{SCRAPES} scrapes of {bytes} bytes in {took:.2} s took {:.2} % of a processor",
            share * 100.0
        );
        println!("{said}");
        if took < (PACE * SCRAPES).as_secs_f64() * SLACK && share < SHARE {
            return;
        }
        seen.push(said);
    }
    panic!("{}", seen.join("; "));
}
