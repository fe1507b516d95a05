//! Stacks are whole: of real programs, without frame pointers and of many kinds, 99 samples in a hundred at least
//! reach the place where their thread began.
//!
//! That place is the entry of the program or of the dynamic loader, or where the C library starts threads, which a
//! small program tells.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use masu_tests::{Compile, Run, is_masu, library, scratch};

/// A place in a file.
type Place = (String, u64);

/// The outermost frames of the samples in a directory's profiles, with the number of samples of each.
fn ends(place: &Path) -> HashMap<Option<Place>, u64> {
    let mut ends = HashMap::new();
    for file in fs::read_dir(place).expect("a directory") {
        let path = file.expect("a file").path();
        if path.extension().is_none_or(|kind| kind != "prof") {
            continue;
        }
        let text = String::from_utf8_lossy(&fs::read(&path).expect("written")).into_owned();
        let Some((places, maps)) = text.split_once("\nmaps\n") else { continue };
        let maps: Vec<(u64, u64, u64, &str)> = maps.lines().filter_map(mapping).collect();
        for line in places.lines().filter_map(|line| line.strip_prefix("place ")) {
            let (numbers, frames) = line.split_once(" @").expect("a stack");
            let samples: u64 = numbers.split(' ').nth(1).expect("a number").parse().expect("one");
            let last = frames.split_whitespace().next_back().and_then(|frame| hex(&frame[2..]));
            let end = last.and_then(|address| {
                let at = address - 1;
                let (start, _, offset, path) =
                    maps.iter().find(|(start, end, ..)| (*start..*end).contains(&at))?;
                Some(((*path).to_owned(), at - start + offset))
            });
            *ends.entry(end).or_default() += samples;
        }
    }
    ends
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// A line of what is mapped, if it is code of a file.
fn mapping(line: &str) -> Option<(u64, u64, u64, &str)> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let (rights, offset, path) = (words.next()?, words.next()?, words.nth(2)?.trim_start());
    (rights.contains('x') && path.starts_with('/')).then_some(())?;
    Some((hex(start)?, hex(end)?, hex(offset)?, path))
}

/// Where a file's entry is in it.
fn entry(path: &str) -> Option<u64> {
    let bytes = fs::read(path).ok()?;
    let number = |at: usize, len: usize| -> Option<u64> {
        let mut word = [0; 8];
        word[..len].copy_from_slice(bytes.get(at..at + len)?);
        Some(u64::from_le_bytes(word))
    };
    let (entry, table, count) = (number(24, 8)?, number(32, 8)?, number(56, 2)?);
    (0..count).find_map(|i| {
        let at = (table + i * 56) as usize;
        let (offset, address, len) = (number(at + 8, 8)?, number(at + 16, 8)?, number(at + 32, 8)?);
        let is_there = number(at, 4)? == 1 && (address..address + len).contains(&entry);
        is_there.then_some(entry - address + offset)
    })
}

/// What share of the samples reaches a thread's start, and how many there are.
fn reach(place: &Path, threads: &HashSet<Place>) -> (f64, u64) {
    /// Bytes of an entry's code.
    const ENTRY: u64 = 96;
    let (mut all, mut whole) = (0, 0);
    let mut entries: BTreeMap<String, Option<u64>> = BTreeMap::new();
    let mut short: Vec<(u64, Option<Place>)> = Vec::new();
    for (end, samples) in ends(place) {
        all += samples;
        let is_start = end.as_ref().is_some_and(|end| {
            let entry = *entries.entry(end.0.clone()).or_insert_with(|| entry(&end.0));
            threads.contains(end) || entry.is_some_and(|at| (at..at + ENTRY).contains(&end.1))
        });
        if is_start {
            whole += samples;
        } else {
            short.push((samples, end));
        }
    }
    short.sort();
    for (samples, end) in short.iter().rev().take(5) {
        println!("  {samples} samples end at {end:x?}");
    }
    (whole as f64 / all.max(1) as f64, all)
}

const THREADS: &str = r#"
#include <pthread.h>
#include <stdlib.h>
static void *work(void *p) { for (int i = 0; i < 1000; i++) *(char *volatile *)malloc(100) = 0; return p; }
int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, 0, work, 0)) return 1;
    return pthread_join(thread, 0);
}
"#;

const CXX: &str = r#"
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>
static long fill(int deep) {
    std::map<std::string, std::vector<int>> map;
    for (int i = 0; i < 1000; i++) map["key number " + std::to_string(i * deep)].push_back(i);
    return deep ? fill(deep - 1) + map.size() : map.size();
}
int main() {
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++) threads.emplace_back([] { std::function<long(int)> f = fill; f(20); });
    fill(20);
    for (auto &thread : threads) thread.join();
}
"#;

const PYTHON: &str = "
import json, re, threading
def work(deep=0):
    if deep < 8: return work(deep + 1)
    data = [json.loads(json.dumps({str(i): [i] * 10 for i in range(3000)})) for _ in range(4)]
    return len(re.sub('a', 'b', 'a' * 100000))
threads = [threading.Thread(target=work) for _ in range(3)]
[t.start() for t in threads]; work(); [t.join() for t in threads]
";

const RUBY: &str = "
require 'json'
def work(deep) = deep > 0 ? work(deep - 1) : (1..4).map { JSON.parse(JSON.generate((0..3000).to_h { |i| [\"k#{i}\", [i] * 10] })) }.size
threads = 3.times.map { Thread.new { work(8) } }; work(8); threads.each(&:join)
";

const NODE: &str = "
const all = [];
for (let i = 0; i < 40; i++) {
  all.push(Buffer.alloc(300000, i));
  all.push(JSON.parse(JSON.stringify([...Array(3000).keys()].map(k => ({k: 'x' + k})))));
}
require('zlib').gzip(Buffer.concat(all.filter(Buffer.isBuffer)), () => {});
";

const JAVA: &str = "
import java.util.zip.*;
public class Work {
    public static void main(String[] arguments) throws Exception {
        Thread[] threads = new Thread[3];
        for (int t = 0; t < 3; t++) (threads[t] = new Thread(() -> {
            for (int i = 0; i < 200; i++) {
                Deflater deflater = new Deflater();
                deflater.setInput(new byte[100000]);
                deflater.finish();
                deflater.deflate(new byte[1000]);
                deflater.end();
            }
        })).start();
        for (Thread thread : threads) thread.join();
    }
}
";

/// Where the C library starts threads.
fn threads() -> HashSet<Place> {
    let place = scratch();
    let source = place.path().join("threads.c");
    fs::write(&source, THREADS).expect("written");
    let program =
        Compile::with("cc").flags(["-O1", "-fno-builtin", "-pthread"]).file(&source).build();
    let file = place.path().join("%p.prof");
    let run = Run::program(&program).timeout(Duration::from_secs(60));
    run.env("MASU_PROF_FILE", &file).env("MASU_PROF_RATE", "100").run().success();
    let entries = |(path, at): &Place| entry(path).is_some_and(|e| (e..e + 96).contains(at));
    ends(place.path()).into_keys().flatten().filter(|end| !entries(end)).collect()
}

/// Runs a program with a profile, if it is installed, and checks that its stacks are whole.
fn whole(name: &str, command: &mut Command) {
    let place = scratch();
    command.env("LD_PRELOAD", library().expect("masu")).current_dir(place.path());
    command.env("MASU_PROF_FILE", place.path().join("%p.prof")).env("MASU_PROF_RATE", "32KiB");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status() {
        Err(error) => return println!("{name}: is not installed ({error})"),
        Ok(status) => assert!(status.success(), "{name}: {status}"),
    }
    let (share, samples) = reach(place.path(), &threads());
    println!("{name}: {:.2} % of {samples} samples reach their thread's start", 100.0 * share);
    assert!(samples > 20, "{name}: {samples} samples");
    assert!(share >= 0.99, "{name}: {share}");
}

/// A source in a file of its own, which stays as long as the directory.
fn source(name: &str, text: &str) -> (tempfile::TempDir, String) {
    let place = scratch();
    let file = place.path().join(name);
    fs::write(&file, text).expect("written");
    let path = file.to_string_lossy().into_owned();
    (place, path)
}

macro_rules! tests {
    ($($test:ident: $body:block)*) => {$(
        #[test]
        fn $test() {
            if !is_masu() {
                return println!("profiles are masu's");
            }
            $body
        }
    )*};
}

tests! {
    c: {
        let program = Compile::c("c/documented.c").flags(["-O2", "-pthread"]).build();
        whole("C", &mut Command::new(program.path()));
    }
    cxx: {
        let (_place, file) = source("work.cc", CXX);
        let program = Compile::with("c++").flags(["-O2", "-pthread"]).file(&file).build();
        whole("C++", &mut Command::new(program.path()));
    }
    rust: {
        let masu = library().expect("masu").with_file_name("masu");
        whole("Rust", Command::new(masu).args(["doctor", "--json", "/bin/ls"]));
    }
    cpython: {
        let (_place, file) = source("work.py", PYTHON);
        whole("CPython", Command::new("/usr/bin/python3").arg(file).env("PYTHONMALLOC", "malloc"));
    }
    ruby: {
        let (_place, file) = source("work.rb", RUBY);
        whole("Ruby", Command::new("ruby").arg(file));
    }
    node: {
        let (_place, file) = source("work.js", NODE);
        whole("Node", Command::new("node").arg(file));
    }
    java: {
        let (_place, file) = source("Work.java", JAVA);
        whole("Java", Command::new("java").arg("-XX:+UseSerialGC").arg(file));
    }
}
