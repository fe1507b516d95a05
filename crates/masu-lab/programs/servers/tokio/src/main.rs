//! A service on tokio: two workers, a task for each connection, sessions that turn over. A line is a session's number and
//! words; the answer is a line of JSON with their lengths.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

type Sessions = Arc<Mutex<HashMap<u32, VecDeque<String>>>>;

async fn serve(stream: UnixStream, sessions: Sessions) -> std::io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    while let Some(line) = lines.next_line().await? {
        let mut words = line.split(' ');
        let number = words.next().and_then(|word| word.parse().ok()).unwrap_or_default();
        let words: Vec<String> = words.map(str::to_uppercase).collect();
        let lengths: Vec<usize> = words.iter().map(String::len).collect();
        // Elsewhere, as what a handler does: the words are made by one worker and kept by another.
        let kept = tokio::spawn(keep(Arc::clone(&sessions), number, words));
        let count = kept.await.expect("it does not panic");
        let answer = json!({ "session": number, "count": count, "lengths": lengths });
        write.write_all(format!("ok {answer}\n").as_bytes()).await?;
    }
    Ok(())
}

async fn keep(sessions: Sessions, number: u32, words: Vec<String>) -> usize {
    let last = words.len() % 32 == 31;
    let mut sessions = sessions.lock().expect("nobody panics");
    let session = sessions.entry(number).or_default();
    session.extend(words);
    while session.len() > 300 {
        session.pop_front();
    }
    let count = session.len();
    if last {
        sessions.remove(&number);
    }
    count
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> std::io::Result<()> {
    let socket = std::env::args().nth(1).expect("a path of a socket");
    let listener = UnixListener::bind(socket)?;
    let sessions = Sessions::default();
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(serve(stream, Arc::clone(&sessions)));
    }
}
