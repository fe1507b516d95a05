//! Executes a page's commands.
//!
//! Every block of `sh` is executed, one after the other, in one directory, where `program`, `./server`, `./worker` and
//! `./my-program` are `c/documented.c`, `/path/to` has the library, and `PID` is a process on masu. A block of `text`
//! after it is what it prints: all of these lines, with `…` for variable parts, in this order, with other lines between
//! them. A block of `text figures` shows real ones: the last number of a line stands for one between half and twice of it,
//! the others for any number. In a block of `console`, commands and what they print alternate.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use masu_tests::pages::{Block, blocks};
use masu_tests::{Compile, is_masu, library, patience, scratch, words, workspace};

use crate::elsewhere::elsewhere;

/// Whether a line that was printed is one that a page shows.
pub type Fit = fn(&str, &str) -> bool;

/// A line that a page shows.
type Line = (String, Fit);

/// How lines that were printed are compared with a block, if it shows what commands print.
pub fn output(block: &Block) -> Option<Fit> {
    match &*block.language {
        "text" => Some(fits),
        "text figures" => Some(is_similar),
        _ => None,
    }
}

/// The scripts of a page's blocks, each with its expected output. What is done elsewhere has no part here, and nor has
/// its output.
fn scripts(page: &str) -> Vec<(String, Vec<Line>)> {
    let mut scripts: Vec<(String, Vec<Line>)> = Vec::new();
    let mut is_here = false;
    for block in blocks(page) {
        if let Some(fit) = output(&block).filter(|_| is_here) {
            let lines = block.text.lines().map(|line| (line.to_owned(), fit));
            scripts.last_mut().expect("text follows commands").1 = lines.collect();
        }
        if !block.is_commands() {
            continue;
        }
        is_here = elsewhere(page, &block).is_none();
        match &*block.language {
            _ if !is_here => {}
            "console" => scripts.extend(said_in_turn(&block)),
            _ => scripts.push((block.text.clone(), Vec::new())),
        }
    }
    scripts
}

/// The commands of a block of `console`, each with its output.
fn said_in_turn(block: &Block) -> Vec<(String, Vec<Line>)> {
    let mut scripts: Vec<(String, Vec<Line>)> = Vec::new();
    for line in block.text.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => scripts.push((command.to_owned(), Vec::new())),
            None => scripts.last_mut().expect("a command").1.push((line.to_owned(), fits)),
        }
    }
    scripts
}

/// Whether `line` matches `pattern`, in which `…` stands for anything and blanks for any blanks.
fn fits(line: &str, pattern: &str) -> bool {
    let (line, pattern) = (words(line), words(pattern));
    let mut parts = pattern.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else {
        return false;
    };
    let mut exact = true;
    for part in parts {
        exact = part.is_empty();
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    exact && pattern.ends_with('…') || rest.is_empty()
}

/// Whether `line` is `shown` with other figures, and ends with a similar one.
fn is_similar(line: &str, shown: &str) -> bool {
    let numbers = |text: &str| -> Vec<f64> {
        let parts = text.split(|c: char| !c.is_ascii_digit() && c != '.');
        parts.filter_map(|part| part.parse().ok()).collect()
    };
    let rest = |text: &str| text.replace(|c: char| c.is_ascii_digit() || c == '.', "");
    let (found, expected) = (numbers(line), numbers(shown));
    let last = found.last().zip(expected.last());
    rest(line) == rest(shown)
        && found.len() == expected.len()
        && last.is_none_or(|(found, expected)| (expected / 2.0..=expected * 2.0).contains(found))
}

/// The first line of `expected` that `said` lacks, in order.
fn lacks<'a>(said: &str, expected: &'a [Line]) -> Option<&'a str> {
    let mut lines = said.lines();
    let missing = expected.iter().find(|(shown, fits)| !lines.any(|line| fits(line, shown)));
    missing.map(|(shown, _)| shown.as_str())
}

/// A `program` that waits.
struct Waiting(Child);

impl Waiting {
    fn start(program: &Path, library: &Path) -> Waiting {
        let mut command = Command::new(program);
        command.arg("waits").env("LD_PRELOAD", library);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        Waiting(child)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// What comes before each script. Services are those of the [`machine`], and `systemctl` does nothing. `cargo install`
/// only looks for the package in this workspace: a registry does not have it before a release. `masu export` and `masu
/// watch`, which run until they are stopped, are stopped after two seconds. `pidof` finds a new process of that language,
/// on masu. The doctor's exit status is ignored: the test machine may have faults of its own. In the background the shell
/// becomes `masu run`, as it would without this function, so `$!` is the program's id.
const PRELUDE: &str = r#"exec 2>&1
sudo() { "$@"; }
systemctl() { :; }
cargo() { [ "$1" = install ] && grep -qx "name = \"$2\"" "$WORKSPACE/crates/$2/Cargo.toml"; }
pidof() { LD_PRELOAD=$PWD/libmasu.so "$1" -e 'sleep 9' >/dev/null 2>&1 & echo $!; sleep 0.3; }
masu() {
    read -r shell _ </proc/self/stat
    if [ "$1" = run ] && [ "$shell" != $$ ]; then exec masu "$@"; fi
    case "$*" in
        export | 'watch -p '"$PID") timeout --signal=INT 2 masu "$@" || [ $? = 124 ]; return ;;
    esac
    if [ "$1" = unit ]; then shift; set -- unit --root machine "$@"; fi
    command masu "$@" || { status=$?; [ "$1" = doctor ] || return $status; }
}
"#;

/// The files of a machine with services.
fn machine(root: &Path) {
    let units = root.join("lib/systemd/system");
    fs::create_dir_all(&units).expect("made");
    for name in ["nginx", "redis-server", "mariadb", "postgresql@", "puma", "php8.5-fpm"] {
        let text = format!("[Service]\nExecStart=/usr/bin/{name}\n");
        fs::write(units.join(format!("{name}.service")), text).expect("written");
    }
}

#[track_caller]
pub fn check(name: &str) {
    if !is_masu() {
        println!("the documentation is of masu");
        return;
    }
    let library = library().expect("masu is a library");
    let place = scratch();
    let at = |name: &str| place.path().join(name);
    fs::create_dir(at("bin")).expect("made");
    let built = Compile::c("c/documented.c").flag("-pthread").build();
    // Not a copy: a file that is open for writing, even in a child that another test has just forked, cannot be
    // executed.
    for name in ["bin/program", "program", "my-program", "server", "worker"] {
        fs::hard_link(built.path(), at(name)).expect("a second name");
    }
    // As the packages install them.
    let beside = library.parent().expect("a directory");
    for name in ["masu", "masu-work"] {
        symlink(beside.join(name), at("bin").join(name)).expect("a link");
    }
    for name in ["libmasu.so", "libmasu.so.0"] {
        symlink(library, at(name)).expect("a link");
    }
    symlink(beside, at("path-to")).expect("a link");
    for (name, text) in [
        ("app.rb", "puts File.read('/proc/self/maps').include?('libmasu')\n"),
        ("program.c", "#include <stdlib.h>\nint main(void) { free(malloc(1)); return 0; }\n"),
        ("big.txt", "b\na\n"),
    ] {
        fs::write(at(name), text).expect("written");
    }
    machine(&at("machine"));
    let waiting = Waiting::start(&at("bin/program"), library);

    let path = std::env::var("PATH").unwrap_or_default();
    let scripts = scripts(name);
    assert!(!scripts.is_empty(), "{name} has no commands");
    let mut slow = 3;
    for (script, expected) in scripts {
        let script = script.replace("/path/to/", "path-to/").replace(" PID", " $PID");
        let mut shell = Command::new("timeout");
        let seconds = (100 * patience()).to_string();
        shell.args([&*seconds, "bash", "-ec", &format!("{PRELUDE}{script}")]);
        shell.current_dir(place.path()).env_remove("LD_PRELOAD").stdin(Stdio::null());
        shell.env("PATH", format!("{}:{path}", at("bin").display()));
        shell.env("LD_LIBRARY_PATH", place.path()).env("LIBRARY_PATH", place.path());
        shell.env("PID", waiting.0.id().to_string()).env("WORKSPACE", workspace());
        let mut done = shell.output().expect("bash runs");
        // A slow host does not get through a race in its time; it may the next time.
        while let Some(124) = done.status.code()
            && String::from_utf8_lossy(&done.stdout).contains("The time was up before every")
            && slow != 0
        {
            slow -= 1;
            done = shell.output().expect("bash runs");
        }
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "{name}: {script}\n{}\n{said}", done.status);
        for word in ["ld.so", "masu: warning", "command not found"] {
            let is_meant = expected.iter().any(|line| line.0.contains(word));
            assert!(is_meant || !said.contains(word), "{name}: {script}\n{said}");
        }
        if let Some(line) = lacks(&said, &expected) {
            panic!("{name}: {script}\nlacks `{line}` here:\n{said}");
        }
    }
}

#[test]
fn figures_are_similar_or_not() {
    let shown = "masu_dirty_bytes{pid=\"7\"} 1000";
    assert!(is_similar("masu_dirty_bytes{pid=\"4711\"} 1999", shown));
    for other in [
        "masu_dirty_bytes{pid=\"7\"} 2001",
        "masu_dirty_bytes{} 1000",
        "masu_dirty{pid=\"7\"} 1000",
    ] {
        assert!(!is_similar(other, shown), "{other}");
    }
}

#[test]
fn patterns_fit_what_they_should() {
    for (line, pattern, expected) in [
        ("VmRSS:\t  12 kB", "VmRSS: …", true),
        ("live 3 MiB, resident 9 MiB", "live … MiB, resident … MiB", true),
        ("live 3 MiB, resident 9 MiBs", "live … MiB, resident … MiB", false),
        ("MemoryError", "MemoryError", true),
        ("a MemoryError", "MemoryError", false),
        ("", "masu: statistics", false),
    ] {
        assert_eq!(fits(line, pattern), expected, "{line:?} {pattern:?}");
    }
}
