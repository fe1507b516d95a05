//! The report at exit arrives, whatever the program did to its descriptors, and only where it should.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use masu_tests::{Compile, Program, Run, is_masu, library, scratch};
use serde_json::Value;

/// The program in `c/statistics.c`, doing `what` on the library with these variables; `None` if the library
/// under test has no such report.
fn run(what: &[&str], directory: &Path, variables: &[(&str, &str)]) -> Option<Output> {
    static PROGRAM: std::sync::LazyLock<Program> =
        std::sync::LazyLock::new(|| Compile::c("c/statistics.c").build());
    command(PROGRAM.path().as_os_str(), what, directory, variables)
}

fn command(
    program: &OsStr,
    arguments: &[&str],
    directory: &Path,
    variables: &[(&str, &str)],
) -> Option<Output> {
    if !is_masu() {
        println!("the report is masu's");
        return None;
    }
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory).env("LD_PRELOAD", library()?);
    Some(command.envs(variables.iter().copied()).output().expect("it runs"))
}

fn stderr(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn reports(text: &str) -> usize {
    text.matches("masu: statistics").count()
}

/// The lines of a file, each a report in JSON.
fn lines(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).expect("a file");
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

#[test]
fn programs_that_close_their_standard_error_report() {
    let place = scratch();
    fs::write(place.path().join("big.txt"), "b\na\n").unwrap();
    let show = [("MASU_SHOW_STATS", "1")];
    let Some(sorted) = command("sort".as_ref(), &["big.txt"], place.path(), &show) else { return };
    assert_eq!(sorted.stdout, b"a\nb\n");
    assert_eq!(reports(&stderr(&sorted)), 1);
    let closed = run(&["closes"], place.path(), &show).unwrap();
    assert_eq!(reports(&stderr(&closed)), 1);
}

#[test]
fn a_file_of_the_programs_own_is_never_written_to() {
    let place = scratch();
    for variables in [&[("MASU_SHOW_STATS", "1")][..], &[("MASU_STATS_FILE", "report")]] {
        let Some(output) = run(&["reuses", "own"], place.path(), variables) else { return };
        assert_eq!(stderr(&output), "");
        assert_eq!(fs::read_to_string(place.path().join("own")).unwrap(), "");
    }
    assert_eq!(reports(&fs::read_to_string(place.path().join("report")).unwrap()), 1);
}

#[test]
fn the_descriptor_is_out_of_the_way_and_there_for_those_who_asked() {
    let place = scratch();
    let numbers = |variables: &[(&str, &str)]| {
        let output = run(&["numbers"], place.path(), variables)?;
        Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    };
    let Some(unasked) = numbers(&[]) else { return };
    assert!(unasked.starts_with("3: 0 1 2 3"), "{unasked}");
    for asked in [("MASU_SHOW_STATS", "1"), ("MASU_STATS_FILE", "report")] {
        assert_eq!(numbers(&[asked]).unwrap(), format!("{unasked} 960c"));
    }
    // If the number of descriptors is limited, a lower one serves.
    let script = format!(
        "ulimit -n 64; exec env LD_PRELOAD={} ls /proc/self/fd",
        library().unwrap().display()
    );
    let few = command("sh".as_ref(), &["-c", &script], place.path(), &[("MASU_SHOW_STATS", "1")]);
    let few = few.unwrap();
    assert!(String::from_utf8_lossy(&few.stdout).contains("\n60\n"), "{few:?}");
    assert_eq!(reports(&stderr(&few)), 1);
}

#[test]
fn forked_children_append_or_have_files_of_their_own() {
    let place = scratch();
    let json = [("MASU_SHOW_STATS", "json"), ("MASU_STATS_FILE", "all")];
    let Some(output) = run(&["forks"], place.path(), &json) else { return };
    assert_eq!(stderr(&output), "");
    let all = lines(&place.path().join("all"));
    let mut processes: Vec<u64> = all.iter().map(|one| one["pid"].as_u64().unwrap()).collect();
    processes.sort_unstable();
    processes.dedup();
    assert_eq!((processes.len(), all.len()), (4, 4), "{all:?}");
    assert!(all.iter().all(|one| one["statistics"]["resident"].as_u64() > Some(0)), "{all:?}");

    let own = [("MASU_SHOW_STATS", "json"), ("MASU_STATS_FILE", "own.%p")];
    run(&["forks"], place.path(), &own).unwrap();
    let files = fs::read_dir(place.path()).unwrap().map(|file| file.unwrap().path());
    let own: Vec<_> = files
        .filter(|file| file.file_name().unwrap().to_string_lossy().starts_with("own."))
        .collect();
    assert_eq!(own.len(), 4, "{own:?}");
    for file in own {
        let one = &lines(&file)[..];
        let number = file.extension().unwrap().to_string_lossy().into_owned();
        assert!(
            one.len() == 1 && one[0]["pid"] == number.parse::<u64>().unwrap(),
            "{file:?}: {one:?}"
        );
    }
}

#[test]
fn programs_that_are_executed_report_on_their_own() {
    let place = scratch();
    let script = "ls / >/dev/null; cat /dev/null; exec sort /dev/null";
    let variables = [("MASU_SHOW_STATS", "json"), ("MASU_STATS_FILE", "all")];
    let Some(output) = command("sh".as_ref(), &["-c", script], place.path(), &variables) else {
        return;
    };
    assert_eq!(stderr(&output), "");
    let all = lines(&place.path().join("all"));
    let names: Vec<&str> = all.iter().map(|one| one["program"].as_str().unwrap()).collect();
    assert_eq!(names, ["ls", "cat", "sort"]);
}

#[test]
fn a_daemon_reports_to_its_file() {
    let place = scratch();
    let Some(output) = run(&["daemon"], place.path(), &[("MASU_STATS_FILE", "report.%p")]) else {
        return;
    };
    assert_eq!(stderr(&output), "");
    // The parent, which left by `_exit`, created a file and wrote nothing.
    let written = || {
        let files = fs::read_dir(place.path()).unwrap();
        let texts = files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
        texts.collect::<Vec<_>>()
    };
    let start = Instant::now();
    while written().iter().all(String::is_empty) && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut written = written();
    written.sort();
    assert_eq!(written.iter().map(|text| reports(text)).collect::<Vec<_>>(), [0, 1], "{written:?}");
    assert!(written[1].starts_with("masu: statistics of process "), "{written:?}");
}

#[test]
fn a_file_that_cannot_be_opened_is_told_and_stderr_serves() {
    let place = scratch();
    let variables = [("MASU_STATS_FILE", "no/such/place")];
    let Some(output) = run(&[], place.path(), &variables) else { return };
    let said = stderr(&output);
    let told = "masu: warning: stats_file: cannot open \"no/such/place\" (error 2); statistics go to stderr\n";
    assert!(said.starts_with(told), "{said}");
    assert_eq!(reports(&said), 1);
    let off = [("MASU_STATS_FILE", "report"), ("MASU_SHOW_STATS", "0")];
    assert_eq!(stderr(&run(&[], place.path(), &off).unwrap()), "");
    assert!(!place.path().join("report").exists());
}

#[test]
fn a_file_that_takes_nothing_is_told() {
    let place = scratch();
    let full = ("MASU_STATS_FILE", "/dev/full");
    for form in ["1", "json"] {
        let variables = [("MASU_SHOW_STATS", form), full];
        let Some(output) = run(&[], place.path(), &variables) else { return };
        let told = "masu: warning: stats_file: cannot write \"/dev/full\"\n";
        assert_eq!(stderr(&output), told);
    }
    let quiet = [full, ("MASU_SHOW_ERRORS", "0")];
    assert_eq!(stderr(&run(&[], place.path(), &quiet).unwrap()), "");
}

/// A process that ends waits for no reader.
#[test]
fn a_pipe_that_nobody_reads_is_told_and_one_that_is_read_gets_everything() {
    if !is_masu() {
        return println!("the report is masu's");
    }
    let place = scratch();
    let pipe = place.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("it runs").success());
    let ends = |key: &str| {
        let run = Run::new("/bin/true").env(key, &pipe).timeout(Duration::from_secs(30));
        run.run().success().stderr
    };
    let named = pipe.display();
    let unread = [
        (
            "MASU_STATS_FILE",
            format!("stats_file: cannot open \"{named}\" (error 6); statistics go to stderr"),
        ),
        ("MASU_PROF_FILE", format!("prof_file: cannot write \"{named}\"; there is no profile")),
    ];
    for (key, told) in unread {
        let said = ends(key);
        assert!(said.starts_with(&format!("masu: warning: {told}\n")), "{said}");
    }
    for (key, first) in
        [("MASU_STATS_FILE", "masu: statistics"), ("MASU_PROF_FILE", "masu heap profile")]
    {
        // Open for both, it waits for nobody.
        let mut reader = fs::File::options().read(true).write(true).open(&pipe).expect("a pipe");
        assert_eq!(ends(key), "");
        let mut room = vec![0; 1 << 16];
        let n = reader.read(&mut room).expect("it is read");
        let read = String::from_utf8_lossy(&room[..n]);
        assert!(read.starts_with(first) && read.ends_with('\n'), "{key}: {read}");
    }
}
