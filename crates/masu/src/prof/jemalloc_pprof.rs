//! The names of the crate `jemalloc_pprof`, so that a program that serves jemalloc's profiles is ported by changing its
//! import:
//!
//! ```
//! # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
//! use masu::prof::jemalloc_pprof;
//!
//! async fn heap() -> Result<Vec<u8>, String> {
//!     let mut prof_ctl = jemalloc_pprof::PROF_CTL.as_ref().unwrap().lock().await;
//!     if !prof_ctl.activated() {
//!         return Err("heap profiling not activated".into());
//!     }
//!     prof_ctl.dump_pprof().map_err(|error| error.to_string())
//! }
//! # fn main() {}
//! ```
//!
//! No option has to be set when the program starts: [`JemallocProfCtl::activate`] always works. There is nothing to
//! lock either, so [`Shared::lock`] never waits.

use super::{DEFAULT_RATE, Error};
use crate::global;
use core::future::{Ready, ready};
use masu_core::profile as engine;
use std::fs::{self, File};
use std::io::{ErrorKind, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;
use std::vec::Vec;
use std::{env, format};

/// When sampling began.
///
/// ```
/// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
/// # fn main() -> Result<(), masu::prof::Error> {
/// use masu::prof::jemalloc_pprof::PROF_CTL;
///
/// let mut profile = PROF_CTL.as_ref().unwrap().blocking_lock();
/// profile.activate()?;
/// match profile.get_md().start_time {
///     Some(masu::prof::jemalloc_pprof::ProfStartTime::Instant(moment)) => println!("for {:?}", moment.elapsed()),
///     Some(_) => println!("since the program's start"),
///     None => println!("none is taken"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Copy, Clone, Debug)]
pub enum ProfStartTime {
    /// At that moment.
    Instant(Instant),
    /// Before the program's first `activate`.
    TimeImmemorial,
}

/// The profile's state.
///
/// ```
/// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
/// # fn main() -> Result<(), masu::prof::Error> {
/// use masu::prof::jemalloc_pprof::PROF_CTL;
///
/// let mut profile = PROF_CTL.as_ref().unwrap().blocking_lock();
/// assert!(profile.get_md().start_time.is_none());
/// profile.activate()?;
/// assert!(profile.get_md().start_time.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Copy, Clone, Debug)]
pub struct JemallocProfMetadata {
    /// When it began, if a profile is being taken.
    pub start_time: Option<ProfStartTime>,
}

/// When [`JemallocProfCtl::activate`] was called.
static STARTED: Mutex<Option<Instant>> = Mutex::new(None);

/// The process's profile; it always exists.
pub static PROF_CTL: Option<Shared> = Some(Shared(()));

/// Takes the place of a mutex.
///
/// ```
/// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
/// # fn main() -> Result<(), masu::prof::Error> {
/// use masu::prof::jemalloc_pprof::PROF_CTL;
///
/// let mut profile = PROF_CTL.as_ref().unwrap().blocking_lock();
/// profile.activate()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Shared(());

impl Shared {
    /// Returns the profile.
    ///
    /// ```
    /// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
    /// # fn main() -> Result<(), masu::prof::Error> {
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// use masu::prof::jemalloc_pprof::PROF_CTL;
    ///
    /// let profile = PROF_CTL.as_ref().unwrap().lock().await;
    /// assert!(!profile.activated());
    /// # });
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock(&self) -> Ready<JemallocProfCtl> {
        ready(self.blocking_lock())
    }

    /// Like `lock`, outside a runtime.
    ///
    /// ```
    /// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
    /// # fn main() -> Result<(), masu::prof::Error> {
    /// use masu::prof::jemalloc_pprof::PROF_CTL;
    ///
    /// let mut profile = PROF_CTL.as_ref().unwrap().blocking_lock();
    /// assert!(!profile.activated());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn blocking_lock(&self) -> JemallocProfCtl {
        JemallocProfCtl(())
    }
}

/// The profile, to control it.
///
/// ```
/// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
/// # fn main() -> Result<(), masu::prof::Error> {
/// use masu::prof::jemalloc_pprof::PROF_CTL;
///
/// let mut profile = PROF_CTL.as_ref().unwrap().blocking_lock();
/// profile.activate()?;
/// profile.deactivate()?;
/// assert!(!profile.activated());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct JemallocProfCtl(());

impl JemallocProfCtl {
    /// Returns the binary logarithm of the bytes between two samples.
    ///
    /// ```
    /// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
    /// # fn main() -> Result<(), masu::prof::Error> {
    /// use masu::prof::jemalloc_pprof::PROF_CTL;
    ///
    /// let mut profile = PROF_CTL.as_ref().unwrap().blocking_lock();
    /// assert_eq!(profile.lg_sample(), 19);
    /// # let _ = &mut profile;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn lg_sample(&self) -> usize {
        rate().ilog2() as usize
    }

    /// Returns when it began.
    ///
    /// ```
    /// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
    /// # fn main() -> Result<(), masu::prof::Error> {
    /// use masu::prof::jemalloc_pprof::PROF_CTL;
    ///
    /// let mut profile = PROF_CTL.as_ref().unwrap().blocking_lock();
    /// profile.activate()?;
    /// assert!(profile.get_md().start_time.is_some());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn get_md(&self) -> JemallocProfMetadata {
        let started = STARTED.lock().map_or(None, |started| *started);
        let time = started.map_or(ProfStartTime::TimeImmemorial, ProfStartTime::Instant);
        JemallocProfMetadata { start_time: self.activated().then_some(time) }
    }

    /// Whether a profile is being taken.
    ///
    /// ```
    /// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
    /// # fn main() -> Result<(), masu::prof::Error> {
    /// use masu::prof::jemalloc_pprof::PROF_CTL;
    ///
    /// let mut profile = PROF_CTL.as_ref().unwrap().blocking_lock();
    /// assert!(!profile.activated());
    /// profile.activate()?;
    /// assert!(profile.activated());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn activated(&self) -> bool {
        super::is_on()
    }

    /// Starts the profile, unless it is running already.
    ///
    /// ```
    /// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
    /// # fn main() -> Result<(), masu::prof::Error> {
    /// use masu::prof::jemalloc_pprof::PROF_CTL;
    ///
    /// let mut profile = PROF_CTL.as_ref().unwrap().blocking_lock();
    /// profile.activate()?;
    /// assert!(profile.activated());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NoMemory`] if there is no memory for it.
    pub fn activate(&mut self) -> Result<(), Error> {
        if self.activated() {
            return Ok(());
        }
        super::start(rate())?;
        if let Ok(mut started) = STARTED.lock() {
            *started = Some(Instant::now());
        }
        Ok(())
    }

    /// Stops the profile and forgets its samples.
    ///
    /// ```
    /// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
    /// # fn main() -> Result<(), masu::prof::Error> {
    /// use masu::prof::jemalloc_pprof::PROF_CTL;
    ///
    /// let mut profile = PROF_CTL.as_ref().unwrap().blocking_lock();
    /// profile.activate()?;
    /// profile.deactivate()?;
    /// assert!(!profile.activated());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// None at present.
    pub fn deactivate(&mut self) -> Result<(), Error> {
        super::stop();
        super::reset();
        if let Ok(mut started) = STARTED.lock() {
            *started = None;
        }
        Ok(())
    }

    /// Returns the profile in jemalloc's format, in a file without a name.
    ///
    /// ```
    /// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
    /// # fn main() -> Result<(), masu::prof::Error> {
    /// use masu::prof::jemalloc_pprof::PROF_CTL;
    ///
    /// let mut profile = PROF_CTL.as_ref().unwrap().blocking_lock();
    /// profile.activate()?;
    /// let text = std::io::read_to_string(profile.dump()?)?;
    /// assert!(text.starts_with("heap_v2/"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotStarted`], [`Error::Busy`], [`Error::Io`].
    pub fn dump(&mut self) -> Result<File, Error> {
        static DUMPS: AtomicU32 = AtomicU32::new(0);
        let mut options = File::options();
        // Nobody else's, as long as it has a name.
        options.read(true).write(true).create_new(true).mode(0o600);
        let mut file = loop {
            let number = DUMPS.fetch_add(1, Ordering::Relaxed);
            let name = format!("masu-heap-{}-{number}", std::process::id());
            let path = env::temp_dir().join(name);
            match options.open(&path) {
                // Left by a process that had the same number and was killed, or somebody else's.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                opened => {
                    let file = opened?;
                    fs::remove_file(&path)?;
                    break file;
                }
            }
        };
        engine::dump_heap_v2(file.as_raw_fd().cast_unsigned())?;
        file.seek(SeekFrom::Start(0))?;
        Ok(file)
    }

    /// Returns the profile for pprof.
    ///
    /// ```
    /// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
    /// # fn main() -> Result<(), masu::prof::Error> {
    /// use masu::prof::jemalloc_pprof::PROF_CTL;
    ///
    /// let mut profile = PROF_CTL.as_ref().unwrap().blocking_lock();
    /// profile.activate()?;
    /// let body = profile.dump_pprof()?;
    /// assert_eq!(body[..2], [0x1f, 0x8b], "gzip");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`super::snapshot`].
    pub fn dump_pprof(&mut self) -> Result<Vec<u8>, Error> {
        super::pprof()
    }

    /// Returns the profile as a flame graph.
    ///
    /// ```
    /// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
    /// # fn main() -> Result<(), masu::prof::Error> {
    /// use masu::prof::jemalloc_pprof::PROF_CTL;
    ///
    /// let mut profile = PROF_CTL.as_ref().unwrap().blocking_lock();
    /// masu::prof::start(1)?;
    /// let kept = vec![0u8; 1 << 20];
    /// assert!(String::from_utf8_lossy(&profile.dump_flamegraph()?).contains("<svg"));
    /// # drop(kept);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`super::snapshot`], and [`Error::Empty`].
    #[cfg(feature = "flamegraph")]
    pub fn dump_flamegraph(&mut self) -> Result<Vec<u8>, Error> {
        super::snapshot()?.flamegraph()
    }
}

/// Returns the rate last set by the program, or by the environment.
fn rate() -> usize {
    global::ensure_started();
    match super::rate() {
        0 => DEFAULT_RATE,
        rate => rate,
    }
}

/// Starts the profile.
pub async fn activate_jemalloc_profiling() {
    // If memory is out there is no profile, as with jemalloc.
    let _ = JemallocProfCtl(()).activate();
}

/// Stops the profile and forgets its samples.
pub async fn deactivate_jemalloc_profiling() {
    let _ = JemallocProfCtl(()).deactivate();
}
