//! Connections: each has a thread while it lasts. A few dozen are served at once: for one more, the one that has waited
//! longest for its client goes. Silent and slow clients are disconnected.

use std::io::{self, Read};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::http::{self, Answer, Nothing, Request};

/// Maximum number of connections.
const MOST: usize = 64;
/// How long one may be silent: scrapers keep theirs open between scrapes.
const SILENCE: Duration = Duration::from_secs(120);
/// How long a request may take from its first byte to its last.
const HEAD: Duration = Duration::from_secs(10);
/// How long a client may take to read an answer.
const SLOW: Duration = Duration::from_secs(10);
/// How long one that is refused is listened to.
const LINGER: Duration = Duration::from_secs(1);
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
    let (open, busy) = (Arc::new(Open::default()), Arc::new(AtomicUsize::new(0)));
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
                let stream = Arc::new(stream);
                let (handler, busy, place) = (handler.clone(), busy.clone(), open.admit(&stream));
                // If no thread can be started, the connection is closed.
                let _ = thread::Builder::new().name("connection".into()).spawn(move || {
                    let _ = connection(&stream, place, &busy, &*handler);
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

/// The connections, and since when each waits for its client; none while its answer is made.
#[derive(Default)]
struct Open(Mutex<Vec<(Arc<TcpStream>, Option<Instant>)>>);

impl Open {
    fn all(&self) -> MutexGuard<'_, Vec<(Arc<TcpStream>, Option<Instant>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a place for a connection, if need be that of the one that has waited longest. There is none if all are
    /// being answered.
    fn admit(self: &Arc<Self>, stream: &Arc<TcpStream>) -> Option<Place> {
        let mut all = self.all();
        if all.len() >= MOST {
            let waits = all.iter().enumerate().filter_map(|(at, one)| Some((one.1?, at)));
            let (_, longest) = waits.min()?;
            let _ = all.swap_remove(longest).0.shutdown(Shutdown::Both);
        }
        all.push((stream.clone(), Some(Instant::now())));
        Some(Place { open: self.clone(), stream: stream.clone() })
    }
}

/// The place of a connection among the others.
struct Place {
    open: Arc<Open>,
    stream: Arc<TcpStream>,
}

impl Place {
    /// Whether it is still there; from now on it waits, or does not.
    fn keeps(&self, waits: bool) -> bool {
        let mut all = self.open.all();
        let own = all.iter_mut().find(|one| Arc::ptr_eq(&one.0, &self.stream));
        own.map(|one| one.1 = waits.then(Instant::now)).is_some()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.all().retain(|one| !Arc::ptr_eq(&one.0, &self.stream));
    }
}

/// The bytes of one request, as long as they come in time.
struct Patient<'s> {
    stream: &'s TcpStream,
    /// When its first byte was there.
    begun: Option<Instant>,
    /// How long it may take from then on.
    most: Duration,
}

impl Read for Patient<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = match self.begun {
            None => SILENCE,
            Some(begun) => self.most.saturating_sub(begun.elapsed()),
        };
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        let n = self.stream.read(bytes)?;
        self.begun.get_or_insert_with(Instant::now);
        Ok(n)
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
    mut stream: &TcpStream,
    place: Option<Place>,
    busy: &Arc<AtomicUsize>,
    handler: &Handler,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(SLOW))?;
    let Some(place) = place else {
        return refuse(stream, &Answer::refusal(503, "too many connections; try again"));
    };
    let mut rest = Vec::new();
    loop {
        let begun = (!rest.is_empty()).then(Instant::now);
        match http::read(&mut Patient { stream, begun, most: HEAD }, &mut rest) {
            Ok(request) if place.keeps(false) => {
                let _busy = Guard::one_of(busy);
                let answer = handler(&request, &|| is_closed(stream));
                // Its reader may be as slow as its writer.
                place.keeps(true);
                answer.write(&mut stream, request.is_head, request.stays)?;
                if !request.stays {
                    return Ok(());
                }
            }
            Ok(_) | Err(Nothing::Ended) => return Ok(()),
            Err(Nothing::Refused(answer)) => return refuse(stream, &answer),
        }
    }
}

/// Ends a connection with an answer. Closed with something unread, it would be reset, and its client might not see the
/// answer.
fn refuse(mut stream: &TcpStream, answer: &Answer) -> io::Result<()> {
    answer.write(&mut stream, false, false)?;
    stream.shutdown(Shutdown::Write)?;
    let mut rest = Patient { stream, begun: Some(Instant::now()), most: LINGER };
    io::copy(&mut rest, &mut io::sink()).map(|_| ())
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
    fn a_new_connection_takes_the_place_of_the_one_that_was_silent_longest() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, _stopper) = UnixStream::pair().unwrap();
        let (begins, begun) = std::sync::mpsc::channel();
        let (go, goes) = std::sync::mpsc::channel::<()>();
        let goes = Mutex::new(goes);
        thread::spawn(move || {
            let handler = move |request: &Request, _: &Gone<'_>| {
                if request.path == "/slow" {
                    begins.send(()).unwrap();
                    let _ = goes.lock().unwrap().recv();
                }
                Answer::of(http::TEXT, &b"yes"[..])
            };
            serve(&listener, &stop, Arc::new(handler))
        });
        let ask = |path: &str| {
            let mut stream = TcpStream::connect(address).unwrap();
            write!(stream, "GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
            stream
        };
        let text = |mut stream: TcpStream| {
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        };
        let mut silent: Vec<_> = (0..MOST).map(|_| TcpStream::connect(address).unwrap()).collect();
        for _ in 0..3 {
            assert!(text(ask("/healthz")).starts_with("HTTP/1.1 200 "));
        }
        assert_eq!(text(silent.remove(0)), "", "the first was closed");
        // Those that are answered stay.
        let slow: Vec<_> = (0..MOST).map(|_| ask("/slow")).collect();
        for _ in 0..MOST {
            begun.recv().unwrap();
        }
        assert!(text(ask("/healthz")).starts_with("HTTP/1.1 503 "));
        drop(go);
        for stream in slow {
            assert!(text(stream).ends_with("yes"));
        }
        drop(silent);
    }

    #[test]
    fn a_refusal_reaches_a_client_that_is_still_sending() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, _stopper) = UnixStream::pair().unwrap();
        thread::spawn(move || {
            let handler = |_: &Request, _: &Gone<'_>| Answer::of(http::TEXT, &b"yes"[..]);
            serve(&listener, &stop, Arc::new(handler))
        });
        let mut posts = TcpStream::connect(address).unwrap();
        posts.write_all(b"POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n").unwrap();
        // It reads nothing before it has sent all.
        thread::sleep(Duration::from_millis(50));
        posts.write_all(&[0; 100_000]).unwrap();
        let mut text = String::new();
        posts.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 405 "), "{text}");
    }

    #[test]
    fn a_request_that_drips_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut drips = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        drips.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        let dripping = thread::spawn(move || {
            while drips.write_all(b"a").is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
        });
        let (start, most) = (Instant::now(), Duration::from_millis(100));
        let request = http::read(&mut Patient { stream: &stream, begun: None, most }, &mut vec![]);
        assert!(matches!(request, Err(Nothing::Ended)), "{request:?}");
        assert!(start.elapsed() >= most);
        drop(stream);
        dripping.join().unwrap();
    }
}
