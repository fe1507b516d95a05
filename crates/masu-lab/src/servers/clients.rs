//! The clients: each a connection over a Unix socket that says a protocol's few words itself, so that all servers are
//! loaded by the same generator. They run on the system's malloc, in the lab's own process.

mod http;
mod lines;
mod mysql;
mod postgresql;
mod redis;

use std::io::{BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use rand::SeedableRng;
use rand::rngs::SmallRng;

pub use http::{FILES, Http, Pages};
pub use lines::Lines;
pub use mysql::MySql;
pub use postgresql::{PostgreSql, Queries};
pub use redis::Redis;

/// The longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection that is made when it is needed, and again after a failure.
struct Connection {
    socket: PathBuf,
    stream: Option<BufReader<UnixStream>>,
}

impl Connection {
    fn to(socket: &Path) -> Self {
        Connection { socket: socket.into(), stream: None }
    }

    /// Does something with the stream; one that was just made goes through `greet` first. After a failure the next
    /// one makes a new connection.
    fn with<T>(
        &mut self,
        greet: impl FnOnce(&mut BufReader<UnixStream>) -> Result<()>,
        work: impl FnOnce(&mut BufReader<UnixStream>) -> Result<T>,
    ) -> Result<T> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream =
                    UnixStream::connect(&self.socket).context("the server does not listen")?;
                stream.set_read_timeout(Some(PATIENCE))?;
                let mut stream = BufReader::with_capacity(1 << 16, stream);
                greet(&mut stream)?;
                stream
            }
        };
        let done = work(&mut stream)?;
        self.stream = Some(stream);
        Ok(done)
    }

    fn close(&mut self) {
        self.stream = None;
    }
}

fn send(stream: &mut BufReader<UnixStream>, bytes: &[u8]) -> Result<()> {
    stream.get_mut().write_all(bytes).context("the server does not take the request")
}

/// What a request's choices come from: its number alone, so that every allocator gets the same ones.
fn choices(number: u64) -> SmallRng {
    SmallRng::seed_from_u64(number)
}
