//! Which allocator really served a program: the one that reports, at exit, as much memory in use as the program kept. A
//! variable makes each allocator report. If none of them holds the memory, the C library does.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// What the programs allocate, less what a counter may miss.
const HELD: f64 = 40e6;

/// The C library's `malloc` is called this here: which C library it is does not matter.
pub const LIBC: &str = "the C library";

/// A program that has allocated and waits.
pub struct Waiting {
    child: Child,
    out: BufReader<ChildStdout>,
    err: tempfile::NamedTempFile,
    /// Its process id: a launcher may have started it.
    pub id: String,
}

/// Its state at the end.
pub struct End {
    /// The allocator that held the program's memory.
    pub served: &'static str,
    /// What masu's command printed.
    pub said: String,
}

/// Starts `command`; if it ends instead of waiting, returns what it said.
pub fn start(command: &mut Command, preload: Option<&OsStr>) -> Result<Waiting, String> {
    let err = tempfile::NamedTempFile::new().expect("a file");
    for (name, value) in [
        ("MASU_SHOW_STATS", "1"),
        ("MALLOC_CONF", "stats_print:true"),
        ("MIMALLOC_SHOW_STATS", "1"),
        ("MALLOCSTATS", "1"),
    ] {
        command.env(name, value);
    }
    match preload {
        Some(value) => command.env("LD_PRELOAD", value),
        None => command.env_remove("LD_PRELOAD"),
    };
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(err.reopen().expect("the file"));
    let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    out.read_line(&mut line).expect("text");
    match line.strip_prefix("ready ") {
        Some(id) => Ok(Waiting { id: id.trim().to_owned(), child, out, err }),
        None => {
            let code = child.wait().expect("it ends").code();
            Err(format!("exit {code:?}: {line}{}", text(err.path())))
        }
    }
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).expect("readable")).into_owned()
}

impl Waiting {
    /// Ends it.
    pub fn end(mut self) -> End {
        drop(self.child.stdin.take());
        let mut rest = String::new();
        let _ = self.out.read_to_string(&mut rest);
        let status = self.child.wait().expect("it ends");
        let said = text(self.err.path());
        assert!(status.success(), "{status}: {said}");
        let of_masu = said
            .lines()
            .filter(|line| line.starts_with("masu: warning") || line.starts_with("masu: `"));
        let of_masu = of_masu.collect::<Vec<_>>().join("\n");
        End { served: who(&format!("{said}{rest}")), said: of_masu }
    }
}

/// The bytes in use according to a line of statistics, if it says that.
type Counter = fn(&str) -> Option<f64>;

/// The allocator that holds that many bytes.
fn who(said: &str) -> &'static str {
    let counters: [(&str, Counter); 4] = [
        ("masu", |line| number(line.strip_prefix("masu:   allocated")?)),
        ("jemalloc", |line| number(line.strip_prefix("Allocated: ")?)),
        ("mimalloc", |line| mebibytes(line.trim_start().strip_prefix("committed:")?)),
        ("tcmalloc", |line| {
            number(line.strip_suffix("Bytes in use by application")?.strip_prefix("MALLOC:")?)
        }),
    ];
    let held = |read: Counter| said.lines().filter_map(read).find(|&bytes| bytes > HELD);
    let of_masu = held(counters[0].1);
    // masu answers in jemalloc's format, too.
    let again = |name: &str, bytes| name == "jemalloc" && Some(bytes) == of_masu;
    let mut holders = counters
        .into_iter()
        .filter_map(|(name, read)| held(read).filter(|&bytes| !again(name, bytes)).map(|_| name));
    let first = holders.next().unwrap_or(LIBC);
    assert_eq!(holders.next(), None, "two hold it: {said}");
    first
}

/// The number at the beginning of a text.
fn number(text: &str) -> Option<f64> {
    let digits = text.trim_start().split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// The first number in `64.0 MiB  96.0 MiB …`.
fn mebibytes(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let (count, unit) = (words.next()?.parse::<f64>().ok()?, words.next()?);
    Some(count * if unit == "GiB" { 1e9 } else { 1e6 })
}

#[test]
fn each_counter_is_read() {
    assert_eq!(who("masu: statistics\nmasu:   allocated   50331648  48.0 MiB\n"), "masu");
    assert_eq!(who("masu:   allocated   11392  11.1 KiB\n"), LIBC);
    assert_eq!(who("Allocated: 58720256, active: 58820256\n"), "jemalloc");
    let both = "masu:   allocated   50331648\nAllocated: 50331648, active: 58820256\n";
    assert_eq!(who(both), "masu");
    assert_eq!(who(" committed:   64.0 MiB   96.0 MiB      0\n"), "mimalloc");
    assert_eq!(who(" committed:   32.0 MiB   32.0 MiB      0\n"), LIBC);
    let tcmalloc = "MALLOC:       58720256 (   56.0 MiB) Bytes in use by application\n";
    assert_eq!(who(tcmalloc), "tcmalloc");
}
