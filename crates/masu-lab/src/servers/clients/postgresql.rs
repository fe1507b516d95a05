//! PostgreSQL: the simple queries of its protocol, version 3.

use std::io::{BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use rand::RngExt;

use super::{Connection, choices, send};
use crate::servers::load::Client;

/// What is asked.
#[derive(Clone, Copy)]
pub enum Queries {
    /// The transactions of pgbench, on tables of so many branches.
    Transactions(u32),
    /// Sorts, groups and joins of some ten thousand rows.
    Analytic,
}

/// A client.
pub struct PostgreSql {
    connection: Connection,
    queries: Queries,
}

impl PostgreSql {
    /// To the server at that socket.
    pub fn new(socket: &Path, queries: Queries) -> Self {
        PostgreSql { connection: Connection::to(socket), queries }
    }
}

impl Client for PostgreSql {
    fn ask(&mut self, number: u64) -> Result<()> {
        let query = match self.queries {
            Queries::Transactions(scale) => transaction(number, scale),
            Queries::Analytic => analysis(number),
        };
        self.connection.with(greet, |stream| {
            let mut message = vec![b'Q'];
            message.extend((query.len() as u32 + 5).to_be_bytes());
            message.extend(query.as_bytes());
            message.push(0);
            send(stream, &message)?;
            until_ready(stream)
        })
    }
}

fn greet(stream: &mut BufReader<UnixStream>) -> Result<()> {
    let words = b"user\0postgres\0database\0postgres\0\0";
    let mut message = (words.len() as u32 + 8).to_be_bytes().to_vec();
    message.extend(0x0003_0000u32.to_be_bytes());
    message.extend(words);
    send(stream, &message)?;
    until_ready(stream)
}

/// Reads messages until the server is ready for another query.
fn until_ready(stream: &mut BufReader<UnixStream>) -> Result<()> {
    let mut failure = None;
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).context("PostgreSQL does not answer")?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]).saturating_sub(4);
        let mut body = Vec::new();
        stream.by_ref().take(length.into()).read_to_end(&mut body)?;
        match head[0] {
            b'E' => failure = Some(String::from_utf8_lossy(&body).replace('\0', " ")),
            b'R' => ensure!(body == [0; 4], "PostgreSQL wants a password"),
            b'Z' => match failure {
                Some(failure) => bail!("PostgreSQL: {failure}"),
                None => return Ok(()),
            },
            _ => {}
        }
    }
}

fn transaction(number: u64, scale: u32) -> String {
    let mut random = choices(number);
    let account = random.random_range(1..=100_000 * scale);
    let (teller, branch) = (random.random_range(1..=10 * scale), random.random_range(1..=scale));
    let delta = random.random_range(-5_000..=5_000);
    format!(
        "BEGIN; UPDATE pgbench_accounts SET abalance = abalance + {delta} WHERE aid = {account}; \
         SELECT abalance FROM pgbench_accounts WHERE aid = {account}; \
         UPDATE pgbench_tellers SET tbalance = tbalance + {delta} WHERE tid = {teller}; \
         UPDATE pgbench_branches SET bbalance = bbalance + {delta} WHERE bid = {branch}; \
         INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) \
         VALUES ({teller}, {branch}, {account}, {delta}, CURRENT_TIMESTAMP); END;"
    )
}

fn analysis(number: u64) -> String {
    let mut random = choices(number);
    let (from, rows) = (random.random_range(1..200_000), random.random_range(2_000..20_000));
    let range = format!("pgbench_accounts WHERE aid BETWEEN {from} AND {}", from + rows);
    match number % 4 {
        0 => format!(
            "SELECT count(*) FROM (SELECT md5(aid::text) AS x, aid FROM {range} ORDER BY 1) AS s"
        ),
        1 => format!(
            "SELECT count(*) FROM (SELECT array_agg(aid), string_agg(filler, ',') FROM {range} \
             GROUP BY aid % 997) AS s"
        ),
        2 => format!(
            "WITH part AS MATERIALIZED (SELECT aid, md5(aid::text) AS x FROM {range}) \
             SELECT count(*) FROM part AS a JOIN part AS b ON a.x = b.x"
        ),
        _ => format!("SELECT jsonb_agg(jsonb_build_object('a', aid, 'b', abalance)) FROM {range}"),
    }
}
