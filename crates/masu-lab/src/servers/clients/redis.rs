//! Redis: values of mixed sizes, half of which expire.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use rand::RngExt;

use super::{Connection, choices, send};
use crate::servers::load::Client;

/// A client.
pub struct Redis {
    connection: Connection,
    value: Vec<u8>,
}

impl Redis {
    /// To the server at that socket.
    pub fn new(socket: &Path) -> Self {
        Redis { connection: Connection::to(socket), value: vec![b'v'; LONGEST] }
    }
}

const LONGEST: usize = 100_000;

impl Client for Redis {
    fn ask(&mut self, number: u64) -> Result<()> {
        let mut random = choices(number);
        let key = format!("key:{}", random.random_range(0..20_000));
        let length = match random.random_range(0..100) {
            0..80 => random.random_range(20..700),
            80..97 => random.random_range(1_000..8_000),
            _ => random.random_range(10_000..LONGEST),
        };
        let value = &self.value[..length];
        let lasting = random.random_range(500..4_000).to_string();
        let list = format!("list:{}", number % 200);
        let words: &[&[u8]] = match random.random_range(0..100) {
            0..25 => &[b"SET", key.as_bytes(), value, b"PX", lasting.as_bytes()],
            25..45 => &[b"SET", key.as_bytes(), value],
            45..80 => &[b"GET", key.as_bytes()],
            80..88 => &[b"LPUSH", list.as_bytes(), &value[..length.min(300)]],
            88..92 => &[b"LTRIM", list.as_bytes(), b"0", b"40"],
            _ => &[b"DEL", key.as_bytes()],
        };
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend(format!("${}\r\n", word.len()).into_bytes());
            request.extend_from_slice(word);
            request.extend(b"\r\n");
        }
        self.connection.with(
            |_| Ok(()),
            |stream| {
                send(stream, &request)?;
                read_answer(stream)
            },
        )
    }
}

fn read_answer(stream: &mut BufReader<UnixStream>) -> Result<()> {
    let mut line = String::new();
    stream.read_line(&mut line).context("Redis does not answer")?;
    match (line.get(..1), line.get(1..).unwrap_or_default().trim()) {
        (Some("+" | ":"), _) | (Some("$"), "-1") => Ok(()),
        (Some("$"), length) => {
            let length = length.parse::<u64>()? + 2;
            let read = std::io::copy(&mut stream.by_ref().take(length), &mut std::io::sink())?;
            ensure!(read == length, "Redis ends a value after {read} of {length} bytes");
            Ok(())
        }
        _ => bail!("Redis answers `{}`", line.trim()),
    }
}
