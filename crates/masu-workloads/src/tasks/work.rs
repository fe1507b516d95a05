//! The executor, its tasks, and what they send to each other.

use std::thread;

use async_channel::{Receiver, Sender, bounded};
use async_executor::Executor;
use futures_lite::future::{block_on, yield_now};

use crate::{Input, Outcome};

const THREADS: usize = 4;
const CONNECTIONS: usize = 2_000;
const REQUESTS: usize = 120;
const SERVICES: usize = 16;
const WAITING: usize = 32;

struct Request {
    path: String,
    body: Vec<u8>,
    reply: Sender<Answer>,
}

struct Answer {
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

pub fn run(input: &Input) -> Outcome {
    let executor = Executor::new();
    let (stop, stopped) = bounded::<()>(1);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            // Each thread runs tasks until the sender of `stop` is gone.
            scope.spawn(|| block_on(executor.run(stopped.recv())));
        }
        let sum = block_on(serve(&executor, *input));
        drop(stop);
        Outcome::of(sum)
    })
}

async fn serve(executor: &Executor<'_>, input: Input) -> u64 {
    let mut doors = Vec::new();
    for _ in 0..SERVICES {
        let (door, requests) = bounded(WAITING);
        executor.spawn(service(requests)).detach();
        doors.push(door);
    }
    let connections: Vec<_> = (0..input.scaled(CONNECTIONS) as u64)
        .map(|number| executor.spawn(connection(input, number, doors.clone())))
        .collect();
    let mut sum = 0u64;
    for connection in connections {
        sum = sum.wrapping_add(connection.await);
    }
    sum
}

/// Answers until nobody can ask any more.
async fn service(requests: Receiver<Request>) {
    while let Ok(Request { path, body, reply }) = requests.recv().await {
        let headers = vec![
            ("location".to_string(), path.to_uppercase()),
            ("length".to_string(), body.len().to_string()),
        ];
        let body = body.iter().rev().copied().collect();
        // A connection that is gone needs no answer.
        let _ = reply.send(Answer { headers, body }).await;
    }
}

async fn connection(input: Input, number: u64, doors: Vec<Sender<Request>>) -> u64 {
    let mut rng = input.rng(number);
    let mut recorder = input.recorder();
    let mut checksum = 0u64;
    for _ in 0..REQUESTS {
        let path = format!("/resource/{}/of/{number}", rng.u32(..10_000));
        let body: Vec<u8> = vec![rng.u8(..); 1 << rng.u32(4..12)];
        let (length, first) = (body.len(), body[0]);
        let (reply, answers) = bounded(1);
        let request = Request { path, body, reply };
        let door = &doors[rng.usize(..SERVICES)];
        let answered = recorder.time_async(async {
            door.send(request).await.ok()?;
            answers.recv().await.ok()
        });
        let answer = answered.await.expect("services run until the last connection ends");
        assert_eq!((answer.body.len(), answer.body[length - 1]), (length, first), "a wrong answer");
        let headers = answer.headers.iter().map(|(key, value)| (key.len() + value.len()) as u64);
        checksum = checksum.rotate_left(1) ^ headers.sum::<u64>() ^ u64::from(first);
        yield_now().await;
    }
    checksum
}
