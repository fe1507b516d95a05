use super::*;

static NEVER: AtomicBool = AtomicBool::new(false);
const LONG: Until = Until { limit: Duration::from_secs(20), stop: &NEVER };

fn exit(code: i32) -> ExitStatus {
    ExitStatus::from_raw(code << 8)
}

fn shell(script: &str, until: Until) -> Result<Finished, Failure> {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::null());
    run(command, &Watch { counted: true, ..Watch::default() }, until)
}

#[test]
fn output_and_cost_of_a_good_run() {
    let script = "echo hello; i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done";
    let mut finished = shell(script, LONG).unwrap();
    assert_eq!(finished.unexpected(exit(0)), None);
    assert_eq!(finished.text(), "hello\n");
    assert!(finished.usage.minor_faults > 0);
    assert!(finished.usage.user + finished.usage.system > Duration::ZERO);
    assert!(finished.wall >= finished.usage.user);
}

#[test]
fn instructions_grow_with_the_work_where_they_are_counted() {
    let count = |rounds: u32| {
        let script = format!("i=0; while [ $i -lt {rounds} ]; do i=$((i+1)); done");
        shell(&script, LONG).unwrap().usage.user_instructions
    };
    if let (Some(little), Some(much)) = (count(1_000), count(101_000)) {
        assert!(much > little + 100_000 * 50, "{little} and {much}");
    }
}

#[test]
fn a_failing_command_reports_status_and_last_words() {
    let mut finished = shell("echo first >&2; echo boom >&2; exit 3", LONG).unwrap();
    assert_eq!(
        finished.unexpected(exit(0)),
        Some(Failure::Exit { status: 3, words: "boom".into() })
    );
    assert_eq!(finished.unexpected(exit(3)), None);
}

#[test]
fn a_crash_reports_the_signal() {
    let mut finished = shell("kill -SEGV $$", LONG).unwrap();
    let failure = finished.unexpected(exit(0));
    assert_eq!(failure, Some(Failure::Signal { number: libc::SIGSEGV, words: String::new() }));
    assert_eq!(finished.unexpected(ExitStatus::from_raw(libc::SIGSEGV)), None);
    assert!(finished.unexpected(ExitStatus::from_raw(libc::SIGKILL)).is_some());
}

/// Whether the process whose id is in the file has ended, or will soon be reaped.
fn is_gone(place: &tempfile::NamedTempFile) -> bool {
    let number = std::fs::read_to_string(place.path()).unwrap();
    assert!(!number.trim().is_empty(), "it never started");
    let status = format!("/proc/{}/stat", number.trim());
    std::fs::read_to_string(&status).map_or(true, |stat| stat.contains(") Z "))
}

#[track_caller]
fn await_end(place: &tempfile::NamedTempFile) {
    let start = Instant::now();
    while !is_gone(place) {
        assert!(start.elapsed() < Duration::from_secs(10), "the grandchild lives on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_hanging_command_is_killed_with_what_it_started() {
    let place = tempfile::NamedTempFile::new().unwrap();
    let script = format!("sleep 60 & echo $! > {}; sleep 60", place.path().display());
    // On a busy machine half a second may not be enough for the shell to start anything.
    for seconds in [0.5, 2.0, 8.0, 30.0] {
        let limit = Duration::from_secs_f64(seconds);
        let start = Instant::now();
        let failure = shell(&script, Until { limit, stop: &NEVER });
        assert_eq!(failure.unwrap_err(), Failure::Timeout { seconds });
        assert!(start.elapsed() - limit < Duration::from_millis(9_500));
        if std::fs::metadata(place.path()).unwrap().len() > 0 {
            break;
        }
    }
    await_end(&place);
}

#[test]
fn a_request_to_stop_ends_the_child_and_what_it_started() {
    let place = tempfile::NamedTempFile::new().unwrap();
    let script = format!("sleep 60 & echo $! > {}; sleep 60", place.path().display());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while std::fs::read(place.path()).unwrap().is_empty() {
                std::thread::sleep(Duration::from_millis(5));
            }
            stop.store(true, Ordering::Relaxed);
        });
        let failure = shell(&script, Until { limit: LONG.limit, stop: &stop }).unwrap_err();
        assert_eq!(failure, Failure::Stopped);
    });
    await_end(&place);
    assert_eq!(
        shell("true", Until { limit: LONG.limit, stop: &stop }).unwrap_err(),
        Failure::Stopped
    );
}

#[test]
fn a_daemon_that_left_the_group_is_ended_too() {
    let place = tempfile::NamedTempFile::new().unwrap();
    let place_path = place.path().display();
    // The middle process exits at once, so the sleeper is an orphan in a separate session.
    let script = format!(
        "setsid sh -c 'echo $$ > {place_path}; exec sleep 60' & \
         while ! [ -s {place_path} ]; do :; done"
    );
    shell(&script, LONG).unwrap();
    await_end(&place);
}

#[test]
fn a_command_that_prints_more_than_a_pipe_holds_ends() {
    let mut finished = shell("head -c 1000000 /dev/zero", LONG).unwrap();
    assert_eq!(finished.text().len(), 1_000_000);
}

#[test]
fn a_missing_command_is_a_failure() {
    let missing = run(Command::new("/nonexistent/command"), &Watch::default(), LONG).unwrap_err();
    assert!(matches!(missing, Failure::Start { .. }));
}

#[test]
fn what_a_program_forks_and_waits_for_is_in_its_account() {
    let spin = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let alone = shell(spin, LONG).unwrap().usage;
    let forked = shell(&format!("({spin}) & ({spin}) & wait"), LONG).unwrap().usage;
    if let (Some(alone), Some(forked)) = (alone.user_instructions, forked.user_instructions) {
        assert!(forked > alone * 3 / 2, "{alone} and {forked}");
    }
    assert!(forked.user > Duration::ZERO);
}
