//! The load: requests whose starts are planned beforehand.
//!
//! # Coordinated omission
//!
//! A client that asks, waits and asks again sends nothing while the server stalls, so a stall counts once, and
//! the requests that users would have sent in the meantime are not in the figures. Here the start of every request
//! is planned before the first is sent ([`plan`]), and its latency counts from there, whether or not a connection
//! was free then. Whatever a stall delays, is delayed in the figures too.

use std::num::NonZeroU64;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use hdrhistogram::Histogram;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::memory::interrupt;

/// A connection to a server.
pub trait Client: Send {
    /// Sends the request of that number and reads its answer, which must be a success.
    fn ask(&mut self, number: u64) -> Result<()>;
}

/// Latencies in nanoseconds.
pub type Latencies = Histogram<u64>;

/// The longest latency that is told apart from longer ones.
const LONGEST: u64 = 120_000_000_000;

/// No latencies yet.
pub fn latencies() -> Result<Latencies> {
    Histogram::new_with_bounds(1_000, LONGEST, 3).map_err(|error| anyhow!("{error}"))
}

/// What became of the planned requests.
pub struct Outcome {
    /// From the planned start to the end of the answer, of requests that were answered or never sent.
    pub latencies: Latencies,
    /// Requests whose answer was none or a failure: a refusal is soon there, and no latency.
    pub errors: u64,
    /// The first of these.
    pub first_error: Option<String>,
    /// Requests that were never sent, since the server was too far behind when the time was over. Each counts as a
    /// latency up to that moment, which is less than it would have been.
    pub unsent: u64,
}

/// The starts of requests over a time: so many a second, independent of each other as those of many users, and the
/// same for the same seed.
pub fn plan(rate: f64, lasting: Duration, seed: u64) -> Vec<Duration> {
    let mut random = SmallRng::seed_from_u64(seed);
    let (mut starts, mut at) = (Vec::new(), 0.0);
    loop {
        // The gaps of a Poisson process.
        at -= (1.0 - random.random::<f64>()).ln() / rate;
        if at >= lasting.as_secs_f64() {
            return starts;
        }
        starts.push(Duration::from_secs_f64(at));
    }
}

/// Sends the planned requests, numbered from `first`, over the clients' connections. What has not been sent after
/// `limit` never is.
pub fn open(
    clients: &mut [Box<dyn Client>],
    starts: &[Duration],
    first: u64,
    limit: Duration,
) -> Result<Outcome> {
    let (next, unsent, errors) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let first_error = Mutex::new(None);
    let began = Instant::now();
    let work = |client: &mut dyn Client| -> Result<Latencies> {
        wake_precisely();
        let mut taken = latencies()?;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(&start) = starts.get(number) else { return Ok(taken) };
            interrupt::check()?;
            thread::sleep(start.saturating_sub(began.elapsed()));
            if began.elapsed() > limit {
                unsent.fetch_add(1, Ordering::Relaxed);
            } else if let Err(error) = client.ask(first + number as u64) {
                errors.fetch_add(1, Ordering::Relaxed);
                let mut first = first_error.lock().unwrap_or_else(|lock| lock.into_inner());
                first.get_or_insert(format!("{error:#}"));
                continue;
            }
            taken.saturating_record((began.elapsed() - start).as_nanos() as u64);
        }
    };
    let all: Result<Vec<_>> = together(clients, &work).into_iter().collect();
    let mut latencies = latencies()?;
    for one in all? {
        latencies.add(one).map_err(|error| anyhow!("{error}"))?;
    }
    let first_error = first_error.into_inner().unwrap_or_else(|lock| lock.into_inner());
    let (errors, unsent) = (errors.into_inner(), unsent.into_inner());
    Ok(Outcome { latencies, errors, first_error, unsent })
}

/// How many requests a second the server answers if every connection asks again at once.
pub fn closed(clients: &mut [Box<dyn Client>], lasting: Duration, first: u64) -> Result<f64> {
    let next = AtomicU64::new(first);
    let began = Instant::now();
    let work = |client: &mut dyn Client| -> Result<u64> {
        let mut answered = 0;
        while began.elapsed() < lasting {
            interrupt::check()?;
            client.ask(next.fetch_add(1, Ordering::Relaxed))?;
            answered += 1;
        }
        Ok(answered)
    };
    let answered: Result<Vec<u64>> = together(clients, &work).into_iter().collect();
    let rate = answered?.iter().sum::<u64>() as f64 / began.elapsed().as_secs_f64();
    (rate > 0.0).then_some(rate).context("no answer")
}

/// Does the work on a thread for each connection.
fn together<T: Send>(
    clients: &mut [Box<dyn Client>],
    work: &(impl Fn(&mut dyn Client) -> T + Sync),
) -> Vec<T> {
    thread::scope(|scope| {
        let threads: Vec<_> =
            clients.iter_mut().map(|client| scope.spawn(move || work(client.as_mut()))).collect();
        threads.into_iter().map(|one| one.join().expect("a client does not panic")).collect()
    })
}

/// By default the kernel may let a thread sleep 50 µs longer than it asked for.
fn wake_precisely() {
    // Where it is refused, latencies are that much longer for everybody.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// The numbers that were asked for.
    type Asked = Arc<Mutex<Vec<u64>>>;

    /// Answers at once, except that the request of one number takes longer.
    struct Stalling {
        stall: (u64, Duration),
        asked: Asked,
    }

    impl Client for Stalling {
        fn ask(&mut self, number: u64) -> Result<()> {
            self.asked.lock().unwrap().push(number);
            if number == self.stall.0 {
                thread::sleep(self.stall.1);
            }
            anyhow::ensure!(number != 3, "no answer to 3");
            Ok(())
        }
    }

    fn even(count: u32, apart: Duration) -> Vec<Duration> {
        (0..count).map(|number| apart * number).collect()
    }

    fn one(stall: (u64, Duration)) -> (Vec<Box<dyn Client>>, Asked) {
        let asked = Asked::default();
        let client = Stalling { stall, asked: Arc::clone(&asked) };
        (vec![Box::new(client)], asked)
    }

    #[test]
    fn a_plan_has_its_rate_and_is_the_same_for_the_same_seed() {
        let lasting = Duration::from_secs(20);
        let starts = plan(500.0, lasting, 1);
        assert!((9_500..10_500).contains(&starts.len()), "{}", starts.len());
        assert!(starts.is_sorted() && *starts.last().unwrap() < lasting);
        assert_eq!(starts, plan(500.0, lasting, 1));
        assert_ne!(starts, plan(500.0, lasting, 2));
        // Gaps of a Poisson process: their standard deviation is their mean.
        let gaps: Vec<f64> =
            starts.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "{mean} {variance}");
    }

    #[test]
    fn a_stall_counts_for_every_request_that_should_have_begun_in_it() {
        // 100 requests, 5 ms apart; the 20th takes 250 ms, in which 50 others should have begun.
        let (mut clients, asked) = one((20, Duration::from_millis(250)));
        let starts = even(100, Duration::from_millis(5));
        let outcome = open(&mut clients, &starts, 0, Duration::from_secs(60)).unwrap();
        assert_eq!(*asked.lock().unwrap(), (0..100).collect::<Vec<_>>());
        // The refused one has none.
        assert_eq!((outcome.latencies.len(), outcome.unsent), (99, 0));
        let late = |ms: u64| outcome.latencies.count_between(ms * 1_000_000, LONGEST);
        // Planned 0, 5, .., 245 ms after the stall's begin, they wait for 250, 245, .., 5 ms.
        assert!(late(240) >= 2, "{}", late(240));
        assert!(late(125) >= 25, "{}", late(125));
        assert!(outcome.latencies.value_at_quantile(0.90) > 150_000_000);
        assert_eq!(outcome.errors, 1);
        assert_eq!(outcome.first_error.as_deref(), Some("no answer to 3"));
    }

    #[test]
    fn what_is_not_sent_in_time_counts_as_late() {
        let (mut clients, asked) = one((10, Duration::from_millis(300)));
        let starts = even(50, Duration::from_millis(1));
        let outcome = open(&mut clients, &starts, 10, Duration::from_millis(200)).unwrap();
        assert_eq!(asked.lock().unwrap().len(), 1);
        assert_eq!((outcome.latencies.len(), outcome.unsent), (50, 49));
        assert!(outcome.latencies.min() > 200_000_000, "{}", outcome.latencies.min());
    }

    #[test]
    fn quantiles_are_those_of_what_was_recorded() {
        let mut histogram = latencies().unwrap();
        (1..=10_000u64).for_each(|us| histogram.saturating_record(us * 1_000));
        for (quantile, expected) in [(0.5, 5_000), (0.99, 9_900), (0.999, 9_990)] {
            let value = histogram.value_at_quantile(quantile) / 1_000;
            assert!(value.abs_diff(expected) <= expected / 500, "{quantile}: {value}");
        }
        histogram.saturating_record(u64::MAX);
        assert_eq!(histogram.len(), 10_001);
    }

    #[test]
    fn a_closed_loop_finds_the_rate() {
        struct Slow;
        impl Client for Slow {
            fn ask(&mut self, _: u64) -> Result<()> {
                thread::sleep(Duration::from_millis(10));
                Ok(())
            }
        }
        let mut clients: Vec<Box<dyn Client>> = vec![Box::new(Slow), Box::new(Slow)];
        let rate = closed(&mut clients, Duration::from_millis(300), 0).unwrap();
        // 200 at most, and not much fewer unless the machine is busy.
        assert!((20.0..=201.0).contains(&rate), "{rate}");
    }
}
