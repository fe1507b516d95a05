//! HTTP/1.1.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rand::RngExt;

use super::{Connection, choices, send};
use crate::memory::web::Request;
use crate::servers::load::Client;

/// What is asked for.
#[derive(Clone, Copy)]
pub enum Pages {
    /// The pages of the applications in `programs/memory`, a connection for each as behind a proxy.
    Applications,
    /// The items of the services in `programs/servers`, over a connection that stays.
    Items,
    /// Files that are compressed.
    Files,
}

/// A client.
pub struct Http {
    connection: Connection,
    pages: Pages,
    answer: Vec<u8>,
}

impl Http {
    /// To the server at that socket.
    pub fn new(socket: &Path, pages: Pages) -> Self {
        Http { connection: Connection::to(socket), pages, answer: Vec::new() }
    }
}

impl Client for Http {
    fn ask(&mut self, number: u64) -> Result<()> {
        let request = match self.pages {
            Pages::Applications => Request::numbered(number).into_bytes(),
            Pages::Items => item(number),
            Pages::Files => file(number),
        };
        let answer = &mut self.answer;
        let stays = self.connection.with(
            |_| Ok(()),
            |stream| {
                send(stream, &request)?;
                read_answer(stream, answer)
            },
        )?;
        if !stays {
            self.connection.close();
        }
        Ok(())
    }
}

/// Reads an answer, which must be a success; whether the connection stays.
fn read_answer(stream: &mut BufReader<UnixStream>, body: &mut Vec<u8>) -> Result<bool> {
    let mut line = String::new();
    stream.read_line(&mut line).context("the server does not answer")?;
    ensure!(line.starts_with("HTTP/1.1 20"), "the server answers `{}`", line.trim());
    let (mut length, mut chunked, mut stays) = (None, false, true);
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        let header = line.trim_end().to_ascii_lowercase();
        let Some((name, value)) = header.split_once(':') else { break };
        match (name, value.trim()) {
            ("content-length", value) => length = Some(value.parse::<u64>()?),
            ("transfer-encoding", "chunked") => chunked = true,
            ("connection", "close") => stays = false,
            _ => {}
        }
    }
    body.clear();
    if chunked {
        loop {
            line.clear();
            stream.read_line(&mut line)?;
            let size = u64::from_str_radix(line.trim(), 16).context("no size of a chunk")?;
            exactly(stream, body, size)?;
            stream.read_line(&mut line)?;
            if size == 0 {
                break;
            }
        }
    } else if let Some(length) = length {
        exactly(stream, body, length)?;
    } else {
        ensure!(!stays, "an answer without an end");
        stream.read_to_end(body)?;
    }
    Ok(stays)
}

fn exactly(stream: &mut BufReader<UnixStream>, body: &mut Vec<u8>, length: u64) -> Result<()> {
    let read = stream.take(length).read_to_end(body)?;
    ensure!(read as u64 == length, "the answer ends after {read} of {length} bytes");
    Ok(())
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: lab\r\nAccept-Encoding: gzip\r\n\r\n").into_bytes()
}

fn item(number: u64) -> Vec<u8> {
    let mut random = choices(number);
    let id = random.random_range(0..2000);
    match random.random_range(0..100) {
        0..40 => get(&format!("/items?page={}", id % 100)),
        40..70 => get(&format!("/items/{id}")),
        70..94 => {
            let words = if id % 20 == 0 { 4000 } else { random.random_range(10..400) };
            let text: String = (0..words).map(|word| format!("w{} ", word * 31 % 977)).collect();
            let body = format!(r#"{{"id":{id},"tags":["a","b{}"],"text":"{text}"}}"#, id % 7);
            let length = body.len();
            format!(
                "POST /items HTTP/1.1\r\nHost: lab\r\nContent-Type: application/json\r\n\
                 Content-Length: {length}\r\n\r\n{body}"
            )
            .into_bytes()
        }
        _ => get(&format!("/buffer?size={}", 4096 << random.random_range(0..7))),
    }
}

/// The files of [`Pages::Files`]: so many bytes in each.
pub const FILES: [usize; 4] = [1 << 10, 8 << 10, 40 << 10, 200 << 10];

fn file(number: u64) -> Vec<u8> {
    let place = match choices(number).random_range(0..100) {
        0..50 => 0,
        50..80 => 1,
        80..96 => 2,
        _ => 3,
    };
    get(&format!("/{}.json", FILES[place]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    #[test]
    fn answers_of_all_kinds_are_read_and_a_failure_makes_a_new_connection() {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let connections: [&[&str]; 3] = [
            &[
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
                "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
            ],
            &["HTTP/1.1 201 Made\r\nConnection: close\r\n\r\nto the end"],
            &["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"],
        ];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for answers in connections {
                    let (mut stream, _) = listener.accept().unwrap();
                    for answer in answers {
                        assert!(stream.read(&mut [0; 1 << 16]).unwrap() > 0);
                        stream.write_all(answer.as_bytes()).unwrap();
                    }
                }
            });
            let mut client = Http::new(&socket, Pages::Items);
            client.ask(1).unwrap();
            client.ask(2).unwrap();
            assert!(client.ask(3).unwrap_err().to_string().contains("500"));
            client.ask(4).unwrap();
            assert_eq!(client.answer, b"to the end");
            assert!(client.ask(5).unwrap_err().to_string().contains("3 of 9"));
        });
    }
}
