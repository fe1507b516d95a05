//! An exporter, the processes that it shows, and its clients.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use masu_tests::library;

/// The command that belongs to the library under test.
pub fn masu() -> Command {
    let library = library().expect("masu is a library");
    let mut command = Command::new(library.parent().expect("a directory").join("masu"));
    command.env_remove("LD_PRELOAD");
    command
}

/// A child that is ended with the test.
pub struct Running(pub Child);

impl Running {
    /// Starts a command whose first line on stdout says that it is ready; returns that line.
    pub fn start(command: &mut Command) -> (Running, String) {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = piped.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe"))
            .read_line(&mut line)
            .expect("a line");
        (Running(child), line)
    }

    /// A program on masu with these options.
    pub fn on_masu(program: &Path, argument: &str, conf: &str) -> Running {
        let mut command = Command::new(program);
        command.arg(argument).env("LD_PRELOAD", library().expect("masu is a library"));
        let (running, line) = Running::start(command.env("MASU_CONF", conf));
        assert_eq!(line, "ready\n");
        running
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Ends it as a service is ended; returns its exit code.
    pub fn stop(mut self) -> Option<i32> {
        // SAFETY: a signal to a child that was not waited for yet.
        unsafe { libc::kill(self.id() as i32, libc::SIGTERM) };
        self.0.wait().expect("it ends").code()
    }

    /// Seconds of processor time so far.
    pub fn processor_time(&self) -> f64 {
        let stat = procfs::process::Process::new(self.id() as i32).and_then(|it| it.stat());
        let stat = stat.expect("it runs");
        (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An exporter on a free port, and its address.
pub fn exporter(options: &[&str]) -> (Running, String) {
    let mut command = masu();
    command.args(["export", "--listen", "127.0.0.1:0"]).args(options);
    let (running, line) = Running::start(&mut command);
    let address = line.trim().strip_prefix("masu: metrics at http://").expect("its address");
    (running, address.strip_suffix("/metrics").expect("a path").to_owned())
}

/// What came back.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A persistent connection.
pub struct Client(BufReader<TcpStream>);

impl Client {
    pub fn new(address: &str) -> Client {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
        Client(BufReader::new(stream))
    }

    pub fn ask(&mut self, method: &str, path: &str, headers: &str) -> Answer {
        self.ask_as("HTTP/1.1", method, path, headers)
    }

    fn ask_as(&mut self, version: &str, method: &str, path: &str, headers: &str) -> Answer {
        let request = format!("{method} {path} {version}\r\nHost: test\r\n{headers}\r\n");
        self.0.get_mut().write_all(request.as_bytes()).expect("it is sent");
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(self.0.read_line(&mut head).expect("an answer"), 0, "{head}");
        }
        let status = head.split(' ').nth(1).and_then(|n| n.parse().ok()).expect("a status");
        let length = head.lines().find_map(|line| {
            line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok()
        });
        let mut body = Vec::new();
        match length {
            _ if method == "HEAD" => {}
            Some(length) => {
                body.resize(length, 0);
                self.0.read_exact(&mut body).expect("the whole body");
            }
            None => {
                self.0.read_to_end(&mut body).expect("the whole body");
            }
        }
        Answer { status, head, body }
    }
}

/// A page, requested by HTTP 1.0, in which nothing is chunked.
pub fn get(address: &str, path: &str) -> Answer {
    Client::new(address).ask_as("HTTP/1.0", "GET", path, "")
}

/// A process's figure in the metrics.
pub fn figure(metrics: &str, name: &str, process: u32) -> Option<f64> {
    let start = format!("{name}{{pid=\"{process}\",");
    let line = metrics.lines().find(|line| line.starts_with(&start))?;
    line.rsplit(' ').next()?.parse().ok()
}
