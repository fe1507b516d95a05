//! Containers: the real seccomp filters of Docker and Podman, loaded as their runtimes load them, and in them programs on
//! masu, the command, and what a filter must not refuse.
//!
//! `tests/install-tools` unpacks the profiles below [`PROFILES`]. Root also takes the capabilities that a container has.

mod common;

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use masu_tests::running::{Running, command};
use masu_tests::{Compile, Outcome, Program, Run, left_out, library, scratch, workspace};
use serde_json::Value;

/// Where the profiles are: Docker's and Podman's of Debian's packages, and Docker's of today.
const PROFILES: &str = "/opt/masu-tests/filters";

/// The capabilities of a container that is given no others: Docker's, and, without the last three, Podman's.
const CAPABILITIES: [&str; 14] = [
    "chown",
    "dac_override",
    "fowner",
    "fsetid",
    "kill",
    "net_bind_service",
    "setfcap",
    "setgid",
    "setpcap",
    "setuid",
    "sys_chroot",
    "mknod",
    "net_raw",
    "audit_write",
];

/// A container, by its profile.
struct Container {
    name: &'static str,
    profile: Value,
    capabilities: &'static [&'static str],
}

/// All whose profiles are there. Docker's of today takes Go to fetch.
fn containers() -> Vec<Container> {
    let find = |&(name, capabilities): &(&'static str, usize)| {
        let path = Path::new(PROFILES).join(format!("{name}.json"));
        let text = match fs::read_to_string(&path) {
            Err(_) if name == "docker" => {
                left_out("the filter of today's Docker", "Go's module of it could not be fetched");
                return None;
            }
            text => text
                .unwrap_or_else(|error| panic!("{error}: {}: tests/install-tools", path.display())),
        };
        let profile = serde_json::from_str(&text).expect("JSON");
        Some(Container { name, profile, capabilities: &CAPABILITIES[..capabilities] })
    };
    [("docker", 14), ("docker-debian", 14), ("podman-debian", 11)].iter().filter_map(find).collect()
}

/// What a filter does to a call that its profile does not name.
#[derive(Clone, Copy)]
enum Rest {
    /// What the profile says.
    Fails,
    /// The process ends: it proves that the program makes no such call.
    Kills,
}

/// This machine's architecture as the profiles name it: to libseccomp, and to Go.
const ARCHITECTURE: (&str, &str) = match std::env::consts::ARCH.as_bytes() {
    b"x86_64" => ("SCMP_ARCH_X86_64", "amd64"),
    b"aarch64" => ("SCMP_ARCH_AARCH64", "arm64"),
    _ => ("SCMP_ARCH_RISCV64", "riscv64"),
};

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().map(|item| item.as_str().expect("text"))
}

/// The kernel's version: two numbers, as of `4.8`.
fn version(text: &str) -> (u32, u32) {
    let mut numbers = text.split(['.', '-']).map(|number| number.parse().expect("a number"));
    (numbers.next().expect("the first"), numbers.next().expect("the second"))
}

impl Container {
    fn has(&self, capability: &str) -> bool {
        let name = capability.strip_prefix("CAP_").expect("a capability").to_lowercase();
        self.capabilities.contains(&name.as_str())
    }

    /// Whether a rule is one for this machine and container.
    fn applies(&self, rule: &Value) -> bool {
        let (includes, excludes) = (&rule["includes"], &rule["excludes"]);
        let mut arches = strings(&includes["arches"]).peekable();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux");
        (arches.peek().is_none() || arches.any(|arch| arch == ARCHITECTURE.1))
            && strings(&includes["caps"]).all(|name| self.has(name))
            && includes["minKernel"].as_str().is_none_or(|least| version(&kernel) >= version(least))
            && !strings(&excludes["arches"]).any(|arch| arch == ARCHITECTURE.1)
            && !strings(&excludes["caps"]).any(|name| self.has(name))
    }

    /// The rules in `container.c`'s words.
    fn rules(&self, rest: Rest) -> String {
        const EPERM: i64 = libc::EPERM as i64;
        let action = |rule: &Value, error: &str| match rule.as_str().expect("an action") {
            "SCMP_ACT_ALLOW" => "allow".to_owned(),
            "SCMP_ACT_ERRNO" => error.to_owned(),
            other => panic!("{other} is not known here"),
        };
        let profile = &self.profile;
        let error = profile["defaultErrnoRet"].as_i64().unwrap_or(EPERM).to_string();
        let default = match rest {
            Rest::Fails => action(&profile["defaultAction"], &error),
            Rest::Kills => "kill".to_owned(),
        };
        let mut said = format!("default {default}\n");
        let architectures = profile["archMap"].as_array().expect("a list");
        let own = architectures.iter().find(|entry| entry["architecture"] == ARCHITECTURE.0);
        for name in own.iter().flat_map(|own| strings(&own["subArchitectures"])) {
            let name = name.strip_prefix("SCMP_ARCH_").expect("a name").to_lowercase();
            writeln!(said, "arch {name}").expect("written");
        }
        for rule in profile["syscalls"].as_array().expect("a list") {
            if !self.applies(rule) {
                continue;
            }
            let error = rule["errnoRet"].as_i64().unwrap_or(EPERM).to_string();
            let action = action(&rule["action"], &error);
            let mut conditions = String::new();
            for argument in rule["args"].as_array().into_iter().flatten() {
                let number = |key: &str| argument[key].as_u64().unwrap_or(0);
                let operator = argument["op"].as_str().and_then(|op| op.strip_prefix("SCMP_CMP_"));
                let (operator, index) = (operator.expect("an operator"), number("index"));
                let values = [number("value"), number("valueTwo")];
                write!(conditions, " {index} {operator} {} {}", values[0], values[1])
                    .expect("written");
            }
            for name in strings(&rule["names"]) {
                writeln!(said, "rule {action} {name}{conditions}").expect("written");
            }
        }
        said
    }

    /// The words before a program's that run it inside.
    fn words(&self, rest: Rest) -> Vec<String> {
        static RULES: LazyLock<tempfile::TempDir> = LazyLock::new(scratch);
        static SERIAL: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = RULES.path().join(serial.to_string());
        fs::write(&path, self.rules(rest)).expect("written");
        let mut words = vec![
            loader().path().to_string_lossy().into_owned(),
            path.to_string_lossy().into_owned(),
        ];
        // SAFETY: it only returns a number.
        if unsafe { libc::geteuid() } == 0 {
            let capabilities: String =
                self.capabilities.iter().map(|name| format!(",+{name}")).collect();
            words.extend([
                "setpriv".into(),
                format!("--bounding-set=-all{capabilities}"),
                "--inh-caps=-all".into(),
            ]);
        }
        words
    }

    /// A run inside.
    fn run(&self, run: Run, rest: Rest) -> Outcome {
        let words = self.words(rest);
        let rest: Vec<_> = words[1..].iter().map(String::as_str).collect();
        run.through(&words[0], &rest).timeout(Duration::from_secs(180)).run()
    }

    /// A command inside.
    fn command(&self, words: &[&str]) -> Command {
        let before = self.words(Rest::Fails);
        let mut command = Command::new(&before[0]);
        command.args(&before[1..]).args(words);
        command
    }
}

fn loader() -> &'static Program {
    static PROGRAM: LazyLock<Program> =
        LazyLock::new(|| Compile::c("c/container.c").flag("-lseccomp").build());
    &PROGRAM
}

/// Every case of the core.
fn core() -> (Program, Vec<String>) {
    let program = common::core(Compile::with("gcc").flag("-std=gnu11")).build();
    let cases = common::core_cases(&program);
    (program, cases)
}

#[test]
fn the_filters_are_in_force() {
    let program = Compile::c("c/check_main.c").file("c/contained.c").build();
    for container in containers() {
        container.run(Run::program(&program), Rest::Fails).success();
    }
    // Nothing else refuses these calls.
    for (case, refused) in
        [("an_argument_decides", "another personality"), ("a_capability_decides", "kcmp")]
    {
        let free = Run::program(&program).arg(case).run();
        let said = !free.status.success() && free.stderr.contains(refused);
        assert!(said, "{}", free.describe());
    }
}

/// Of the calls that a container's filter does not name, masu makes none: a filter that kills at the first is as good. It
/// asks for threads, and for more from the kernel than `mmap`, too.
#[test]
fn masu_makes_no_call_that_is_refused() {
    if library().is_none() {
        println!("only masu is known to make none");
        return;
    }
    let other =
        |name: &str| (Compile::c("c/check_main.c").file(format!("c/{name}.c")).build(), Vec::new());
    let programs = [core(), other("threads"), other("old_kernel")];
    for container in containers() {
        for (program, cases) in &programs {
            let outcome = container.run(Run::program(program).args(cases), Rest::Kills);
            assert!(outcome.status.success(), "{}: {}", container.name, outcome.describe());
        }
    }
}

/// The test before this one fails if a filter refuses what masu cannot do without.
#[test]
fn a_filter_without_what_masu_needs_is_noticed() {
    if library().is_none() {
        return;
    }
    let refuse = Compile::c("c/refuse.c").build();
    // Mappings for which nothing is reserved (MAP_NORESERVE), as masu's are and the loader's are not.
    let reserve = libc::MAP_NORESERVE.to_string();
    let words = [&libc::SYS_mmap.to_string(), "3", &reserve, &reserve, &libc::EPERM.to_string()];
    let (program, cases) = core();
    for container in containers() {
        let run = Run::program(&program).args(&cases);
        let run = run.through(&refuse.path().to_string_lossy(), &words);
        let outcome = container.run(run, Rest::Kills);
        assert_eq!(outcome.status.code(), Some(1), "{}: {}", container.name, outcome.describe());
    }
}

/// Python, redis and git do the same in a container with the library as without.
#[test]
fn real_programs_do_their_work() {
    let Some(library) = library() else { return };
    let script = workspace().join("tests/programs/run");
    for container in containers() {
        let run = Run::new("bash").bare().arg(&script).arg("--lib").arg(library);
        let outcome = container.run(run.args(["bash", "git", "python", "redis"]), Rest::Fails);
        assert!(outcome.status.success(), "{}: {}", container.name, outcome.describe());
    }
}

/// The command starts programs in a container, finds nothing amiss there, and looks into its processes.
#[test]
fn the_command_does_its_work() {
    if library().is_none() {
        return;
    }
    let masu = command();
    let masu = masu.to_string_lossy();
    let explained = Compile::c("c/explained.c").flag("-pthread").build();
    for container in containers() {
        let inside = |words: &[&str]| -> String {
            let words: Vec<_> = std::iter::once(&*masu).chain(words.iter().copied()).collect();
            let output = container.command(&words).output().expect("it runs");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{} {words:?}: {said}", container.name);
            String::from_utf8(output.stdout).expect("text")
        };
        let json =
            |words: &[&str]| -> Value { serde_json::from_str(&inside(words)).expect("JSON") };
        let maps = inside(&["run", "--", "cat", "/proc/self/maps"]);
        assert!(maps.contains("libmasu"), "{maps}");
        let doctor = json(&["doctor", "--json"]);
        let findings = doctor["findings"].as_array().expect("a list");
        let calls: Vec<_> =
            findings.iter().filter(|finding| finding["id"] == "kernel.calls").collect();
        assert!(matches!(calls[..], [finding] if finding["severity"] == "ok"), "{calls:#?}");

        let mut program = container.command(&[&explained.path().to_string_lossy()]);
        let mut running = Running::start(&mut program);
        running.says("ready");
        let id = running.id().to_string();
        let account = json(&["explain", "--json", &id]);
        assert!(account["rss"].as_u64().is_some_and(|bytes| bytes > 10 << 20), "{account}");
        let figures = json(&["stats", "--json", "-p", &id]);
        let allocated = figures["statistics"]["allocated"].as_u64();
        assert!(allocated.is_some_and(|bytes| bytes >= 10_240_000), "{figures}");
        drop(running);

        // It writes into the process, too.
        let script =
            "import time\nprint('ready', flush=True)\nwhile True: bytes(1 << 20); time.sleep(0.01)";
        let mut program = container.command(&["/usr/bin/python3", "-S", "-c", script]);
        let mut running = Running::start(&mut program);
        running.says("ready");
        let id = running.id().to_string();
        let profile = inside(&["prof", "-p", &id, "--for", "1s", "--allocated"]);
        assert!(profile.contains("python3"), "{profile}");
    }
}
