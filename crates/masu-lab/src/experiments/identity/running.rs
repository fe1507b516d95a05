//! A program on masu that is ended with its owner.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// The longest wait for a server.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program.
pub struct Running {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Running {
    /// Starts it. What it says and hears goes through pipes.
    pub fn start(command: &mut Command) -> Result<Running> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {:?}", command.get_program()))?;
        let said = BufReader::new(child.stdout.take().context("piped")?);
        Ok(Running { child, said })
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it says a line with a word in it.
    pub fn says(&mut self, word: &str) -> Result<()> {
        let mut line = String::new();
        while !line.contains(word) {
            line.clear();
            ensure!(self.said.read_line(&mut line)? > 0, "it never said `{word}`");
        }
        Ok(())
    }

    /// What it says, for another thread to read.
    pub fn take_said(&mut self) -> Result<impl BufRead + Send + use<>> {
        let empty = Command::new("true").stdout(Stdio::piped()).spawn()?;
        let empty = empty.stdout.context("piped")?;
        Ok(std::mem::replace(&mut self.said, BufReader::new(empty)))
    }

    /// Tells it something.
    pub fn tell(&mut self, text: &str) -> Result<()> {
        let input = self.child.stdin.as_mut().context("piped")?;
        input.write_all(text.as_bytes()).and_then(|()| input.flush()).context("it is gone")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) -> Result<()> {
    let start = Instant::now();
    while !holds() {
        ensure!(start.elapsed() < PATIENCE, "{what} took longer than {PATIENCE:?}");
        sleep(Duration::from_millis(50));
    }
    Ok(())
}
