//! Connections: each has a thread while it lasts. A few dozen are served at once, and silent clients are disconnected.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::http::{self, Answer, Nothing, Request};

/// Maximum number of connections.
const MOST: usize = 64;
/// How long one may be silent or slow: scrapers keep theirs open between scrapes.
const SILENCE: Duration = Duration::from_secs(120);
/// How long a client may take to read an answer.
const SLOW: Duration = Duration::from_secs(10);
/// How long answers in progress may take after the exporter is told to stop.
const FAREWELL: Duration = Duration::from_secs(5);

/// What answers.
pub type Handler = dyn Fn(&Request, &Gone<'_>) -> Answer + Send + Sync;

/// Says whether the reader of an answer has closed its connection.
pub type Gone<'a> = dyn Fn() -> bool + 'a;

/// Whether whoever is at the other end has closed the connection: nobody reads an answer.
fn is_closed(stream: &TcpStream) -> bool {
    let mut waits = [PollFd::new(stream, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    // A hang-up and an error come unasked.
    poll(&mut waits, Some(&now)).is_ok_and(|n| n > 0)
}

/// Returns a stream that becomes readable when the exporter must stop; `stopped` then becomes true.
///
/// # Errors
/// If signals cannot be handled.
pub fn stop(stopped: &Arc<AtomicBool>) -> io::Result<UnixStream> {
    let (stop, write) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(stopped))?;
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    Ok(stop)
}

/// Serves until `stop` is readable.
pub fn serve(listener: &TcpListener, stop: &UnixStream, handler: Arc<Handler>) {
    // Connections, and the number of them being answered.
    let (open, busy) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let _ = listener.set_nonblocking(true);
    loop {
        let mut waits = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
        ];
        let polled = poll(&mut waits, None);
        if polled.is_ok() && !waits[1].revents().is_empty() {
            break;
        }
        match listener.accept() {
            Ok((stream, _)) => {
                let (handler, busy, opened) = (handler.clone(), busy.clone(), Guard::one_of(&open));
                let is_one_too_many = open.load(Ordering::Acquire) > MOST;
                // If no thread can be started, the connection is closed.
                let _ = thread::Builder::new().name("connection".into()).spawn(move || {
                    let _opened = opened;
                    let _ = connection(stream, is_one_too_many, &busy, &*handler);
                });
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // For example, no descriptor is left.
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
    let start = Instant::now();
    while busy.load(Ordering::Acquire) > 0 && start.elapsed() < FAREWELL {
        thread::sleep(Duration::from_millis(10));
    }
}

/// Counts while it lives.
struct Guard(Arc<AtomicUsize>);

impl Guard {
    fn one_of(count: &Arc<AtomicUsize>) -> Guard {
        count.fetch_add(1, Ordering::AcqRel);
        Guard(count.clone())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn connection(
    mut stream: TcpStream,
    is_one_too_many: bool,
    busy: &Arc<AtomicUsize>,
    handler: &Handler,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SLOW))?;
    if is_one_too_many {
        return Answer::refusal(503, "too many connections; try again").write(
            &mut stream,
            false,
            false,
        );
    }
    let mut rest = Vec::new();
    loop {
        match http::read(&mut stream, &mut rest) {
            Ok(request) => {
                let _busy = Guard::one_of(busy);
                let answer = handler(&request, &|| is_closed(&stream));
                answer.write(&mut stream, request.is_head, request.stays)?;
                if !request.stays {
                    return Ok(());
                }
            }
            Err(Nothing::Ended) => return Ok(()),
            Err(Nothing::Refused(answer)) => return answer.write(&mut stream, false, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn an_answer_that_has_begun_is_finished() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, mut stopper) = UnixStream::pair().unwrap();
        let (begins, begun) = std::sync::mpsc::channel();
        let server = thread::spawn(move || {
            let slow = move |request: &Request, _: &Gone<'_>| {
                begins.send(()).unwrap();
                thread::sleep(Duration::from_millis(200));
                Answer::of(http::TEXT, request.path.clone().into_bytes())
            };
            serve(&listener, &stop, Arc::new(slow));
        });
        // A silent client does not block the server.
        let _silent = TcpStream::connect(address).unwrap();
        let mut asks = TcpStream::connect(address).unwrap();
        asks.write_all(b"GET /slow HTTP/1.1\r\n\r\n").unwrap();
        begun.recv().unwrap();
        stopper.write_all(b"x").unwrap();
        let start = Instant::now();
        server.join().unwrap();
        assert!(start.elapsed() < FAREWELL, "{:?}", start.elapsed());
        asks.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let mut text = [0; 1000];
        let n = asks.read(&mut text).unwrap();
        assert!(text[..n].ends_with(b"\r\n\r\n/slow"), "{}", String::from_utf8_lossy(&text[..n]));
        assert!(TcpStream::connect(address).is_err());
    }

    #[test]
    fn a_reader_that_goes_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, _stopper) = UnixStream::pair().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let handler = move |_: &Request, gone: &Gone<'_>| {
                tell.send(gone()).unwrap();
                let start = Instant::now();
                while !gone() && start.elapsed() < Duration::from_secs(60) {
                    thread::sleep(Duration::from_millis(1));
                }
                tell.send(gone()).unwrap();
                Answer::of(http::TEXT, &b""[..])
            };
            serve(&listener, &stop, Arc::new(handler));
        });
        let mut asks = TcpStream::connect(address).unwrap();
        asks.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert!(!told.recv().unwrap(), "it is there");
        drop(asks);
        assert!(told.recv().unwrap(), "it has gone");
    }

    #[test]
    fn more_than_a_few_dozen_connections_are_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, _stopper) = UnixStream::pair().unwrap();
        thread::spawn(move || {
            serve(&listener, &stop, Arc::new(|_, _| Answer::of(http::TEXT, &b""[..])))
        });
        let _open: Vec<_> = (0..MOST).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut one_more = TcpStream::connect(address).unwrap();
        let mut text = String::new();
        one_more.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 503 "), "{text}");
    }
}
