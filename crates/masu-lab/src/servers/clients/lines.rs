//! A line for a request, a line for an answer.

use std::io::BufRead;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rand::RngExt;

use super::{Connection, choices, send};
use crate::servers::load::Client;

/// A client.
pub struct Lines {
    connection: Connection,
    words: bool,
}

impl Lines {
    /// Whose requests are numbers of jobs.
    pub fn of_numbers(socket: &Path) -> Self {
        Lines { connection: Connection::to(socket), words: false }
    }

    /// Whose requests are a session's number and words.
    pub fn of_words(socket: &Path) -> Self {
        Lines { connection: Connection::to(socket), words: true }
    }
}

impl Client for Lines {
    fn ask(&mut self, number: u64) -> Result<()> {
        let request = if self.words { words(number) } else { format!("{number}\n") };
        self.connection.with(
            |_| Ok(()),
            |stream| {
                send(stream, request.as_bytes())?;
                let mut answer = String::new();
                stream.read_line(&mut answer).context("the server does not answer")?;
                ensure!(answer.starts_with("ok "), "the server answers `{}`", answer.trim());
                Ok(())
            },
        )
    }
}

fn words(number: u64) -> String {
    let mut random = choices(number);
    let count = random.random_range(1..40) * if number.is_multiple_of(50) { 40 } else { 1 };
    let mut line = random.random_range(0..4000).to_string();
    for _ in 0..count {
        line.push(' ');
        line.extend(std::iter::repeat_n('w', random.random_range(1..60)));
    }
    line.push('\n');
    line
}
