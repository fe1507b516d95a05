//! Ruby's servers on the masu of the gem, as docs/ruby-bloats.md starts them: a Rails application on Puma, and Sidekiq.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use masu_tests::running::free_port;
use masu_tests::{optional_tool, patience, scratch, tool, workspace};

use crate::gem::GEM;
use crate::{succeed, text};

/// An installed gem, and a place for an application.
struct Ground {
    place: tempfile::TempDir,
}

impl Ground {
    /// `None`, and a message, without the gem or a tool.
    fn with(tools: &[&str]) -> Option<Self> {
        let (_, gem) = GEM.as_ref()?;
        for tool in tools {
            optional_tool(tool, "Ruby's servers")?;
        }
        let ground = Self { place: scratch() };
        let mut install = ground.command(tool("gem"));
        install.env("GEM_PATH", ground.at("home"));
        succeed(install.args(["install", "--local", "--no-document"]).arg(gem));
        Some(ground)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// A command that finds the gem besides those of the system.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("HOME", self.place.path()).env("GEM_HOME", self.at("home"));
        command.env_remove("LD_PRELOAD").env_remove("MALLOC_ARENA_MAX");
        command
    }

    /// Starts what `masu exec` is followed by.
    fn on_masu(&self, words: &[&str], directory: &Path, variables: &[(&str, &str)]) -> Server {
        let log = self.at("server.log");
        let mut start = self.command(self.at("home/bin/masu"));
        start.arg("exec").args(words).current_dir(directory).envs(variables.iter().copied());
        Server::start(&mut start, log)
    }
}

/// A process that ends with this.
struct Server {
    process: Child,
    log: PathBuf,
}

impl Server {
    fn start(command: &mut Command, log: PathBuf) -> Self {
        let file = fs::File::create(&log).expect("a log");
        command.stdin(Stdio::null()).stdout(file.try_clone().expect("another")).stderr(file);
        let process = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self { process, log }
    }

    /// Waits until `found` finds something.
    #[track_caller]
    fn wait<T>(&mut self, found: impl Fn() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(found) = found() {
                return found;
            }
            let ended = self.process.try_wait().expect("a child");
            let is_late = start.elapsed() > Duration::from_secs(60) * patience();
            let log = || fs::read_to_string(&self.log).unwrap_or_default();
            assert!(ended.is_none() && !is_late, "{ended:?}: {}", log());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// It has masu's library, and the doctor of the gem says that it serves it.
    #[track_caller]
    fn is_on_masu(&self, ground: &Ground) {
        let id = self.process.id();
        let maps = fs::read_to_string(format!("/proc/{id}/maps")).expect("it runs");
        assert!(maps.contains("libmasu"), "{maps}");
        let mut doctor = ground.command(ground.at("home/bin/masu"));
        let said = succeed(doctor.args(["doctor", "-p", &id.to_string()]));
        assert!(said.starts_with(&format!("masu serves process {id} (")), "{said}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What the application answers on this port; `None` before it listens.
fn answer(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.write_all(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    Some(text(&answer))
}

/// A new application of Rails, with one page, which says whether its own process has the library.
fn application(ground: &Ground) -> PathBuf {
    let mut new = ground.command(tool("rails"));
    new.args(["new", "app", "--minimal", "--skip-bundle", "--skip-git", "--skip-active-record"]);
    succeed(new.current_dir(&ground.place));
    let app = ground.at("app");
    for (file, content) in [
        // Without what a new application has for its developers.
        ("Gemfile", "gem 'rails'\ngem 'puma'\n"),
        ("config/routes.rb", "Rails.application.routes.draw { root to: 'maps#show' }\n"),
        (
            "app/controllers/maps_controller.rb",
            "class MapsController < ActionController::Base\n  def show\n    \
             render plain: File.read('/proc/self/maps').include?('libmasu') ? 'on masu' : 'not on masu'\n  end\nend\n",
        ),
    ] {
        fs::write(app.join(file), content).expect("written");
    }
    app
}

#[test]
fn a_rails_application_on_puma_is_on_masu() {
    let page = fs::read_to_string(workspace().join("docs/ruby-bloats.md")).expect("the page");
    assert!(page.contains("| Puma | `masu exec bundle exec puma` "), "{page}");
    let Some(ground) = Ground::with(&["rails", "puma", "bundle"]) else { return };
    let app = application(&ground);
    for words in [&["bundle", "exec", "puma"][..], &["bin/rails", "server"]] {
        let port = free_port();
        let mut server = ground.on_masu(
            words,
            &app,
            &[("PORT", &port.to_string()), ("RAILS_ENV", "production"), ("SECRET_KEY_BASE", "0")],
        );
        let said = server.wait(|| answer(port));
        assert!(said.starts_with("HTTP/1.") && said.contains(" 200 OK\r\n"), "{words:?}: {said}");
        assert!(said.ends_with("\r\n\r\non masu"), "{words:?}: {said}");
        server.is_on_masu(&ground);
    }
}

#[test]
fn a_job_of_sidekiq_is_on_masu() {
    let page = fs::read_to_string(workspace().join("docs/ruby-bloats.md")).expect("the page");
    assert!(page.contains("| Sidekiq | `masu exec bundle exec sidekiq`"), "{page}");
    let Some(ground) = Ground::with(&["sidekiq", "bundle"]) else { return };
    let socket = ground.at("redis").display().to_string();
    let mut store = Command::new(tool("redis-server"));
    store.args(["--port", "0", "--save", "", "--unixsocket", &socket]).current_dir(&ground.place);
    let mut store = Server::start(&mut store, ground.at("redis.log"));
    store.wait(|| Path::new(&socket).exists().then_some(()));
    fs::write(ground.at("Gemfile"), "gem 'sidekiq'\n").expect("written");
    let job = "require 'sidekiq'\nclass Job\n  include Sidekiq::Worker\n  def perform(to)\n    \
               File.write(to + '.new', File.read('/proc/self/maps'))\n    File.rename(to + '.new', to)\n  end\nend\n";
    fs::write(ground.at("job.rb"), job).expect("written");
    let store = ("REDIS_URL", &*format!("unix://{socket}"));
    let words = ["bundle", "exec", "sidekiq", "-r", "./job.rb"];
    let mut server = ground.on_masu(&words, ground.place.path(), &[store]);
    let maps = ground.at("maps");
    let mut client = ground.command(tool("bundle"));
    let program = "require './job'; Job.perform_async(ARGV[0])";
    client.args(["exec", "ruby", "-e", program]).arg(&maps);
    succeed(client.current_dir(&ground.place).env(store.0, store.1));
    let maps = server.wait(|| fs::read_to_string(&maps).ok());
    assert!(maps.contains("libmasu"), "{maps}");
    server.is_on_masu(&ground);
}
