//! The exporter under the restrictions of its unit: it reads other users' processes all the same.
//!
//! systemd need not run for that. What the unit says is put into practice here: the user, the capabilities and the
//! mounts by util-linux, and the system calls by a filter of their own, whose groups `systemd-analyze` knows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use masu_tests::{Compile, is_masu, library, scratch, tool};
use tempfile::TempDir;

use crate::client::{Running, figure, get, masu};
use crate::observe::shipped;

/// A user that no other process has, as with `DynamicUser=`; and one whose process is read.
const USERS: [u32; 2] = [64_321, 64_322];

/// Mounts, as the unit's lines on files, devices and the kernel ask for them. The files in $1 are in /mnt afterwards.
const MOUNTS: &str = r#"set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt; cp "$1"/* /mnt; : >/mnt/none; chmod 0 /mnt/none; chmod 755 /mnt
# PrivateDevices
mkdir /mnt/dev
mount -t tmpfs -o mode=755 tmpfs /mnt/dev
cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /mnt/dev
mount --move /mnt/dev /dev; rmdir /mnt/dev
# PrivateTmp
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=1777 tmpfs /var/tmp
# ProtectKernelTunables, ProtectKernelLogs
for file in /proc/kcore /proc/kallsyms /proc/kmsg; do [ ! -e $file ] || mount --bind /mnt/none $file; done
for place in /proc/sys /proc/irq /proc/fs; do [ ! -e $place ] || mount --bind $place $place; done
# ProtectSystem=strict, ProtectControlGroups, ProtectHome=read-only
while read -r _ place _; do
    case $place in /proc | /dev | /tmp | /var/tmp) continue ;; esac
    mount -o remount,bind,ro "$(printf %b "$place")" 2>/dev/null || true
done </proc/self/mounts
shift
exec "$@"
"#;

/// The values of a key of the unit, from all its lines.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    let lines = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    lines.flat_map(str::split_whitespace).collect()
}

/// The system calls in a group of systemd's, and in its groups.
fn group(name: &str, calls: &mut BTreeSet<String>) {
    let mut analyze = Command::new("systemd-analyze");
    let done = analyze.args(["syscall-filter", "--no-pager", name]).output().expect("it runs");
    assert!(done.status.success(), "{name}");
    let text = String::from_utf8(done.stdout).expect("text");
    for word in text.lines().skip(1).map(str::trim).filter(|word| !word.starts_with('#')) {
        match word.starts_with('@') {
            true => group(word, calls),
            false => _ = calls.insert(word.to_owned()),
        }
    }
}

/// The numbers of the system calls on this machine.
fn numbers() -> BTreeMap<String, u32> {
    let mut cc = Command::new(tool("cc"));
    cc.args(["-E", "-dM", "-include", "sys/syscall.h", "-xc", "/dev/null"]);
    let text = String::from_utf8(cc.output().expect("it runs").stdout).expect("text");
    let defines: BTreeMap<_, _> = text
        .lines()
        .filter_map(|line| line.strip_prefix("#define ")?.split_once(' '))
        .map(|(name, value)| (name, value.trim()))
        .collect();
    let number = |value: &str| value.parse().ok();
    let calls = defines.iter().filter_map(|(name, value)| {
        let name = name.strip_prefix("__NR_")?;
        let found = number(value).or_else(|| defines.get(value).and_then(|value| number(value)))?;
        Some((name.to_owned(), found))
    });
    calls.collect()
}

/// The filter that systemd makes of the unit's lines on system calls, addresses, namespaces and executable memory.
fn filter(unit: &str) -> Vec<u8> {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
    const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
    let refuse = |error: i32| libc::SECCOMP_RET_ERRNO | error as u32;
    // Where `struct seccomp_data` has the call's number, and the lower half of an argument.
    let argument = |n: u32| 16 + 8 * n + if cfg!(target_endian = "big") { 4 } else { 0 };
    let numbers = numbers();
    let mut code: Vec<(u32, u8, u8, u32)> = vec![(LOAD, 0, 0, 0)];
    // What happens for one call: if nothing does, the next lines look at its number again.
    let mut on = |name: &str, lines: &[(u32, u8, u8, u32)]| {
        let Some(&number) = numbers.get(name) else { return };
        code.push((EQUAL, 0, lines.len() as u8 + 1, number));
        code.extend(lines);
        code.push((LOAD, 0, 0, 0));
    };
    let families = values(unit, "RestrictAddressFamilies").into_iter().map(|name| match name {
        "AF_INET" => libc::AF_INET as u32,
        "AF_INET6" => libc::AF_INET6 as u32,
        "AF_UNIX" => libc::AF_UNIX as u32,
        other => panic!("{other} is not known here"),
    });
    let families: Vec<_> = families.collect();
    let mut socket = vec![(LOAD, 0, 0, argument(0))];
    for (at, family) in families.iter().enumerate() {
        socket.push((EQUAL, (families.len() - at) as u8, 0, *family));
    }
    socket.push((RETURN, 0, 0, refuse(libc::EAFNOSUPPORT)));
    on("socket", &socket);
    assert_eq!(values(unit, "RestrictNamespaces"), ["yes"]);
    let namespaces = libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET;
    let refused = (RETURN, 0, 0, refuse(libc::EPERM));
    for name in ["clone", "unshare"] {
        on(name, &[(LOAD, 0, 0, argument(0)), (ANY_BIT, 0, 1, namespaces as u32), refused]);
    }
    on("clone3", &[(RETURN, 0, 0, refuse(libc::ENOSYS))]);
    on("setns", &[refused]);
    assert_eq!(values(unit, "MemoryDenyWriteExecute"), ["yes"]);
    let both = (libc::PROT_WRITE | libc::PROT_EXEC) as u32;
    on("mmap", &[(LOAD, 0, 0, argument(2)), (AND, 0, 0, both), (EQUAL, 0, 1, both), refused]);
    for name in ["mprotect", "pkey_mprotect"] {
        on(name, &[(LOAD, 0, 0, argument(2)), (ANY_BIT, 0, 1, libc::PROT_EXEC as u32), refused]);
    }
    let mut calls = BTreeSet::new();
    for name in values(unit, "SystemCallFilter") {
        match (name.starts_with('@'), name.strip_prefix('~')) {
            (true, _) => group(name, &mut calls),
            (_, Some(less)) => assert!(calls.remove(less), "{less}"),
            _ => _ = calls.insert(name.to_owned()),
        }
    }
    assert!(calls.len() > 200, "{calls:?}");
    for number in calls.iter().filter_map(|name| numbers.get(name)) {
        code.extend([(EQUAL, 0, 1, *number), (RETURN, 0, 0, ALLOW)]);
    }
    assert_eq!(values(unit, "SystemCallErrorNumber"), ["EPERM"]);
    code.push(refused);
    let line = |(what, yes, no, k): (u32, u8, u8, u32)| {
        let mut bytes = (what as u16).to_ne_bytes().to_vec();
        bytes.extend([yes, no]);
        bytes.extend(k.to_ne_bytes());
        bytes
    };
    code.into_iter().flat_map(line).collect()
}

/// Runs the command `/mnt/masu`, or another, as the unit says. The files that this takes are in the directory.
fn confined(unit: &str, place: &TempDir, words: &[&str]) -> Command {
    assert_eq!(values(unit, "DynamicUser"), ["yes"]);
    for key in [
        "NoNewPrivileges",
        "PrivateDevices",
        "PrivateTmp",
        "ProtectControlGroups",
        "ProtectKernelLogs",
        "ProtectKernelTunables",
    ] {
        assert_eq!(values(unit, key), ["yes"], "{key}");
    }
    let all = |key: &str| -> String {
        let names = values(unit, key).into_iter();
        names.map(|name| format!(",+{}", name.trim_start_matches("CAP_").to_lowercase())).collect()
    };
    let (bounding, ambient) = (all("CapabilityBoundingSet"), all("AmbientCapabilities"));
    fs::write(place.path().join("filter"), filter(unit)).expect("written");
    let user = USERS[0];
    let mut command = Command::new("unshare");
    command.args(["--mount", "--uts", "sh", "-c", MOUNTS, "sh"]).arg(place.path());
    command.arg("setpriv").args([
        format!("--reuid={user}"),
        format!("--regid={user}"),
        "--clear-groups".into(),
        format!("--bounding-set=-all{bounding}"),
        format!("--inh-caps=-all{ambient}"),
        format!("--ambient-caps=-all{ambient}"),
        "--no-new-privs".into(),
    ]);
    command.args(["/mnt/confined", "/mnt/filter"]).args(words);
    command
}

/// The figures of two processes, this user's and another's, that an exporter under the restrictions of the unit shows.
fn shown(unit: &str, place: &TempDir, processes: [u32; 2]) -> (Running, String, [Option<f64>; 2]) {
    let words = ["/mnt/masu", "export", "--listen", "127.0.0.1:0", "--max-age", "0s"];
    let (exporter, line) = Running::start(&mut confined(unit, place, &words));
    let address = line.trim().strip_prefix("masu: metrics at http://").expect("its address");
    let address = address.strip_suffix("/metrics").expect("a path").to_owned();
    let metrics = get(&address, "/metrics").text();
    let figures = processes.map(|id| figure(&metrics, "masu_allocated_bytes", id));
    (exporter, address, figures)
}

#[test]
fn the_service_may_do_what_it_does_and_no_more() {
    if !is_masu() {
        return;
    }
    // SAFETY: it only returns a number.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root || Command::new("systemd-analyze").arg("--version").output().is_err() {
        println!("the service is tried by root, with systemd-analyze installed");
        return;
    }
    let unit = shipped("masu-export.service");
    let (place, open) = (scratch(), scratch());
    let helper = Compile::c("c/confined.c").build();
    let fleet = crate::fleet();
    let command = masu();
    // By separate processes: a file that is open for writing, even in a child of another test, cannot be executed.
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        let mut copy = Command::new("cp");
        assert!(copy.arg(from).arg(to).status().expect("it runs").success(), "{}", from.display());
    };
    copy(helper.path(), &place.path().join("confined"));
    copy(command.get_program().as_ref(), &place.path().join("masu"));
    copy(fleet.path(), &open.path().join("fleet"));
    copy(library().expect("masu is a library"), &open.path().join("libmasu.so"));
    let mut everybodys = Command::new("chmod");
    assert!(everybodys.arg("-R").arg("a+rX").arg(open.path()).status().expect("it runs").success());

    // What is forbidden fails here.
    let script = "touch /usr/masu && echo files; unshare --user true && echo namespaces; \
                  echo 0 >/proc/sys/kernel/printk && echo tunables; head -c 1 /proc/kcore | grep -q . && echo memory; \
                  ls /dev/vda /dev/sda && echo devices; chroot / true && echo calls; cat /proc/self/status";
    let probe = confined(&unit, &place, &["/bin/sh", "-c", script]).output().expect("it runs");
    let said = String::from_utf8_lossy(&probe.stdout).into_owned();
    let field = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
        line.unwrap_or_else(|| panic!("{name}: {said}{}", String::from_utf8_lossy(&probe.stderr)))
    };
    assert!(said.starts_with("Name:"), "it may: {said}");
    assert_eq!((field("Seccomp"), field("NoNewPrivs")), ("2", "1"));
    // CAP_DAC_READ_SEARCH is 2, and CAP_SYS_PTRACE is 19.
    let two = format!("{:016x}", 1 << 2 | 1 << 19);
    assert_eq!([field("CapEff"), field("CapBnd"), field("CapAmb")], [&*two; 3]);
    assert!(field("Uid").starts_with(&USERS[0].to_string()), "{said}");

    let own = Running::on_masu(&open.path().join("fleet"), "3", "");
    let mut other = Command::new(open.path().join("fleet"));
    other.arg("5").env("LD_PRELOAD", open.path().join("libmasu.so")).uid(USERS[1]).gid(USERS[1]);
    let (other, ready) = Running::start(other.stderr(Stdio::inherit()));
    assert_eq!(ready, "ready\n");
    let processes = [own.id(), other.id()];
    let (exporter, address, figures) = shown(&unit, &place, processes);
    let in_mib = |figures: [Option<f64>; 2]| {
        figures.map(|bytes| bytes.map(|bytes| (bytes / f64::from(1 << 20)) as u32))
    };
    assert_eq!(in_mib(figures), [Some(3), Some(5)]);
    let path = format!("/{}/debug/pprof/heap?seconds=1", other.id());
    let profile = get(&address, &path);
    assert!(profile.status == 200 && profile.body.starts_with(&[0x1f, 0x8b]), "{}", profile.text());
    assert_eq!(exporter.stop(), Some(0));

    // It is by this capability that it reads, and by another way where the filter refuses the call that is for that.
    for (line, less, expected) in [
        ("AmbientCapabilities=CAP_SYS_PTRACE ", "AmbientCapabilities=", [None, None]),
        ("\n[Install]", "SystemCallFilter=~process_vm_readv\n[Install]", [Some(3), Some(5)]),
    ] {
        let unit = unit.replace(line, less);
        assert!(unit.contains(less));
        let (exporter, _, figures) = shown(&unit, &place, processes);
        assert_eq!(in_mib(figures), expected, "{less}");
        drop(exporter);
    }
}
