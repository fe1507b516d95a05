//! Heap profiles of real programs: they are right, never hang, and cost nothing when they are off.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use masu_profile::view::{margin, variance};
use masu_profile::{Amount, Place, Profile};
use masu_tests::running::{Running, masu};
use masu_tests::{Compile, Program, Run, is_masu, library, long, scratch, tool};

fn places(file: &Path) -> Vec<Place> {
    let text = fs::read_to_string(file).expect("a profile was written");
    Profile::parse(&text).unwrap_or_else(|e| panic!("{e}: {text}")).places
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

/// What a round keeps is freed before the next one; without an argument there is one round.
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
int main(int n, char **arguments) {
    for (int rounds = n > 1 ? atoi(arguments[1]) : 1; rounds > 0; rounds--) {
        for (int i = 0; i < 70000; i++) { free(kept[i]); kept[i] = 0; }
        many();
        few();
    }
    return 0;
}
"#;

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

fn compiled(source: &str) -> Program {
    let place = scratch();
    let file = place.path().join("source.c");
    fs::write(&file, source).expect("written");
    Compile::with("cc").flags(["-O1", "-fno-builtin", "-pthread"]).file(&file).build()
}

#[test]
fn figures_are_those_of_the_program() {
    let program = compiled(ACCURACY);
    for _ in 0..5 {
        let Some(places) = profiled(&program, &[], "4KiB") else { return };
        let sum = |large: bool, of: fn(&Place) -> f64| -> f64 {
            places.iter().filter(|p| (p.size > 8192) == large).map(of).sum()
        };
        for (found, truth) in [
            (sum(false, |p| p.allocated.bytes), 12e6),
            (sum(false, |p| p.live.bytes), 8e6),
            (sum(true, |p| p.live.bytes), 100.0 * 30_049.5),
        ] {
            // The standard deviation of the first two is 2 and 2.3 %, that of the third 0.1 %.
            assert!((found / truth - 1.0).abs() < 0.12, "{found} for {truth}");
        }
        // main, what it calls, and what calls it.
        assert!(places.iter().filter(|p| p.samples > 10).all(|p| p.frames.len() >= 3));
    }
}

/// Runs a storm, which has hundreds of chances to hang, twenty times, or a thousand times in the long mode.
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

/// The same on musl, without exceptions: musl has no C++ here.
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
    // At the configured rate each run would have 27,000. A slow one has time for many: 1,024, and one each 600 µs.
    let paid = 1024 + (start.elapsed().as_micros() / RUNS as u128 / 600) as u64;
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

/// The same in a real program: the engine's own tables know how much it holds.
#[test]
fn margins_hold_the_truth_of_a_real_program() {
    const RUNS: usize = 40;
    const SCRIPT: &str = "import json\n\
        text = json.dumps({str(i): [i, str(i) * 9] for i in range(200)})\n\
        kept = [json.loads(text) for _ in range(300)]\n\
        print('ready', flush=True); input()\n";
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    let mut held = 0;
    for _ in 0..RUNS {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", SCRIPT]).env("PYTHONMALLOC", "malloc").env("MASU_PROF", "1");
        let mut running = Running::start(&mut command);
        running.says("ready");
        let seen = masu_inspect::statistics::read(running.id()).expect("readable");
        let allocated = seen.copies[0].iter().find(|(name, _)| *name == "allocated");
        let truth = allocated.expect("a figure").1 as f64;
        let (memory, engines) = masu_inspect::engines(running.id()).expect("it runs on masu");
        let samples = engines[0].samples(&memory).expect("readable");
        let (mut sum, mut variances) = (0.0, 0.0);
        for site in &samples.sites {
            let blocks = |n: u64| n as f64 / 65536.0;
            // The tables count small blocks by the sizes of their classes.
            let bytes = match site.class {
                Some(_) => blocks(site.live.objects) * site.size as f64,
                None => site.live.bytes as f64,
            };
            let (objects, size) = (blocks(site.allocated.objects), site.size as f64);
            let all = site.class.map_or(site.allocated.bytes as f64, |_| objects * size);
            let (allocated, squares) = (Amount { objects, bytes: all }, site.squares);
            sum += bytes;
            variances += variance(bytes, &Place { squares, allocated, ..Place::default() });
        }
        held += usize::from((sum - truth).abs() <= margin(variances, sum));
    }
    // 38 are expected; the standard deviation is 1.4.
    assert!(held >= 33, "{held} of {RUNS}");
}

/// A program that has one small block at a time never has as many bytes as a sample of it stands for.
#[test]
fn a_peak_is_what_the_program_can_have_had() {
    let program = compiled(
        "#include <stdlib.h>\nint main(void) { for (int i = 0; i < 1000000; i++) {\n\
         void *volatile p = malloc(2000); free(p); } return 0; }",
    );
    let Some(places) = profiled(&program, &[], "512KiB") else { return };
    let sum = |of: fn(&Place) -> f64| places.iter().map(of).sum::<f64>();
    assert!(sum(|place| place.allocated.bytes) > 1e9);
    // Its spans, one of which is for samples.
    assert!(sum(|place| place.peak.bytes) <= 400e3, "{}", sum(|place| place.peak.bytes));
    let path = program.path().to_string_lossy().into_owned();
    let library = library().expect("masu").to_string_lossy().into_owned();
    let said = masu(&["prof", "--lib", &library, "--", &path]).stdout;
    let said = String::from_utf8_lossy(&said);
    let first = said.lines().next().unwrap_or_default();
    assert!(first.contains(" blocks: too few samples (process "), "{said}");
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

/// Programs that are gone a moment after their start.
#[test]
fn the_shortest_programs_have_a_profile_and_their_own_codes() {
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    const SHORT: &str = "#include <stdlib.h>\n#include <unistd.h>\n\
                         int main(void) { free(malloc(100)); _exit(3); }\n";
    let place = scratch();
    let at = |name: &str| place.path().join(name);
    fs::write(at("short.c"), SHORT).expect("written");
    let program = Compile::with("cc").flags(["-O0"]).file(at("short.c")).build();
    let (program, file) = (program.path().to_string_lossy(), at("a.prof"));
    let library = library().expect("masu").to_string_lossy();
    for (command, code) in
        [(&[&*program][..], 3), (&["sh", "-c", "kill -9 $$"], 128 + libc::SIGKILL)]
    {
        let raw = file.to_string_lossy();
        let options = ["prof", "--rate", "1", "--raw", &raw, "--lib", &library, "--"];
        for _ in 0..10 {
            let output = masu(&[&options[..], command].concat());
            let wrong = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!((output.status.code(), &*wrong), (Some(code), ""));
            let text = fs::read_to_string(&file).expect("written");
            Profile::parse(&text).expect("a profile");
            fs::remove_file(&file).expect("it was there");
        }
    }
}
