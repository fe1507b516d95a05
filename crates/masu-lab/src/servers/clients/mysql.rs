//! MariaDB: text queries of the MySQL protocol.

use std::io::{BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use rand::RngExt;

use super::{Connection, choices, send};
use crate::servers::load::Client;

/// A client.
pub struct MySql(Connection);

impl MySql {
    /// To the server at that socket, which trusts everybody.
    pub fn new(socket: &Path) -> Self {
        MySql(Connection::to(socket))
    }

    /// The statements that make the table.
    pub fn filling() -> Vec<String> {
        let table = "CREATE TABLE rows_ (id INT PRIMARY KEY, k INT NOT NULL, c VARCHAR(400) NOT NULL, \
                     pad TEXT NOT NULL, KEY (k)) ENGINE=InnoDB";
        let mut all = vec![table.into()];
        for first in (1..=ROWS).step_by(1000) {
            let row = |id: u32| {
                let text = format!("{:x}", id.wrapping_mul(2_654_435_761));
                format!("({id},{},'{}','{}')", id * 7919 % ROWS, text.repeat(12), text.repeat(6))
            };
            let rows: Vec<_> = (first..first + 1000).map(row).collect();
            all.push(format!("INSERT INTO rows_ VALUES {}", rows.join(",")));
        }
        all
    }

    /// Says one query and reads all that it gives.
    pub fn query(&mut self, query: &str) -> Result<()> {
        self.0.with(greet, |stream| {
            let mut packet = vec![3];
            packet.extend(query.as_bytes());
            write(stream, 0, &packet)?;
            read_result(stream)
        })
    }
}

impl Client for MySql {
    fn ask(&mut self, number: u64) -> Result<()> {
        self.query(&statement(number))
    }
}

/// How many rows the table has.
const ROWS: u32 = 50_000;

/// Reads, ranges, sorts, updates and replacements, as sysbench's mixed test has them.
fn statement(number: u64) -> String {
    let mut random = choices(number);
    let id = random.random_range(1..ROWS - 200);
    match random.random_range(0..100) {
        0..40 => format!("SELECT c FROM rows_ WHERE id = {id}"),
        40..50 => format!("SELECT c, pad FROM rows_ WHERE id BETWEEN {id} AND {}", id + 99),
        50..60 => {
            format!("SELECT SUM(k) FROM rows_ WHERE id BETWEEN {id} AND {}", id + 99)
        }
        60..68 => {
            format!("SELECT c FROM rows_ WHERE id BETWEEN {id} AND {} ORDER BY c", id + 99)
        }
        68..76 => format!(
            "SELECT DISTINCT LEFT(c, 40) AS d, GROUP_CONCAT(pad) FROM rows_ WHERE id BETWEEN {id} AND {} \
             GROUP BY d ORDER BY d",
            id + 199
        ),
        76..88 => format!("UPDATE rows_ SET k = k + 1 WHERE id = {id}"),
        _ => {
            let text = "t".repeat(random.random_range(20..4_000));
            format!("REPLACE INTO rows_ VALUES ({id}, {}, 'replaced {number}', '{text}')", id % 97)
        }
    }
}

fn write(stream: &mut BufReader<UnixStream>, sequence: u8, packet: &[u8]) -> Result<()> {
    let length = (packet.len() as u32).to_le_bytes();
    let mut whole = vec![length[0], length[1], length[2], sequence];
    whole.extend(packet);
    send(stream, &whole)
}

/// A packet with its number.
fn read(stream: &mut BufReader<UnixStream>) -> Result<(u8, Vec<u8>)> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).context("MariaDB does not answer")?;
    let length = u32::from_le_bytes([head[0], head[1], head[2], 0]);
    let mut packet = Vec::new();
    stream.by_ref().take(length.into()).read_to_end(&mut packet)?;
    ensure!(packet.len() == length as usize && length > 0, "MariaDB ends within a packet");
    if packet[0] == 0xff {
        bail!("MariaDB: {}", String::from_utf8_lossy(packet.get(3..).unwrap_or_default()));
    }
    Ok((head[3], packet))
}

fn greet(stream: &mut BufReader<UnixStream>) -> Result<()> {
    let (sequence, _) = read(stream)?;
    // Version 4.1 of the protocol, its way of authentication by plugins.
    let capabilities: u32 = 0x200 | 0x8000 | 0x8_0000;
    let mut packet = capabilities.to_le_bytes().to_vec();
    packet.extend((16u32 << 20).to_le_bytes());
    packet.push(33);
    packet.extend([0; 23]);
    packet.extend(b"root\0\0mysql_native_password\0");
    write(stream, sequence + 1, &packet)?;
    let (sequence, answer) = read(stream)?;
    if answer[0] == 0xfe {
        write(stream, sequence + 1, &[])?;
        read(stream)?;
    }
    write(stream, 0, b"\x02test")?;
    read(stream).map(drop)
}

/// An acknowledgement; or descriptions of columns, and rows, with an end behind each.
fn read_result(stream: &mut BufReader<UnixStream>) -> Result<()> {
    let (_, first) = read(stream)?;
    if first[0] == 0 {
        return Ok(());
    }
    for _ in 0..2 {
        while !matches!(read(stream)?.1.as_slice(), [0xfe, rest @ ..] if rest.len() < 8) {}
    }
    Ok(())
}
