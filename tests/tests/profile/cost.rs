//! What a profile costs: memory, and instructions.

use std::process::Command;

use masu_tests::running::{Running, masu};
use masu_tests::{Program, is_masu, library, scratch, tool};

use super::{compiled, places};

/// Blocks whose sizes are those of their classes, far below the usual rate, 1 GiB in all; each sample has a different stack
/// of some thirty frames.
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
    static const size_t sizes[] = {64, 128, 512, 1024, 4096, 8192};
    // Slowly, after a pause: a program that allocates all of that at once is sampled less often.
    kept = malloc(1);
    usleep(100000);
    size_t sum = 0;
    for (unsigned i = 0; sum < (size_t)1 << 30; i++) {
        size_t size = sizes[i % 6];
        kept = ask(i * 2654435761u, 28, size);
        if (sum >> 19 != (sum + size) >> 19) usleep(1500);
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
    let (memory, engines) = masu_inspect::engines(running.id()).expect("it runs on masu");
    let samples = engines[0].samples(&memory).expect("readable");
    let (live, sites) = (samples.live.len(), samples.sites.len());
    let output = masu(&["explain", "--json", &running.id().to_string()]);
    let account: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let parts = account["parts"].as_array().expect("parts");
    let of = |kind: &str| parts.iter().find(|part| part["kind"] == kind)?["bytes"].as_u64();
    let bytes = of("profile").expect("a line of its own");
    assert!(account["allocated"].as_u64() >= Some(1 << 30), "{account:#}");
    println!("{live} samples at {sites} sites take {bytes} bytes");
    // A block of s bytes is a sample with probability 1 − e^(−s / 512 KiB): 2,036 are expected, and the standard deviation
    // is 45.
    assert!((1850..=2225).contains(&live), "{live}");
    // Nearly all of them have a stack of their own, of 28 addresses and more.
    assert!(sites > live * 9 / 10, "{sites} of {live}");
    assert!((live as u64 * 28 * 8..=2 << 20).contains(&bytes), "{bytes}: {account:#}");
    // Nor does it take memory elsewhere.
    assert!(of("anonymous") < Some(48 << 10), "{account:#}");
}

/// The instructions that a program executes, as valgrind counts them: all, and those of the functions themselves that it
/// calls, without what these call on their slow paths.
fn instructions(program: &Program, arguments: &[&str], variables: &[(&str, &str)]) -> (f64, f64) {
    let place = scratch();
    let file = place.path().join("callgrind");
    let mut valgrind = Command::new(tool("valgrind"));
    valgrind.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", file.display()));
    valgrind.arg(program.path()).args(arguments).envs(variables.iter().copied());
    let counted = valgrind.env("LD_PRELOAD", library().expect("masu")).output().expect("it runs");
    let said = String::from_utf8_lossy(&counted.stderr).into_owned();
    let line = said.lines().find_map(|line| line.split_once("Collected : ")).expect("a count");
    let mut annotate = Command::new(tool("callgrind_annotate"));
    let listed = annotate.arg("--threshold=100").arg(&file).output().expect("it runs").stdout;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let own = listed.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_door = |name: &&str| ["malloc", "calloc", "realloc", "free"].contains(name);
        let name = line.split_once(" [")?.0.rsplit(':').next()?;
        let is_masu = line.ends_with(&format!("{}]", library()?.file_name()?.to_str()?));
        (is_door(&name) && is_masu).then(|| words[0].replace(',', "").parse::<f64>().ok())?
    });
    (line.1.trim().parse().expect("a number"), own.sum())
}

/// So many pairs of one kind. Another thread frees a thousand blocks at a time.
const PAIRS: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
enum { BATCH = 1000 };
static pthread_barrier_t full, empty;
static void *volatile batch[BATCH];
static long batches;
static void *frees(void *nothing) {
    for (long i = 0; i < batches; i++) {
        pthread_barrier_wait(&full);
        for (int j = 0; j < BATCH; j++) free(batch[j]);
        pthread_barrier_wait(&empty);
    }
    return nothing;
}
int main(int n, char **arguments) {
    const char *kind = arguments[1];
    long pairs = atol(arguments[2]);
    void *volatile p;
    if (!strcmp(kind, "malloc")) {
        for (long i = 0; i < pairs; i++) { p = malloc(64); free(p); }
    } else if (!strcmp(kind, "calloc")) {
        for (long i = 0; i < pairs; i++) { p = calloc(4, 16); free(p); }
    } else if (!strcmp(kind, "realloc")) {
        p = malloc(64);
        for (long i = 0; i < pairs; i++) { p = realloc(p, 60); p = realloc(p, 64); }
        free(p);
    } else {
        pthread_t thread;
        batches = pairs / BATCH;
        pthread_barrier_init(&full, 0, 2);
        pthread_barrier_init(&empty, 0, 2);
        pthread_create(&thread, 0, frees, 0);
        for (long i = 0; i < batches; i++) {
            for (int j = 0; j < BATCH; j++) batch[j] = malloc(64);
            pthread_barrier_wait(&full);
            pthread_barrier_wait(&empty);
        }
        pthread_join(thread, 0);
    }
    return n != 3;
}
"#;

/// The hot paths do not know of a profile: each function executes the same instructions with one and without. A refill
/// takes 15 to 60 more for some sixty blocks, of which a pair has less than one, and samples take their own.
#[test]
fn a_pair_takes_the_same_instructions_with_a_profile() {
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    const PAIRS_COUNTED: f64 = 200_000.0;
    let place = scratch();
    let file = place.path().join("a.prof");
    let name = file.to_string_lossy();
    let program = compiled(PAIRS);
    // So rarely that none is a sample, and as usual.
    let rarely = [("MASU_PROF", "1"), ("MASU_PROF_RATE", "1TiB")];
    let usually = [("MASU_PROF", "1"), ("MASU_PROF_FILE", &*name)];
    for kind in ["malloc", "calloc", "realloc", "thread"] {
        let pair = |variables: &[(&str, &str)]| {
            let of = |pairs: u32| instructions(&program, &[kind, &pairs.to_string()], variables);
            let (few, many) = (of(100_000), of(300_000));
            ((many.0 - few.0) / PAIRS_COUNTED, (many.1 - few.1) / PAIRS_COUNTED)
        };
        let (without, with, sampled) = (pair(&[]), pair(&rarely), pair(&usually));
        // Of the second run: 300,000 pairs.
        let samples: u64 = places(&file).iter().map(|it| it.samples).sum();
        println!("{kind}: {without:?} instructions a pair and in the functions themselves");
        println!("{kind}: {with:?} with a profile, {sampled:?} with {samples} samples");
        assert!(without.1 > 20.0 && without.0 > without.1, "{kind}: {without:?}");
        // What another thread frees depends a little on when the threads run.
        let same = if kind == "thread" { 0.05 } else { 0.0 };
        assert!((with.1 - without.1).abs() <= same, "{kind}: {with:?} {without:?}");
        assert!((0.0..1.0).contains(&(with.0 - without.0)), "{kind}: {with:?} {without:?}");
        // A sample ends a bin early, so that one more call misses it.
        assert!((sampled.1 - without.1).abs() < 0.05, "{kind}: {sampled:?} {without:?}");
        let most = 1.0 + samples as f64 * MOST_A_SAMPLE / PAIRS_COUNTED;
        assert!(sampled.0 - without.0 < most, "{kind}: {sampled:?} {without:?} {samples}");
    }
}

/// The most instructions that a sample may take.
const MOST_A_SAMPLE: f64 = 9_000.0;

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
        let (counted, _) = instructions(&program, &[], &options);
        let samples: u64 = places(&file).iter().map(|it| it.samples).sum();
        (counted, samples as f64)
    };
    let (few, many) = (counts("32KiB"), counts("4KiB"));
    let each = (many.0 - few.0) / (many.1 - few.1);
    println!("{each:.0} instructions a sample");
    assert!(
        many.1 > 5.0 * few.1 && (1_000.0..MOST_A_SAMPLE).contains(&each),
        "{each}: {few:?} {many:?}"
    );
}
