//! The services: how each is prepared and started, and who asks it.
//!
//! All listen on a Unix socket in a directory of their own, which nobody outside of the machine reaches and which goes
//! with them. Only the server is on the allocator under test.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::clients::{FILES, Http, Lines, MySql, Pages, PostgreSql, Queries, Redis};
use super::load::Client;
use super::server::end;
use crate::experiments::programs::{cargo_at, compile, directory};
use crate::memory::interrupt;
use crate::memory::scenarios;
use crate::memory::services::{account, postgresql_binaries, quietly};
use crate::memory::web::{ruby_command, seed_rails};
use crate::paths;

/// A service.
pub struct Service {
    /// Its name.
    pub name: &'static str,
    /// What it is and is asked.
    pub about: &'static str,
    /// Connections at the same time.
    pub connections: usize,
    /// Seconds that it takes to start, roughly.
    pub starts: f64,
    /// Those of one program share pages of its files, so two of them are never there at once.
    pub program: &'static str,
    /// Makes what every start of it takes a copy of.
    pub prepare: fn(&Path) -> Result<()>,
    /// How it is started in a directory, with a copy of what was prepared.
    pub start: fn(&Path) -> Result<Ready>,
}

/// What starts a server, and its clients.
pub struct Ready {
    /// The command, on no particular allocator yet.
    pub command: Command,
    /// Whether it is linked with a shared object of an allocator, which a preloaded one must precede.
    pub has_allocator: bool,
    /// Makes a client.
    pub client: Box<dyn Fn() -> Box<dyn Client>>,
}

impl Ready {
    fn new<C: Client + 'static>(command: Command, client: impl Fn() -> C + 'static) -> Self {
        Ready { command, has_allocator: false, client: Box::new(move || Box::new(client())) }
    }
}

/// All services. Neighbours are measured in turn.
pub const ALL: &[Service] = &[
    Service {
        name: "rack-1",
        about: "Rack on Puma with one thread: documents in memory as JSON and text",
        connections: 8,
        starts: 0.7,
        program: "ruby",
        prepare: nothing,
        start: |place| puma(place, "rack", 0, 1),
    },
    Service {
        name: "postgresql",
        about: "PostgreSQL: pgbench's transactions over connections that stay",
        connections: 8,
        starts: 0.7,
        program: "postgresql",
        prepare: postgresql_data,
        start: |place| postgresql(place, Queries::Transactions(SCALE)),
    },
    Service {
        name: "rack-5",
        about: "Rack on Puma with five threads",
        connections: 8,
        starts: 0.7,
        program: "ruby",
        prepare: nothing,
        start: |place| puma(place, "rack", 0, 5),
    },
    Service {
        name: "redis",
        about: "Redis: values of 20 B to 100 kB, half of which expire, and lists",
        connections: 8,
        starts: 0.1,
        program: "redis",
        prepare: nothing,
        start: redis,
    },
    Service {
        name: "rails-1",
        about: "Rails on Puma with one thread: pages and JSON from SQLite",
        connections: 8,
        starts: 3.0,
        program: "ruby",
        prepare: seed_rails,
        start: |place| puma(place, "rails", 0, 1),
    },
    Service {
        name: "nginx",
        about: "nginx with two workers: files of 1 to 200 KiB, compressed for each request",
        connections: 8,
        starts: 0.1,
        program: "nginx",
        prepare: nginx_files,
        start: nginx,
    },
    Service {
        name: "rails-5",
        about: "Rails on Puma with five threads",
        connections: 8,
        starts: 3.0,
        program: "ruby",
        prepare: seed_rails,
        start: |place| puma(place, "rails", 0, 5),
    },
    Service {
        name: "mariadb",
        about: "MariaDB: reads, ranges, sorts, groups, updates and replacements of 50,000 rows",
        connections: 8,
        starts: 1.5,
        program: "mariadb",
        prepare: mariadb_data,
        start: mariadb,
    },
    Service {
        name: "rails-cluster",
        about: "Rails on Puma, two forked workers of five threads each",
        connections: 12,
        starts: 3.5,
        program: "ruby",
        prepare: seed_rails,
        start: |place| puma(place, "rails", 2, 5),
    },
    Service {
        name: "node",
        about: "Node: JSON, compressed buffers in a cache, answers of up to 256 KiB",
        connections: 8,
        starts: 0.3,
        program: "node",
        prepare: nothing,
        start: node,
    },
    Service {
        name: "jobs",
        about: "Ruby: ten threads take jobs from a queue, as in Sidekiq",
        connections: 16,
        starts: 0.3,
        program: "ruby",
        prepare: nothing,
        start: jobs,
    },
    Service {
        name: "gunicorn",
        about: "Python on gunicorn with a worker of four threads: JSON, a cache of compressed texts",
        connections: 8,
        starts: 0.7,
        program: "python",
        prepare: nothing,
        start: gunicorn,
    },
    Service {
        name: "tokio",
        about: "Rust on tokio with two workers: sessions that turn over, JSON",
        connections: 8,
        starts: 0.1,
        program: "tokio",
        prepare: |_| tokio_service(),
        start: |place| Ok(lines(place, directory().join("tokio-service/release/tokio-service"))),
    },
    Service {
        name: "uvicorn",
        about: "Python on uvicorn: the same as on gunicorn, in one thread",
        connections: 8,
        starts: 0.7,
        program: "python",
        prepare: nothing,
        start: uvicorn,
    },
    Service {
        name: "cxx",
        about: "C++: a thread for each connection, sessions that turn over behind locks",
        connections: 8,
        starts: 0.1,
        program: "cxx",
        prepare: |_| cxx_service(),
        start: |place| Ok(lines(place, directory().join("cxx-service"))),
    },
    Service {
        name: "postgresql-analytic",
        about: "PostgreSQL: sorts, groups, joins and JSON of up to 20,000 rows",
        connections: 4,
        starts: 0.7,
        program: "postgresql",
        prepare: postgresql_data,
        start: |place| postgresql(place, Queries::Analytic),
    },
];

fn nothing(_: &Path) -> Result<()> {
    Ok(())
}

fn programs() -> PathBuf {
    paths::lab().join("programs/servers")
}

fn puma(place: &Path, application: &str, workers: usize, threads: usize) -> Result<Ready> {
    let mut command = ruby_command("puma", place);
    command.arg("-C").arg(scenarios::programs().join("puma.rb")).arg("config.ru");
    command.current_dir(scenarios::programs().join(application));
    command.env("LAB_WORKERS", workers.to_string()).env("LAB_THREADS", threads.to_string());
    let socket = place.join("socket");
    Ok(Ready::new(command, move || Http::new(&socket, Pages::Applications)))
}

fn jobs(place: &Path) -> Result<Ready> {
    let mut command = ruby_command("ruby", place);
    let socket = place.join("socket");
    command.arg(programs().join("jobs.rb")).arg(&socket);
    Ok(Ready::new(command, move || Lines::of_numbers(&socket)))
}

fn node(place: &Path) -> Result<Ready> {
    let mut command = Command::new("node");
    let socket = place.join("socket");
    command.arg(programs().join("items.js")).arg(&socket);
    Ok(Ready::new(command, move || Http::new(&socket, Pages::Items)))
}

fn gunicorn(place: &Path) -> Result<Ready> {
    let mut command = Command::new("gunicorn");
    let socket = place.join("socket");
    command.args(["--workers=1", "--threads=4", "--keep-alive=75", "--log-level=warning"]);
    command.arg(format!("--bind=unix:{}", socket.display()));
    command.arg("--worker-tmp-dir").arg(place).arg("items:wsgi");
    python(&mut command);
    Ok(Ready::new(command, move || Http::new(&socket, Pages::Items)))
}

fn uvicorn(place: &Path) -> Result<Ready> {
    let mut command = Command::new("uvicorn");
    let socket = place.join("socket");
    command.args(["--log-level=warning", "--no-access-log", "--timeout-keep-alive=75", "--uds"]);
    command.arg(&socket).arg("items:asgi");
    python(&mut command);
    Ok(Ready::new(command, move || Http::new(&socket, Pages::Items)))
}

fn python(command: &mut Command) {
    command.current_dir(programs()).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("PYTHONPATH", programs()).env_remove("PYTHONMALLOC");
}

/// A program of ours that answers lines.
fn lines(place: &Path, program: PathBuf) -> Ready {
    let socket = place.join("socket");
    let mut command = Command::new(program);
    command.arg(&socket);
    Ready::new(command, move || Lines::of_words(&socket))
}

fn tokio_service() -> Result<()> {
    cargo_at(&programs().join("tokio/Cargo.toml"), "tokio-service").map(drop)
}

fn cxx_service() -> Result<()> {
    let flags = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-pthread"];
    compile("c++", "servers/service.cc", "cxx-service", &flags).map(drop)
}

/// Debian's is linked with jemalloc's shared object.
fn redis(place: &Path) -> Result<Ready> {
    let mut command = Command::new("redis-server");
    let socket = place.join("socket");
    command.args(["--port", "0", "--save", "", "--appendonly", "no", "--daemonize", "no"]);
    command.arg("--unixsocket").arg(&socket).arg("--dir").arg(place);
    let ready = Ready::new(command, move || Redis::new(&socket));
    Ok(Ready { has_allocator: true, ..ready })
}

fn nginx_files(place: &Path) -> Result<()> {
    for size in FILES {
        let mut text = String::from("[");
        for id in 0.. {
            let hash = id * 2_654_435_761u64 % 4_294_967_291;
            text += &format!(r#"{{"id":{id},"hash":"{hash:x}","text":"some words of an entry"}},"#);
            if text.len() >= size {
                break;
            }
        }
        text.truncate(size);
        fs::write(place.join(format!("{size}.json")), text)?;
    }
    Ok(())
}

fn nginx(place: &Path) -> Result<Ready> {
    let here = place.display();
    let conf = format!(
        "daemon off; worker_processes 2; pid {here}/pid; error_log stderr warn; events {{}}\n\
         http {{ access_log off; keepalive_requests 1000000000; keepalive_timeout 1h;\n\
         client_body_temp_path {here}/b; proxy_temp_path {here}/p; fastcgi_temp_path {here}/f;\n\
         uwsgi_temp_path {here}/u; scgi_temp_path {here}/s;\n\
         server {{ listen unix:{here}/socket; root {here}; gzip on; gzip_min_length 1; gzip_types *; }} }}"
    );
    fs::write(place.join("conf"), conf)?;
    // Its workers are another user's if it is started by root.
    fs::set_permissions(place, fs::Permissions::from_mode(0o755))?;
    let mut command = Command::new("/usr/sbin/nginx");
    command.arg("-p").arg(place).arg("-c").arg(place.join("conf"));
    let socket = place.join("socket");
    Ok(Ready::new(command, move || Http::new(&socket, Pages::Files)))
}

/// pgbench's factor on the size of its tables.
const SCALE: u32 = 2;

/// A command that runs as PostgreSQL's user.
fn as_postgres(name: &str, place: &Path) -> Result<Command> {
    let (user, group) = account("postgres")?;
    let mut command = Command::new(postgresql_binaries()?.join(name));
    command.uid(user).gid(group).current_dir(place).stdin(Stdio::null());
    command.env_remove("LD_PRELOAD").env("PGHOST", place).env("PGDATABASE", "postgres");
    Ok(command)
}

/// Whose directory it becomes.
fn belongs_to(name: &str, place: &Path) -> Result<()> {
    let (user, group) = account(name)?;
    fs::set_permissions(place, fs::Permissions::from_mode(0o755))?;
    chown(place, Some(user), Some(group))?;
    Ok(())
}

fn postgresql_data(place: &Path) -> Result<()> {
    belongs_to("postgres", place)?;
    quietly(
        as_postgres("initdb", place)?
            .args(["--no-sync", "--auth=trust", "-D"])
            .arg(place.join("data")),
    )?;
    let server = postgresql(place, Queries::Analytic)?;
    once(server, place, |_| {
        let scale = format!("--scale={SCALE}");
        quietly(as_postgres("pgbench", place)?.args(["--initialize", "--quiet", &scale]))
    })
}

fn postgresql(place: &Path, queries: Queries) -> Result<Ready> {
    belongs_to("postgres", place)?;
    let mut command = as_postgres("postgres", place)?;
    command.arg("-D").arg(place.join("data")).arg("-k").arg(place);
    for setting in [
        "listen_addresses=",
        "fsync=off",
        "shared_buffers=32MB",
        "work_mem=16MB",
        // What comes and goes by its own clock would fall on some allocators and not on others.
        "autovacuum=off",
        "checkpoint_timeout=1h",
        "max_wal_size=4GB",
        "jit=off",
    ] {
        command.args(["-c", setting]);
    }
    let socket = place.join(".s.PGSQL.5432");
    Ok(Ready::new(command, move || PostgreSql::new(&socket, queries)))
}

fn mariadb_data(place: &Path) -> Result<()> {
    belongs_to("mysql", place)?;
    let mut install = Command::new("mariadb-install-db");
    install.args(["--no-defaults", "--user=mysql"]).env_remove("LD_PRELOAD");
    install.args(["--innodb-log-file-size=16M", "--auth-root-authentication-method=normal"]);
    install.arg(format!("--datadir={}", place.join("data").display()));
    quietly(&mut install)?;
    let server = mariadb(place)?;
    let mut client = MySql::new(&place.join("socket"));
    once(server, place, |_| {
        MySql::filling().iter().try_for_each(|statement| client.query(statement))
    })
}

fn mariadb(place: &Path) -> Result<Ready> {
    belongs_to("mysql", place)?;
    let (user, group) = account("mysql")?;
    let mut command = Command::new("/usr/sbin/mariadbd");
    command.uid(user).gid(group).current_dir(place);
    command.args(["--no-defaults", "--skip-grant-tables", "--skip-networking"]);
    command.args(["--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M"]);
    command.args(["--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-load-at-startup=0"]);
    command.arg(format!("--datadir={}", place.join("data").display()));
    command.arg(format!("--socket={}", place.join("socket").display()));
    command.arg(format!("--pid-file={}", place.join("pid").display()));
    let socket = place.join("socket");
    Ok(Ready::new(command, move || MySql::new(&socket)))
}

/// Runs a server on the system's malloc for as long as `work` takes.
fn once(ready: Ready, place: &Path, work: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let Ready { mut command, client, .. } = ready;
    let log = fs::File::create(place.join("log"))?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).env_remove("LD_PRELOAD");
    let mut server = interrupt::start(&mut command)?;
    // Whatever it is asked: a failure that the server itself reports shows that it listens.
    let done = until_it_listens(&client, place).and_then(|()| work(place));
    end(&mut server);
    done
}

/// The longest wait for a server.
pub const PATIENCE: Duration = Duration::from_secs(60);

fn until_it_listens(client: &dyn Fn() -> Box<dyn Client>, place: &Path) -> Result<()> {
    let begun = Instant::now();
    loop {
        let said = match client().ask(0) {
            Ok(()) => return Ok(()),
            Err(error) => format!("{error:#}"),
        };
        let answers = ["PostgreSQL:", "MariaDB:"].iter().any(|word| said.starts_with(word));
        if answers && !said.contains("starting up") {
            return Ok(());
        }
        interrupt::check()?;
        ensure!(begun.elapsed() < PATIENCE, "{said}; {}", last_words(place));
        thread::sleep(Duration::from_millis(20));
    }
}

/// The end of what a server wrote.
pub fn last_words(place: &Path) -> String {
    let said = fs::read_to_string(place.join("log")).unwrap_or_default();
    let end: Vec<_> = said.lines().rev().take(5).collect();
    end.into_iter().rev().collect::<Vec<_>>().join("; ")
}

/// Copies what was prepared.
pub fn copy(prepared: &Path, place: &Path) -> Result<()> {
    let from = prepared.join(".");
    let mut copy = Command::new("cp");
    quietly(copy.args(["-a", "--reflink=auto"]).arg(from).arg(place)).context("no copy")
}
