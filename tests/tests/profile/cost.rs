//! What a profile costs: memory, and instructions.

use std::process::Command;

use masu_tests::running::{Running, masu};
use masu_tests::{Program, is_masu, library, scratch, tool};

use super::{compiled, places};

/// Blocks of all sizes, 1 GiB in all; each sample has a different stack of some thirty frames.
const GIBIBYTE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
void *volatile kept;
static void *ask(unsigned path, int depth, size_t size);
__attribute__((noinline)) static void *left(unsigned path, int depth, size_t size) {
    void *p = ask(path, depth, size);
    __asm__ volatile("" : "+r"(p));
    return p;
}
__attribute__((noinline)) static void *right(unsigned path, int depth, size_t size) {
    void *p = ask(path, depth, size);
    __asm__ volatile("" : "+r"(p));
    return p;
}
static void *ask(unsigned path, int depth, size_t size) {
    if (depth == 0) return malloc(size);
    return (path & 1 ? left : right)(path >> 1, depth - 1, size);
}
int main(void) {
    static const size_t sizes[] = {100, 1000, 8000, 60000, 400000, 4000000};
    size_t sum = 0;
    for (unsigned i = 0; sum < (size_t)1 << 30; i++) {
        size_t size = sizes[sum < 128 << 20 ? i % 3 : 3 + i % 3];
        kept = ask(i * 2654435761u, 28, size);
        // Slowly: a program that allocates all of that at once is sampled less often.
        if (sum >> 19 != (sum + size) >> 19) usleep(500);
        sum += size;
    }
    puts("ready");
    fflush(stdout);
    return getchar() == 0;
}
"#;

/// In a heap of 1 GiB, at the usual rate, the profile itself takes at most 2 MiB.
#[test]
fn a_profile_of_a_gibibyte_takes_at_most_2_mib() {
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    let program = compiled(GIBIBYTE);
    let mut command = Command::new(program.path());
    let mut running = Running::start(command.env("MASU_PROF", "1"));
    running.says("ready");
    let output = masu(&["explain", "--json", &running.id().to_string()]);
    let account: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let parts = account["parts"].as_array().expect("parts");
    let of = |kind: &str| parts.iter().find(|part| part["kind"] == kind)?["bytes"].as_u64();
    let bytes = of("profile").expect("a line of its own");
    assert!(account["allocated"].as_u64() >= Some(1 << 30), "{account:#}");
    // More than a thousand samples have a stack each.
    assert!((400 << 10..=2 << 20).contains(&bytes), "{bytes}: {account:#}");
    // Nor does it take memory elsewhere.
    assert!(of("anonymous") < Some(48 << 10), "{account:#}");
}

/// The instructions that a program executes, as valgrind counts them.
fn instructions(program: &Program, argument: &str, variables: &[(&str, &str)]) -> f64 {
    let counted = Command::new(tool("valgrind"))
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program.path())
        .arg(argument)
        .env("LD_PRELOAD", library().expect("masu"))
        .envs(variables.iter().copied())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&counted.stderr).into_owned();
    let line = said.lines().find_map(|line| line.split_once("Collected : ")).expect("a count");
    line.1.trim().parse().expect("a number")
}

/// The hot paths do not know of a profile. A refill takes a few instructions more, of which a pair has less than one.
#[test]
fn a_pair_takes_the_same_instructions_with_a_profile() {
    const SOURCE: &str = r#"
#include <stdlib.h>
int main(int n, char **arguments) {
    for (long i = n > 1 ? atol(arguments[1]) : 0; i > 0; i--) {
        void *volatile p = malloc(64);
        free(p);
    }
    return 0;
}
"#;
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    let program = compiled(SOURCE);
    let pair = |variables: &[(&str, &str)]| {
        let of = |pairs: u32| instructions(&program, &pairs.to_string(), variables);
        (of(300_000) - of(100_000)) / 200_000.0
    };
    // So rarely that none is a sample.
    let (without, with) = (pair(&[]), pair(&[("MASU_PROF", "1"), ("MASU_PROF_RATE", "1TiB")]));
    println!("{without:.2} instructions a pair, {with:.2} with a profile");
    assert!(without > 20.0 && (with - without).abs() < 2.0, "{without} {with}");
}

/// 2 µs are some 6,000 cycles, in which processors execute 9,000 instructions of this kind and more. The test takes the
/// difference of two rates, so that start and exit do not count.
#[test]
fn a_sample_takes_few_instructions() {
    const SOURCE: &str = r#"
#include <stdlib.h>
static void *kept[1000];
__attribute__((noinline)) static void *deep(int depth, int i) {
    void *p = depth ? deep(depth - 1, i) : malloc(64 + i % 8 * 64);
    __asm__ volatile("" : "+r"(p));
    return p;
}
int main(void) {
    for (int i = 0; i < 200000; i++) {
        void **place = &kept[i % 1000];
        free(*place);
        *place = deep(12, i);
    }
    return 0;
}
"#;
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    let place = scratch();
    let program = compiled(SOURCE);
    let counts = |rate: &str| -> (f64, f64) {
        let file = place.path().join(rate);
        let name = file.to_string_lossy();
        let options = [("MASU_PROF", "1"), ("MASU_PROF_RATE", rate), ("MASU_PROF_FILE", &*name)];
        let counted = instructions(&program, "", &options);
        let samples: u64 = places(&file).iter().map(|it| it.samples).sum();
        (counted, samples as f64)
    };
    let (few, many) = (counts("32KiB"), counts("4KiB"));
    let each = (many.0 - few.0) / (many.1 - few.1);
    println!("{each:.0} instructions a sample");
    assert!(many.1 > 5.0 * few.1 && (1_000.0..9_000.0).contains(&each), "{each}: {few:?} {many:?}");
}
