//! A Rails application and a Rack service under load, on every allocator at the same time.
//!
//! # How it is fair
//!
//! All servers live from the start to the end. The load goes from one to the next, in another order
//! each time: a few requests are sent to a server at once and answered before the next server gets the
//! same ones. So each gets the same requests, equally many, over the same minutes; whatever else the
//! machine does hits all of them; and while one answers, the others are idle, so its latencies are its
//! own. A server is busy for a share of the time only, but its memory ages by the clock, as it does in
//! production.
//!
//! Servers listen on a socket in a directory of their own, and every request has a connection of its
//! own, as behind a proxy with its usual settings. Memory is read between two turns, when all wait.

mod client;
mod load;
mod server;

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::allocator::Allocator;
use super::interrupt;
use super::results::{Served, Web, When};
use server::Server;

pub use client::Request;
pub use server::{ruby_command, seed_rails};

/// What is served, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// The directory of the application.
    application: &'static str,
    /// Forked workers; none for a single process.
    workers: usize,
}

/// All that can be served.
pub const KINDS: [Kind; 3] = [
    Kind { name: "rails", application: "rails", workers: 0 },
    Kind { name: "rails-cluster", application: "rails", workers: 2 },
    Kind { name: "rack", application: "rack", workers: 0 },
];

/// How long and how much.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How long.
    pub lasting: Duration,
    /// How many requests a server gets at once.
    pub concurrency: usize,
}

/// Serves every kind on every allocator under load.
pub fn run(allocators: &[Allocator], kinds: &[Kind], load: Load) -> Result<Web> {
    let wanted: Vec<_> = (0..kinds.len())
        .flat_map(|kind| (0..allocators.len()).map(move |allocator| (kind, allocator)))
        .collect();
    let mut servers = Vec::new();
    let mut served = Vec::new();
    let place = tempfile::tempdir()?;
    let ran = When::now(&allocators[0].version);
    let unseeded = server::seed(place.path(), kinds).err().map(|error| format!("{error:#}"));
    // Two at a time, as each start keeps a processor busy for seconds.
    let without_seed =
        |kind: usize| unseeded.clone().filter(|_| kinds[kind].application == "rails");
    for &(kind, allocator) in &wanted {
        if let Some(why) = without_seed(kind) {
            served.push(Served { failed: Some(why), ..Served::of(kinds[kind].name, allocator) });
        }
    }
    let able: Vec<_> =
        wanted.into_iter().filter(|(kind, _)| without_seed(*kind).is_none()).collect();
    for pair in able.chunks(2) {
        interrupt::check()?;
        let (send, started) = mpsc::channel();
        thread::scope(|scope| {
            for &(kind, allocator) in pair {
                let (send, place) = (send.clone(), place.path());
                scope.spawn(move || {
                    let name = format!("{}-{}", kinds[kind].name, allocators[allocator].name);
                    eprintln!("starting {name}");
                    let server = Server::start(
                        kinds[kind],
                        &allocators[allocator],
                        &place.join(name),
                        place,
                    );
                    let _ = send.send((kind, allocator, server));
                });
            }
        });
        drop(send);
        let mut both: Vec<_> = started.iter().collect();
        both.sort_by_key(|(kind, allocator, _)| (*kind, *allocator));
        for (kind, allocator, server) in both {
            let mut one = Served::of(kinds[kind].name, allocator);
            match server {
                Ok(server) => {
                    servers.push(server);
                    served.push(one);
                }
                Err(error) => {
                    one.failed = Some(format!("{error:#}"));
                    served.push(one);
                }
            }
        }
    }
    ensure!(!servers.is_empty(), "no server starts: {:?}", served.first().map(|one| &one.failed));
    let running = served.iter_mut().filter(|one| one.failed.is_none()).collect::<Vec<_>>();
    let (seconds, warm_up) = load::drive(&servers, running, load)?;
    let settings = server::settings()?;
    Ok(Web { ran, seconds, warm_up, concurrency: load.concurrency, settings, servers: served })
}

impl Served {
    pub fn of(kind: &str, allocator: usize) -> Self {
        Served {
            kind: kind.into(),
            allocator,
            failed: None,
            requests: 0,
            errors: 0,
            first_error: None,
            latency: [0.0; 4],
            thirds: [0.0; 3],
            processor_ms: 0.0,
            processes: 0,
            curve: Default::default(),
        }
    }
}
