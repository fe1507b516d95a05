//! `masu prof --growth -- COMMAND`: what a program allocates after a moment of its run and still has in use at its end.

use std::fs;

use masu_profile::Profile;
use masu_tests::running::masu;
use masu_tests::{Compile, Program, is_masu, library, scratch};

/// In each round the program leaks 1,000 blocks of 96 bytes. Most of its memory is a cache that it fills first.
const ROUNDS: u32 = 50;

fn program() -> Program {
    Compile::c("c/sites.c").flags(["-O2", "-g"]).build()
}

/// Runs the command with these options on a program: its exit code, its report, and its messages.
fn grown(options: &[&str], command: &[&str]) -> (Option<i32>, String, String) {
    let library = library().expect("masu").to_string_lossy().into_owned();
    let first = ["prof", "--growth", "--rate", "16KiB", "--lib", &library];
    let output = masu(&[&first[..], options, &["--"], command].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// The innermost function of the first stack in a report.
fn first(report: &str) -> &str {
    let line = report.lines().find(|line| line.starts_with("         "));
    line.unwrap_or_default().split_whitespace().next().unwrap_or_default()
}

/// The profile in a file: how many seconds it is of, and the blocks of 96 bytes that have grown and that are in use, as
/// parts of all that are leaked.
fn leaked(file: &str) -> (f64, f64, f64) {
    let profile = Profile::parse(&fs::read_to_string(file).expect("written")).expect("a profile");
    let places = profile.places.iter().filter(|place| place.size == 96);
    let all = f64::from(ROUNDS) * 1000.0;
    let (grown, live) = places.fold((0.0, 0.0), |(grown, live), it| {
        (grown + it.grown.objects / all, live + it.live.objects / all)
    });
    (profile.milliseconds as f64 / 1000.0, grown, live)
}

/// Runs the command on all rounds of the program: its report, its messages, and what its profile has of the leak.
#[track_caller]
fn rounds(program: &Program, options: &[&str]) -> (String, String, (f64, f64, f64)) {
    let place = scratch();
    let file = place.path().join("a.prof").to_string_lossy().into_owned();
    let command = [&*program.path().to_string_lossy(), &ROUNDS.to_string()];
    let (code, said, wrong) = grown(&[&["--raw", &file], options].concat(), &command);
    assert_eq!(code, Some(0), "{wrong}");
    (said, wrong, leaked(&file))
}

#[test]
fn growth_counts_from_the_middle_of_the_run() {
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    let (said, wrong, (_, grown, live)) = rounds(&program(), &["--text"]);
    assert!(said.starts_with("Allocated late in the run and still in use at its end: "), "{said}");
    // The cache, which holds most memory, was there before.
    assert_eq!(first(&said), "leak", "{said}");
    assert!(wrong.starts_with("masu: growth counts from the middle of the run, after "), "{wrong}");
    // Half of the rounds, or a few more: the first ones take longer.
    assert!((0.85..1.15).contains(&live), "{live}");
    assert!((0.35..0.75).contains(&grown), "{grown}");
}

#[test]
fn growth_counts_from_the_moment_that_is_named() {
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    let program = program();
    for (after, seconds) in [("0s", 0.0), ("700ms", 0.7)] {
        let (_, wrong, (ran, grown, _)) = rounds(&program, &["--after", after, "--text=/dev/null"]);
        assert_eq!(wrong, "", "{after}");
        // The program sleeps for a second in all, and leaks at an even pace, except that its first rounds take longer.
        let part = 1.0 - seconds / ran;
        assert!((part - 0.15..part + 0.3).contains(&grown), "{after} of {ran} s: {grown}");
    }
    let (code, said, wrong) = grown(&["--after", "1h"], &[&program.path().to_string_lossy(), "1"]);
    assert_eq!((code, &*said), (Some(0), ""), "{wrong}");
    assert!(wrong.contains("ended before --after") && wrong.contains("half of its run"), "{wrong}");
}

/// A program behind a shell is read some time before its end. The exit code is the command's.
#[test]
fn growth_is_that_of_the_process_that_grew_most() {
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    let program = program();
    let script = format!("{} 100; exit 7", program.path().display());
    let (code, said, wrong) = grown(&[], &["sh", "-c", &script]);
    assert_eq!(code, Some(7), "{wrong}");
    assert_eq!(first(&said), "leak", "{said}");
    assert!(wrong.contains("wrote no profile: this was read from it "), "{wrong}");
}
