//! The files for systemd and Kubernetes.

use std::fs;
use std::process::Command;

use masu_tests::{optional_tool, scratch, tool, workspace};
use serde_json::Value;

pub fn shipped(name: &str) -> String {
    fs::read_to_string(workspace().join("packaging/observe").join(name)).expect(name)
}

/// A YAML file, read by Python.
fn yaml(name: &str) -> Value {
    let mut python = Command::new(tool("python3"));
    python.args([
        "-c",
        "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))",
    ]);
    let done =
        python.arg(workspace().join("packaging/observe").join(name)).output().expect("it runs");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{name}: {said}");
    serde_json::from_slice(&done.stdout).expect("JSON")
}

/// The command understands what a container runs, and may read what it needs to read.
#[track_caller]
fn is_exporter(container: &Value) {
    let words: Vec<_> = container["command"]
        .as_array()
        .expect("a command")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(words[..2], ["masu", "export"]);
    assert!(words.contains(&"--listen=$(POD_IP):9464"), "{words:?}");
    assert_eq!(container["env"][0]["valueFrom"]["fieldRef"]["fieldPath"], "status.podIP");
    assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/healthz");
    assert_eq!(container["ports"][0]["containerPort"], 9464);
    let security = &container["securityContext"];
    assert_eq!(security["capabilities"]["drop"][0], "ALL");
    assert_eq!(security["allowPrivilegeEscalation"], false);
}

#[test]
fn kubernetes_files_are_what_they_say() {
    let node = yaml("kubernetes/daemonset.yaml");
    assert_eq!((&node["kind"], &node["apiVersion"]), (&"DaemonSet".into(), &"apps/v1".into()));
    let pod = &node["spec"]["template"];
    assert_eq!(node["spec"]["selector"]["matchLabels"], pod["metadata"]["labels"]);
    assert_eq!(pod["spec"]["hostPID"], true);
    is_exporter(&pod["spec"]["containers"][0]);
    let added = &pod["spec"]["containers"][0]["securityContext"]["capabilities"]["add"];
    assert_eq!(added, &serde_json::json!(["SYS_PTRACE", "DAC_READ_SEARCH"]));
    let beside = yaml("kubernetes/sidecar.yaml");
    assert_eq!(beside["spec"]["shareProcessNamespace"], true);
    is_exporter(&beside["spec"]["containers"][1]);
}

/// systemd understands every line of the unit, and rates it well confined.
#[test]
fn the_unit_is_understood_by_systemd() {
    let unit = shipped("masu-export.service");
    // A package's command or that of `make install`: systemd searches for it.
    assert!(unit.contains("ExecStart=masu export --listen "));
    if optional_tool("systemd-analyze", "the unit of masu export, as systemd reads it").is_none() {
        return;
    }
    let place = scratch();
    let file = place.path().join("masu-export.service");
    fs::write(&file, unit.replace("ExecStart=masu", "ExecStart=/bin/true")).expect("written");
    let verify = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output();
    let said = String::from_utf8_lossy(&verify.expect("it runs").stderr).into_owned();
    assert!(!said.contains("masu-export.service"), "{said}");
    let mut security = Command::new("systemd-analyze");
    let rated = security.args(["security", "--offline=true", "--threshold=30"]).arg(&file).output();
    let rated = rated.expect("it runs");
    assert!(rated.status.success(), "{}", String::from_utf8_lossy(&rated.stdout));
}
