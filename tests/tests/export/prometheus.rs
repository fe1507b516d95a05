//! The real Prometheus scrapes an exporter, its rules fire on programs that have the problem, and every query of the
//! dashboard returns data.

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use masu_tests::running::free_port;
use masu_tests::{is_masu, library, scratch, tool, workspace};
use serde_json::Value;

use crate::client::{Running, exporter, get};
use crate::fleet;

/// A file that is shipped.
fn shipped(name: &str) -> String {
    fs::read_to_string(workspace().join("packaging/observe").join(name)).expect(name)
}

/// The shipped rules, without waiting times.
fn impatient() -> String {
    let text = shipped("prometheus-rules.yml");
    let lines = text.lines().map(|line| match line.split_once("for: ") {
        Some((indent, _)) if indent.trim().is_empty() => format!("{indent}for: 1s\n"),
        _ => line.replace("[10m]", "[3s]") + "\n",
    });
    lines.collect()
}

/// A Prometheus that scrapes `target` every second, and its address.
fn prometheus(target: &str, directory: &std::path::Path) -> (Running, String) {
    fs::write(directory.join("rules.yml"), impatient()).expect("written");
    let config = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n\
         rule_files: [rules.yml]\n\
         scrape_configs:\n- job_name: masu\n  static_configs: [{{targets: ['{target}']}}]\n"
    );
    fs::write(directory.join("prometheus.yml"), config).expect("written");
    let free = format!("127.0.0.1:{}", free_port());
    let mut command = Command::new(tool("prometheus"));
    command
        .arg(format!("--config.file={}", directory.join("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", directory.join("data").display()))
        .arg(format!("--web.listen-address={free}"));
    let log = fs::File::create(directory.join("log")).expect("made");
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
    (Running(child.expect("it runs")), free)
}

/// The answer of its interface to a path.
fn asked(address: &str, path: &str) -> Option<Value> {
    std::net::TcpStream::connect(address).ok()?;
    let answer = get(address, path);
    let value: Value = serde_json::from_slice(&answer.body).ok()?;
    assert!(answer.status != 400, "{path}: {value}");
    (answer.status == 200).then(|| value["data"].clone())
}

fn query(address: &str, query: &str) -> Vec<Value> {
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let data = asked(address, &format!("/api/v1/query?query={encoded}")).expect("an answer");
    data["result"].as_array().expect("results").clone()
}

#[test]
fn it_scrapes_and_its_rules_fire_and_the_dashboard_has_data() {
    if !is_masu() {
        return;
    }
    let program = fleet();
    let fragmented = Running::on_masu(program.path(), "fragmented", "");
    let dirty = Running::on_masu(program.path(), "dirty", "decay:50s");
    let full = Running::on_masu(program.path(), "full", "limit_hard:64MiB");
    let (_exporter, target) = exporter(&["--most", "100", "--max-age", "500ms"]);
    let place = scratch();
    let (_prometheus, address) = prometheus(&target, place.path());

    let expected = [
        ("MasuMemoryNotGivenBack", fragmented.id()),
        ("MasuPurgeFallsBehind", dirty.id()),
        ("MasuLimitNear", full.id()),
    ];
    let deadline = Instant::now() + Duration::from_secs(40);
    let fired = |alerts: &Value, name: &str, process: u32| {
        let process = process.to_string();
        alerts["alerts"].as_array().is_some_and(|alerts| {
            alerts.iter().any(|alert| {
                alert["labels"]["alertname"] == name
                    && alert["labels"]["pid"] == process
                    && alert["state"] == "firing"
            })
        })
    };
    loop {
        let alerts = asked(&address, "/api/v1/alerts").unwrap_or_default();
        if expected.iter().all(|&(name, process)| fired(&alerts, name, process)) {
            break;
        }
        if Instant::now() > deadline {
            let log = fs::read_to_string(place.path().join("log")).unwrap_or_default();
            panic!(
                "not all of {expected:?} fire: {alerts:#}\n{}\n{log}",
                get(&target, "/metrics").text()
            );
        }
        sleep(Duration::from_millis(500));
    }
    // No process has another's problem; but lasting free memory is also memory not given back.
    let alerts = asked(&address, "/api/v1/alerts").expect("an answer");
    for (name, process) in [
        ("MasuPurgeFallsBehind", fragmented.id()),
        ("MasuLimitNear", fragmented.id()),
        ("MasuLimitNear", dirty.id()),
        ("MasuMemoryNotGivenBack", full.id()),
        ("MasuPurgeFallsBehind", full.id()),
    ] {
        assert!(!fired(&alerts, name, process), "{name} fires on {process}: {alerts:#}");
    }
    let rules = asked(&address, "/api/v1/rules").expect("an answer");
    let rules = rules["groups"][0]["rules"].as_array().expect("rules");
    assert!(rules.len() >= 5 && rules.iter().all(|rule| rule["health"] == "ok"), "{rules:?}");

    assert_eq!(query(&address, "up{job=\"masu\"}")[0]["value"][1], "1");
    let targets = asked(&address, "/api/v1/targets").expect("an answer");
    assert_eq!(targets["activeTargets"][0]["lastError"], "", "{targets:#}");
    for (query_text, title) in dashboard_queries() {
        let found = query(&address, &query_text);
        assert!(!found.is_empty(), "{title} has no data: {query_text}");
    }
}

/// Processes come and go: with `--by command` there is one series for all of one name, and its counters only rise.
#[test]
fn by_command_series_stay_and_counters_do_not_fall() {
    if !is_masu() {
        return;
    }
    let (place, program) = (scratch(), fleet());
    // No other test has processes of this name.
    let grouped = place.path().join("grouped");
    fs::hard_link(program.path(), &grouped).expect("a second name");
    let (_exporter, target) = exporter(&["--by", "command", "--max-age", "100ms"]);
    let (_prometheus, address) = prometheus(&target, place.path());
    let figure = |name: &str| -> Option<f64> {
        let metrics = get(&target, "/metrics").text();
        let start = format!("{name}{{comm=\"grouped\"}} ");
        metrics.lines().find_map(|line| line.strip_prefix(&*start)?.parse().ok())
    };
    let start = |arguments: &[&str]| {
        let mut command = Command::new(&grouped);
        command.args(arguments).env("LD_PRELOAD", library().expect("masu is a library"));
        command.env("MASU_CONF", "limit_hard:1GiB");
        Running::start(&mut command).0
    };
    let becomes = |name: &str, expected: f64| {
        let deadline = Instant::now() + Duration::from_secs(20);
        while figure(name) != Some(expected) {
            let found = figure(name);
            assert!(Instant::now() < deadline, "{name} is {found:?} and not {expected}");
            sleep(Duration::from_millis(50));
        }
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while asked(&address, "/api/v1/query?query=up").is_none() {
        assert!(Instant::now() < deadline, "Prometheus does not start");
        sleep(Duration::from_millis(100));
    }
    // 16 blocks a MiB.
    let mut allocs = 0.0;
    for mib in ["3", "5", "7"] {
        let process = start(&[mib]);
        becomes("masu_group_processes", 1.0);
        allocs += 16.0 * mib.parse::<f64>().expect("a number");
        becomes("masu_medium_allocs_total", allocs);
        // So that Prometheus sees it, too.
        sleep(Duration::from_millis(1500));
        drop(process);
        becomes("masu_group_processes", 0.0);
        assert_eq!(figure("masu_medium_allocs_total"), Some(allocs), "after {mib}");
    }
    let _both = [start(&["2", "works"]), start(&["4", "forks"])];
    becomes("masu_group_processes", 3.0);
    // What the child has of its parent does not count twice.
    becomes("masu_medium_allocs_total", allocs + 16.0 * 6.0);
    let mib = figure("masu_allocated_bytes").expect("a sum") / f64::from(1 << 20);
    assert!((10.0..10.5).contains(&mib), "2, 4, and 4 of the child: {mib}");

    let value = |text: &str| -> f64 {
        let found = query(&address, text);
        let [one] = &found[..] else { panic!("{text}: {found:?}") };
        one["value"][1].as_str().and_then(|value| value.parse().ok()).expect("a number")
    };
    let deadline = Instant::now() + Duration::from_secs(40);
    let sum = allocs + 16.0 * 6.0;
    while query(&address, &format!("masu_medium_allocs_total{{comm=\"grouped\"}} == {sum}"))
        .is_empty()
    {
        assert!(Instant::now() < deadline, "Prometheus has not seen the last processes");
        sleep(Duration::from_millis(200));
    }
    for name in ["masu_alloc_bytes", "masu_medium_allocs", "masu_refills", "masu_purge_ticks"] {
        let resets = format!("resets({name}_total{{comm=\"grouped\"}}[5m])");
        assert_eq!(value(&resets), 0.0, "{name} fell");
    }
    // All series that there ever were.
    let ever = "last_over_time({comm=\"grouped\"}[1h])";
    assert_eq!(value(&format!("count(count({ever}) by (comm, __name__) > 1) or vector(0)")), 0.0);
    assert_eq!(query(&address, "{pid!=\"\"}"), Vec::<Value>::new());
    for (text, title) in dashboard_queries() {
        assert!(!query(&address, &text).is_empty(), "{title} has no data: {text}");
    }
}

/// The queries of the dashboard as Grafana sends them, each with its panel's title, and those of the variables.
fn dashboard_queries() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(&shipped("grafana-dashboard.json")).expect("JSON");
    let plain = |text: &str| {
        let text = text.replace("$__rate_interval", "5s");
        ["$job", "$instance", "$comm"].iter().fold(text, |text, name| text.replace(name, ".*"))
    };
    let mut queries = Vec::new();
    let mut ids = std::collections::BTreeSet::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        let title = panel["title"].as_str().expect("a title").to_owned();
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{title}: its id is another's");
        for target in panel["targets"].as_array().expect("targets") {
            queries.push((plain(target["expr"].as_str().expect("a query")), title.clone()));
        }
    }
    for variable in dashboard["templating"]["list"].as_array().expect("variables") {
        let Some(definition) = variable["definition"].as_str() else { continue };
        let inside = definition.strip_prefix("label_values(").and_then(|it| it.strip_suffix(')'));
        let (series, label) = inside.and_then(|it| it.rsplit_once(", ")).expect("label_values");
        queries.push((format!("count({}) by ({label})", plain(series)), definition.to_owned()));
    }
    assert!(queries.len() >= 15, "{queries:?}");
    queries
}

#[track_caller]
fn promtool(arguments: &[&str], input: Stdio) {
    let mut command = Command::new(tool("promtool"));
    command.args(arguments).current_dir(workspace().join("packaging/observe")).stdin(input);
    let done = command.output().expect("promtool runs");
    let said = [done.stdout, done.stderr].concat();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said));
}

#[test]
fn promtool_agrees() {
    if !is_masu() {
        return;
    }
    promtool(
        &["check", "rules", "--lint=all", "--lint-fatal", "prometheus-rules.yml"],
        Stdio::null(),
    );
    promtool(&["test", "rules", "prometheus-rules.test.yml"], Stdio::null());
    let program = fleet();
    let _process = Running::on_masu(program.path(), "1", "limit_hard:64MiB");
    let place = scratch();
    let page = place.path().join("masu.prom");
    let once = crate::client::masu().args(["export", "--once"]).output().expect("it runs");
    assert!(once.status.success());
    fs::write(&page, &once.stdout).expect("written");
    promtool(&["check", "metrics"], fs::File::open(&page).expect("written").into());
}

/// Each rule has a test for promtool.
#[test]
fn no_rule_is_untested() {
    let tests = shipped("prometheus-rules.test.yml")
        .replace("Masu.*LimitNear", "MasuLimitNear MasuContainerLimitNear");
    let rules = shipped("prometheus-rules.yml");
    let names: Vec<_> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(names.len() >= 5);
    for name in names {
        assert!(tests.contains(name), "{name} has no test");
    }
}
