//! A service in Rust: four workers answer requests of four clients and keep sessions. Says each moment on a line. At
//! the first and the last it waits for an answer; at the second it works until one comes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// A request: a session's number and what is to be kept of it.
type Request = (u64, Vec<String>);

fn moment(name: &str) {
    println!("{name}");
}

fn answer(requests: Receiver<Request>) -> HashMap<u64, Vec<String>> {
    let mut sessions: HashMap<u64, Vec<String>> = HashMap::new();
    for (number, words) in requests {
        let session = sessions.entry(number).or_default();
        session.extend(words.iter().map(|word| word.to_uppercase()));
        if session.len() > 400 {
            sessions.remove(&number);
        }
    }
    sessions.retain(|number, _| number % 5 == 0);
    sessions
}

fn ask(from: u64, workers: &[SyncSender<Request>], end: &AtomicBool) {
    let mut state = from;
    while !end.load(Ordering::Relaxed) {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (number, length) = (state >> 48 & 0xfff, 1 + (state >> 40 & 63));
        let words = (0..length).map(|i| "word ".repeat((i % 9 + 1) as usize)).collect();
        workers[(number % 4) as usize].send((number, words)).expect("it works");
    }
}

fn wait() {
    std::io::stdin().read_line(&mut String::new()).expect("a line");
}

fn main() {
    moment("start");
    wait();
    let end = AtomicBool::new(false);
    let kept: Vec<_> = thread::scope(|scope| {
        let (senders, workers): (Vec<_>, Vec<_>) = (0..4)
            .map(|_| {
                let (sender, requests) = sync_channel(64);
                (sender, scope.spawn(move || answer(requests)))
            })
            .unzip();
        let clients: Vec<_> = (1..5)
            .map(|from| {
                let (senders, end) = (senders.clone(), &end);
                scope.spawn(move || ask(from, &senders, end))
            })
            .collect();
        moment("load");
        wait();
        end.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().expect("it works"));
        drop(senders);
        workers.into_iter().map(|worker| worker.join().expect("it works")).collect()
    });
    moment("rest");
    wait();
    drop(kept);
}
