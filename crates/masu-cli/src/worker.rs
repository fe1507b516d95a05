//! A thread that reads one process after the other, so that none is waited for too long.
//!
//! A process can make reading it take as long as it likes: by many mappings, by large tables, or by mapping a file of a
//! file system that does not answer, for whose pages the kernel waits with whoever reads them. A thread that is late is
//! left to itself, and ends when it is done; another one reads the next process.

use std::io;
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A piece of work.
type Work = Box<dyn FnOnce() + Send>;

/// A thread, once there was work for it.
#[derive(Default)]
pub struct Worker(Option<(Sender<Work>, JoinHandle<()>)>);

/// Work that was not done in time.
pub struct Late(Option<JoinHandle<()>>);

impl Late {
    /// Whether its thread is done now.
    pub fn is_over(&self) -> bool {
        self.0.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Worker {
    /// Returns the result of work and the processor time that it took, if it takes at most `most` in all.
    pub fn within<T: Send + 'static>(
        &mut self,
        most: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<(T, Duration), Late> {
        let (say, said) = sync_channel(1);
        let work: Work = Box::new(move || {
            let start = processor_time();
            let done = work();
            // Nobody may wait for it any more.
            let _ = say.send((done, processor_time().saturating_sub(start)));
        });
        let started = self.0.take().map_or_else(start, Ok);
        let (orders, thread) = started.map_err(|_| Late(None))?;
        // Work that nobody takes is dropped, and then nothing is said.
        let _ = orders.send(work);
        match said.recv_timeout(most) {
            Ok(done) => {
                self.0 = Some((orders, thread));
                Ok(done)
            }
            Err(_) => Err(Late(Some(thread))),
        }
    }
}

/// Starts a thread, which ends when there are no more orders.
fn start() -> io::Result<(Sender<Work>, JoinHandle<()>)> {
    let (orders, work) = channel::<Work>();
    let thread = Builder::new()
        .name("reader".into())
        .spawn(move || work.into_iter().for_each(|work| work()))?;
    Ok((orders, thread))
}

/// Returns this thread's processor time.
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_does_not_end_keeps_nothing_else_waiting() {
        const PATIENCE: Duration = Duration::from_secs(300);
        let mut worker = Worker::default();
        let (go, goes) = channel::<()>();
        let stuck = worker.within(Duration::from_millis(10), move || goes.recv());
        let Err(late) = stuck else { panic!("nothing came") };
        assert!(!late.is_over());
        for n in 0..3 {
            let Ok((done, _)) = worker.within(PATIENCE, move || n) else { panic!("{n} is late") };
            assert_eq!(done, n);
        }
        drop(go);
        while !late.is_over() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn what_work_took_is_known() {
        let spin = || {
            let start = processor_time();
            while processor_time() - start < Duration::from_millis(5) {}
        };
        let Ok(((), took)) = Worker::default().within(Duration::from_secs(300), spin) else {
            panic!("late")
        };
        assert!(took >= Duration::from_millis(5), "{took:?}");
    }
}
