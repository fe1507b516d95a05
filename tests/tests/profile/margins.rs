//! The margins in reports hold the truth 95 times in a hundred.

use std::time::Instant;

use masu_profile::Place;
use masu_profile::view::{margin, variance};

use super::{ACCURACY, compiled, profiled};

/// The same work, by threads that come after so many others that caches of processors serve them.
const ACCURACY_AMONG_MANY: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
enum { WORKERS = 100, AT_ONCE = 4 };
static pthread_barrier_t begun, done;
void *volatile kept[70000];
static void *sleeper(void *nothing) {
    free(malloc(100));
    pthread_barrier_wait(&begun);
    pthread_barrier_wait(&done);
    return nothing;
}
__attribute__((noinline)) static void many(long number) {
    for (long i = number; i < 60000; i += WORKERS) {
        void *volatile p = malloc(200);
        if (i % 3 == 0) free(p); else kept[i] = p;
    }
}
__attribute__((noinline)) static void few(long number) {
    kept[60000 + number] = malloc(30000 + number);
}
static void *worker(void *number) {
    many((long)number);
    few((long)number);
    return 0;
}
int main(void) {
    int sleepers = 8 * (int)sysconf(_SC_NPROCESSORS_CONF) + 1;
    pthread_t threads[AT_ONCE], all[sleepers];
    pthread_barrier_init(&begun, 0, sleepers + 1);
    pthread_barrier_init(&done, 0, sleepers + 1);
    for (int i = 0; i < sleepers; i++) pthread_create(&all[i], 0, sleeper, 0);
    pthread_barrier_wait(&begun);
    for (long number = 0; number < WORKERS; number += AT_ONCE) {
        for (long i = 0; i < AT_ONCE; i++) pthread_create(&threads[i], 0, worker, (void *)(number + i));
        for (long i = 0; i < AT_ONCE; i++) pthread_join(threads[i], 0);
    }
    pthread_barrier_wait(&done);
    for (int i = 0; i < sleepers; i++) pthread_join(all[i], 0);
    return 0;
}
"#;

/// The margins in reports hold the truth 95 times in a hundred, whether many or few samples make up a figure.
#[test]
fn margins_hold_the_truth_as_often_as_they_say() {
    let truths = [8e6, 3_004_950.0];
    margins_hold(ACCURACY, "48KiB", "1", truths, |place| place.live.bytes);
}

/// The same for threads without a heap.
#[test]
fn margins_hold_the_truth_among_many_threads() {
    let truths = [8e6, 3_004_950.0];
    margins_hold(ACCURACY_AMONG_MANY, "48KiB", "", truths, |place| place.live.bytes);
}

/// The same if the program allocates so fast that it is sampled less often than configured.
#[test]
fn margins_hold_the_truth_where_rates_change() {
    let truths = [120.0 * 12e6, 120.0 * 3_004_950.0];
    let start = Instant::now();
    let samples = margins_hold(ACCURACY, "64KiB", "120", truths, |place| place.allocated.bytes);
    // At the configured rate each run would have 27,000. A slow one has time for many: 1,024, and one each millisecond.
    let paid = 1024 + (start.elapsed().as_millis() / RUNS as u128) as u64;
    assert!(samples < (paid + paid / 4).max(5000), "{samples}, with time for {paid}");
}

/// The same if it allocates in bursts, and then sleeps.
#[test]
fn margins_hold_the_truth_of_bursts() {
    let bursts = ACCURACY
        .replace("70000", "7000")
        .replace("60000", "6000")
        .replace("i < 100;", "i < 10;")
        .replace("        many();", "        usleep(4000);\n        many();");
    let source = format!("#include <unistd.h>\n{bursts}");
    let truths = [40.0 * 1.2e6, 40.0 * 300_045.0];
    // A burst is 19 samples, and the thread could save for 7.
    margins_hold(&source, "64KiB", "40", truths, |place| place.allocated.bytes);
}

/// Runs of a program whose margins are checked.
const RUNS: usize = 100;

/// The number of samples in a run, after checking that 95 of 100 margins hold the true small and large sizes, and half of
/// a margin clearly fewer: a margin that is far too wide always holds.
#[track_caller]
fn margins_hold(
    source: &str,
    rate: &str,
    rounds: &str,
    truths: [f64; 2],
    of: fn(&Place) -> f64,
) -> u64 {
    let program = compiled(source);
    let (mut held, mut halves, mut samples) = ([0; 2], [0; 2], 0);
    for _ in 0..RUNS {
        let Some(places) = profiled(&program, &[rounds], rate) else { return 0 };
        for (large, truth) in truths.into_iter().enumerate() {
            let places: Vec<&Place> =
                places.iter().filter(|it| (it.size > 8192) == (large == 1)).collect();
            let sum: f64 = places.iter().map(|it| of(it)).sum();
            let variance = places.iter().map(|it| variance(of(it), it)).sum();
            let (off, margin) = ((sum - truth).abs(), margin(variance, sum));
            held[large] += usize::from(off <= margin);
            halves[large] += usize::from(off <= margin / 2.0);
            samples += places.iter().map(|it| it.samples).sum::<u64>();
        }
    }
    println!("{held:?} of {RUNS}, {halves:?} by half, {} samples each", samples / RUNS as u64);
    // 95 are expected; the standard deviation is 2.2.
    assert!(held.iter().all(|&held| held >= 87), "{held:?} of {RUNS}");
    // And 67, or a few more where there are few samples; the standard deviation is 4.7.
    assert!(halves.iter().all(|&halves| halves < 95), "{halves:?} of {RUNS} by half a margin");
    samples / RUNS as u64
}
