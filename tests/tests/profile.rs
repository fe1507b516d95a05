//! Heap profiles of real programs: they are right, they never hang, and nothing is paid for them when they are off.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use masu_tests::{Compile, Program, Run, is_masu, library, long, scratch};

/// A line of a profile.
struct Place {
    size: u64,
    samples: u64,
    allocated: u64,
    live: u64,
    frames: usize,
}

fn places(file: &Path) -> Vec<Place> {
    let text = fs::read_to_string(file).expect("a profile was written");
    assert!(text.starts_with("masu heap profile 1\n") && text.contains("\nmaps\n"), "{text}");
    let lines = text.lines().filter_map(|line| line.strip_prefix("place "));
    let place = |line: &str| {
        let (numbers, frames) = line.split_once(" @").expect("a stack");
        let n: Vec<u64> = numbers.split(' ').map(|n| n.parse().expect("a number")).collect();
        let frames = frames.split_whitespace().count();
        Place { size: n[0], samples: n[1], allocated: n[3], live: n[5], frames }
    };
    lines.map(place).collect()
}

/// Runs a program with a profile.
fn profiled(program: &Program, arguments: &[&str], rate: &str) -> Option<Vec<Place>> {
    if !is_masu() {
        println!("profiles are masu's");
        return None;
    }
    let place = scratch();
    let file = place.path().join("profile.%p");
    let run = Run::program(program).args(arguments).timeout(Duration::from_secs(120));
    run.env("MASU_PROF_FILE", &file).env("MASU_PROF_RATE", rate).run().success();
    let files = fs::read_dir(place.path()).expect("a directory");
    let all = files.map(|file| places(&file.expect("a file").path()));
    all.max_by_key(|places| places.iter().map(|place| place.samples).sum::<u64>())
}

const ACCURACY: &str = r#"
#include <stdlib.h>
void *volatile kept[70000];
__attribute__((noinline)) static void many(void) {
    for (int i = 0; i < 60000; i++) {
        void *volatile p = malloc(200);
        if (i % 3 == 0) free(p); else kept[i] = p;
    }
}
__attribute__((noinline)) static void few(void) {
    for (int i = 0; i < 100; i++) kept[60000 + i] = malloc(30000 + i);
}
int main(void) { many(); few(); return 0; }
"#;

fn compiled(source: &str) -> Program {
    let place = scratch();
    let file = place.path().join("source.c");
    fs::write(&file, source).expect("written");
    Compile::with("cc").flags(["-O1", "-fno-builtin"]).file(&file).build()
}

#[test]
fn figures_are_those_of_the_program() {
    let program = compiled(ACCURACY);
    for _ in 0..5 {
        let Some(places) = profiled(&program, &[], "4KiB") else { return };
        let sum = |large: bool, of: fn(&Place) -> u64| -> f64 {
            places.iter().filter(|p| (p.size > 8192) == large).map(of).sum::<u64>() as f64
        };
        for (found, truth) in [
            (sum(false, |p| p.allocated), 12e6),
            (sum(false, |p| p.live), 8e6),
            (sum(true, |p| p.live), 100.0 * 30_049.5),
        ] {
            // The standard deviation of the first two is 2 and 2.3 %, of the third 1 ‰.
            assert!((found / truth - 1.0).abs() < 0.12, "{found} for {truth}");
        }
        // main, what it calls, and what calls it.
        assert!(places.iter().filter(|p| p.samples > 10).all(|p| p.frames >= 3));
    }
}

/// Runs of a storm, each of which is hundreds of chances to hang: twenty, or a thousand where there is time.
fn storm(program: &Program, arguments: &[&str]) {
    let runs = if long() { 1000 } else { 20 };
    for run in 0..runs {
        let Some(places) = profiled(program, arguments, "1KiB") else { return };
        let samples: u64 = places.iter().map(|p| p.samples).sum();
        assert!(samples > 100, "{samples} in run {run}");
    }
    println!("{runs} runs");
}

#[test]
fn threads_that_do_everything_at_once_are_sampled() {
    let program = Compile::cxx("cxx/profile_storm.cc").flags(["-O2", "-pthread", "-ldl"]).build();
    storm(&program, &["100"]);
}

/// The same on musl, without exceptions: there is no C++ for it.
#[test]
fn threads_that_do_everything_at_once_are_sampled_on_musl() {
    let compile = |flags: &[&str], file: &str| {
        Compile::with("musl-gcc").flag("-std=gnu11").flags(flags.to_vec()).file(file).build()
    };
    let plugin = compile(&["-shared", "-fPIC"], "c/plugin.c");
    let program = compile(&["-O2", "-pthread", "-rdynamic"], "c/profile_storm.c");
    storm(&program, &["100", &plugin.path().to_string_lossy()]);
}

#[test]
fn a_program_without_a_profile_maps_nothing_for_one() {
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    let maps = |variables: &[(&str, &str)]| {
        let mut command = Command::new("cat");
        command.arg("/proc/self/maps").env("LD_PRELOAD", library().expect("masu"));
        let out = command.envs(variables.iter().copied()).output().expect("it runs").stdout;
        String::from_utf8_lossy(&out).lines().count()
    };
    assert!(maps(&[]) < maps(&[("MASU_PROF", "1")]));
}

#[test]
fn a_file_that_cannot_be_written_is_told_in_one_line() {
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    let mut command = Command::new("/bin/true");
    command.env("LD_PRELOAD", library().expect("masu")).env("MASU_PROF_FILE", "/no/such/place");
    let done = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success());
    assert_eq!(
        said,
        "masu: warning: prof_file: cannot write \"/no/such/place\"; there is no profile\n"
    );
}
