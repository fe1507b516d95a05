//! A run of one scenario on one allocator: the processes that it starts, and looks at their memory.
//!
//! # Marks
//!
//! A program that is asked for its memory at certain points writes a line and waits for an answer on
//! its standard input, so that it does nothing while it is looked at:
//!
//! ```text
//! mark NAME [BYTES]        its memory is read now; BYTES is what it holds
//! rest NAME [BYTES]        the same after two seconds in which it does nothing
//! figure NAME VALUE        something that it counted; no answer
//! ```

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::allocator::Allocator;
use super::interrupt;
use super::results::{Curve, Ran, Reading};
use super::tree;
use crate::race::counters::Counters;
use masu_watch::process::family;

/// How long a rest is.
pub const REST: Duration = Duration::from_secs(2);

/// Longest wait for a mark or for a server.
const PATIENCE: Duration = Duration::from_secs(120);

/// A run under way.
pub struct Stage<'a> {
    /// The allocator under test.
    pub allocator: &'a Allocator,
    /// A directory that disappears after the run.
    pub place: &'a Path,
    began: Instant,
    subject: Option<Subject>,
    readings: Vec<Reading>,
    figures: BTreeMap<String, f64>,
}

/// The processes under test.
struct Subject {
    child: Child,
    counters: Counters,
    sampler: Sampler,
}

impl<'a> Stage<'a> {
    /// Prepares a run.
    pub fn new(allocator: &'a Allocator, place: &'a Path) -> Self {
        let (readings, figures) = (Vec::new(), BTreeMap::new());
        Stage { allocator, place, began: Instant::now(), subject: None, readings, figures }
    }

    /// Starts the subject on the allocator and watches its memory from then on.
    pub fn start(&mut self, mut command: Command) -> Result<()> {
        self.allocator.apply(&mut command);
        self.start_as_is(command)
    }

    /// The same for a program that is linked with a shared object of another allocator.
    pub fn start_first(&mut self, mut command: Command) -> Result<()> {
        self.allocator.apply_first(&mut command);
        self.start_as_is(command)
    }

    fn start_as_is(&mut self, mut command: Command) -> Result<()> {
        self.began = Instant::now();
        let counters = Counters::open();
        let child = interrupt::start(&mut command)?;
        let sampler = Sampler::start(child.id(), self.began);
        self.subject = Some(Subject { child, counters, sampler });
        Ok(())
    }

    /// Runs a program that speaks with marks to its end.
    pub fn program(&mut self, mut command: Command) -> Result<()> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        self.start(command)?;
        let child = &mut self.child()?.child;
        let mut answers = child.stdin.take().context("piped")?;
        let lines = lines(child.stdout.take().context("piped")?);
        loop {
            let line = match lines.recv_timeout(PATIENCE) {
                Ok(line) => line,
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => bail!("no mark within {PATIENCE:?}"),
            };
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["figure", name, value] => {
                    self.figure(name, value.parse().with_context(|| line.clone())?);
                }
                [verb @ ("mark" | "rest"), name, ref live @ ..] => {
                    if verb == "rest" {
                        thread::sleep(REST);
                    }
                    let live = live.first().map(|bytes| bytes.parse::<u64>()).transpose()?;
                    self.read(name, live)?;
                    writeln!(answers).context("the program is gone")?;
                }
                _ => bail!("not understood: {line}"),
            }
        }
        let status = self.child()?.child.wait()?;
        ensure!(status.success(), "{status}");
        Ok(())
    }

    /// Reads the subject's memory; `live` is how many bytes it holds.
    pub fn read(&mut self, name: &str, live: Option<u64>) -> Result<()> {
        let root = self.root()?;
        family(root).into_iter().try_for_each(|process| self.prove(process))?;
        let look = tree::look(root).context("the program has no memory")?;
        self.readings.push(Reading {
            name: name.into(),
            seconds: self.began.elapsed().as_secs_f64(),
            processor: look.processor,
            faults: look.faults,
            processes: look.processes,
            live: live.map(|bytes| bytes / 1024),
            memory: look.memory,
        });
        Ok(())
    }

    /// A process is on the allocator, or gone. One that has only just executed its program has no C library yet, so it is
    /// looked at for a while.
    fn prove(&self, process: u32) -> Result<()> {
        for _ in 0..20 {
            if self.allocator.prove(process).is_ok() || tree::look(process).is_none() {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(10));
        }
        self.allocator.prove(process)
    }

    /// Does nothing for two seconds, and reads.
    pub fn rest(&mut self, name: &str, live: Option<u64>) -> Result<()> {
        thread::sleep(REST);
        self.read(name, live)
    }

    /// Notes a figure.
    pub fn figure(&mut self, name: &str, value: f64) {
        self.figures.insert(name.into(), value);
    }

    /// The first process under test.
    pub fn root(&self) -> Result<u32> {
        Ok(self.subject.as_ref().context("nothing was started")?.child.id())
    }

    /// Waits until `ready` holds, which it must do while the subject lives.
    pub fn until(&mut self, what: &str, mut ready: impl FnMut() -> bool) -> Result<()> {
        let begun = Instant::now();
        while !ready() {
            let ended = self.child()?.child.try_wait()?;
            ensure!(ended.is_none(), "ended before {what}: {ended:?}");
            ensure!(begun.elapsed() < PATIENCE, "not {what} within {PATIENCE:?}");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn child(&mut self) -> Result<&mut Subject> {
        self.subject.as_mut().context("nothing was started")
    }

    /// Ends what still runs.
    pub fn done(mut self, allocator: usize) -> Ran {
        let (curve, instructions) = self.subject.take().map(Subject::end).unwrap_or_default();
        let readings = std::mem::take(&mut self.readings);
        let figures = std::mem::take(&mut self.figures);
        Ran { allocator, failed: None, readings, figures, instructions, curve }
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        if let Some(subject) = self.subject.take() {
            subject.end();
        }
    }
}

impl Subject {
    /// Its memory over time, and the instructions that it took.
    fn end(mut self) -> (Curve, Option<u64>) {
        let curve = self.sampler.end();
        end_group(&mut self.child);
        (curve, self.counters.read().1)
    }
}

/// Ends a child and its process group: first politely, as databases want it, then whatever is left.
pub fn end_group(child: &mut Child) {
    let Some(group) = Pid::from_raw(child.id() as i32) else { return };
    // Not waited for yet, so the number is still this child's.
    if matches!(child.try_wait(), Ok(None)) {
        let _ = kill_process_group(group, Signal::INT);
        // It is looked at and not taken, so that the number stays its own.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = || !matches!(waitid(WaitId::Pid(group), look), Ok(None));
        let begun = Instant::now();
        while !ended() && begun.elapsed() < Duration::from_secs(5) {
            thread::sleep(Duration::from_millis(10));
        }
        let _ = kill_process_group(group, Signal::KILL);
        let _ = child.wait();
    }
    interrupt::forget(child.id());
}

fn lines(output: impl std::io::Read + Send + 'static) -> mpsc::Receiver<String> {
    let (send, lines) = mpsc::channel();
    thread::spawn(move || {
        BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| send.send(line))
    });
    lines
}

/// Looks at a tree's memory again and again: every 20 ms at first, more rarely as time goes on.
struct Sampler {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Curve>>,
}

impl Sampler {
    fn start(root: u32, began: Instant) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut curve = Curve::default();
            while !stopped.load(Ordering::Relaxed) {
                let Some(look) = tree::look(root) else { break };
                let seconds = began.elapsed().as_secs_f64();
                curve.0.push((seconds, look.memory.resident, look.memory.anonymous));
                thread::sleep(Duration::from_secs_f64((seconds / 100.0).clamp(0.02, 2.0)));
            }
            curve.thin();
            curve
        });
        Sampler { stop, thread: Some(thread) }
    }

    fn end(&mut self) -> Curve {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<Ran> {
        let allocators = Allocator::all(&["glibc".into()]).unwrap();
        let place = tempfile::tempdir().unwrap();
        let mut stage = Stage::new(&allocators[0], place.path());
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        stage.program(command)?;
        Ok(stage.done(7))
    }

    #[test]
    fn marks_are_answered_and_read() {
        // The rest, two seconds, gives the sampler time to look.
        let ran = shell("echo mark one 4096; read x; echo figure count 3; echo rest two; read x");
        let ran = ran.unwrap();
        let names: Vec<_> = ran.readings.iter().map(|reading| reading.name.as_str()).collect();
        assert_eq!(names, ["one", "two"]);
        assert_eq!((ran.allocator, ran.readings[0].live, ran.figures["count"]), (7, Some(4), 3.0));
        assert!(ran.readings[0].memory.resident > 500 && !ran.curve.0.is_empty());
        assert!(ran.readings[0].faults > 20);
        // Not every machine counts instructions.
        assert!(ran.instructions.is_none_or(|count| count > 10_000), "{:?}", ran.instructions);
    }

    #[test]
    fn who_does_not_listen_is_ended_too() {
        let script = "trap '' INT; sleep 600 & echo; wait";
        let mut command = Command::new("sh");
        let command = command.args(["-c", script]).stdout(Stdio::piped());
        let mut child = interrupt::start(command).unwrap();
        let mut output = child.stdout.take().unwrap();
        std::io::Read::read_exact(&mut output, &mut [0]).unwrap();
        // Shell and child ignore SIGINT; only SIGKILL ends them.
        end_group(&mut child);
        // No process holds the other end any more.
        std::io::Read::read_to_end(&mut output, &mut Vec::new()).unwrap();
    }

    #[test]
    fn a_failure_is_one() {
        assert!(shell("exit 3").err().unwrap().to_string().contains('3'));
        assert!(shell("echo nonsense; read x").err().unwrap().to_string().contains("nonsense"));
    }
}
