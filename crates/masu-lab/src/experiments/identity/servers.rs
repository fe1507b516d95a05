//! Programs that their clients bring to each moment. The clients are on the system's malloc.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, ensure};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::running::{Running, until};
use super::{LOAD, Moments, REST, START, on_masu};
use crate::memory::services::{account, postgresql_binaries, quietly};
use crate::paths;

/// Does something over and over while the process is read under load.
fn under_load(
    moments: &mut Moments,
    process: u32,
    work: impl Fn() -> Result<()> + Sync,
) -> Result<()> {
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        let client = scope.spawn(|| {
            while !end.load(Ordering::Relaxed) {
                work()?;
            }
            Ok(())
        });
        let read = moments.read(LOAD, process);
        end.store(true, Ordering::Relaxed);
        let worked: Result<()> = client.join().expect("a client does not panic");
        read.and(worked)
    })
}

/// A git that reads every object of this repository.
pub fn git(moments: &mut Moments) -> Result<()> {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(paths::workspace()).args(arguments);
        git
    };
    let objects = git(&["rev-list", "--objects", "--all"]).output()?;
    ensure!(objects.status.success(), "{}", String::from_utf8_lossy(&objects.stderr));
    let objects = String::from_utf8(objects.stdout)?;
    let ids: Vec<&str> = objects.lines().filter_map(|line| line.split(' ').next()).collect();
    let mut running = Running::start(
        on_masu("git").args(["cat-file", "--batch"]).current_dir(paths::workspace()),
    )?;
    running.tell("HEAD\n")?;
    running.says("tree")?;
    moments.read(START, running.id())?;
    let mut said = running.take_said()?;
    let reader = thread::spawn(move || {
        let mut line = Vec::new();
        while said.read_until(b'\n', &mut line).is_ok_and(|n| n > 0)
            && !line.ends_with(b"no-such missing\n")
        {
            line.clear();
        }
        said
    });
    let (process, running) = (running.id(), std::sync::Mutex::new(running));
    under_load(moments, process, || {
        let mut running = running.lock().expect("nobody panics");
        ids.iter().take(2000).try_for_each(|id| running.tell(&format!("{id}\n")))
    })?;
    running.lock().expect("nobody panics").tell("no-such\n")?;
    let _said = reader.join().expect("the reader does not panic");
    moments.read(REST, process)
}

/// Redis: values are set, and in the end removed.
pub fn redis(moments: &mut Moments) -> Result<()> {
    let socket = moments.place().join("redis");
    let mut server = on_masu("redis-server");
    server.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]);
    let running = Running::start(server.arg(&socket).arg("--dir").arg(moments.place()))?;
    let asks =
        |words: &[&str]| quietly(Command::new("redis-cli").arg("-s").arg(&socket).args(words));
    until("Redis's start", || asks(&["ping"]).is_ok())?;
    moments.read(START, running.id())?;
    under_load(moments, running.id(), || {
        asks(&[
            "eval",
            "for i = 1, 5000 do redis.call('set', 'key:' .. math.random(100000), \
             string.rep('x', math.random(20, 700))) end",
            "0",
        ])
    })?;
    asks(&["flushall", "sync"])?;
    moments.read(REST, running.id())
}

/// nginx: a page that comes through its own proxy is compressed for a hundred slow clients, and for one that is not.
pub fn nginx(moments: &mut Moments) -> Result<()> {
    let place = moments.place().display().to_string();
    // Digits are halved by compression, so that much is left to wait for the client.
    let mut random = SmallRng::seed_from_u64(1);
    let digits = std::iter::repeat_with(|| random.random_range(b'0'..=b'9'));
    fs::write(moments.place().join("page"), digits.take(2 << 20).collect::<Vec<u8>>())?;
    let bind = || std::net::TcpListener::bind("127.0.0.1:0");
    let (one, other) = (bind()?, bind()?);
    let (port, behind) = (one.local_addr()?.port(), other.local_addr()?.port());
    drop((one, other));
    let conf = format!(
        "daemon off; master_process off; pid {place}/pid; error_log stderr; events {{ worker_connections 1024; }}\n\
         http {{ access_log off; client_body_temp_path {place}/b; proxy_temp_path {place}/p;\n\
         fastcgi_temp_path {place}/f; uwsgi_temp_path {place}/u; scgi_temp_path {place}/s;\n\
         proxy_buffer_size 32k; proxy_buffers 16 32k; proxy_busy_buffers_size 64k; proxy_max_temp_file_size 0;\n\
         server {{ listen 127.0.0.1:{port} sndbuf=64k; gzip on; gzip_comp_level 1; gzip_types *;\n\
         location / {{ proxy_pass http://127.0.0.1:{behind}; }} }}\n\
         server {{ listen 127.0.0.1:{behind}; root {place}; }} }}"
    );
    fs::write(moments.place().join("conf"), conf)?;
    let mut server = on_masu("/usr/sbin/nginx");
    let running = Running::start(
        server.arg("-p").arg(moments.place()).arg("-c").arg(moments.place().join("conf")),
    )?;
    let connect = || TcpStream::connect(("127.0.0.1", port));
    until("nginx's start", || connect().is_ok())?;
    moments.read(START, running.id())?;
    let asks = || -> Result<TcpStream> {
        let mut stream = connect()?;
        stream.write_all(
            b"GET /page HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n",
        )?;
        Ok(stream)
    };
    // They read the beginning, and then nothing more.
    let mut slow = (0..100).map(|_| asks()).collect::<Result<Vec<_>>>()?;
    for stream in &mut slow {
        let mut head = [0; 1000];
        stream.read_exact(&mut head)?;
        let head = String::from_utf8_lossy(&head);
        ensure!(head.starts_with("HTTP/1.1 200"), "nginx refused: {head}");
        ensure!(head.contains("Content-Encoding: gzip"), "nginx compressed nothing: {head}");
    }
    under_load(moments, running.id(), || {
        let mut answer = Vec::new();
        asks()?.read_to_end(&mut answer)?;
        ensure!(answer.len() > 1 << 19, "nginx broke off after {} bytes", answer.len());
        Ok(())
    })?;
    drop(slow);
    moments.read(REST, running.id())
}

/// The process of PostgreSQL that serves one session, which sorts and groups.
pub fn postgresql(moments: &mut Moments) -> Result<()> {
    let (user, group) = account("postgres")?;
    fs::set_permissions(moments.place(), fs::Permissions::from_mode(0o755))?;
    let place = moments.place().join("postgresql");
    fs::create_dir(&place)?;
    chown(&place, Some(user), Some(group))?;
    let (binaries, data) = (postgresql_binaries()?, place.join("data"));
    let settled = |mut command: Command| {
        command
            .uid(user)
            .gid(group)
            .current_dir(&place)
            .env("PGHOST", &place)
            .env("PGDATABASE", "postgres");
        command
    };
    let client = |name: &str| settled(Command::new(binaries.join(name)));
    quietly(client("initdb").args(["--no-sync", "--auth=trust", "-D"]).arg(&data))?;
    let mut server = settled(on_masu(binaries.join("postgres")));
    server.arg("-D").arg(&data).arg("-k").arg(&place).stderr(Stdio::null());
    for setting in ["listen_addresses=", "fsync=off", "shared_buffers=32MB", "work_mem=48MB"] {
        server.args(["-c", setting]);
    }
    let _server = Running::start(&mut server)?;
    until("PostgreSQL's start", || quietly(&mut client("pg_isready")).is_ok())?;
    let mut session = client("psql");
    session.args(["-X", "-q", "-A", "-t"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut session = session.spawn().context("cannot start psql")?;
    let asks = std::sync::Mutex::new((
        session.stdin.take().context("piped")?,
        BufReader::new(session.stdout.take().context("piped")?),
    ));
    let ask = |query: &str| {
        let mut asks = asks.lock().expect("nobody panics");
        writeln!(asks.0, "{query};")?;
        let mut said = String::new();
        asks.1.read_line(&mut said)?;
        said.trim().parse::<u32>().with_context(|| format!("PostgreSQL said: {said}"))
    };
    let process = ask("select pg_backend_pid()")?;
    moments.read(START, process)?;
    under_load(moments, process, || {
        ask(
            "select count(*) from (select md5(i::text) as x, array_agg(i) from generate_series(1, 100000) as i \
             group by 1 order by 1) as s",
        )?;
        Ok(())
    })?;
    moments.read(REST, process)?;
    drop(asks);
    session.wait()?;
    Ok(())
}
