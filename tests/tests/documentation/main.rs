//! The documentation is true: its commands run and print what it says, and its links lead somewhere.
//!
//! In the pages named below every block of `sh` is executed, one after the other, in one directory. `program`,
//! `./server` and `./worker` are `c/documented.c`, and `PID` is a process on masu. A block of `text` after it is what
//! it prints: all of these lines, with `…` for variable parts, in this order, with other lines between them. In a block
//! of `console`, commands and what they print alternate.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use masu_tests::{Compile, cells, is_masu, library, patience, scratch, words, workspace};

/// A page's blocks of commands, each with its expected output.
fn blocks(page: &str) -> Vec<(String, Vec<String>)> {
    let mut blocks: Vec<(String, Vec<String>)> = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else { continue };
        let body: Vec<_> =
            lines.by_ref().take_while(|line| *line != "```").map(str::to_owned).collect();
        match kind {
            "sh" => blocks.push((body.join("\n"), Vec::new())),
            "text" => blocks.last_mut().expect("text follows commands").1 = body,
            "console" => {
                for line in body {
                    match line.strip_prefix("$ ") {
                        Some(command) => blocks.push((command.to_owned(), Vec::new())),
                        None => blocks.last_mut().expect("a command comes first").1.push(line),
                    }
                }
            }
            _ => {}
        }
    }
    blocks
}

/// Whether `line` matches `pattern`, in which `…` stands for anything and blanks for any blanks.
fn fits(line: &str, pattern: &str) -> bool {
    let (line, pattern) = (words(line), words(pattern));
    let mut parts = pattern.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else {
        return false;
    };
    let mut exact = true;
    for part in parts {
        exact = part.is_empty();
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    exact && pattern.ends_with('…') || rest.is_empty()
}

/// The first line of `expected` that `said` lacks, in order.
fn lacks<'a>(said: &str, expected: &'a [String]) -> Option<&'a str> {
    let mut lines = said.lines();
    expected.iter().find(|pattern| !lines.any(|line| fits(line, pattern))).map(String::as_str)
}

/// A `program` that waits.
struct Waiting(Child);

impl Waiting {
    fn start(program: &Path, library: &Path) -> Waiting {
        let mut command = Command::new(program);
        command.arg("waits").env("LD_PRELOAD", library);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        Waiting(child)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// What comes before each script. Services are those of the [`machine`], and `systemctl` does nothing. The doctor's
/// exit status is ignored: the test machine may have faults of its own. In the background the shell becomes `masu run`,
/// as it would without this function, so `$!` is the program's id.
const PRELUDE: &str = "exec 2>&1; sudo() { \"$@\"; }; systemctl() { :; }; masu() { \
    read -r shell _ </proc/self/stat; if [ \"$1\" = run ] && [ \"$shell\" != $$ ]; then exec masu \"$@\"; fi; \
    if [ \"$1\" = unit ]; then shift; set -- unit --root machine \"$@\"; fi; command masu \"$@\" || { status=$?; [ \"$1\" = doctor ] || return $status; }; }; ";

/// The files of a machine with services.
fn machine(root: &Path) {
    let units = root.join("lib/systemd/system");
    fs::create_dir_all(&units).expect("made");
    for name in ["nginx", "redis-server", "mariadb", "postgresql@", "puma", "php8.5-fpm"] {
        let text = format!("[Service]\nExecStart=/usr/bin/{name}\n");
        fs::write(units.join(format!("{name}.service")), text).expect("written");
    }
}

#[track_caller]
fn check(name: &str) {
    if !is_masu() {
        println!("the documentation is of masu");
        return;
    }
    let library = library().expect("masu is a library");
    let place = scratch();
    let at = |name: &str| place.path().join(name);
    fs::create_dir(at("bin")).expect("made");
    let built = Compile::c("c/documented.c").flag("-pthread").build();
    // Not a copy: a file that is open for writing, even in a child that another test has just forked, cannot be
    // executed.
    for name in ["bin/program", "server", "worker"] {
        fs::hard_link(built.path(), at(name)).expect("a second name");
    }
    // As the packages install them.
    symlink(library.parent().unwrap().join("masu"), at("bin/masu")).expect("a link");
    for name in ["libmasu.so", "libmasu.so.0"] {
        symlink(library, at(name)).expect("a link");
    }
    machine(&at("machine"));
    let waiting = Waiting::start(&at("bin/program"), library);

    let path = std::env::var("PATH").unwrap_or_default();
    let page = fs::read_to_string(workspace().join("docs").join(name)).expect(name);
    let blocks = blocks(&page);
    assert!(!blocks.is_empty(), "{name} has no commands");
    let mut slow = 3;
    for (script, expected) in blocks {
        let mut shell = Command::new("timeout");
        let seconds = (100 * patience()).to_string();
        shell.args([&*seconds, "bash", "-ec", &format!("{PRELUDE}{script}")]);
        shell.current_dir(place.path()).env_remove("LD_PRELOAD").stdin(Stdio::null());
        shell.env("PATH", format!("{}:{path}", at("bin").display()));
        shell.env("LD_LIBRARY_PATH", place.path()).env("PID", waiting.0.id().to_string());
        let mut done = shell.output().expect("bash runs");
        // A slow host does not get through a race in its time; it may the next time.
        while let Some(124) = done.status.code()
            && String::from_utf8_lossy(&done.stdout).contains("The time was up before every")
            && slow != 0
        {
            slow -= 1;
            done = shell.output().expect("bash runs");
        }
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "{name}: {script}\n{}\n{said}", done.status);
        for word in ["ld.so", "masu: warning", "command not found"] {
            let is_meant = expected.iter().any(|line| line.contains(word));
            assert!(is_meant || !said.contains(word), "{name}: {script}\n{said}");
        }
        if let Some(line) = lacks(&said, &expected) {
            panic!("{name}: {script}\nlacks `{line}` here:\n{said}");
        }
    }
}

#[test]
fn rss_and_oom() {
    check("rss-and-oom.md");
}

#[test]
fn what_holds_my_memory() {
    check("what-holds-my-memory.md");
}

#[test]
fn bench() {
    check("bench.md");
}

#[test]
fn doctor() {
    check("doctor.md");
}

#[test]
fn find_a_leak() {
    check("find-a-leak.md");
}

#[test]
fn watch_a_fleet() {
    check("watch-a-fleet.md");
}

#[test]
fn it_does_not_take_effect() {
    check("it-does-not-take-effect.md");
}

#[test]
fn configuration() {
    check("configuration.md");
}

#[test]
fn hardened() {
    check("hardened.md");
}

#[test]
fn guards() {
    check("guards.md");
}

#[test]
fn mistakes() {
    check("mistakes.md");
}

#[test]
fn limits() {
    check("limits.md");
}

#[test]
fn languages() {
    check("languages.md");
}

#[test]
fn systemd() {
    check("systemd.md");
}

#[test]
fn slow_on_alpine() {
    check("slow-on-alpine.md");
}

#[test]
fn ruby_bloats() {
    check("ruby-bloats.md");
}

#[test]
fn which_number_is_real() {
    check("which-number-is-real.md");
}

#[test]
fn moving() {
    check("moving.md");
}

#[test]
fn dlopen_static_tls() {
    check("dlopen-static-tls.md");
}

#[test]
fn statistics() {
    check("statistics.md");
}

#[test]
fn threads_make_it_slower() {
    check("threads-make-it-slower.md");
}

#[test]
fn profiling() {
    check("profiling.md");
}

/// A page with commands is run above. Of the excused ones, two are about packages, whose tests install them; one takes a
/// Redis and an installed library; and one takes hours.
#[test]
fn every_page_with_commands_is_run() {
    const EXCUSED: [&str; 4] = ["docker.md", "installing.md", "jemalloc.md", "experiments.md"];
    let this = include_str!("documentation.rs");
    for file in fs::read_dir(workspace().join("docs")).expect("docs") {
        let path = file.expect("a file").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() || EXCUSED.contains(&&*name) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        let has_commands = text.lines().any(|line| ["```sh", "```console"].contains(&line));
        let is_run = this.contains(&format!("check(\"{name}\")"));
        assert!(is_run || !has_commands, "{name} has commands that no test runs");
    }
}

/// All pages below a directory, except for built and hidden ones.
fn pages(place: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(place).expect("a directory").map(|file| file.unwrap().path());
    let of = |path: PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match () {
            _ if name == "target" || name.starts_with('.') => Vec::new(),
            _ if path.is_dir() => pages(&path),
            _ if name.ends_with(".md") => vec![path],
            _ => Vec::new(),
        }
    };
    files.flat_map(of).collect()
}

/// Links to other files of the project, in all its pages.
#[test]
fn links_lead_somewhere() {
    let pages = pages(workspace());
    assert!(pages.len() > 40, "{pages:?}");
    let mut broken = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).expect("text");
        for rest in text.split("](").skip(1) {
            let target = rest.split(')').next().expect("a target");
            let (file, part) = target.split_once('#').unwrap_or((target, ""));
            if file.contains("://") {
                continue;
            }
            let other = match file {
                "" => page.clone(),
                file => page.parent().expect("a directory").join(file),
            };
            let heading = |line: &str| {
                let mut words = line.trim_start_matches('#').trim().to_lowercase();
                words.retain(|c| c.is_alphanumeric() || "-_ ".contains(c));
                line.starts_with('#') && words.replace(' ', "-") == part
            };
            let found = part.is_empty()
                || fs::read_to_string(&other).is_ok_and(|text| text.lines().any(heading));
            if !other.exists() || !found {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// `statistics.md` has a row for each name that is printed, and for no other.
#[test]
fn every_statistic_is_explained() {
    if !is_masu() {
        println!("the statistics are masu's");
        return;
    }
    let mut program = Command::new("/bin/true");
    program.env("LD_PRELOAD", library().expect("masu is a library")).env("MASU_SHOW_STATS", "1");
    let said = String::from_utf8(program.output().expect("it runs").stderr).expect("text");
    let names = said.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1));
    let page = fs::read_to_string(workspace().join("docs/statistics.md")).expect("a page");
    let cells = page.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    let explained = cells.flat_map(|cell| cell.split(", ").map(|name| name.trim_matches('`')));
    let (printed, explained): (BTreeSet<_>, BTreeSet<_>) = (names.collect(), explained.collect());
    assert!(printed.len() > 20, "{said}");
    assert_eq!(printed, explained);
}

/// Each page is in the table of contents.
#[test]
fn every_page_is_in_the_index() {
    let index = fs::read_to_string(workspace().join("docs/README.md")).expect("docs/README.md");
    for file in fs::read_dir(workspace().join("docs")).expect("docs") {
        let name = file.expect("a file").file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") && name != "README.md" {
            assert!(index.contains(&format!("]({name})")), "{name} is not in docs/README.md");
        }
    }
}

/// What the crate's page says it adds to a program is what was measured, to the kilobyte.
#[test]
fn the_crates_cost_is_the_measured_one() {
    let read = |path: &str| fs::read_to_string(workspace().join(path)).expect(path);
    let (measured, page) = (read("docs/benchmarks/build-cost.md"), read("crates/masu/README.md"));
    for (row, before) in [("| masu |", ""), ("| masu, for size", "make it ")] {
        let line = measured.lines().find(|line| line.starts_with(row)).expect(row);
        let bytes = line.rsplit('+').next().and_then(|cell| cell.split_whitespace().next());
        let bytes: f64 = bytes.and_then(|bytes| bytes.parse().ok()).expect("a number of bytes");
        let said = format!("{before}{:.0} KB", bytes / 1000.0);
        assert!(page.contains(&said), "the page does not say {said}");
    }
}

/// The README's table of the full race equals that of the race's document.
#[test]
fn the_readmes_figures_are_the_races() {
    let read = |path: &str| fs::read_to_string(workspace().join(path)).expect(path);
    let figures = |line: &str| -> Vec<String> {
        cells(line).iter().map(|cell| cell.replace([' ', '~'], "")).collect()
    };
    let (page, race) = (read("README.md"), read("docs/benchmarks/full.md"));
    let lines = |text: &str, first: &str| -> Vec<Vec<String>> {
        let all = text.lines().skip_while(|line| !line.starts_with(first));
        all.take_while(|line| line.starts_with('|')).map(figures).collect()
    };
    let page = lines(&page, "| geometric means over");
    let race = lines(&race, "| ratio to the best of each row");
    let column = |name: &str| race[0].iter().position(|cell| cell == name).expect("a figure");
    for (row, figure) in page[2..].iter().zip(["time", "cpu", "peakmemory"]) {
        for (name, ratio) in page[0].iter().zip(row).skip(1) {
            let of = race.iter().find(|cells| cells[0] == *name).expect("an allocator");
            assert_eq!(*ratio, of[column(figure)], "{figure} of {name}");
        }
    }
    assert_eq!(page.len(), 5);
}

/// What `hardened.md` says of the programs in `outcomes.c` is what their table counts, which another test compares with
/// their ends.
#[test]
fn the_outcomes_of_mistakes_are_counted_right() {
    let read = |path: &str| fs::read_to_string(workspace().join(path)).expect(path);
    let (table, page) = (read("tests/mistakes/outcomes.md"), read("docs/hardened.md"));
    let page = words(&page);
    let rows: Vec<_> = table.lines().filter(|line| line.starts_with('|')).map(cells).collect();
    let (names, sums) = (&rows[0], rows.last().expect("a row of sums"));
    let programs: Vec<_> = rows.iter().filter(|row| row[0].starts_with('`')).collect();
    assert_eq!(programs.len() + 3, rows.len(), "except the head, a line and the sums");
    let ends = |column: usize, end: &str| programs.iter().filter(|row| row[column] == end).count();
    let right = |name: &str| {
        let column = names.iter().position(|cell| cell == name).expect(name);
        let sum = ends(column, ".");
        assert_eq!(sums[column], format!("**{sum}**"), "{name}");
        sum
    };
    assert_eq!(right("hardened"), programs.len());
    assert_eq!(right("hardened_malloc"), programs.len());
    for said in [
        format!("The {} programs in `tests/mistakes/outcomes.c`", programs.len()),
        format!("{} under hardened_malloc's light", right("hardened_malloc-light")),
        format!("{} under scudo, {} under the default", right("scudo"), right("masu")),
        format!("{} are mistakes that must be stopped", ends(1, "abort")),
        format!("{} are accesses that must fault", ends(1, "fault")),
    ] {
        assert!(page.contains(&said), "the page does not say: {said}");
    }
}

#[test]
fn patterns_fit_what_they_should() {
    for (line, pattern, expected) in [
        ("VmRSS:\t  12 kB", "VmRSS: …", true),
        ("live 3 MiB, resident 9 MiB", "live … MiB, resident … MiB", true),
        ("live 3 MiB, resident 9 MiBs", "live … MiB, resident … MiB", false),
        ("MemoryError", "MemoryError", true),
        ("a MemoryError", "MemoryError", false),
        ("", "masu: statistics", false),
    ] {
        assert_eq!(fits(line, pattern), expected, "{line:?} {pattern:?}");
    }
}
