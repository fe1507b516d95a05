//! Looking at a running child from outside: which allocator it has loaded, how much memory it has.
//!
//! Both come from the kernel's own files about the process. A look takes the lock that the child
//! needs for a page fault, so there are few of them: in a timed run only until the allocator was
//! seen; memory is watched in a run that is not timed.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use masu_watch::process::{Memory, children, family, mapped};

/// What to look for.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    /// The objects that must be mapped: for the system's allocator none.
    pub expected: Option<PathBuf>,
    /// The objects that must not be mapped.
    pub forbidden: Vec<PathBuf>,
    /// Whether memory is recorded over time.
    pub memory: bool,
    /// Whether the program is a child of the process that was started.
    pub launched: bool,
    /// Whether the processor's counters count: see [`super::counters`] for what that costs.
    pub counted: bool,
}

/// What was seen.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// The process had loaded what it should have.
    pub proven: bool,
    /// It had loaded what it should not have.
    pub wrong: Option<PathBuf>,
    /// Looks at the program itself that did not show what they should have.
    pub in_vain: u32,
    /// Seconds since the start, and KiB.
    pub curve: Vec<(f64, u64)>,
}

/// The most points a curve has; beyond that every second one goes, and looks become rarer.
const POINTS: usize = 400;

/// One child under observation.
pub struct Watcher<'w> {
    watch: &'w Watch,
    started: u32,
    process: u32,
    start: Instant,
    between: Duration,
    next_point: Instant,
    seen: Seen,
}

impl<'w> Watcher<'w> {
    /// Starts to watch a process that was just started.
    pub fn new(watch: &'w Watch, process: u32) -> Self {
        let (start, between) = (Instant::now(), Duration::from_millis(2));
        let seen = Seen::default();
        Watcher { watch, started: process, process, start, between, next_point: start, seen }
    }

    /// How long to wait for the child before the next look.
    pub fn pause(&self) -> Duration {
        let age = self.start.elapsed();
        let proof = match age.as_millis() {
            _ if self.seen.proven => Duration::from_millis(100),
            0..5 => Duration::from_micros(30),
            5..100 => Duration::from_millis(1),
            _ => Duration::from_millis(50),
        };
        let point = self.next_point.saturating_duration_since(Instant::now());
        if self.watch.memory { proof.min(point) } else { proof }
    }

    /// Takes the looks that are due.
    pub fn look(&mut self) {
        if !self.seen.proven && self.seen.wrong.is_none() {
            self.look_for_allocator();
        }
        let now = Instant::now();
        if self.watch.memory && now >= self.next_point {
            let family = family(self.started).into_iter().skip(usize::from(self.watch.launched));
            let resident = family.filter_map(Memory::of).map(|memory| memory.kib("Pss")).sum();
            if resident > 0 {
                self.seen.curve.push(((now - self.start).as_secs_f64(), resident));
            }
            if self.seen.curve.len() >= POINTS {
                let mut place = 0;
                self.seen.curve.retain(|_| {
                    place += 1;
                    place % 2 == 1
                });
                self.between *= 2;
            }
            self.next_point = Instant::now() + self.between;
        }
    }

    /// What was seen until the end.
    pub fn done(self) -> Seen {
        self.seen
    }

    fn look_for_allocator(&mut self) {
        if self.watch.launched && self.process == self.started {
            match children(self.started).first() {
                Some(&program) => self.process = program,
                None => return,
            }
        }
        let mapped = mapped(self.process);
        if mapped.is_empty() {
            return;
        }
        let has = |object: &Path| mapped.iter().any(|file| file.ends_with(object));
        // The program's own C library is mapped after everything that is preloaded.
        let loaded = mapped.iter().any(|file| {
            let file = file.file_name().unwrap_or_default().to_string_lossy();
            ["libc.so", "libc-", "ld-musl"].iter().any(|name| file.starts_with(name))
        });
        if let Some(wrong) = self.watch.forbidden.iter().find(|object| has(object)) {
            self.seen.wrong = Some(wrong.clone());
            return;
        }
        // A process that was forked but does not execute its program yet has its parent's.
        let launcher = self.watch.launched && has(Path::new("masu-work"));
        match &self.watch.expected {
            Some(object) if has(object) => self.seen.proven = true,
            None if loaded && !launcher => self.seen.proven = true,
            _ if loaded && !has(Path::new("masu-work")) => self.seen.in_vain += 1,
            _ if self.start.elapsed() > Duration::from_millis(500) => self.seen.in_vain += 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_c_library_and_memory() {
        let watch = Watch { memory: true, ..Watch::default() };
        let mut watcher = Watcher::new(&watch, std::process::id());
        watcher.look();
        let seen = watcher.done();
        assert!(seen.proven);
        assert!(seen.curve[0].1 > 500, "{seen:?}");
    }

    #[test]
    fn an_object_that_is_not_mapped_is_not_proven() {
        let expected = Some(PathBuf::from("/nonexistent/liballocator.so"));
        let watch = Watch { expected, ..Watch::default() };
        let mut watcher = Watcher::new(&watch, std::process::id());
        watcher.look();
        assert_eq!(watcher.done(), Seen { in_vain: 1, ..Seen::default() });
    }

    #[test]
    fn a_forbidden_object_is_found() {
        let path = mapped(std::process::id()).remove(0);
        let watch = Watch { forbidden: vec![path.clone()], ..Watch::default() };
        let mut watcher = Watcher::new(&watch, std::process::id());
        watcher.look();
        assert_eq!(watcher.done().wrong, Some(path));
    }

    #[test]
    fn a_long_curve_thins_out_and_keeps_its_span() {
        let watch = Watch { memory: true, ..Watch::default() };
        let mut watcher = Watcher::new(&watch, std::process::id());
        for _ in 0..POINTS {
            watcher.next_point = Instant::now();
            watcher.look();
        }
        assert!(watcher.between > Duration::from_millis(2));
        let curve = watcher.done().curve;
        assert_eq!(curve.len(), POINTS / 2);
        assert!(curve.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
