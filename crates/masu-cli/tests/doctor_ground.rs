//! `masu doctor` about the ground, from the files of machines that exist only in these tests.

mod common;

use std::collections::BTreeSet;

use common::doctor::{Machine, Severity, finding, findings};
use common::stdout;

/// The answer without what differs between machines.
fn plain(machine: &Machine, text: &str) -> String {
    machine.fixture.plain(text).replace("64-bit ARM", "64-bit x86")
}

#[test]
fn a_sound_machine() {
    let machine = Machine::new();
    let output = machine.doctor().output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let said = plain(&machine, &stdout(&output));
    assert!(!said.contains('\u{1b}'), "colours without a terminal");
    insta::assert_snapshot!("sound", said);
}

/// On a terminal, which `script` provides, there are colours, unless NO_COLOR is set.
#[test]
fn colours_are_for_terminals() {
    let machine = Machine::new();
    let root = machine.fixture.path("root");
    let (root, library) = (root.display(), machine.fixture.witness());
    let command =
        format!("{} doctor --root {root} --lib {}", env!("CARGO_BIN_EXE_masu"), library.display());
    let on_terminal = |variable: &str| {
        let mut script = std::process::Command::new("script");
        script.env_remove("NO_COLOR").env("TERM", "xterm").env(variable, "1");
        let output = script.args(["-qec", &command, "/dev/null"]).output();
        output.ok().map(|output| stdout(&output))
    };
    // A machine without `script` has no terminal for this test.
    let Some(coloured) = on_terminal("OTHER") else { return };
    assert!(coloured.contains("masu can work here."), "{coloured}");
    assert!(coloured.contains("\u{1b}[32m✓"), "{coloured}");
    assert!(!on_terminal("NO_COLOR").unwrap().contains('\u{1b}'));
}

#[test]
fn a_machine_with_everything_wrong() {
    let machine = Machine::new();
    machine.kernel("5.4.0-200-generic");
    machine.remove("proc/pressure/memory");
    machine.page_size(65536);
    machine.huge_pages("[always] madvise never", "[always] defer madvise never");
    machine.set("proc/sys/vm/overcommit_memory", "2");
    machine.meminfo(8 << 20, 4 << 20, 4000 << 10);
    machine.set("proc/sys/vm/max_map_count", "1000");
    machine.limit("Max address space", "536870912");
    machine.cgroup2(
        "/app",
        &[
            ("memory.max", "536870912"),
            ("memory.high", "402653184"),
            ("memory.current", "520093696"),
            ("memory.swap.max", "0"),
            ("memory.events", "low 0\nhigh 9\nmax 3\noom 3\noom_kill 2"),
            ("cpu.max", "150000 100000"),
        ],
    );
    let output = machine.doctor().output().unwrap();
    // All of that is bad, but masu works nevertheless.
    assert_eq!(output.status.code(), Some(0));
    insta::assert_snapshot!("everything_wrong", plain(&machine, &stdout(&output)));
}

#[test]
fn old_kernels_lack_what_masu_uses() {
    let machine = Machine::new();
    for (release, lacks) in [
        ("6.1.0-40-amd64", 0),
        ("5.18.0", 0),
        ("5.17.3", 1),
        ("5.10.0-9-arm64", 2),
        ("5.4.0", 3),
        ("4.14.336", 4),
        ("3.10.0-1160.el7", 5),
    ] {
        machine.kernel(release);
        let found = finding(&machine.json(), "kernel.version");
        let expected = if lacks == 0 { Severity::Ok } else { Severity::Note };
        assert_eq!(found.severity, expected, "{release}");
        let lacking =
            found.sentence.matches(": no ").count() + found.sentence.matches("; no ").count();
        assert_eq!(lacking, lacks, "{}", found.sentence);
    }
    machine.kernel("unknown");
    assert_eq!(finding(&machine.json(), "kernel.version").severity, Severity::Note);
}

#[test]
fn rights_and_pressure() {
    let machine = Machine::new();
    assert!(findings(&machine.json(), "kernel.no_new_privileges").is_empty());
    assert!(findings(&machine.json(), "kernel.pressure").is_empty());
    machine.status("NoNewPrivs", "1");
    machine.remove("proc/pressure/memory");
    assert_eq!(finding(&machine.json(), "kernel.no_new_privileges").severity, Severity::Ok);
    let pressure = finding(&machine.json(), "kernel.pressure");
    assert_eq!(pressure.severity, Severity::Note);
    assert!(pressure.fix.contains("psi=1"), "{}", pressure.fix);
}

#[test]
fn huge_pages() {
    let machine = Machine::new();
    let severity = |enabled: &str, defrag: &str| {
        machine.huge_pages(enabled, defrag);
        let json = machine.json();
        let defrag = findings(&json, "memory.huge_pages_defrag");
        (finding(&json, "memory.huge_pages").severity, defrag.first().map(|found| found.severity))
    };
    let (defer, stall) = ("always defer [defer+madvise] madvise never", "[always] defer never");
    assert_eq!(severity("always [madvise] never", defer), (Severity::Ok, None));
    assert_eq!(severity("[always] madvise never", defer), (Severity::Ok, None));
    assert_eq!(severity("always madvise [never]", defer), (Severity::Note, None));
    assert_eq!(severity("always madvise [never]", stall), (Severity::Note, None));
    let both = (Severity::Ok, Some(Severity::Warning));
    assert_eq!(severity("always [madvise] never", stall), both);
    let fix = finding(&machine.json(), "memory.huge_pages_defrag").fix;
    assert_eq!(fix, "echo defer+madvise > /sys/kernel/mm/transparent_hugepage/defrag");
    machine.remove("sys/kernel/mm/transparent_hugepage/enabled");
    assert_eq!(finding(&machine.json(), "memory.huge_pages").severity, Severity::Note);
}

#[test]
fn overcommit() {
    let machine = Machine::new();
    let severity = |mode: &str, limit: u64, committed: u64| {
        machine.set("proc/sys/vm/overcommit_memory", mode);
        machine.meminfo(8 << 20, limit, committed);
        let found = finding(&machine.json(), "memory.overcommit");
        (found.severity, found.fix)
    };
    assert_eq!(severity("0", 4 << 20, 1 << 20).0, Severity::Ok);
    assert_eq!(severity("1", 4 << 20, 1 << 20).0, Severity::Note);
    assert_eq!(severity("2", 4 << 20, 1 << 20).0, Severity::Note);
    let (worse, fix) = severity("2", 4 << 20, 4000 << 10);
    assert_eq!(worse, Severity::Warning);
    assert!(fix.starts_with("sysctl vm.overcommit_memory=0"), "{fix}");
    // More may already be committed than the limit allows now.
    assert_eq!(severity("2", 4 << 20, 5 << 20).0, Severity::Warning);
}

#[test]
fn pages_and_mappings() {
    let machine = Machine::new();
    machine.page_size(16384);
    let pages = finding(&machine.json(), "memory.page_size");
    assert_eq!(pages.severity, Severity::Note);
    assert!(pages.sentence.contains("16 KiB"), "{}", pages.sentence);
    machine.set("proc/sys/vm/max_map_count", "65529");
    let few = finding(&machine.json(), "memory.max_map_count");
    assert_eq!((few.severity, &*few.fix), (Severity::Warning, "sysctl vm.max_map_count=65530"));
}

#[test]
fn limits_of_the_process() {
    let machine = Machine::new();
    for (row, id, letter) in
        [("Max address space", "limits.address_space", 'v'), ("Max data size", "limits.data", 'd')]
    {
        machine.limit(row, "268435456");
        let narrow = finding(&machine.json(), id);
        assert_eq!(narrow.severity, Severity::Warning);
        assert!(narrow.sentence.contains("256 MiB"), "{}", narrow.sentence);
        assert!(narrow.fix.starts_with(&format!("ulimit -{letter} unlimited")), "{}", narrow.fix);
        assert!(narrow.fix.ends_with("--limit 256MiB"), "{}", narrow.fix);
        machine.limit(row, "17179869184");
        assert_eq!(finding(&machine.json(), id).severity, Severity::Note);
        machine.limit(row, "unlimited");
        assert_eq!(finding(&machine.json(), "limits.address_space").severity, Severity::Ok);
    }
    machine.status("VmLck", "4096 kB");
    let locked = finding(&machine.json(), "limits.locked");
    assert_eq!(locked.severity, Severity::Note);
    assert!(locked.sentence.contains("4 MiB"), "{}", locked.sentence);
    machine.remove("proc/self/limits");
    assert_eq!(finding(&machine.json(), "limits.known").severity, Severity::Note);
}

#[test]
fn a_container_of_version_2() {
    let machine = Machine::new();
    let max = |bytes: &'static str| [("memory.max", bytes), ("memory.current", "104857600")];
    machine.cgroup2("/app", &max("536870912"));
    let found = finding(&machine.json(), "container.memory");
    assert_eq!(found.severity, Severity::Ok);
    assert_eq!(found.sentence, "100 MiB of 512 MiB of memory in use (/sys/fs/cgroup/app).");
    machine.cgroup2("/app", &max("max"));
    let found = finding(&machine.json(), "container.memory");
    assert_eq!(found.sentence, "No limit on memory (cgroup v2).");
    // The group above limits the one below, and its own use counts.
    machine.cgroup2("/app", &max("110000000"));
    machine.cgroup2("/app/worker", &[("memory.max", "max"), ("memory.current", "1048576")]);
    let found = finding(&machine.json(), "container.memory");
    assert_eq!(found.severity, Severity::Warning);
    assert!(found.sentence.starts_with("100 MiB of 105 MiB"), "{}", found.sentence);
    assert!(found.fix.contains("--soft-limit 83MiB"), "{}", found.fix);
    // Files that were read fill a group, and are dropped when memory is needed.
    machine.set("sys/fs/cgroup/app/memory.stat", "anon 5\nfile 90000000\ninactive_file 80000000");
    assert_eq!(finding(&machine.json(), "container.memory").severity, Severity::Ok);
    // A limit above the machine's memory has no effect.
    machine.cgroup2("/app", &max("999999999999999"));
    assert_eq!(
        finding(&machine.json(), "container.memory").sentence,
        "No limit on memory (cgroup v2)."
    );
    let json = machine.json();
    assert_eq!(json["ground"]["container"]["version"], 2);
    assert_eq!(json["ground"]["container"]["memory_max"], 999_999_999_999_999_u64);
}

/// Inside a container the mount shows the container's group as its root, while the path in
/// /proc/self/cgroup may be relative to the machine's.
#[test]
fn a_container_whose_mount_is_a_part_of_the_tree() {
    let machine = Machine::new();
    machine.cgroup2("/worker", &[("memory.max", "268435456"), ("memory.current", "1048576")]);
    machine.set("proc/self/cgroup", "0::/docker/4711/worker");
    machine.mountinfo("1 0 0:1 /docker/4711 /sys/fs/cgroup rw - cgroup2 cgroup rw");
    let json = machine.json();
    assert_eq!(json["ground"]["container"]["memory_max"], 268_435_456_u64);
}

#[test]
fn a_container_of_version_1() {
    let machine = Machine::new();
    machine.set("proc/self/cgroup", "4:memory:/app\n2:cpu,cpuacct:/app");
    machine.mountinfo(
        "1 0 0:1 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
         2 0 0:2 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct",
    );
    let file = |name: &str, text: &str| machine.set(&format!("sys/fs/cgroup/{name}"), text);
    file("memory/memory.limit_in_bytes", "9223372036854771712");
    file("memory/app/memory.limit_in_bytes", "9223372036854771712");
    file("memory/app/memory.usage_in_bytes", "104857600");
    file("cpu/app/cpu.cfs_quota_us", "-1");
    file("cpu/app/cpu.cfs_period_us", "100000");
    let json = machine.json();
    assert_eq!(finding(&json, "container.memory").sentence, "No limit on memory (cgroup v1).");
    assert!(json["ground"]["container"]["memory_max"].is_null());
    assert!(findings(&json, "container.processors").is_empty());

    file("memory/app/memory.limit_in_bytes", "209715200");
    file("memory/app/memory.memsw.limit_in_bytes", "209715200");
    file("memory/app/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1");
    file("cpu/app/cpu.cfs_quota_us", "250000");
    let json = machine.json();
    assert_eq!(
        finding(&json, "container.memory").sentence,
        "100 MiB of 200 MiB of memory in use, no swap (/sys/fs/cgroup/memory/app)."
    );
    assert_eq!(finding(&json, "container.processors").sentence, "2.5 processors (quota).");
    let killed = finding(&json, "container.killed");
    assert_eq!(killed.severity, Severity::Warning);
    assert_eq!(killed.sentence, "The kernel has killed processes here for lack of memory once.");
}

#[test]
fn the_schema_is_the_committed_one_and_answers_follow_it() {
    let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/doctor.schema.json");
    let output = common::masu().args(["doctor", "--schema"]).output().unwrap();
    let written = std::fs::read_to_string(committed).unwrap();
    assert!(stdout(&output) == written, "another schema");

    let schema: serde_json::Value = serde_json::from_str(&written).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let machine = Machine::new();
    let follows = |json: &serde_json::Value| {
        let errors: Vec<_> = validator.iter_errors(json).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(
            (json["schema"].as_str(), json["version"].as_u64()),
            (Some("masu-doctor"), Some(1))
        );
    };
    follows(&machine.json());
    machine.cgroup2("/app", &[("memory.max", "536870912"), ("cpu.max", "150000 100000")]);
    follows(&machine.json());
    assert!(!validator.is_valid(&serde_json::json!({ "schema": "masu-doctor" })));
}

/// Scripts rely on these names.
#[test]
fn every_finding_is_documented() {
    const AREAS: [&str; 8] =
        ["program", "process", "library", "environment", "kernel", "memory", "limits", "container"];
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let documentation = std::fs::read_to_string(here.join("../../docs/doctor.md")).unwrap();
    let rows = documentation.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut documented = BTreeSet::new();
    for row in rows {
        let names = row.split(" |").next().unwrap().split('`').step_by(2);
        // A row names its area only once: `program.linkage`, `.machine`.
        let area = row.split('.').next().unwrap();
        documented.extend(
            names.filter_map(|name| name.split_once('.')).map(|(_, name)| format!("{area}.{name}")),
        );
    }

    let mut sources = vec![here.join("src/obstacle.rs"), here.join("src/doctor")];
    let mut used = BTreeSet::new();
    while let Some(path) = sources.pop() {
        if path.is_dir() {
            sources.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let is_name = |word: &&str| {
            let parts = word.split_once('.').filter(|(area, _)| AREAS.contains(area));
            // The files of a control group have such names, too.
            let is_file = word.starts_with("memory.") && path.ends_with("container.rs");
            let plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            !is_file && parts.is_some_and(|(_, name)| name.bytes().all(plain))
        };
        let text = std::fs::read_to_string(&path).unwrap();
        used.extend(text.split('"').filter(is_name).map(str::to_owned));
    }
    assert!(used.len() > 30, "{used:?}");
    assert_eq!(documented, used);
}
