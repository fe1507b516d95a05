//! `masu top`: its keys, and how it ends.

use super::*;

#[test]
fn top_answers_to_its_keys() {
    if !is_masu() {
        return;
    }
    let _alone = PROGRAMS.write().unwrap_or_else(PoisonError::into_inner);
    let (small, large) = (program(10_000), program(80_000));
    let (mut small, mut large) = (start(&small, "decay:never"), start(&large, "decay:never"));
    small.goes_on();
    large.goes_on();
    let (small, large) = (small.id().to_string(), large.id().to_string());
    for size in SIZES {
        let top = Terminal::start(size, "top --every 200ms");
        let line = |screen: &str, id: &str| {
            screen.lines().position(|line| line.split_whitespace().next() == Some(id))
        };
        let screen = top.shows(|screen| {
            line(screen, &small).is_some()
                && line(screen, &large).is_some()
                && screen.contains("/s")
                && screen.contains("q quit")
        });
        assert!(screen.contains("masu top") && screen.contains("by resident"), "{screen}");
        for title in ["pid", "program", "resident", "live", "dirty", "allocates", "trend"] {
            assert!(screen.contains(title), "{title}:\n{screen}");
        }
        assert!(line(&screen, &large) < line(&screen, &small), "{screen}");
        if size.0 == 200 {
            // There is room for one more column, and for the trend of the last looks.
            assert!(screen.contains("free"), "{screen}");
            top.shows(|screen| screen.contains("▁▁▁▁▁"));
        }
        for by in ["live", "free", "dirty", "rate", "pid"] {
            top.press("s");
            top.shows(|screen| screen.contains(&format!("by {by}")));
        }
        // The last column to sort by puts older processes first, which may be others on this machine. The row that was
        // selected at first stays selected.
        let number = |chosen: &str| chosen.split_whitespace().next()?.parse::<u32>().ok();
        let own = number(&small);
        let begin = Instant::now();
        while number(&top.chosen()) != own {
            assert!(begin.elapsed() < PATIENCE, "not chosen:\n{}", top.screen());
            let before = top.chosen();
            top.press(if number(&before) > own { "Up" } else { "Down" });
            let pressed = Instant::now();
            while top.chosen() == before && pressed.elapsed() < Duration::from_secs(1) {
                sleep(Duration::from_millis(20));
            }
        }
        top.press("Down");
        top.press("Up");
        top.press("Enter");
        // A screen may be read half drawn: its last line is drawn last.
        let back = "any other key: back";
        let told = top.shows(|screen| screen.contains("blocks that") && screen.contains(back));
        assert!(told.contains(&format!("process {small} ")), "{told}");
        assert!(told.contains("resident\n") && told.contains("not masu's"), "{told}");
        top.press("Down");
        top.shows(|screen| !screen.contains("resident\n"));
        top.press("x");
        top.shows(|screen| screen.contains("by pid") && screen.contains("q quit"));
        top.press("p");
        let said = format!("process {small} returns free memory at its next slow");
        top.shows(|screen| screen.contains(&said));
        // A profile ends by itself, or earlier on request.
        top.press("h");
        top.shows(|screen| {
            screen.contains("is being sampled, ") && screen.contains("Esc ends that")
        });
        if size.0 == 200 {
            top.press("Escape");
        }
        let told = top.shows(|screen| screen.contains(back));
        assert!(
            told.contains("Allocated during profiling and still in use: ")
                || told.contains("has allocated nothing"),
            "{told}"
        );
        top.press("x");
        top.shows(|screen| screen.contains("q quit"));
        // It ends with the list, and leaves nothing switched on.
        top.press("h");
        top.shows(|screen| screen.contains("is being sampled, "));
        top.press("q");
        top.shows(|screen| screen.contains("ended with 0"));
        for process in [&small, &large] {
            let (memory, engines) =
                masu_inspect::engines(process.parse().expect("a number")).expect("on masu");
            assert_eq!(engines[0].profile_state(&memory).expect("readable").rate, 0);
        }
    }
}

#[test]
fn top_leaves_the_terminal_as_it_was_when_a_signal_ends_it() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        // However seldom it looks.
        let top = Terminal::start(SIZES[0], "top --every 10h");
        top.shows(|screen| screen.contains("q quit"));
        assert!(!top.is_restored());
        let shell = top.tmux(&["display-message", "-p", "#{pane_pid}"]);
        let shell = shell.trim();
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"));
        let process = children.expect("it waits").trim().parse().expect("one child");
        // SAFETY: a process of this test.
        unsafe { libc::kill(process, signal) };
        top.shows(|screen| screen.contains(&format!("ended with {}", 128 + signal)));
        assert!(top.is_restored());
    }
}

#[test]
fn top_ends_with_its_terminal() {
    let top = Terminal::run(SIZES[0], &format!("exec {} top --every 10h", command().display()));
    top.shows(|screen| screen.contains("q quit"));
    let process = top.tmux(&["display-message", "-p", "#{pane_pid}"]);
    top.tmux(&["kill-server"]);
    let process = process.trim().parse().expect("a number");
    let (hung_up, mut ended) = (Instant::now(), false);
    while !ended && hung_up.elapsed() < PATIENCE {
        sleep(Duration::from_millis(50));
        // SAFETY: it asks whether the process exists.
        ended = unsafe { libc::kill(process, 0) } != 0;
    }
    // SAFETY: a process of this test.
    let _ = !ended && unsafe { libc::kill(process, libc::SIGKILL) } == 0;
    assert!(ended);
}

#[test]
fn top_is_suspended_like_any_job() {
    let script = format!(
        "set -m; {} top --every 10h; echo stopped with $?; read x; fg; echo ended with $?; read x",
        command().display()
    );
    let top = Terminal::run(SIZES[0], &script);
    top.shows(|screen| screen.contains("q quit"));
    // Only keys alone do something.
    top.press("C-q");
    top.press("C-z");
    top.shows(|screen| screen.contains(&format!("stopped with {}", 128 + libc::SIGTSTP)));
    assert!(top.is_restored());
    top.press("Enter");
    top.shows(|screen| screen.contains("masu top ") && screen.contains("q quit"));
    top.press("q");
    top.shows(|screen| screen.contains("ended with 0"));
    assert!(top.is_restored());
}
