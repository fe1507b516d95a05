//! How long blocks live, as `masu prof --lifetimes` says of each place.

use masu_tests::running::masu;
use masu_tests::{is_masu, library};

use super::compiled;

/// It says itself between how many milliseconds its blocks of `passing` and `halved` live.
const LIVES: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
enum { MANY = 4000 };
static void *volatile passing_ones[MANY], *volatile halves[MANY], *volatile kept[MANY];
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}
#define PLACE __attribute__((noinline)) static void
PLACE brief(void) {
    for (int i = 0; i < MANY; i++) { void *volatile p = malloc(300); free(p); }
}
PLACE passing(void) {
    for (int i = 0; i < MANY; i++) passing_ones[i] = malloc(300);
}
PLACE halved(void) {
    for (int i = 0; i < MANY; i++) halves[i] = malloc(300);
}
PLACE lasting(void) {
    for (int i = 0; i < MANY; i++) kept[i] = malloc(300);
}
int main(void) {
    double begun = now();
    passing();
    halved();
    double allocated = now();
    brief();
    lasting();
    usleep(100000);
    double soonest = now() - allocated;
    for (int i = 0; i < MANY; i++) {
        free(passing_ones[i]);
        if (i % 2) free(halves[i]);
    }
    printf("between %f %f\n", soonest, now() - begun);
    return 0;
}
"#;

/// What the report says of the place of this name, behind its figure.
fn said_of<'a>(report: &'a str, place: &str) -> &'a str {
    let mut lines = report.lines();
    let mut last = "";
    let found = lines.find_map(|line| {
        let is_it = line.split_whitespace().next() == Some(place);
        let before = std::mem::replace(&mut last, line);
        is_it.then_some(before)
    });
    let (_, said) = found.and_then(|line| line.split_once(" blocks, ")).expect(report);
    said
}

#[test]
fn each_place_has_the_lifetimes_of_its_blocks() {
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    let program = compiled(LIVES);
    let path = program.path().to_string_lossy().into_owned();
    let library = library().expect("masu").to_string_lossy().into_owned();
    for rate in ["1", "4KiB"] {
        let output = masu(&["prof", "--lifetimes", "--rate", rate, "--lib", &library, "--", &path]);
        let report = String::from_utf8_lossy(&output.stdout);
        let truth = report.lines().find_map(|line| line.strip_prefix("between ")).expect("a line");
        let truth: Vec<f64> = truth.split(' ').map(|n| n.parse().expect("a number")).collect();
        assert!(truth[0] >= 100.0, "{truth:?}");
        assert_eq!(said_of(&report, "brief"), "freed within 1 ms on average");
        assert_eq!(said_of(&report, "lasting"), "never freed");
        // The engine's clock ticks every few milliseconds.
        let (soonest, latest) = (truth[0] - 5.0, truth[1] + 5.0);
        let is_between = |said: &str| {
            let after: f64 = said.parse().expect("a number");
            assert!((soonest..=latest).contains(&after), "{said}: {truth:?}");
        };
        let passing = said_of(&report, "passing").strip_prefix("freed after ");
        is_between(passing.and_then(|said| said.strip_suffix(" ms on average")).expect(&report));
        let halved = said_of(&report, "halved").strip_prefix("freed after ");
        let halved = halved.and_then(|said| said.strip_suffix(" %")).expect(&report);
        let (after, kept) = halved.split_once(" ms on average except for ").expect(&report);
        is_between(after);
        let kept: u32 = kept.parse().expect("a number");
        // A sample in 4 KiB is some 300 of the blocks: the standard deviation is 3.
        let kept_are = if rate == "1" { 50..=50 } else { 35..=65 };
        assert!(kept_are.contains(&kept), "{kept} at {rate}");
    }
}
