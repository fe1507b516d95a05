//! The commands that draw, in a terminal of 80 and one of 200 columns, which tmux provides.

mod top;

use std::process::{Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::thread::sleep;
use std::time::{Duration, Instant};

use masu_tests::running::{Running, await_watch, command, masu};
use masu_tests::{Compile, Program, is_masu, library, scratch, tool};
use tempfile::TempDir;

const SIZES: [(usize, usize); 2] = [(80, 24), (200, 50)];
/// The longest wait for something to appear.
const PATIENCE: Duration = Duration::from_secs(60);

/// `masu top` lists the other tests' programs and acts on them, so its test runs alone and the others together.
static PROGRAMS: RwLock<()> = RwLock::new(());

fn together() -> RwLockReadGuard<'static, ()> {
    PROGRAMS.read().unwrap_or_else(PoisonError::into_inner)
}

/// A terminal with one command in it.
struct Terminal {
    place: TempDir,
    columns: usize,
}

impl Terminal {
    fn start(size: (usize, usize), arguments: &str) -> Terminal {
        let command = command();
        let line = format!("{} {arguments}; echo ended with $?; read x", command.display());
        Terminal::run(size, &line)
    }

    /// A terminal with a script.
    fn run((columns, rows): (usize, usize), line: &str) -> Terminal {
        let terminal = Terminal { place: scratch(), columns };
        let size = [columns.to_string(), rows.to_string()];
        terminal.tmux(&["new-session", "-d", "-x", &size[0], "-y", &size[1], "sh", "-c", line]);
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let socket = self.place.path().join("tmux");
        let mut tmux = Command::new(tool("tmux"));
        tmux.env("LC_ALL", "C.UTF-8").env("TERM", "xterm-256color");
        let output =
            tmux.arg("-u").arg("-S").arg(socket).args(["-f", "/dev/null"]).args(arguments).output();
        String::from_utf8_lossy(&output.expect("tmux runs").stdout).into_owned()
    }

    /// What is visible.
    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// The same, with everything that has scrolled off the top.
    fn history(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-S", "-"])
    }

    /// The selected line, which is drawn in reverse.
    fn chosen(&self) -> String {
        const REVERSE: &str = "7";
        let screen = self.tmux(&["capture-pane", "-p", "-e"]);
        let styles = |line: &str| -> Vec<String> {
            let codes = line.split("\x1b[").skip(1).filter_map(|code| code.split_once('m'));
            codes.flat_map(|(styles, _)| styles.split(';').map(str::to_owned)).collect()
        };
        let is_chosen = |line: &&str| styles(line).iter().any(|style| style == REVERSE);
        let line = screen.lines().find(is_chosen).unwrap_or_default();
        let (first, others) = line.split_once("\x1b[").unwrap_or((line, ""));
        let texts = others.split("\x1b[").filter_map(|code| Some(code.split_once('m')?.1));
        [first].into_iter().chain(texts).collect()
    }

    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// Whether the terminal is as programs expect it: not on its second screen, and with a cursor.
    fn is_restored(&self) -> bool {
        self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]) == "0 1\n"
    }

    /// Waits until something is visible.
    #[track_caller]
    fn shows(&self, what: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let screen = self.screen();
            if what(&screen) {
                let widest = screen.lines().map(|line| line.chars().count()).max().unwrap_or(0);
                assert!(widest <= self.columns, "{screen}");
                return screen;
            }
            assert!(start.elapsed() < PATIENCE, "not shown:\n{screen}");
            sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// Allocates `blocks` blocks of 700 bytes and some of 100 KiB, frees the latter when it is told to, and goes on working
/// in small steps.
fn program(blocks: u32) -> Program {
    let source = format!(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
         int main(void) {{ static char *large[400];\n\
         for (int i = 0; i < {blocks}; i++) memset(malloc(700), 1, 700);\n\
         for (int i = 0; i < 400; i++) large[i] = memset(malloc(100 << 10), 1, 100 << 10);\n\
         char go; puts(\"ready\"); fflush(stdout); if (read(0, &go, 1) != 1) return 1;\n\
         for (int i = 0; i < 400; i++) free(large[i]);\n\
         puts(\"freed\"); fflush(stdout);\n\
         for (;;) {{ for (int i = 0; i < 4; i++) large[i] = malloc(200 << 10);\n\
         for (int i = 0; i < 4; i++) free(large[i]); usleep(20000); }} }}"
    );
    let place = scratch();
    let file = place.path().join("source.c");
    std::fs::write(&file, source).expect("written");
    Compile::with("cc").file(&file).build()
}

fn start(program: &Program, configuration: &str) -> Running {
    let mut command = Command::new(program.path());
    let mut running = Running::start(command.env("MASU_CONF", configuration));
    running.says("ready");
    running
}

#[test]
fn no_word_is_broken() {
    for words in [["prof", "--help"], ["explain", "4194305"]] {
        let (output, terminal) = (masu(&words), Terminal::start((60, 24), &words.join(" ")));
        let said = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
        terminal.shows(|screen| screen.contains("ended with"));
        let all = terminal.history();
        assert!(all.split_whitespace().zip(said.split_whitespace()).all(|(a, b)| a == b), "{all}");
    }
}

#[test]
fn a_watch_is_drawn_anew_in_its_place() {
    if !is_masu() {
        return;
    }
    let _together = together();
    let program = program(10_000);
    for size in SIZES {
        let mut running = start(&program, "decay:300ms");
        let watch = Terminal::start(size, &format!("watch -p {} --for 8s", running.id()));
        let head = format!("process {} (", running.id());
        watch.shows(|screen| screen.contains(&head) && screen.contains('█'));
        running.goes_on();
        watch.shows(|screen| screen.contains("went back\n") && screen.contains(" s to "));
        sleep(Duration::from_secs(2));
        // However often the chart was drawn, it is there once, and complete.
        let history = watch.history();
        assert_eq!(history.matches(&head).count(), 1, "{history}");
        let widest = history.lines().map(|line| line.chars().count()).max();
        assert_eq!(widest, Some(size.0), "{history}");
        let screen = watch.shows(|screen| screen.contains("ended with 0"));
        assert_eq!(screen.matches(&head).count(), 1, "{screen}");
    }
}

/// Without colours, too; a terminal that cannot be drawn on gets the chart once.
#[test]
fn a_watch_is_drawn_once_whatever_the_terminal() {
    if !is_masu() {
        return;
    }
    let _together = together();
    let running = start(&program(1000), "decay:300ms");
    for environment in ["NO_COLOR=1", "TERM=dumb"] {
        let (watch, id) = (command(), running.id());
        let line = format!(
            "{environment} {} watch -p {id} --for 3s; echo ended with $?; read x",
            watch.display()
        );
        let watch = Terminal::run(SIZES[0], &line);
        watch.shows(|screen| screen.contains("ended with 0"));
        let history = watch.history();
        assert_eq!(
            history.matches(&format!("process {id} (")).count(),
            1,
            "{environment}: {history}"
        );
    }
}

#[test]
fn a_watch_ends_when_it_is_interrupted() {
    if !is_masu() {
        return;
    }
    let _together = together();
    let program = program(1000);
    let running = start(&program, "");
    // The shell gets the signal too.
    let line = format!(
        "trap : INT; {} watch -p {}; echo ended with $?; read x",
        command().display(),
        running.id()
    );
    let watch = Terminal::run(SIZES[0], &line);
    watch.shows(|screen| screen.contains("resident"));
    watch.press("C-c");
    watch.shows(|screen| screen.contains("ended with 0"));
    // The chart is complete.
    let (history, head) = (watch.history(), format!("process {} (", running.id()));
    assert!(history.matches(&head).count() == 1 && history.contains("resident"), "{history}");
    let process = procfs::process::Process::new(running.id() as i32);
    assert!(process.is_ok_and(|it| it.is_alive()), "the process goes on");
}

/// Nor is the end of the terminal a reason to stop for a command that `nohup` started.
#[test]
fn a_profile_goes_on_under_nohup() {
    if !is_masu() {
        return;
    }
    let _together = together();
    let program = program(1000);
    let running = start(&program, "");
    let (mut prof, begin) = (Command::new("nohup"), Instant::now());
    prof.arg(command()).args(["prof", "--for", "3s", "-p", &running.id().to_string()]);
    let prof = prof.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("nohup");
    let is_sampled = || {
        let (memory, engines) = masu_inspect::engines(running.id()).expect("it runs on masu");
        engines[0].profile_state(&memory).expect("readable").rate != 0
    };
    while begin.elapsed() < PATIENCE && !is_sampled() {
        sleep(Duration::from_millis(10));
    }
    // SAFETY: a process of this test.
    unsafe { libc::kill(prof.id() as i32, libc::SIGHUP) };
    let output = prof.wait_with_output().expect("it ends");
    assert!(begin.elapsed() >= Duration::from_secs(3), "{output:?}");
}

/// The chart belongs to the command alone, and a command that cannot be started has none.
#[test]
fn a_watch_of_a_command_shows_nothing_of_what_starts_it() {
    if !is_masu() {
        return;
    }
    let _together = together();
    let watch = |words: &[&str]| {
        let output = masu(&[&["watch", "--"], words].concat());
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, said, wrong) = watch(&["there-is-no-such-program"]);
    assert_eq!((code, &*said), (Some(127), ""), "{wrong}");
    assert!(wrong.starts_with("masu: `there-is-no-such-program`: no such program\n"), "{wrong}");
    let (code, said, wrong) = watch(&["sleep", "1"]);
    assert_eq!((code, &*wrong), (Some(0), ""));
    assert!(said.contains("(sleep): ") && said.contains('█'), "{said}");
}

/// The page of `--html` shows the same, and needs nothing else.
#[test]
fn a_watch_as_a_page() {
    if !is_masu() {
        return;
    }
    let _together = together();
    let (place, program) = (scratch(), program(10_000));
    let mut running = start(&program, "decay:200ms");
    let (page, id) = (place.path().join("memory.html"), running.id().to_string());
    let page_name = page.to_string_lossy().into_owned();
    let mut watch = Command::new(command());
    watch.args(["watch", "-p", &id, "--for", "6s", "--html", &page_name]);
    let watch = watch.stdout(Stdio::piped()).spawn().expect("the command is built");
    // Blocks freed before the first look go back before it, too.
    await_watch(watch.id());
    running.goes_on();
    let output = watch.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("went back") && !said.contains('\x1b'), "{said}");
    let page = std::fs::read_to_string(page).expect("written");
    assert!(
        page.starts_with("<!doctype html>") && page.contains(&format!("process {id}")),
        "{page}"
    );
    assert_eq!(page.matches("<polygon").count(), 2);
    assert!(page.contains("<td>") && page.contains("class='back'"), "{page}");
    assert!(!page.contains("http"), "{page}");
    let refused = masu(&["watch", "-p", &id, "--for", "100ms", "--html", "/no/such/place.html"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("cannot be written"), "{refused:?}");
}

/// Free memory of a process at work goes back at once.
#[test]
fn a_purge_gives_back() {
    if !is_masu() {
        return;
    }
    let _together = together();
    let program = program(1000);
    let mut running = start(&program, "decay:never");
    // The program frees 40 MiB.
    running.goes_on();
    running.says("freed");
    let rss = || {
        let found =
            procfs::process::Process::new(running.id() as i32).and_then(|it| it.smaps_rollup());
        let map = found.expect("it runs").memory_map_rollup.into_iter().next().expect("one");
        map.extension.map["Rss"]
    };
    let before = rss();
    assert!(before > 40 << 20, "{before}");
    let output = masu(&["purge", "-p", &running.id().to_string()]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains(" returned ") && said.contains("resident before"), "{said}");
    let after = rss();
    assert!(after + (35 << 20) < before, "{before} {after}: {said}");
    // A process that sleeps does not look.
    let mut sleeper = Running::start(Command::new("sh").args(["-c", "echo ready; read x"]));
    sleeper.says("ready");
    let output = masu(&["purge", "--wait", "100ms", "-p", &sleeper.id().to_string()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("has not reacted yet"), "{output:?}");
}

#[test]
fn a_purge_ends_though_the_program_gives_back_all_the_time() {
    if !is_masu() {
        return;
    }
    let _together = together();
    let program = program(1000);
    let mut running = start(&program, "decay:0,run_cache:0");
    running.goes_on();
    running.says("freed");
    let output = masu(&["purge", "-p", &running.id().to_string()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn a_purge_waits_for_no_copy_of_masu_that_has_never_allocated() {
    if !is_masu() {
        return;
    }
    let _together = together();
    let (place, library) = (scratch(), library().expect("masu is a library"));
    let copy = place.path().join("libcopy.so");
    std::fs::copy(library, &copy).expect("copied");
    let program = program(1000);
    let both = format!("{}:{}", library.display(), copy.display());
    let mut command = Command::new(program.path());
    let mut running = Running::start_on(&both, command.env("MASU_CONF", "decay:never"));
    running.says("ready");
    running.goes_on();
    running.says("freed");
    let output = masu(&["purge", "-p", &running.id().to_string()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}
