//! Stacks are whole: in real programs of many kinds, without frame pointers, at least 99 samples in a hundred reach the
//! place where their thread began.
//!
//! That place is the entry of the program or of the dynamic loader, or the place where the C library starts threads,
//! which a small program finds.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use masu_profile::Profile;
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
        // The profile of a process that was killed is incomplete.
        let Ok(profile) = Profile::parse(&text) else { continue };
        for place in &profile.places {
            let last = place.frames.last().map(|address| address - 1);
            let end = last.and_then(|at| {
                let mapping =
                    profile.mapping_of(at).filter(|mapping| mapping.path.is_absolute())?;
                let path = mapping.path.to_str().expect("a path in UTF-8");
                Some((path.to_owned(), at - mapping.start + mapping.offset))
            });
            *ends.entry(end).or_default() += place.samples;
        }
    }
    ends
}

/// The file offset of a file's entry.
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

/// The share of the samples that reach a thread's start, and the number of samples.
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

/// Runs a program with a profile, and checks that its stacks are whole.
fn whole(name: &str, command: &mut Command) {
    let place = scratch();
    whole_in(place.path(), name, command.env("LD_PRELOAD", library().expect("masu")));
}

/// The same in a directory; the command itself decides what runs on masu.
fn whole_in(place: &Path, name: &str, command: &mut Command) {
    command.current_dir(place);
    command.env("MASU_PROF_FILE", place.join("%p.prof")).env("MASU_PROF_RATE", "32KiB");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().unwrap_or_else(|error| missing(name, &error.to_string()));
    assert!(status.success(), "{name}: {status}");
    let (share, samples) = reach(place, &threads());
    println!("{name}: {:.2} % of {samples} samples reach their thread's start", 100.0 * share);
    assert!(samples > 20, "{name}: {samples} samples");
    assert!(share >= 0.99, "{name}: {share}");
}

fn missing(name: &str, what: &str) -> ! {
    panic!("{name} is missing ({what}): ./check tools installs it")
}

/// Servers at work, as shell scripts: `on_masu` starts one in place of a shell, and `until_it` waits.
const REDIS: &str = r#"
on_masu redis-server --port 0 --unixsocket "$PWD/s" --save '' --daemonize no &
until_it redis-cli -s s ping
redis-benchmark -s s -n 20000 -c 20 -d 2000 -r 1000 -q -t set,get,lpush,hset,sadd
redis-cli -s s eval "for i = 1, 2000 do redis.call('set', 'k' .. i, string.rep('x', i)) end" 0
redis-cli -s s shutdown nosave
wait
"#;

const POSTGRES: &str = r#"
become() { if [ "$(id -u)" = 0 ]; then exec setpriv --reuid=postgres --regid=postgres --init-groups "$@"; else exec "$@"; fi; }
(become initdb -D "$PWD/cluster" -U postgres --auth=trust --no-sync -E UTF8 --locale=C)
become env LD_PRELOAD="$MASU" postgres -D "$PWD/cluster" -k "$PWD" -c listen_addresses= -c fsync=off &
server=$!
export PGHOST=$PWD PGUSER=postgres PGDATABASE=postgres
until_it psql -qc 'SELECT 1'
pgbench -q -i -s 2
pgbench -n -c 4 -j 2 -t 200
psql -c "SELECT md5(string_agg(md5(i::text), ',')) FROM generate_series(1, 200000) i"      -c "SELECT count(*) FROM (SELECT jsonb_agg(i) FROM generate_series(1, 50000) i GROUP BY i % 100) t"
kill -INT $server
wait $server
"#;

const NGINX: &str = r#"
mkdir www
for i in $(seq 40); do seq "$i" $((i * 500)) > "www/$i.txt"; done
chmod -R a+rX .
cat > nginx.conf <<CONF
$([ "$(id -u)" = 0 ] && echo 'user www-data;')
worker_processes 2; daemon off; pid $PWD/pid; error_log $PWD/error.log;
events { worker_connections 256; }
http {
    access_log off; types { text/plain txt; }
    client_body_temp_path $PWD/b; proxy_temp_path $PWD/p; fastcgi_temp_path $PWD/f; uwsgi_temp_path $PWD/u; scgi_temp_path $PWD/c;
    gzip on; gzip_types text/plain; gzip_min_length 100;
    server { listen unix:$PWD/back; root $PWD/www; autoindex on; }
    server { listen unix:$PWD/front; location / { proxy_pass http://unix:$PWD/back:; proxy_buffers 8 8k; } }
}
CONF
on_masu nginx -c "$PWD/nginx.conf" -e "$PWD/error.log" &
server=$!
until_it curl -s -o got --unix-socket front http://localhost/1.txt
for round in 1 2 3; do
    for i in $(seq 40); do curl -s --compressed -o got --unix-socket front "http://localhost/$i.txt" & done
    for i in $(seq 40); do curl -s --compressed -o got --unix-socket front "http://localhost/"; done
done
sleep 1
kill -QUIT $server
wait $server
"#;

/// Servers are where only administrators look for them, and PostgreSQL where nobody does.
const PATHS: &str = "PATH=$(printf '%s:' /usr/lib/postgresql/*/bin)$PATH:/usr/sbin\n";

/// Runs a server at work.
fn server(name: &str, program: &str, script: &str) {
    let find = format!("{PATHS}command -v {program}");
    let found = Command::new("sh").args(["-c", &find]).output().expect("a shell");
    if !found.status.success() {
        missing(name, program);
    }
    // Users other than this one need access.
    let place = tempfile::Builder::new().prefix("masu").tempdir_in("/tmp").expect("a directory");
    fs::set_permissions(place.path(), Permissions::from_mode(0o777)).expect("ours");
    let script = format!(
        "{PATHS}on_masu() {{ exec env LD_PRELOAD=\"$MASU\" \"$@\"; }}\n\
         until_it() {{ for i in $(seq 100); do \"$@\" && return; sleep 0.1; done; exit 1; }}\n{script}"
    );
    let mut command = Command::new("timeout");
    command.args(["120", "sh", "-c", &script]).env("MASU", library().expect("masu"));
    whole_in(place.path(), name, &mut command);
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
    redis: {
        server("Redis", "redis-server", REDIS);
    }
    postgres: {
        server("PostgreSQL", "initdb", POSTGRES);
    }
    nginx: {
        server("nginx", "nginx", NGINX);
    }
    java: {
        let (_place, file) = source("Work.java", JAVA);
        whole("Java", Command::new("java").arg("-XX:+UseSerialGC").arg(file));
    }
}
