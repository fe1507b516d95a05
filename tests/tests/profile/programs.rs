//! Profiles of real programs, compared with what is counted exactly: the margins hold the truth 95 times in a hundred.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use masu_profile::view::{margin, variance};
use masu_profile::{Amount, Place, Profile};
use masu_tests::running::Running;
use masu_tests::{Run, is_masu, long, scratch, tool};

use super::binomial;

/// So many runs, in each of which each margin either holds the truth or does not, and ten times as many in the long mode.
fn runs(usually: usize) -> usize {
    if long() { 10 * usually } else { usually }
}

/// How often margins, and half of them, held the truth.
#[derive(Default)]
struct Held {
    of: usize,
    whole: usize,
    half: usize,
}

impl Held {
    fn see(&mut self, estimate: f64, variance: f64, truth: f64) {
        let (off, margin) = ((estimate - truth).abs(), margin(variance, estimate));
        self.of += 1;
        self.whole += usize::from(off <= margin);
        self.half += usize::from(off <= margin / 2.0);
    }

    /// Fails if what was seen has a probability below one in ten thousand with margins that hold the truth 95 times in a
    /// hundred. Half a margin holds it 67 times, or up to 80 where there are few samples; that of one far too wide
    /// nearly always does.
    #[track_caller]
    fn check(&self, what: &str) {
        let Held { of, whole, half } = *self;
        let (least, most) = (binomial::least(of, 0.95), of - binomial::least(of, 1.0 - 0.8));
        println!("{what}: {whole} of {of}, {half} by half a margin; {least} and {most} allowed");
        assert!(whole >= least, "{what}: {whole} of {of}, and {least} are needed");
        assert!(half <= most, "{what}: {half} of {of} by half a margin, and {most} are allowed");
    }
}

/// What is in use in a process at rest: an estimate from its samples, the variance of that, and the truth, which the
/// engine's own tables know.
fn in_use(process: u32) -> (f64, f64, f64) {
    let allocated = || {
        let seen = masu_inspect::statistics::read(process).expect("readable");
        seen.copies[0].iter().find(|(name, _)| *name == "allocated").expect("a figure").1
    };
    let (memory, engines) = masu_inspect::engines(process).expect("it runs on masu");
    loop {
        let truth = allocated();
        let samples = engines[0].samples(&memory).expect("readable");
        // It may still have been at work.
        if truth != allocated() {
            continue;
        }
        let (mut sum, mut variances) = (0.0, 0.0);
        for site in &samples.sites {
            // The tables count small blocks by the sizes of their classes.
            let bytes = match site.class {
                Some(_) => site.live.blocks() * site.size as f64,
                None => site.live.bytes as f64,
            };
            let (objects, size) = (site.allocated.blocks(), site.size as f64);
            let all = site.class.map_or(site.allocated.bytes as f64, |_| objects * size);
            let (allocated, squares) = (Amount { objects, bytes: all }, site.squares);
            sum += bytes;
            variances += variance(bytes, &Place { squares, allocated, ..Place::default() });
        }
        return (sum, variances, truth as f64);
    }
}

/// Margins of what a program holds once it is ready.
#[track_caller]
fn margins_hold_of(what: &str, start: impl Fn() -> Running) {
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    let mut held = Held::default();
    for _ in 0..runs(100) {
        let running = start();
        let (estimate, variance, truth) = in_use(running.id());
        held.see(estimate, variance, truth);
    }
    held.check(what);
}

#[test]
fn margins_hold_the_truth_of_python() {
    const SCRIPT: &str = "import json\n\
        text = json.dumps({str(i): [i, str(i) * 9] for i in range(200)})\n\
        kept = [json.loads(text) for _ in range(300)]\n\
        print('ready', flush=True); input()\n";
    margins_hold_of("python", || {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", SCRIPT]).env("PYTHONMALLOC", "malloc").env("MASU_PROF", "1");
        let mut running = Running::start(&mut command);
        running.says("ready");
        running
    });
}

/// Buffers and strings that lie outside the heap of V8, which takes its own memory from the kernel.
#[test]
fn margins_hold_the_truth_of_node() {
    const SCRIPT: &str = "const kept = [];\n\
        for (let i = 0; i < 20000; i++) {\n\
        kept.push(Buffer.allocUnsafeSlow(100 + i % 1500).fill(1));\n\
        if (i % 3 == 0) kept[i >> 1] = null; }\n\
        console.log('ready'); process.stdin.resume();\n";
    margins_hold_of("node", || {
        let mut command = Command::new(tool("node"));
        command.args(["-e", SCRIPT]).env("MASU_PROF", "1").env("MASU_PROF_RATE", "256KiB");
        let mut running = Running::start(&mut command);
        running.says("ready");
        running
    });
}

/// Strings, hashes, lists and sorted sets, a third of which are deleted or overwritten.
#[test]
fn margins_hold_the_truth_of_redis() {
    const LOAD: &str = "for i = 1, 12000 do\n\
        redis.call('set', 'key' .. i, string.rep('x', i % 700))\n\
        redis.call('hset', 'hash' .. i % 300, 'field' .. i, string.rep('y', i % 90))\n\
        redis.call('rpush', 'list' .. i % 40, 'element' .. i)\n\
        redis.call('zadd', 'set' .. i % 20, i, 'member' .. i)\n\
        if i % 3 == 0 then redis.call('del', 'key' .. i - 1) end\n\
        if i % 5 == 0 then redis.call('append', 'key' .. i - 2, string.rep('z', 900)) end\n\
        end return 'done'";
    let place = scratch();
    let socket = place.path().join("socket");
    margins_hold_of("redis", || {
        let mut command = Command::new(tool("redis-server"));
        command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket);
        command.current_dir(place.path()).env("MASU_PROF", "1").env("MASU_PROF_RATE", "128KiB");
        let mut running = Running::start(&mut command);
        running.says("eady to accept");
        let mut client = Command::new(tool("redis-cli"));
        let output = client.arg("-s").arg(&socket).args(["eval", LOAD, "0"]).output();
        assert_eq!(output.expect("it runs").stdout, b"done\n");
        running
    });
}

/// A place in the program, whatever addresses its files are loaded at.
type Stack = Vec<(PathBuf, u64)>;

/// What each place has allocated, by the number of bytes and their variance.
fn allocated(file: &Path) -> HashMap<Stack, (f64, f64)> {
    let text = fs::read_to_string(file).expect("a profile was written");
    let profile = Profile::parse(&text).expect("a profile");
    let mut places = HashMap::<Stack, (f64, f64)>::new();
    for place in &profile.places {
        let stack = place.frames.iter().map(|&frame| match profile.mapping_of(frame) {
            Some(mapping) => (mapping.path.clone(), frame - mapping.start + mapping.offset),
            None => (PathBuf::new(), 0),
        });
        let (bytes, variances) = places.entry(stack.collect()).or_default();
        *bytes += place.allocated.bytes;
        *variances += variance(place.allocated.bytes, place);
    }
    places
}

/// git does the same work each time, so a profile of every block says what each of its places allocates.
#[test]
fn margins_hold_the_truth_of_each_place_in_git() {
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    let place = scratch();
    let at = |name: &str| place.path().join(name);
    let git = |words: &[&str]| {
        let run = Run::new("git").args(["-c", "user.name=a", "-c", "user.email=a@b.c"]).args(words);
        let run = run.directory(place.path()).env("GIT_CONFIG_NOSYSTEM", "1");
        run.env("HOME", place.path()).env("GIT_PAGER", "cat").env("GIT_CONFIG_GLOBAL", "/dev/null")
    };
    git(&["init", "-q", "."]).bare().run().success();
    for version in 0..30 {
        for file in 0..20 {
            let lines = (0..200).map(|line| match line % 30 == version {
                true => format!("line {line} of {file} is new in {version}\n"),
                false => format!("line {line} of {file}\n"),
            });
            fs::write(at(&format!("{file}.txt")), lines.collect::<String>()).expect("written");
        }
        git(&["add", "."]).bare().run().success();
        git(&["commit", "-q", "-m", "a version"]).bare().run().success();
    }
    let profile = |rate: &str| {
        let file = at(".git/a.prof");
        let run = git(&["log", "-p", "--no-color"]).env("MASU_PROF_RATE", rate);
        run.env("MASU_PROF_FILE", &file).run().success();
        allocated(&file)
    };
    let exact = profile("1");
    assert_eq!(exact.len(), profile("1").len(), "git does not always do the same");
    let mut largest: Vec<_> = exact.iter().map(|(stack, (bytes, _))| (stack, *bytes)).collect();
    largest.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    largest.truncate(6);
    let total: f64 = exact.values().map(|(bytes, _)| bytes).sum();
    println!(
        "{total} bytes in {} places: {:?}",
        exact.len(),
        largest.iter().map(|l| l.1).collect::<Vec<_>>()
    );
    let mut held: Vec<Held> = (0..=largest.len()).map(|_| Held::default()).collect();
    for _ in 0..runs(200) {
        let found = profile("32KiB");
        for ((stack, truth), held) in largest.iter().zip(&mut held) {
            let (bytes, variance) = found.get(*stack).copied().unwrap_or_default();
            held.see(bytes, variance, *truth);
        }
        let sum = found.values().fold((0.0, 0.0), |sum, place| (sum.0 + place.0, sum.1 + place.1));
        held.last_mut().expect("that of all").see(sum.0, sum.1, total);
    }
    for (number, held) in held.iter().enumerate() {
        held.check(&format!("git, place {number}"));
    }
}
