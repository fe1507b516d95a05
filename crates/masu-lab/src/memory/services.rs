//! Databases and caches, each started by a command of the distribution and used by its clients.
//!
//! Only the server is on the allocator under test; its clients are on the system's.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::stage::Stage;

/// Redis. Debian's is linked with jemalloc, which any preloaded allocator precedes.
pub fn redis(stage: &mut Stage) -> Result<()> {
    let socket = stage.place.join("redis");
    let mut server = Command::new("redis-server");
    server.args(["--port", "0", "--save", "", "--appendonly", "no", "--daemonize", "no"]);
    server.arg("--unixsocket").arg(&socket).arg("--dir").arg(stage.place).stdout(Stdio::null());
    stage.start_first(server)?;
    let asks = |words: &[&str]| redis_cli(&socket, words);
    stage.until("listening", || asks(&["ping"]).is_ok())?;
    let steps = [
        (
            "filled",
            "math.randomseed(42) for i = 1, 300000 do \
             redis.call('set', 'key:' .. i, string.rep('x', math.random(20, 700))) end",
        ),
        (
            "deleted",
            "for i = 1, 300000 do if i % 3 > 0 then redis.call('del', 'key:' .. i) end end",
        ),
        (
            "refilled",
            "for i = 1, 60000 do \
             redis.call('set', 'long:' .. i, string.rep('y', math.random(500, 2500))) end",
        ),
        ("emptied", "redis.call('flushall', 'sync')"),
    ];
    for (name, script) in steps {
        asks(&["eval", script, "0"])?;
        let (used, fragmentation) = redis_memory(&socket)?;
        stage.figure(&format!("{name}_fragmentation"), fragmentation);
        stage.read(name, Some(used))?;
    }
    let (used, _) = redis_memory(&socket)?;
    stage.rest("idle", Some(used))
}

fn redis_cli(socket: &Path, words: &[&str]) -> Result<String> {
    let mut client = Command::new("redis-cli");
    let output = client.arg("-s").arg(socket).args(words).env_remove("LD_PRELOAD").output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success() && !said.starts_with("ERR"), "redis-cli: {said}");
    Ok(said)
}

/// Bytes that Redis uses by its own account, and its fragmentation ratio.
fn redis_memory(socket: &Path) -> Result<(u64, f64)> {
    let said = redis_cli(socket, &["info", "memory"])?;
    let value = |key: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(key));
        line.with_context(|| format!("redis does not say its {key}"))
    };
    Ok((value("used_memory:")?.trim().parse()?, value("mem_fragmentation_ratio:")?.trim().parse()?))
}

/// memcached, which cuts its own slabs out of large blocks.
pub fn memcached(stage: &mut Stage) -> Result<()> {
    let socket = stage.place.join("memcached");
    let mut server = Command::new("memcached");
    server.args(["-u", "root", "-m", "256", "-t", "4", "-s"]).arg(&socket);
    stage.start(server)?;
    stage.until("listening", || UnixStream::connect(&socket).is_ok())?;
    let mut stream = UnixStream::connect(&socket)?;
    let mut answers = BufReader::new(stream.try_clone()?);
    let mut random = SmallRng::seed_from_u64(42);
    let mut said = String::new();
    let value = vec![b'v'; 20_000];
    for key in 0..60_000 {
        let size = random.random_range(100..20_000usize) >> (key % 3);
        write!(stream, "set key:{key} 0 0 {size} noreply\r\n")?;
        stream.write_all(&value[..size])?;
        stream.write_all(b"\r\n")?;
    }
    for (name, command) in [("filled", "version\r\n"), ("flushed", "flush_all\r\n")] {
        stream.write_all(command.as_bytes())?;
        said.clear();
        answers.read_line(&mut said)?;
        ensure!(said.starts_with("VERSION") || said.starts_with("OK"), "memcached: {said}");
        stage.read(name, None)?;
    }
    stage.rest("idle", None)
}

/// PostgreSQL in a directory of its own, as the user that its package made.
pub fn postgresql(stage: &mut Stage) -> Result<()> {
    let (user, group) = account("postgres")?;
    fs::set_permissions(stage.place, fs::Permissions::from_mode(0o755))?;
    let place = stage.place.join("postgresql");
    fs::create_dir(&place)?;
    chown(&place, Some(user), Some(group))?;
    let (binaries, data) = (postgresql_binaries()?, place.join("data"));
    let command = |name: &str| {
        let mut command = Command::new(binaries.join(name));
        command.uid(user).gid(group).current_dir(&place).stdin(Stdio::null());
        command.env_remove("LD_PRELOAD").env("PGHOST", &place).env("PGDATABASE", "postgres");
        command
    };
    quietly(command("initdb").args(["--no-sync", "--auth=trust", "-D"]).arg(&data))?;
    let mut server = command("postgres");
    server.arg("-D").arg(&data).arg("-k").arg(&place);
    for setting in ["listen_addresses=", "fsync=off", "shared_buffers=32MB", "work_mem=48MB"] {
        server.args(["-c", setting]);
    }
    server.stderr(fs::File::create(stage.place.join("postgresql.log"))?);
    stage.start(server)?;
    stage.until("listening", || quietly(&mut command("pg_isready")).is_ok())?;
    quietly(command("pgbench").args(["--initialize", "--quiet", "--scale=4"]))?;
    stage.read("started", None)?;
    // A connection that stays, and what it once sorted.
    let mut session = command("psql");
    session.args(["-X", "-q", "-A", "-t"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut session = session.spawn().context("cannot start psql")?;
    let mut asks = session.stdin.take().context("piped")?;
    let mut answers = BufReader::new(session.stdout.take().context("piped")?);
    for _ in 0..2 {
        writeln!(
            asks,
            "select count(*) from (select md5(aid::text) as x, aid from pgbench_accounts order by 1) as s;\n\
             select count(*) from (select array_agg(aid) from pgbench_accounts group by md5(aid::text)) as s;"
        )?;
        for _ in 0..2 {
            let mut said = String::new();
            answers.read_line(&mut said)?;
            ensure!(said.trim() == "400000", "PostgreSQL said: {said}");
        }
    }
    stage.read("sorted", None)?;
    quietly(command("pgbench").args([
        "--no-vacuum",
        "--client=8",
        "--jobs=2",
        "--transactions=300",
    ]))?;
    stage.read("benched", None)?;
    stage.rest("idle", None)?;
    drop(asks);
    let mut rest = String::new();
    answers.read_to_string(&mut rest)?;
    session.wait()?;
    Ok(())
}

/// Runs a command that shall succeed, and says what it said if not.
pub(crate) fn quietly(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{:?}: {}", command.get_program(), words.trim());
    Ok(())
}

/// Where the newest PostgreSQL is.
pub fn postgresql_binaries() -> Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").context("PostgreSQL is not installed")?;
    let places = versions.flatten().map(|entry| entry.path().join("bin"));
    places.filter(|place| place.join("postgres").is_file()).max().context("no PostgreSQL server")
}

/// The numbers of a user and its group.
pub(crate) fn account(name: &str) -> Result<(u32, u32)> {
    let text = fs::read_to_string("/etc/passwd")?;
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    let mut words = line.with_context(|| format!("no user {name}"))?.split(':').skip(1);
    let mut id = || {
        words.next().context("/etc/passwd is not understood")?.parse().map_err(anyhow::Error::from)
    };
    Ok((id()?, id()?))
}
