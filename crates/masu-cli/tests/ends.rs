//! How `masu watch` and `masu prof` end, and what they refuse before they start.

mod common;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{Fixture, copy, heed_ctrl_c, masu};

/// Longer than anything here may take, and shorter than uninterrupted waits.
const PATIENCE: Duration = Duration::from_secs(300);

/// The command with the stand-in for the library beside it.
fn beside(fixture: &Fixture) -> PathBuf {
    let command = fixture.path("masu");
    copy(masu().get_program(), &command);
    copy(fixture.witness(), &fixture.path("libmasu.so"));
    command
}

fn start(command: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(command);
    command.args(arguments).env_remove("LD_PRELOAD").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until a program prints that it is ready.
fn ready(child: &mut Child) {
    let mut said = Vec::new();
    while !said.ends_with(b"ready\n") {
        let mut byte = [0];
        child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
        said.extend(byte);
    }
    // If the command was quick, masu may not handle signals yet.
    let caught = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).unwrap();
        u64::from_str_radix(caught, 16).unwrap() >> (libc::SIGTERM - 1) & 1 == 1
    };
    let begin = Instant::now();
    while !caught() {
        assert!(begin.elapsed() < Duration::from_secs(30), "signals are not handled");
        sleep(Duration::from_millis(1));
    }
}

fn send(process: i32, signal: i32) {
    // SAFETY: a child of the test, or of its child.
    assert_eq!(unsafe { libc::kill(process, signal) }, 0);
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_command_that_is_watched_gets_the_signals_of_a_process_and_its_code_is_told() {
    heed_ctrl_c();
    let (fixture, begin) = (Fixture::new(), Instant::now());
    let command = beside(&fixture);
    let trap = "trap 'echo ended; kill $!; exit 7' HUP INT QUIT TERM; sleep 600 >&- 2>&- & echo ready; wait";
    let wait = "echo ready; exec sleep 600";
    for (signal, script, code, said) in [
        (libc::SIGTERM, trap, 7, "ended\n"),
        (libc::SIGTERM, wait, 143, ""),
        (libc::SIGINT, trap, 7, "ended\n"),
        (libc::SIGINT, wait, 130, ""),
        (libc::SIGHUP, trap, 7, "ended\n"),
        (libc::SIGHUP, wait, 129, ""),
        (libc::SIGQUIT, trap, 7, "ended\n"),
    ] {
        let words = ["watch", "--every", "10h", "--", "sh", "-c", script];
        let mut child = start(&command, &words);
        ready(&mut child);
        send(child.id() as i32, signal);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(output.stdout.starts_with(said.as_bytes()));
    }
    assert!(begin.elapsed() < PATIENCE);
}

/// A terminal sends its signals to both.
#[test]
fn a_command_that_is_watched_gets_ctrl_c_once() {
    const TERMINAL: &str = "
import os, pty, signal, sys, time
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
said = b''
def until(times, word):
    global said
    while said.count(word) < times:
        said += os.read(terminal, 1000)
until(1, b'ready')
os.write(terminal, b'\\x03')
until(1, b'got')
time.sleep(0.5)
# One more of a process: a second from the terminal would be before it.
os.kill(child, signal.SIGINT)
until(2, b'got')
os.kill(child, signal.SIGTERM)
try:
    until(1000, b'got')
except OSError:
    pass
print(said.count(b'got'), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
";
    heed_ctrl_c();
    let fixture = Fixture::new();
    let mut python = Command::new("python3");
    python.args(["-c", TERMINAL]).arg(beside(&fixture));
    python.args(["watch", "--every", "10h", "--", "sh", "-c"]);
    python.arg("trap 'echo got' INT; echo ready; while :; do sleep 0.05; done");
    let output = python.env_remove("LD_PRELOAD").output().unwrap();
    assert_eq!(common::stdout(&output), "2 143\n", "{}", stderr(&output));
}

/// The kernel tells the end of a terminal to the leader of the session: this command, or a shell, which tells all.
#[test]
fn a_command_that_is_watched_gets_the_end_of_the_terminal_once() {
    const TERMINAL: &str = "
import os, pty, signal, sys
child, terminal = pty.fork()
if child == 0:
    if sys.argv[1] == 'shell':
        watch = os.fork()
        if watch != 0:
            def tell(*_):
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
                os.killpg(0, signal.SIGHUP)
            signal.signal(signal.SIGHUP, tell)
            os._exit(os.waitstatus_to_exitcode(os.waitpid(watch, 0)[1]))
    os.execv(sys.argv[2], sys.argv[2:])
said = b''
while b'ready' not in said:
    said += os.read(terminal, 1000)
os.close(terminal)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
";
    heed_ctrl_c();
    let fixture = Fixture::new();
    let (command, got, image) = (beside(&fixture), fixture.path("got"), fixture.path("x.svg"));
    for leader in ["masu", "shell"] {
        fs::write(&got, "").unwrap();
        let mut python = Command::new("python3");
        python.args(["-c", TERMINAL, leader]).arg(&command).args(["watch", "--svg"]).arg(&image);
        // It ends a while after the first signal.
        let script = "trap 'echo got >> \"$0\"' HUP; echo ready\n\
                      until [ -s \"$0\" ]; do sleep 0.05; done; sleep 0.5; sleep 0.2; exit 7";
        python.args(["--", "sh", "-c", script]).arg(&got);
        let output = python.env_remove("LD_PRELOAD").output().unwrap();
        assert_eq!(common::stdout(&output), "7\n", "{leader}: {}", stderr(&output));
        assert_eq!(fs::read_to_string(&got).unwrap(), "got\n", "{leader}");
        fs::remove_file(&image).unwrap();
    }
}

/// The first failure must not cost the rest; stdout comes last, since a reader that has gone ends the process.
#[test]
fn an_output_that_cannot_be_written_does_not_cost_the_others() {
    let fixture = Fixture::new();
    let command = beside(&fixture);
    let whole = |names: &[&str]| {
        for name in names {
            let text = fs::read_to_string(fixture.path(name)).unwrap_or_default();
            assert!(!text.is_empty(), "{name} is not written");
            fs::remove_file(fixture.path(name)).unwrap();
        }
    };
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let masu = |words: &[&str], out: Stdio| {
        let mut command = Command::new(&command);
        command.args(words).env_remove("LD_PRELOAD").current_dir(fixture.path(""));
        command.stdout(out).stderr(Stdio::piped()).spawn().unwrap()
    };
    let words = ["watch", "--html", "w.html", "--svg", "w.svg", "--", "sh", "-c"];
    for (script, code) in [("exit 0", 125), ("sleep 0.1; exit 7", 7)] {
        let output = masu(&[&words[..], &[script]].concat(), full().into()).wait_with_output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains("cannot write the output: "), "{}", stderr(&output));
        whole(&["w.html", "w.svg"]);
    }
    let mut child = masu(&[&words[..], &["exit 0"]].concat(), Stdio::piped());
    drop(child.stdout.take());
    child.wait().unwrap();
    whole(&["w.html", "w.svg"]);
    let words = ["watch", "--html", "/dev/full", "--svg", "w.svg", "--", "true"];
    let output = masu(&words, Stdio::piped()).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert!(!output.stdout.is_empty() && stderr(&output).contains("`/dev/full`"), "{output:?}");
    whole(&["w.svg"]);

    let place = "place 16 1 256 65536 16 65536 16 65536 16 0 @ 0x10\n";
    for (name, places) in [("some", place), ("none", "")] {
        let text = format!("masu heap profile 1\nrate 1\npid 1\n{places}maps\nend\n");
        fs::write(fixture.path(name), text).unwrap();
    }
    let words = ["prof", "--text", "--raw", "/dev/full", "-o", "x.folded", "-o", "x.html", "some"];
    let output = masu(&words, Stdio::piped()).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert!(common::stdout(&output).starts_with("In use at the peak: 16 B"), "{output:?}");
    assert!(stderr(&output).contains("--raw: `/dev/full` cannot be written: "), "{output:?}");
    whole(&["x.folded", "x.html"]);
    let output = masu(&["prof", "--text", "-o", "x.html", "some"], full().into());
    assert_eq!(output.wait_with_output().unwrap().status.code(), Some(125));
    whole(&["x.html"]);
    let words = ["prof", "--text", "--flame", "x.html", "-o", "x.prof", "none"];
    let output = masu(&words, Stdio::piped()).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert!(!output.stdout.is_empty() && stderr(&output).contains("no data for a flame graph"));
    whole(&["x.prof"]);
}

#[test]
fn a_command_goes_on_when_the_time_is_up() {
    let (fixture, begin) = (Fixture::new(), Instant::now());
    let script = "exec sleep 600 >&- 2>&-";
    let words = ["watch", "--every", "10h", "--for", "100ms", "--", "sh", "-c", script];
    let output = start(&beside(&fixture), &words).wait_with_output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let process = said.strip_prefix("masu: `sh` (process ").expect(&said);
    let process = process.strip_suffix(") is still running\n").expect(&said);
    send(process.parse().unwrap(), libc::SIGKILL);
    assert!(begin.elapsed() < PATIENCE);
}

/// A command that leaves no profile because it does not contain masu.
#[test]
fn a_command_without_a_profile_has_its_own_code_and_leaves_nothing() {
    let fixture = Fixture::new();
    let command = beside(&fixture);
    let scratch = fixture.path("scratch");
    fs::create_dir(&scratch).unwrap();
    let mut child = Command::new(command);
    child.args(["prof", "--", "sh", "-c", "echo ready; exec sleep 600"]).env("TMPDIR", &scratch);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    ready(&mut child);
    send(child.id() as i32, libc::SIGTERM);
    let output = child.wait_with_output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(143), "{said}");
    assert!(said.contains("left no profile: signal 15 ended it\n"), "{said}");
    assert!(said.contains("`masu prof -p PID`"), "{said}");
    assert_eq!(fs::read_dir(scratch).unwrap().count(), 0);
    for (options, script, code) in [
        (&[][..], "exit 0", 0),
        (&["--retained"], "exit 3", 3),
        (&["--leaks", "--most", "1MiB"], "exit 3", 3),
        (&["--leaks", "--most", "1MiB"], "exit 0", 125),
    ] {
        let mut command = masu();
        command.arg("prof").args(options).arg("--lib").arg(fixture.witness());
        fixture.refused(command.args(["--", "sh", "-c", script]), code);
    }
}

#[test]
fn mistakes_are_refused_before_the_command_begins() {
    let fixture = Fixture::new();
    let refused = |words: &[&str]| {
        let mut command = masu();
        command.args(words).args(["--lib".as_ref(), fixture.witness().as_os_str()]);
        fixture.refused(command.args(["--", "echo", "ran"]), 2)
    };
    let said = refused(&["prof", "-o", "/no/such/x.svg"]);
    assert!(said.starts_with("masu: -o: `/no/such/x.svg` cannot be written: "), "{said}");
    let said = refused(&["prof", "--rate", "0"]);
    assert!(
        said.starts_with("masu: --rate: 0 is not a number of bytes between two samples\n"),
        "{said}"
    );
    for option in ["--html", "--svg"] {
        let words = ["watch", option, "/no/such/x", "--", "echo", "ran"];
        let said = fixture.refused(masu().args(words), 2);
        assert!(said.starts_with(&format!("masu: {option}: `/no/such/x` cannot be")), "{said}");
    }
    for option in ["--html", "--svg"] {
        let said = fixture.refused(masu().args(["watch", option, "-", "--", "echo", "ran"]), 2);
        assert_eq!(
            said,
            format!(
                "masu: {option}: `-` is not a file; the chart is on stdout already\n  name a file in place of `-`\n"
            )
        );
    }
    for (words, ways) in
        [(&["watch"][..], "  masu watch -p PID\n"), (&["prof"], "  masu prof -p PID\n")]
    {
        let said = fixture.refused(masu().args(words), 2);
        assert!(said.starts_with("masu: nothing to ") && said.contains(ways), "{said}");
    }
    for words in [&["watch", "-p", "sh"][..], &["doctor", "-p", "sh"], &["explain", "sh"]] {
        let said = fixture.refused(masu().args(words), 2);
        assert!(said.contains("it takes the number of a process; `pgrep -a NAME`"), "{said}");
    }
    for words in [&["watch", "--for", "0", "--", "echo"][..], &["prof", "-p", "1", "--for", "0"]] {
        let said = fixture.refused(masu().args(words), 2);
        assert!(said.contains("'--for <T>': it takes a time above zero"), "{said}");
    }
}

/// clap alone would drop what an option requires if another view is given.
#[test]
fn options_of_one_view_are_refused_with_another() {
    let fixture = Fixture::new();
    for (option, value, own, missing) in [
        ("--base", "old", "--growth", "--growth"),
        ("--after", "1s", "--growth", "cannot be used with '[FILE]...'"),
        ("--most", "1k", "--leaks", "--leaks"),
    ] {
        let views = ["--peak", "--leaks", "--allocated", "--lifetimes", "--growth", "--retained"];
        for view in views.iter().filter(|view| **view != own) {
            let said = fixture.refused(masu().args(["prof", option, value, view, "new"]), 2);
            assert!(said.contains("cannot be used with"), "{view}: {said}");
        }
        let said = fixture.refused(masu().args(["prof", option, value, "new"]), 2);
        assert!(said.contains(missing), "{said}");
    }
}

/// Calls `field` with the number, the value or length, and the bytes of every field of a protocol buffer's message.
fn fields(mut message: &[u8], mut field: impl FnMut(u64, &[u8])) {
    while !message.is_empty() {
        let key = varint(&mut message);
        let value = varint(&mut message);
        let len = if key & 7 == 2 { value as usize } else { 0 };
        field(key >> 3, &message[..len]);
        message = &message[len..];
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let len = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
    let (number, rest) = bytes.split_at(len);
    *bytes = rest;
    number.iter().rev().fold(0, |sum, byte| sum << 7 | u64::from(byte & 0x7f))
}

#[test]
fn every_form_shows_what_grew_since_the_base() {
    let fixture = Fixture::new();
    let file = |name: &str, start: u64, places: &[(u64, u64)]| {
        let mut text = "masu heap profile 1\nrate 1\npid 1\n".to_owned();
        for (bytes, offset) in places {
            let blocks = bytes / 16 * 65536;
            let pair = format!("{blocks} {bytes}");
            let address = start + offset;
            text += &format!("place 16 1 256 {pair} {pair} {pair} 0 @ {address:#x}\n");
        }
        let end = start + 0x1000;
        text += &format!("maps\n{start:x}-{end:x} r-xp 0 0 0 /no/such/program\nend\n");
        fs::write(fixture.path(name), text).unwrap();
        fixture.path(name).to_string_lossy().into_owned()
    };
    // The second process has its code elsewhere; what it never called, the first did.
    let old = file("old", 0x10000, &[(160, 0x11), (800, 0x21), (320, 0x31), (480, 0x41)]);
    let new = file("new", 0x70000, &[(1600, 0x11), (400, 0x21), (320, 0x31), (48, 0x51)]);
    let grew = [("program+0x10", 1440), ("program+0x50", 48)];
    let shown = |form: &str| {
        let to = format!("{form}={}", fixture.path("shown").display());
        let output = masu().args(["prof", "--growth", &to, "--base", &old, &new]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        fs::read(fixture.path("shown")).unwrap()
    };
    let text = |form: &str| String::from_utf8(shown(form)).unwrap();
    let said = text("--text");
    // 1600 - 160 + 400 - 800 + 48 - 480.
    assert!(said.starts_with("More in use than before: 608 B ± 0 B"), "{said}");
    for (name, amount) in [
        ("program+0x10", "1.4 KiB ± 0 B in 90 blocks"),
        ("program+0x50", "48 B ± 0 B in 3 blocks"),
        ("program+0x20", "-400 B ± 0 B in -25 blocks"),
        ("program+0x40", "-480 B ± 0 B in -30 blocks"),
    ] {
        assert!(said.contains(&format!("{amount}\n         {name}\n")), "{said}");
    }
    assert!(!said.contains("program+0x30"), "{said}");
    assert_eq!(text("--folded"), grew.map(|(name, bytes)| format!("{name} {bytes}\n")).concat());
    let flame = text("--flame");
    for (name, bytes) in [("program+0x10", "1,440"), ("program+0x50", "48")] {
        assert!(flame.contains(&format!("<title>{name} ({bytes} bytes")), "{flame}");
    }
    assert!(!flame.contains("program+0x20"), "{flame}");
    let mut unpacked = Vec::new();
    let packed = shown("--pprof");
    flate2::read::GzDecoder::new(&*packed).read_to_end(&mut unpacked).unwrap();
    let mut in_use = Vec::new();
    fields(&unpacked, |number, sample| {
        let values = |number, mut values: &[u8]| {
            if number == 2 {
                let values: Vec<_> = (0..6).map(|_| varint(&mut values) as i64).collect();
                in_use.push((values[2], values[3]));
            }
        };
        if number == 2 {
            fields(sample, values);
        }
    });
    in_use.sort_unstable();
    assert_eq!(in_use, [(-30, -480), (-25, -400), (0, 0), (3, 48), (90, 1440)]);
    let raw = text("--raw");
    assert!(raw.matches("\nplace ").count() == 4 && !raw.contains(" -"), "as taken: {raw}");
}

/// What was not recorded may be more than what is allowed.
#[test]
fn a_profile_without_some_samples_is_below_no_limit() {
    let fixture = Fixture::new();
    let file = fixture.path("some").to_string_lossy().into_owned();
    let judged = |dropped: u32, most: &str| {
        let place = "place 16 1 256 65536 9 65536 9 65536 9 0 @ 0x10";
        let head = format!("masu heap profile 1\nrate 1\npid 1\ndropped {dropped}");
        fs::write(&file, format!("{head}\n{place}\nmaps\nend\n")).unwrap();
        let output = masu().args(["prof", "--leaks", "--most", most, &file]).output().unwrap();
        (output.status.code().unwrap(), stderr(&output).contains(" samples could not be kept"))
    };
    assert_eq!(judged(0, "9"), (0, false));
    assert_eq!(judged(1, "9"), (125, true));
    assert_eq!(judged(1, "8"), (3, true));
}

#[test]
fn a_file_without_end_is_no_profile() {
    let output = masu().args(["prof", "/dev/zero"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).starts_with("masu: `/dev/zero` is not a heap profile of masu\n"));
}

/// A program that was built again has other functions at the same addresses.
#[test]
fn names_of_a_file_that_has_changed_since_are_doubted() {
    let fixture = Fixture::new();
    let [program, other] = ["program", "other"].map(|name| fixture.script(name, ""));
    let file = fixture.path("old.prof");
    let [program, other] = [program, other].map(|path| path.display().to_string());
    let text = format!(
        "masu heap profile 1\nrate 1\npid 1\nplace 16 1 256 65536 9 65536 9 65536 9 0 @ 0x1010\nmaps\n\
         1000-2000 r-xp 00000000 00:00 0 {program}\n3000-4000 r-xp 00000000 00:00 0 {other}\nend\n"
    );
    fs::write(&file, text).unwrap();
    let shown =
        |options: &[&str]| stderr(&masu().arg("prof").args(options).arg(&file).output().unwrap());
    assert_eq!(shown(&[]), "");
    // The clock of files may stand still for some milliseconds.
    sleep(Duration::from_millis(50));
    for path in [&program, &other] {
        fs::write(path, "").unwrap();
    }
    let warning = format!(
        "masu: warning: `{program}` has changed since `{}` was written: its functions may have wrong names\n",
        file.display()
    );
    assert_eq!(shown(&[]), warning);
    let base = file.to_string_lossy().into_owned();
    assert_eq!(shown(&["--growth", "--base", &base]), warning.repeat(2));
}

#[test]
fn several_profiles_are_shown_one_after_the_other() {
    let fixture = Fixture::new();
    let file = |name: &str, process: u32| {
        let text = format!(
            "masu heap profile 1\nrate 1\npid {process}\n\
             place 16 1 256 65536 16 65536 16 65536 16 0 @ 0x10\nmaps\nend\n"
        );
        fs::write(fixture.path(name), text).unwrap();
        fixture.path(name).to_string_lossy().into_owned()
    };
    let (one, two) = (file("one", 11), file("two", 22));
    let output = masu().args(["prof", &one, &two]).output().unwrap();
    let said = common::stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(said.find("(process 11, ") < said.find("\n\nIn use at the peak: 16 B"), "{said}");
    assert!(said.contains("(process 22, "), "{said}");
    let said = fixture.refused(masu().args(["prof", "-o", "x.svg", &one, &two]), 2);
    assert!(said.contains("name one FILE"), "{said}");
    let output = masu().args(["prof", "--growth", "--base", &one, &one]).output().unwrap();
    let said = common::stdout(&output);
    assert!(said.contains("grew or shrank between the two") && !said.contains("--rate"));
}
