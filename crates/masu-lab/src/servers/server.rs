//! One service on one allocator: started, loaded at every level, and then left alone.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use masu_watch::process::family;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::load::{self, Client};
use super::results::{Level, Ran};
use super::services::{PATIENCE, Ready, Service, copy, last_words};
use crate::memory::allocator::Allocator;
use crate::memory::interrupt;
use crate::memory::stage::end_group;
use crate::memory::tree::{self, Look};

/// How long a server rests before its memory is read again.
pub const REST: Duration = Duration::from_secs(5);

/// Between two looks at a server's memory under load.
const BETWEEN: Duration = Duration::from_millis(200);

/// A server that answers. It ends with this.
pub struct Server<'a> {
    allocator: &'a Allocator,
    child: Child,
    clients: Vec<Box<dyn Client>>,
    /// The number of the next request.
    next: u64,
    /// The most KiB that were resident whenever somebody looked.
    peak: u64,
    place: TempDir,
}

impl<'a> Server<'a> {
    /// Starts it with a copy of what was prepared, waits until it answers, and proves that all its processes are on
    /// the allocator.
    pub fn start(service: &Service, allocator: &'a Allocator, prepared: &Path) -> Result<Self> {
        let place = tempfile::tempdir().context("no temporary directory")?;
        copy(prepared, place.path())?;
        let Ready { mut command, has_allocator, client } = (service.start)(place.path())?;
        let log = File::create(place.path().join("log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        match has_allocator {
            true => allocator.apply_first(&mut command),
            false => allocator.apply(&mut command),
        }
        let child = interrupt::start(&mut command)?;
        let clients = (0..service.connections).map(|_| client()).collect();
        let mut server = Server { allocator, child, clients, next: 0, peak: 0, place };
        server.until_it_answers().with_context(|| last_words(server.place.path()))?;
        server.prove()?;
        Ok(server)
    }

    fn until_it_answers(&mut self) -> Result<()> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended: {status}");
            }
            let Err(error) = self.clients[0].ask(0) else { return Ok(()) };
            interrupt::check()?;
            ensure!(begun.elapsed() < PATIENCE, "no answer within {PATIENCE:?}: {error:#}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Every process of it is on the allocator, and on none of the others.
    pub fn prove(&self) -> Result<()> {
        prove(self.child.id(), self.allocator)
    }

    /// How many requests a second it answers at most, with all connections busy.
    pub fn capacity(&mut self, lasting: Duration) -> Result<f64> {
        // The first seconds are slower: caches, compilers, the kernel's pages.
        load::closed(&mut self.clients, lasting / 2, 0)?;
        load::closed(&mut self.clients, lasting, 1 << 20)
    }

    /// Loads it for some time with so many requests a second; the same ones on every allocator.
    pub fn level(
        &mut self,
        percent: u32,
        rate: f64,
        lasting: Duration,
        seed: u64,
    ) -> Result<Level> {
        let mut starts = load::plan(rate, lasting, seed);
        if starts.is_empty() {
            starts.push(Duration::ZERO);
        }
        let root = self.child.id();
        let before = look(root)?;
        let limit = lasting + lasting / 2 + Duration::from_secs(1);
        let (stop, clients) = (AtomicBool::new(false), &mut self.clients);
        let (outcome, curve) = thread::scope(|scope| {
            let watching = scope.spawn(|| watch(root, &stop));
            let outcome = load::open(clients, &starts, self.next, limit);
            stop.store(true, Ordering::Relaxed);
            watching.thread().unpark();
            (outcome, watching.join().expect("looking does not panic"))
        });
        let (outcome, after) = (outcome?, look(root)?);
        self.next += starts.len() as u64;
        let answered = starts.len() as u64 - outcome.unsent;
        let resident = || curve.iter().chain([&after.memory.resident]);
        self.peak = resident().copied().chain([self.peak]).max().unwrap_or(0);
        let at = |quantile| outcome.latencies.value_at_quantile(quantile) as f64 / 1e3;
        let each = |sum: f64| sum / answered.max(1) as f64;
        Ok(Level {
            percent,
            rate,
            requests: starts.len() as u64,
            errors: outcome.errors,
            first_error: outcome.first_error,
            unsent: outcome.unsent,
            processor_us: each((after.processor - before.processor) * 1e6),
            faults: each(after.faults.saturating_sub(before.faults) as f64),
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            mean_kib: resident().sum::<u64>() as f64 / resident().count() as f64,
        })
    }

    /// Lets it rest for that long from now on, and then reads its memory, whatever else is done meanwhile.
    pub fn rest(&self, lasting: Duration) -> JoinHandle<Result<u64>> {
        let (root, allocator, since) = (self.child.id(), self.allocator.clone(), Instant::now());
        thread::spawn(move || {
            while since.elapsed() < lasting {
                interrupt::check()?;
                thread::sleep(Duration::from_millis(50));
            }
            prove(root, &allocator)?;
            Ok(look(root)?.memory.resident)
        })
    }

    /// What there is to say of its time under load.
    pub fn ran(&self, allocator: usize, round: usize, levels: Vec<Level>) -> Ran {
        Ran { allocator, round, failed: None, levels, peak_kib: self.peak, rest_kib: 0 }
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Ends a server: by the signal that all of them end at, and if need be by harsher ones.
pub fn end(child: &mut Child) {
    // Connections are gone, or go with their process. MariaDB takes no notice of the signal that `end_group` begins with.
    if matches!(child.try_wait(), Ok(None))
        && let Some(process) = Pid::from_raw(child.id() as i32)
    {
        let _ = kill_process(process, Signal::TERM);
    }
    end_group(child);
}

/// Every process of that family is on the allocator, and on none of the others.
fn prove(root: u32, allocator: &Allocator) -> Result<()> {
    for process in family(root) {
        let proof = allocator.prove(process);
        // One that is about to end has no maps any more; one that is still there must have.
        if process == root || tree::look(process).is_some() {
            proof?;
        }
    }
    Ok(())
}

fn look(root: u32) -> Result<Look> {
    tree::look(root).context("the server is gone")
}

/// Looks at a server's memory until it shall not; KiB.
fn watch(root: u32, stop: &AtomicBool) -> Vec<u64> {
    let mut curve = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        curve.extend(tree::look(root).map(|look| look.memory.resident));
        thread::park_timeout(BETWEEN);
    }
    curve
}

/// Where a service's prepared files are.
pub fn prepare(service: &Service) -> Result<TempDir> {
    let place = tempfile::tempdir().context("no temporary directory")?;
    (service.prepare)(place.path())?;
    // A server that has ended may leave its socket.
    for left in ["socket", "log", "pid"] {
        let _ = fs::remove_file(place.path().join(left));
    }
    Ok(place)
}
