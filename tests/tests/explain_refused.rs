//! Users who cannot look into a process are told why and what to do; nobody is ever shown a wrong number.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use masu_tests::running::{Running, await_sleeps, await_watch, command, masu};
use masu_tests::{Compile, Program, is_masu, library, scratch, tool};
use tempfile::TempDir;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The first line is the sentence, and the second says what to do.
#[track_caller]
fn is_refused(output: &Output, sentence: &str, way_out: &str) {
    let said = said(output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let mut lines = said.lines();
    assert_eq!(lines.next(), Some(sentence), "{said}");
    assert!(lines.next().is_some_and(|line| line.contains(way_out)), "{said}");
    assert!(output.stdout.is_empty(), "{output:?}");
}

/// Every command that asks a process, with its id.
fn questions(id: &str) -> [Vec<&str>; 5] {
    [
        vec!["explain", id],
        vec!["stats", "-p", id],
        vec!["purge", "-p", id],
        vec!["watch", "-p", id],
        vec!["prof", "-p", id],
    ]
}

/// A program that waits, on this library.
fn waiting(library: &Path) -> (Program, Running) {
    let program = Compile::c("c/explained.c").flag("-pthread").build();
    let library = library.to_string_lossy();
    let mut running = Running::start_on(&library, &mut Command::new(program.path()));
    running.says("ready");
    (program, running)
}

fn own() -> &'static Path {
    library().expect("masu is a library")
}

#[test]
fn a_process_that_is_none_or_has_ended() {
    if !is_masu() {
        return;
    }
    for question in questions("4194305") {
        is_refused(&masu(&question), "masu: there is no process 4194305", "pgrep");
    }
    let plain =
        Running(Command::new("sleep").arg("60").env_remove("LD_PRELOAD").spawn().expect("it runs"));
    let id = plain.id().to_string();
    for question in questions(&id) {
        let sentence = format!("masu: process {id} does not run on masu");
        is_refused(&masu(&question), &sentence, "masu run");
    }
    // A process that has ended but has not been waited for.
    let mut ended = Command::new("true").spawn().expect("it runs");
    let id = ended.id().to_string();
    let deadline = Instant::now() + Duration::from_secs(20);
    let state = || fs::read_to_string(format!("/proc/{id}/stat")).expect("nobody has waited");
    while !state().contains(") Z ") {
        assert!(Instant::now() < deadline, "`true` does not end");
        sleep(Duration::from_millis(10));
    }
    for question in questions(&id) {
        is_refused(&masu(&question), &format!("masu: process {id} has ended"), "masu watch");
    }
    ended.wait().expect("it has ended");
}

#[test]
fn a_place_without_proc() {
    if !is_masu() || !is_root() {
        return;
    }
    for question in questions("1") {
        let mut shell = Command::new(tool("unshare"));
        shell.args(["-m", "sh", "-c", "mount -t tmpfs none /proc && exec \"$@\"", "sh"]);
        let output = shell.arg(command()).args(&question).output().expect("it runs");
        is_refused(&output, "masu: process 1 cannot be found: there is no /proc", "mount -t proc");
    }
}

/// Processes that end while they are looked at: whenever it happens, there is an answer or a sentence.
#[test]
fn a_process_that_ends_meanwhile() {
    if !is_masu() {
        return;
    }
    for round in 0..40 {
        let mut command = Command::new("sh");
        command.args(["-c", "x=$(seq 20000); :"]).env("LD_PRELOAD", own());
        let mut child = command.spawn().expect("it runs");
        sleep(Duration::from_micros(200 * round));
        let id = child.id().to_string();
        for question in [vec!["explain", &id], vec!["stats", "-p", &id]] {
            let output = masu(&question);
            let said = said(&output);
            match output.status.code() {
                Some(0 | 3) => assert!(!output.stdout.is_empty()),
                Some(2) => {
                    // It may not run on masu yet, or no longer.
                    let start = format!("masu: process {id} ");
                    let ends = ["has ended", "does not run on masu", "cannot be understood"];
                    let is_known = said
                        .strip_prefix(&start)
                        .is_some_and(|rest| ends.iter().any(|end| rest.starts_with(end)));
                    assert!(is_known, "{said}");
                }
                other => panic!("{other:?}: {said}"),
            }
        }
        child.wait().expect("it ends");
    }
    // A watch ends with its process, and shows what it saw.
    let (_program, mut running) = waiting(own());
    let mut watch = Command::new(command());
    watch.args(["watch", "-p", &running.id().to_string()]);
    let watch = watch.stdout(Stdio::piped()).spawn().expect("it runs");
    await_watch(watch.id());
    await_sleeps(watch.id(), 5);
    running.0.kill().expect("it runs");
    running.0.wait().expect("it ends");
    let output = watch.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with(&format!("process {}", running.id())), "{text}");
}

/// The command in a place where any user may run it.
fn for_everybody() -> TempDir {
    let place = scratch();
    // By another process: while another test forks, a file that this one was just writing cannot be executed.
    let copied = Command::new("cp").arg(command()).arg(place.path().join("masu")).status();
    assert!(copied.is_ok_and(|status| status.success()));
    let open = PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(place.path(), open).expect("set");
    let parent = place.path().parent().expect("a directory");
    std::fs::set_permissions(parent, PermissionsExt::from_mode(0o755)).expect("set");
    place
}

fn is_root() -> bool {
    // SAFETY: asks who we are.
    unsafe { libc::geteuid() == 0 }
}

#[test]
fn another_users_process() {
    if !is_masu() || !is_root() {
        println!("only root can be somebody else");
        return;
    }
    let (_program, running) = waiting(own());
    let (id, place) = (running.id().to_string(), for_everybody());
    let nobody = |arguments: &[&str]| {
        let mut setpriv = Command::new(tool("setpriv"));
        setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        setpriv.arg(place.path().join("masu")).args(arguments).output().expect("setpriv runs")
    };
    for question in questions(&id) {
        let sentence = format!("masu: process {id} may not be read");
        is_refused(&nobody(&question), &sentence, "another user's");
    }
    let top = nobody(&["top", "--once", "--every", "10ms"]);
    let text = String::from_utf8_lossy(&top.stdout).into_owned();
    assert_eq!(top.status.code(), Some(0));
    assert!(text.contains("may not be read; sudo masu top shows all"), "{text}");
    assert!(!text.contains("explained"), "{text}");
}

/// What Yama does to processes of one user: their mappings can be read, their memory cannot.
fn under_yama(mut command: Command) -> Command {
    const ALLOW: u32 = 0x7fff_0000;
    const EPERM: u32 = 0x0005_0000 | libc::EPERM as u32;
    let filter =
        |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let (load, is, end) = (0x20, 0x15, 0x06);
    let program = [
        filter(load, 0, 0, 0),
        filter(is, 5, 0, libc::SYS_process_vm_readv as u32),
        filter(is, 4, 0, libc::SYS_process_vm_writev as u32),
        filter(is, 1, 0, libc::SYS_pread64 as u32),
        filter(is, 0, 3, libc::SYS_pwrite64 as u32),
        // The file of its bytes: other files have no 4 GiB. It is the offset's upper half.
        filter(load, 0, 0, 16 + 3 * 8 + 4),
        filter(is, 1, 0, 0),
        filter(end, 0, 0, EPERM),
        filter(end, 0, 0, ALLOW),
    ];
    let refuse = move || {
        let mut program = program;
        let len = program.len() as u16;
        let program = libc::sock_fprog { len, filter: program.as_mut_ptr() };
        // SAFETY: a filter of so many instructions, which the kernel copies.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
                    == 0
        };
        if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: between fork and exec it makes two system calls.
    unsafe { command.pre_exec(refuse) };
    command
}

#[test]
fn yama_and_sandboxes() {
    if !is_masu() {
        return;
    }
    let (_program, running) = waiting(own());
    let id = running.id().to_string();
    let sentence = format!("masu: process {id} may not be read");
    for question in questions(&id) {
        let mut masu = Command::new(command());
        masu.args(&question);
        is_refused(&under_yama(masu).output().expect("it runs"), &sentence, "a sandbox");
        if !is_root() {
            continue;
        }
        // The kernel's setting, as far as the command can see it.
        for (scope, way_out) in [
            (
                "1",
                "`masu run --conf observe:1 -- COMMAND` (MASU_OBSERVE=1) or `masu watch -- COMMAND`",
            ),
            ("2", "CAP_SYS_PTRACE"),
            ("3", "masu run --stats"),
        ] {
            let script = "mount -t tmpfs none /proc/sys/kernel && mkdir /proc/sys/kernel/yama && \
                          echo $0 > /proc/sys/kernel/yama/ptrace_scope && exec \"$@\"";
            let mut shell = Command::new(tool("unshare"));
            shell.args(["-m", "sh", "-c", script, scope]).arg(command()).args(&question);
            is_refused(&under_yama(shell).output().expect("it runs"), &sentence, way_out);
        }
    }
}

/// With the key, the process and its children ask the kernel to be readable; without it none does.
#[test]
fn processes_that_are_to_be_observed_say_so() {
    if !is_masu() {
        return;
    }
    let place = scratch();
    let asked = |variable: &str| {
        let log = place.path().join("log");
        let mut strace = Command::new(tool("strace"));
        strace
            .args(["-f", "-qq", "-e", "trace=prctl", "-o"])
            .arg(&log)
            .arg("-E")
            .arg(format!("LD_PRELOAD={}", own().display()));
        strace.args(["-E", variable, "bash", "-c", "(:); /bin/true"]);
        assert!(strace.output().expect("strace runs").status.success());
        let log = std::fs::read_to_string(&log).expect("a log");
        let calls = log.lines().filter(|line| line.contains("PR_SET_PTRACER, PR_SET_PTRACER_ANY"));
        let mut processes: Vec<_> =
            calls.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
        processes.dedup();
        processes.len()
    };
    // The shell, its fork, and the program that it forks and executes.
    assert_eq!(asked("MASU_OBSERVE=1"), 3);
    assert_eq!(asked("MASU_CONF=observe:off"), 0);
}

/// A copy of the library whose tables have another version, older or newer, or that says so itself.
fn altered(place: &TempDir, change: impl Fn(&mut [u8; 8])) -> std::path::PathBuf {
    let path = place.path().join("libmasu.so");
    std::fs::copy(own(), &path).expect("copied");
    let mut file = std::fs::File::options().read(true).write(true).open(&path).expect("opened");
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).expect("read");
    // The words that the note leads to: a magic number, and the offset of the layout, whose first word is the version.
    let magic = 0x6d61_7375_u32.to_le_bytes();
    let places = bytes.windows(4).enumerate().filter(|(_, window)| *window == magic);
    let found: Vec<u64> = places
        .filter_map(|(at, _)| {
            let word = bytes.get(at + 4..at + 8)?.try_into().ok()?;
            (at % 8 == 0)
                .then(|| (at as u64).wrapping_add_signed(i64::from(i32::from_le_bytes(word))))
        })
        .filter(|&at| at % 8 == 0 && at + 8 < bytes.len() as u64)
        .collect();
    let [at] = found[..] else { panic!("{} places", found.len()) };
    let version = bytes[at as usize..].first_chunk::<8>().expect("a word");
    let mut changed = *version;
    change(&mut changed);
    file.seek(SeekFrom::Start(at)).and_then(|_| file.write_all(&changed)).expect("written");
    path
}

#[test]
fn another_version_is_named_and_shows_no_number() {
    if !is_masu() {
        return;
    }
    let changes: [fn(&mut [u8; 8]); 3] = [
        |version| version[0] ^= 1,
        |version| *version = 2_u64.to_le_bytes(),
        |version| *version = [0xff; 8],
    ];
    for change in changes {
        let place = scratch();
        let (_program, running) = waiting(&altered(&place, change));
        let id = running.id().to_string();
        for question in questions(&id) {
            let output = masu(&question);
            let said = said(&output);
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(output.stdout.is_empty(), "{output:?}");
            let start = format!("masu: process {id} runs on masu 0.1.0, whose tables (layout ");
            assert!(said.starts_with(&start) && said.contains("does not know"), "{said}");
            assert!(said.contains("use version 0.1.0 of the command `masu`"), "{said}");
        }
        let top = masu(&["top", "--once", "--every", "10ms"]);
        let text = String::from_utf8_lossy(&top.stdout).into_owned();
        assert!(
            !text.lines().any(|line| line.trim_start().starts_with(&format!("{id} "))),
            "{text}"
        );
        assert!(text.contains("on a masu of another version"), "{text}");
    }
}
