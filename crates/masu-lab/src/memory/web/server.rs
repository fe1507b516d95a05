//! A puma with its application on one allocator.

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::Kind;
use super::client::{self, Request};
use crate::memory::allocator::Allocator;
use crate::memory::interrupt;
use crate::memory::scenarios::programs;
use crate::memory::stage::end_group;
use crate::memory::tree::{self, Look};
use masu_watch::process::family;

/// Longest wait for a server to answer its first request.
const PATIENCE: Duration = Duration::from_secs(180);

/// A server that answers.
pub struct Server {
    /// Where it listens.
    pub socket: PathBuf,
    child: Child,
}

impl Server {
    /// Starts a server, waits until it answers, and proves that all its processes are on the
    /// allocator.
    pub fn start(kind: Kind, allocator: &Allocator, place: &Path, seeded: &Path) -> Result<Self> {
        fs::create_dir(place)?;
        if kind.application == "rails" {
            fs::copy(seeded.join("blog.sqlite3"), place.join("blog.sqlite3"))?;
        }
        let log = File::create(place.join("puma.log"))?;
        let mut command = ruby_command("puma", place);
        command
            .arg("-C")
            .arg(programs().join("puma.rb"))
            .arg("config.ru")
            .current_dir(programs().join(kind.application))
            .env("LAB_WORKERS", kind.workers.to_string())
            .stdout(log.try_clone()?)
            .stderr(log);
        allocator.apply(&mut command);
        let child = interrupt::start(&mut command)?;
        let mut server = Server { socket: place.join("socket"), child };
        server.until_it_answers().with_context(|| {
            let said = fs::read_to_string(place.join("puma.log")).unwrap_or_default();
            let end: Vec<_> = said.lines().rev().take(12).collect();
            end.into_iter().rev().collect::<Vec<_>>().join("\n")
        })?;
        let processes = family(server.child.id());
        ensure!(processes.len() == kind.workers + 1, "{} processes", processes.len());
        processes.into_iter().try_for_each(|process| allocator.prove(process))?;
        Ok(server)
    }

    fn until_it_answers(&mut self) -> Result<()> {
        let begun = Instant::now();
        let first = Request::get("/posts/1");
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("puma ended: {status}");
            }
            if UnixStream::connect(&self.socket).is_ok()
                && client::ask(&self.socket, &first).is_ok()
            {
                return Ok(());
            }
            ensure!(begun.elapsed() < PATIENCE, "no answer within {PATIENCE:?}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// The memory and the processor time of all its processes.
    pub fn look(&self) -> Option<Look> {
        tree::look(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end_group(&mut self.child);
    }
}

/// Ruby with the collector's own settings, for one of our applications.
pub fn ruby_command(program: &str, place: &Path) -> Command {
    let mut command = Command::new(program);
    for (key, _) in std::env::vars().filter(|(key, _)| key.starts_with("RUBY")) {
        command.env_remove(key);
    }
    command.env("LAB_PLACE", place).env("RAILS_ENV", "production").env("RUBYOPT", "-W0");
    command.env_remove("LD_PRELOAD").env_remove("WEB_CONCURRENCY").stdin(Stdio::null());
    command
}

/// Makes the database that every Rails server gets a copy of.
pub fn seed(place: &Path, kinds: &[Kind]) -> Result<()> {
    if kinds.iter().all(|kind| kind.application != "rails") {
        return Ok(());
    }
    seed_rails(place)
}

/// Makes the database of the Rails application.
pub fn seed_rails(place: &Path) -> Result<()> {
    let mut seed = ruby_command("ruby", place);
    seed.arg("seed.rb").current_dir(programs().join("rails"));
    let output = seed.output().context("cannot start ruby")?;
    ensure!(output.status.success(), "Rails: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

/// What served, and how its collector is set.
pub fn settings() -> Result<String> {
    let script = "print RUBY_VERSION; \
        %w[rails puma rack sqlite3].each { |name| print \", #{name} \", Gem.loaded_specs[name]&.version || \
        Gem::Specification.find_by_name(name).version rescue print \" missing\" }";
    let output = Command::new("ruby").args(["-e", script]).env_remove("LD_PRELOAD").output()?;
    let versions = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(format!("Ruby {versions}; collector: Ruby's own settings, no RUBY_GC_ variable set"))
}
