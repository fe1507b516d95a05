//! One request and one answer of HTTP/1.1, limited to what a scraper needs.
//!
//! A request is GET or HEAD without a body, and its head is short. Everything else is refused, and the connection is
//! closed after the refusal.

use std::io::{self, Read, Write};
use std::sync::Arc;

/// Maximum bytes of a head.
const HEAD: usize = 16 << 10;
/// Maximum number of header lines.
const LINES: usize = 64;

/// A request.
#[derive(Debug, Default, PartialEq)]
pub struct Request {
    /// Whether only the answer's head is wanted.
    pub is_head: bool,
    /// The path, without the query.
    pub path: String,
    /// The query, after the question mark.
    pub query: String,
    /// The header `Accept`.
    pub accept: String,
    /// Whether the answer may be compressed.
    pub gzip: bool,
    /// Whether another request may follow.
    pub stays: bool,
}

impl Request {
    /// Returns a value of the query.
    pub fn asks(&self, key: &str) -> Option<&str> {
        let mut pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The type of the body.
    pub kind: &'static str,
    /// Whether it is compressed for transfer.
    pub gzip: bool,
    /// The body.
    pub body: Arc<[u8]>,
}

/// Bodies up to this length are sent together with their head.
const PIECE: usize = 32 << 10;

/// Plain text.
pub const TEXT: &str = "text/plain; charset=utf-8";

impl Answer {
    /// An answer with a body.
    pub fn of(kind: &'static str, body: impl Into<Arc<[u8]>>) -> Answer {
        Answer { status: 200, kind, gzip: false, body: body.into() }
    }

    /// A sentence that says why not.
    pub fn refusal(status: u16, sentence: &str) -> Answer {
        let body = format!("{sentence}\n").into_bytes();
        Answer { status, kind: TEXT, gzip: false, body: body.into() }
    }

    /// Writes it: in one piece if it is short, otherwise without copying the body.
    pub fn write(&self, to: &mut impl Write, is_head: bool, stays: bool) -> io::Result<()> {
        let length = match self.body.len() {
            // Not known without making the body.
            0 if is_head => String::new(),
            length => format!("Content-Length: {length}\r\n"),
        };
        let encoding = if self.gzip { "Content-Encoding: gzip\r\n" } else { "" };
        let allow = if self.status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
        let connection = if stays { "keep-alive" } else { "close" };
        let mut bytes = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {}\r\n{length}{encoding}{allow}\
             Vary: Accept, Accept-Encoding\r\nX-Content-Type-Options: nosniff\r\nConnection: {connection}\r\n\r\n",
            self.status,
            reason(self.status),
            self.kind,
        )
        .into_bytes();
        match &self.body[..] {
            _ if is_head => to.write_all(&bytes),
            long if long.len() > PIECE => {
                to.write_all(&bytes)?;
                to.write_all(long)
            }
            short => {
                bytes.extend_from_slice(short);
                to.write_all(&bytes)
            }
        }
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        413 => "Content Too Large",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        _ => "Error",
    }
}

/// Why there is no request.
#[derive(Debug)]
pub enum Nothing {
    /// The connection ended, or nothing arrived in time.
    Ended,
    /// The input is refused.
    Refused(Answer),
}

/// Reads the next request. `rest` holds the bytes after the previous one, and afterwards those
/// after this one.
pub fn read(from: &mut impl Read, rest: &mut Vec<u8>) -> Result<Request, Nothing> {
    let mut piece = [0; 2048];
    loop {
        if let Some(request) = parse(rest)? {
            return Ok(request);
        }
        if rest.len() >= HEAD {
            return refuse(431, "the head of a request may have at most 16 KiB");
        }
        match from.read(&mut piece) {
            Ok(0) | Err(_) => return Err(Nothing::Ended),
            Ok(n) => rest.extend_from_slice(&piece[..n]),
        }
    }
}

fn refuse<T>(status: u16, sentence: &str) -> Result<T, Nothing> {
    Err(Nothing::Refused(Answer::refusal(status, sentence)))
}

/// Removes and returns the request at the start of `bytes`, once it is complete.
fn parse(bytes: &mut Vec<u8>) -> Result<Option<Request>, Nothing> {
    let mut lines = [httparse::EMPTY_HEADER; LINES];
    let mut head = httparse::Request::new(&mut lines);
    let len = match head.parse(bytes) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return refuse(431, "a request may have at most 64 headers");
        }
        Err(_) => return refuse(400, "this is not an HTTP/1.1 request"),
    };
    // Lines of the same name are one list.
    let header = |name: &str| {
        let lines = head.headers.iter().filter(|line| line.name.eq_ignore_ascii_case(name));
        let values: Vec<_> = lines.map(|line| String::from_utf8_lossy(line.value)).collect();
        (!values.is_empty()).then(|| values.join(","))
    };
    let is_head = match head.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => {
            return refuse(405, "only GET and HEAD are supported: nothing can be changed here");
        }
    };
    let length = header("Content-Length");
    let is_number = |n: &str| !n.is_empty() && n.bytes().all(|digit| digit.is_ascii_digit());
    if length.as_ref().is_some_and(|list| !list.split(',').all(|n| is_number(n.trim()))) {
        return refuse(400, "Content-Length must be a number");
    }
    if length.is_some_and(|n| n.trim() != "0") || header("Transfer-Encoding").is_some() {
        return refuse(413, "a request must not have a body here");
    }
    let target = head.path.unwrap_or("/");
    // A request may name the server as well, as to a proxy (RFC 9112, 3.2.2).
    let target = match target.strip_prefix("http://") {
        Some(named) => named.find('/').map_or("/", |path| &named[path..]),
        None => target,
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let connection = header("Connection").unwrap_or_default().to_ascii_lowercase();
    let request = Request {
        is_head,
        path: path.to_owned(),
        query: query.to_owned(),
        accept: header("Accept").unwrap_or_default(),
        gzip: header("Accept-Encoding").is_some_and(|accepted| quality(&accepted, "gzip") > 0.0),
        stays: if head.version == Some(0) {
            connection.contains("keep-alive")
        } else {
            !connection.contains("close")
        },
    };
    bytes.drain(..len);
    Ok(Some(request))
}

/// Returns the weight, up to 1, that a header like `Accept` gives to `wanted`; 0 if it does not
/// name it.
pub fn quality(header: &str, wanted: &str) -> f64 {
    let entries = header.split(',').filter_map(|entry| {
        let mut parts = entry.split(';').map(str::trim);
        if !parts.next()?.eq_ignore_ascii_case(wanted) {
            return None;
        }
        let quality = parts.find_map(|part| part.strip_prefix("q="));
        Some(quality.map_or(1.0, |q| q.parse().unwrap_or(0.0)))
    });
    entries.fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> (Vec<Request>, Option<u16>) {
        // One byte at a time, as from a slow network.
        let mut from = text
            .as_bytes()
            .chunks(1)
            .fold(Box::new(io::empty()) as Box<dyn Read>, |before, byte| {
                Box::new(before.chain(byte))
            });
        let (mut found, mut rest) = (Vec::new(), Vec::new());
        loop {
            match read(&mut from, &mut rest) {
                Ok(request) => found.push(request),
                Err(Nothing::Ended) => return (found, None),
                Err(Nothing::Refused(answer)) => return (found, Some(answer.status)),
            }
        }
    }

    #[test]
    fn requests_follow_each_other() {
        let (found, refused) =
            all("GET /metrics HTTP/1.1\r\nHost: x\r\naccept-encoding: deflate, gzip;q=0.5\r\n\r\n\
             HEAD /debug/pprof/heap?pid=7&seconds=5 HTTP/1.1\r\nConnection: close\r\n\r\n\
             GET / HTTP/1.0\r\n\r\nGET");
        assert_eq!(refused, None);
        let [metrics, heap, root] = &found[..] else { panic!("{found:?}") };
        assert_eq!((&*metrics.path, metrics.gzip, metrics.stays), ("/metrics", true, true));
        assert_eq!(
            (heap.is_head, heap.asks("pid"), heap.asks("seconds")),
            (true, Some("7"), Some("5"))
        );
        assert_eq!((heap.asks("pi"), heap.stays, root.stays), (None, false, false));
    }

    #[test]
    fn a_request_may_name_the_server() {
        let named = |target| {
            let (found, _) = all(&format!("GET {target} HTTP/1.1\r\n\r\n"));
            (found[0].path.clone(), found[0].asks("pid").map(str::to_owned))
        };
        assert_eq!(named("http://x:9464/metrics"), ("/metrics".into(), None));
        assert_eq!(
            named("http://x/debug/pprof/heap?pid=7"),
            ("/debug/pprof/heap".into(), Some("7".into()))
        );
        assert_eq!(named("http://x"), ("/".into(), None));
    }

    #[test]
    fn what_is_no_get_is_refused() {
        for (text, status) in [
            ("POST /metrics HTTP/1.1\r\n\r\n", 405),
            ("DELETE / HTTP/1.1\r\n\r\n", 405),
            ("GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 413),
            ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
            // The body looks like another request.
            (
                "GET / HTTP/1.1\r\nContent-Length: 0\r\ncontent-length: 18\r\n\r\nGET / HTTP/1.1\r\n\r\n",
                413,
            ),
            ("\x16\x03\x01 hello", 400),
            ("GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nContent-Length:\r\n\r\n", 400),
            (&format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(HEAD)), 431),
            (&format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(LINES + 1)), 431),
        ] {
            assert_eq!(all(text), (Vec::new(), Some(status)), "{}", &text[..20.min(text.len())]);
        }
    }

    #[test]
    fn answers_say_how_long_they_are() {
        let mut written = Vec::new();
        Answer::refusal(405, "no").write(&mut written, false, false).unwrap();
        let text = String::from_utf8(written).unwrap();
        assert!(text.starts_with("HTTP/1.1 405 Method Not Allowed\r\n"), "{text}");
        assert!(text.contains("Content-Length: 3\r\nAllow: GET, HEAD\r\n"), "{text}");
        assert!(text.ends_with("Connection: close\r\n\r\nno\n"), "{text}");
        let mut head = Vec::new();
        Answer::refusal(404, "no").write(&mut head, true, true).unwrap();
        assert!(String::from_utf8(head).unwrap().ends_with("keep-alive\r\n\r\n"));
    }

    #[test]
    fn qualities() {
        assert_eq!(quality("text/plain;version=0.0.4;q=0.5, */*;q=0.1", "text/plain"), 0.5);
        assert_eq!(quality("gzip", "gzip"), 1.0);
        assert_eq!(quality("gzip;q=0, br", "gzip"), 0.0);
        assert_eq!(quality("br", "gzip"), 0.0);
    }
}
