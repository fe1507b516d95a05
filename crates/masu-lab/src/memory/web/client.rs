//! The requests, and one exchange of HTTP over a Unix socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// A request, as it goes over the wire.
pub struct Request(Vec<u8>);

impl Request {
    /// As it goes over the wire.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// For a page.
    pub fn get(path: &str) -> Self {
        Request(format!("GET {path} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n").into())
    }

    /// Of a new document.
    fn post(path: &str, body: &str) -> Self {
        let length = body.len();
        Request(
            format!(
                "POST {path} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\nContent-Type: application/json\r\n\
                 Content-Length: {length}\r\n\r\n{body}"
            )
            .into(),
        )
    }

    /// The request of that number: the same for every server.
    pub fn numbered(number: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(number);
        let (kind, page) = (random.random_range(0..100), random.random_range(0..50));
        match kind {
            0..32 => Self::get(&format!("/posts?page={page}")),
            32..60 => Self::get(&format!("/posts/{}", random.random_range(1..1000))),
            60..76 => Self::get(&format!("/api/posts?page={page}")),
            76..84 => {
                Self::get(&format!("/api/search?q={}", ["3k", "5x", "word7", "aaa"][page % 4]))
            }
            84..97 => {
                // Mostly short, sometimes long.
                let words = random.random_range(5..60usize) * if page % 10 == 0 { 60 } else { 4 };
                let text: String = (0..words).map(|n| format!("w{} ", n * 31 % 977)).collect();
                let title = format!("number {number}");
                Self::post(
                    "/api/posts",
                    &format!(r#"{{"title":"{title}","body":"{}"}}"#, text.trim()),
                )
            }
            _ => Self::get("/report"),
        }
    }
}

/// Sends a request and reads the answer to its end; the answer's size.
pub fn ask(socket: &Path, request: &Request) -> Result<usize> {
    let mut stream = UnixStream::connect(socket).context("the server does not listen")?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.write_all(&request.0)?;
    let mut answer = Vec::with_capacity(1 << 16);
    stream.read_to_end(&mut answer).context("the server does not answer")?;
    let line = answer.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    ensure!(line.starts_with("HTTP/1.1 20"), "the server answers `{line}`");
    Ok(answer.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_number_is_always_the_same_request_and_all_kinds_occur() {
        let text = |n| String::from_utf8(Request::numbered(n).0).unwrap();
        assert_eq!(text(5), text(5));
        let all: String = (0..300).map(text).collect();
        for part in ["/posts?page", "/posts/", "/api/posts?", "/api/search", "POST /api", "/report"]
        {
            assert!(all.contains(part), "{part}");
        }
    }

    #[test]
    fn what_is_no_success_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for answer in ["HTTP/1.1 200 OK\r\n\r\nx", "HTTP/1.1 500 No\r\n\r\n"] {
                    let (mut stream, _) = listener.accept().unwrap();
                    let mut request = [0; 16];
                    stream.read_exact(&mut request).unwrap();
                    stream.write_all(answer.as_bytes()).unwrap();
                    stream.shutdown(std::net::Shutdown::Write).unwrap();
                    let _ = stream.read_to_end(&mut Vec::new());
                }
            });
            assert_eq!(ask(&socket, &Request::get("/")).unwrap(), 20);
            let error = ask(&socket, &Request::get("/")).unwrap_err().to_string();
            assert!(error.contains("500"), "{error}");
        });
    }
}
