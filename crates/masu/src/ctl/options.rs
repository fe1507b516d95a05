//! Options that may change while the program runs. A new value takes effect the next time the
//! engine reads it.

use super::key::{Error, Result, keys};
use crate::BackgroundThread;
use masu_core::config::Delay;
use masu_core::control;

keys! {
    "masu::ctl";

    /// `background_thread`: whether a background thread gives memory back while the program is
    /// idle. The default, a thread only if it is worth it, also reads as `true`; writing `true`
    /// asks for a thread as soon as there is memory to give back.
    ///
    /// ```
    /// use masu::ctl::background_thread;
    /// assert_eq!(background_thread::update(false), Ok(true));
    /// assert_eq!(background_thread::read(), Ok(false));
    /// ```
    background_thread, background_thread_mib: "background_thread" => bool {
        read: || { started(); control::background_thread() != BackgroundThread::Off },
        write: |on: bool| {
            started();
            control::set_background_thread(match on {
                true => BackgroundThread::On,
                false => BackgroundThread::Off,
            });
            Ok(())
        },
    }

    /// `max_background_threads`: at most one exists, so this reads 1. Larger values are accepted;
    /// to have no such thread, set [`background_thread`] to `false`.
    ///
    /// ```
    /// use masu::ctl::{Error, max_background_threads};
    /// assert_eq!(max_background_threads::update(4), Ok(1));
    /// assert_eq!(max_background_threads::write(0), Err(Error::Invalid));
    /// ```
    max_background_threads, max_background_threads_mib: "max_background_threads" => usize {
        read: || 1,
        write: |n: usize| if n == 0 { Err(Error::Invalid) } else { Ok(()) },
    }

    /// `decay`: how long freed memory stays with the process, in milliseconds, at most a year;
    /// `None` means for ever. Setting it to 0 also gives back at once all memory that is
    /// free now.
    ///
    /// ```
    /// use masu::ctl::{Error, decay};
    /// assert_eq!(decay::update(Some(2_000)), Ok(Some(500)));
    /// assert_eq!(decay::write(Some(u64::MAX)), Err(Error::Invalid));
    /// decay::write(None)?;
    /// assert_eq!(decay::read(), Ok(None));
    /// # Ok::<(), Error>(())
    /// ```
    decay, decay_mib: "decay" => Option<u64> {
        read: || {
            started();
            match control::decay() {
                Delay::Millis(ms) => Some(ms),
                Delay::Never => None,
            }
        },
        write: |ms: Option<u64>| {
            started();
            match ms {
                Some(ms) if ms > crate::config::DECAY_MAX_MS => return Err(Error::Invalid),
                Some(ms) => control::set_decay(Delay::Millis(ms)),
                None => control::set_decay(Delay::Never),
            }
            Ok(())
        },
    }

    /// `budget`: bytes of freed memory past its decay time above which the background thread may be
    /// started.
    ///
    /// ```
    /// # use masu::ctl::budget;
    /// assert_eq!(budget::update(16 << 20), Ok(4 << 20));
    /// ```
    budget, budget_mib: "budget" => usize {
        read: || { started(); control::budget() },
        write: |bytes| size(bytes, control::set_budget),
    }

    /// `run_cache`: maximum bytes of medium blocks, each up to an eighth of it, that a thread keeps for its next
    /// requests. A thread that already keeps more gives the excess back as it runs.
    ///
    /// ```
    /// # use masu::ctl::run_cache;
    /// assert_eq!(run_cache::update(2 << 20), Ok(1 << 20));
    /// ```
    run_cache, run_cache_mib: "run_cache" => usize {
        read: || { started(); control::run_cache() },
        write: |bytes| size(bytes, control::set_run_cache),
    }

    /// `huge_cache`: maximum bytes of freed huge blocks that are kept until they decay.
    ///
    /// ```
    /// # use masu::ctl::huge_cache;
    /// assert_eq!(huge_cache::update(64 << 20), Ok(1 << 30));
    /// ```
    huge_cache, huge_cache_mib: "huge_cache" => usize {
        read: || { started(); control::huge_cache() },
        write: |bytes| size(bytes, control::set_huge_cache),
    }

    /// `retain_full`: maximum number of full spans of 64 KiB that a thread keeps for itself once
    /// other threads also allocate.
    ///
    /// ```
    /// # use masu::ctl::retain_full;
    /// assert_eq!(retain_full::update(8), Ok(32));
    /// ```
    retain_full, retain_full_mib: "retain_full" => u32 {
        read: || { started(); control::retain_full() },
        write: |count| { started(); control::set_retain_full(count); Ok(()) },
    }
}

/// Applies the environment's values before any option is read, so that they never override an
/// option that the program has set.
fn started() {
    crate::global::ensure_started();
}

fn size(bytes: usize, set: fn(usize)) -> Result<()> {
    started();
    if bytes > crate::config::SIZE_MAX {
        return Err(Error::Invalid);
    }
    set(bytes);
    Ok(())
}
