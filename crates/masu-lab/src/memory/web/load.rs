//! The load: threads in step with each other that visit server after server.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use hdrhistogram::Histogram;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use super::Load;
use super::client::{self, Request};
use super::server::Server;
use crate::memory::interrupt;
use crate::memory::results::Served;
use crate::memory::tree::Look;

/// The part of the time at the start whose latencies do not count.
const WARM_UP: f64 = 0.1;

/// How often a server's memory is read at most.
const BETWEEN: Duration = Duration::from_secs(2);

/// What one thread measured of one server.
struct Latencies {
    /// A histogram of microseconds for each third of the time.
    thirds: [Histogram<u64>; 3],
    /// How many requests failed, and how the first one did.
    failed: (u64, Option<String>),
}

impl Latencies {
    /// None yet.
    fn new() -> Result<Self> {
        Ok(Latencies { thirds: [empty()?, empty()?, empty()?], failed: (0, None) })
    }

    /// Notes what was answered after that part of the time, unless it was in the warm-up. A failure has no latency.
    fn note(&mut self, part: f64, took: Duration, answer: Result<()>) {
        let counted = (part - WARM_UP) / (1.0 - WARM_UP);
        if counted < 0.0 {
            return;
        }
        match answer {
            Ok(()) => {
                let third = ((counted * 3.0) as usize).min(2);
                self.thirds[third].saturating_record(took.as_micros() as u64);
            }
            Err(error) => {
                self.failed.0 += 1;
                self.failed.1.get_or_insert(format!("{error:#}"));
            }
        }
    }
}

/// No latencies.
fn empty() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, 120_000_000, 3).map_err(|error| anyhow!("{error}"))
}

/// What is known of a server besides latencies.
#[derive(Default)]
struct Watched {
    curve: Vec<(f64, u64, u64)>,
    /// Processor time when the warm-up ended.
    warm: Option<f64>,
    seen: Option<Instant>,
}

/// Drives the load and fills the results in. Returns how long it lasted and the warm-up did.
pub fn drive(servers: &[Server], results: Vec<&mut Served>, load: Load) -> Result<(f64, f64)> {
    let (barrier, stop) = (Barrier::new(load.concurrency), AtomicBool::new(false));
    let began = Instant::now();
    let warm_up = load.lasting.mul_f64(WARM_UP);
    let mut watched: Vec<_> = servers.iter().map(|_| Watched::default()).collect();
    let all = thread::scope(|scope| {
        let others: Vec<_> = (1..load.concurrency)
            .map(|thread| {
                let (barrier, stop) = (&barrier, &stop);
                scope.spawn(move || visit(servers, load, thread, began, barrier, stop, |_| {}))
            })
            .collect();
        let first = visit(servers, load, 0, began, &barrier, &stop, |at| {
            let counts = began.elapsed() > warm_up;
            watched[at].look(&servers[at], began, counts);
        });
        let mut all = vec![first];
        all.extend(
            others.into_iter().map(|thread| thread.join().expect("a client does not panic")),
        );
        all
    });
    interrupt::check()?;
    let all = all.into_iter().collect::<Result<Vec<_>>>()?;
    let seconds = began.elapsed().as_secs_f64();
    for (at, served) in results.into_iter().enumerate() {
        let look = servers[at].look().context("a server is gone")?;
        let watched = &mut watched[at];
        watched.curve.push((seconds, look.memory.resident, look.memory.anonymous));
        summarise(served, watched, look, all.iter().map(|thread| &thread[at]))?;
    }
    Ok((seconds, warm_up.as_secs_f64()))
}

impl Watched {
    /// Reads the server's memory if it is time to.
    fn look(&mut self, server: &Server, began: Instant, counts: bool) {
        let now = Instant::now();
        let starts = counts && self.warm.is_none();
        if !starts && self.seen.is_some_and(|seen| now - seen < BETWEEN) {
            return;
        }
        self.seen = Some(now);
        if let Some(look) = server.look() {
            let seconds = (now - began).as_secs_f64();
            self.curve.push((seconds, look.memory.resident, look.memory.anonymous));
            if starts {
                self.warm = Some(look.processor);
            }
        }
    }
}

/// One thread's visits. `after` is called for every server before the threads go on to the next.
fn visit(
    servers: &[Server],
    load: Load,
    thread: usize,
    began: Instant,
    barrier: &Barrier,
    stop: &AtomicBool,
    mut after: impl FnMut(usize),
) -> Result<Vec<Latencies>> {
    let mut latencies = servers.iter().map(|_| Latencies::new()).collect::<Result<Vec<_>>>()?;
    for turn in 0.. {
        let request = Request::numbered(turn * load.concurrency as u64 + thread as u64);
        for at in order(turn, servers.len()) {
            barrier.wait();
            let begun = Instant::now();
            let answer = client::ask(&servers[at].socket, &request);
            let took = begun.elapsed();
            let part = began.elapsed().as_secs_f64() / load.lasting.as_secs_f64();
            latencies[at].note(part, took, answer.map(drop));
            // All have their answers; only one looks, and the others wait for it at the next step.
            barrier.wait();
            after(at);
        }
        let over = || began.elapsed() > load.lasting || interrupt::check().is_err();
        if thread == 0 && over() {
            stop.store(true, Ordering::Relaxed);
        }
        // All see the same.
        barrier.wait();
        if stop.load(Ordering::Relaxed) {
            break;
        }
        barrier.wait();
    }
    Ok(latencies)
}

/// The order in which the servers are visited in a turn: a shuffled one, the same for all threads. So
/// nobody always comes after the same other one, whose pages and lines are still in the caches.
fn order(turn: u64, servers: usize) -> Vec<usize> {
    let mut order: Vec<_> = (0..servers).collect();
    order.shuffle(&mut SmallRng::seed_from_u64(turn));
    order
}

fn summarise<'a>(
    served: &mut Served,
    watched: &mut Watched,
    look: Look,
    threads: impl Iterator<Item = &'a Latencies>,
) -> Result<()> {
    let mut whole = empty()?;
    let mut thirds = [empty()?, empty()?, empty()?];
    let mut failures = None;
    for thread in threads {
        served.errors += thread.failed.0;
        failures = failures.or(thread.failed.1.clone());
        for (sum, one) in thirds.iter_mut().zip(&thread.thirds) {
            sum.add(one).map_err(|error| anyhow!("{error}"))?;
            whole.add(one).map_err(|error| anyhow!("{error}"))?;
        }
    }
    let at =
        |histogram: &Histogram<u64>, quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
    served.requests = whole.len();
    if served.errors * 100 > served.requests {
        served.failed = failures.clone();
    }
    served.first_error = failures;
    served.latency = [whole.mean() / 1e3, at(&whole, 0.5), at(&whole, 0.95), at(&whole, 0.99)];
    served.thirds = thirds.each_ref().map(|third| at(third, 0.99));
    let used = look.processor - watched.warm.unwrap_or(look.processor);
    served.processor_ms = used * 1e3 / whole.len().max(1) as f64;
    served.processes = look.processes;
    served.curve.0 = std::mem::take(&mut watched.curve);
    served.curve.thin();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn what_fails_has_no_latency_and_counts_where_answers_do() {
        let mut latencies = Latencies::new().unwrap();
        let mut note = |part, answer| latencies.note(part, Duration::from_millis(1), answer);
        note(0.05, Ok(()));
        note(0.05, Err(anyhow!("still starting")));
        note(0.5, Ok(()));
        note(0.5, Err(anyhow!("refused")));
        note(1.2, Ok(()));
        let counts = latencies.thirds.each_ref().map(|third| third.len());
        assert_eq!(counts, [0, 1, 1]);
        assert_eq!(latencies.failed, (1, Some("refused".into())));
    }

    #[test]
    fn every_turn_visits_every_server_once_and_everybody_follows_everybody() {
        let servers = 5;
        let mut pairs = BTreeMap::<_, u32>::new();
        for turn in 0..2000 {
            let order = order(turn, servers);
            assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), servers);
            for pair in order.windows(2) {
                *pairs.entry((pair[0], pair[1])).or_default() += 1;
            }
        }
        // 8000 pairs of 20 kinds.
        assert_eq!(pairs.len(), 20);
        assert!(pairs.values().all(|count| (320..480).contains(count)), "{pairs:?}");
    }
}
