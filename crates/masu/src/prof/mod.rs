//! The heap profile: which parts of the program allocated the memory in use.
//!
//! At the default rate, masu samples one block for every 512 KiB allocated, on average. It keeps the block's stack, and
//! the block stands for the others. A thread that allocates very heavily all the time is sampled less often: see
//! [`start`]. The fast paths of allocation are the same instructions whether or not a profile is taken.
//!
//! ```
//! # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
//! # fn main() -> Result<(), masu::prof::Error> {
//! masu::prof::start(64 << 10)?;
//! let kept: Vec<String> = (0..10_000).map(|n| format!("number {n}")).collect();
//! let profile = masu::prof::snapshot()?;
//! println!("about {} bytes are in use", profile.live_bytes());
//! std::fs::write("/tmp/heap.pb.gz", profile.pprof()?)?;
//! masu::prof::stop();
//! # std::fs::remove_file("/tmp/heap.pb.gz")?;
//! # drop(kept);
//! # Ok(())
//! # }
//! ```
//!
//! `go tool pprof`, speedscope and Perfetto read the bytes of [`Snapshot::pprof`], and collectors such as Parca,
//! Polar Signals and Alloy those of [`pprof()`]. Both hold addresses, mappings and build IDs, from which readers find
//! names; with the feature `flamegraph` they already hold the names.
//!
//! `MASU_PROF=1` takes a profile from program start, and `MASU_PROF_FILE=/tmp/heap.%p` writes it at
//! exit, for `masu prof FILE`; `masu prof -p PID` takes one from outside.
//!
//! A program that uses the crate `jemalloc_pprof` only changes its import, to [`jemalloc_pprof`].

pub mod jemalloc_pprof;

use crate::global;
use core::fmt;
use masu_core::profile::{self as engine, Refused};
use masu_profile::{Profile, Symbols, View, pprof};
use std::string::String;
use std::vec::Vec;
use std::{fs, io};

/// The default rate: 512 KiB between two samples, on average.
pub const DEFAULT_RATE: usize = engine::DEFAULT_RATE;

/// Why a profile is unavailable.
///
/// ```
/// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
/// # fn main() {
/// let early = masu::prof::snapshot();
/// assert!(matches!(early, Err(masu::prof::Error::NotStarted)));
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// There is no memory for the profile's tables, at most 2 MiB for a heap of 1 GiB.
    NoMemory,
    /// No profile was started.
    NotStarted,
    /// Another thread is forking: a retry a moment later works.
    Busy,
    /// The mappings cannot be read, or a file cannot be written.
    Io(io::Error),
    /// Nothing was sampled, so there is nothing to draw.
    Empty,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoMemory => f.write_str("there is no memory for a profile"),
            Error::NotStarted => {
                f.write_str("no profile was started: masu::prof::start does, or MASU_PROF=1")
            }
            Error::Busy => f.write_str("another thread is forking"),
            Error::Io(error) => error.fmt(f),
            Error::Empty => f.write_str("nothing was sampled: a smaller rate takes more samples"),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Error::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::Io(error)
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NoMemory => Error::NoMemory,
            Refused::NotStarted => Error::NotStarted,
            Refused::Busy => Error::Busy,
        }
    }
}

/// Starts sampling, on average every `rate` bytes, or changes the rate. Existing samples stay.
///
/// A smaller rate takes more samples: the figures are more accurate and cost more. A rate of 64 KiB or more is a
/// minimum: a thread that takes more than a sample in a millisecond, averaged over a second, is sampled less often, and
/// so are all threads together if they take more than that for each processor. The figures stay unbiased. Smaller rates
/// are used as given. A rate of 1 samples every block; 0 counts as 1. Other threads first use up the small blocks that
/// they already keep for their next requests.
///
/// ```
/// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
/// # fn main() -> Result<(), masu::prof::Error> {
/// masu::prof::start(masu::prof::DEFAULT_RATE)?;
/// assert!(masu::prof::is_on());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::NoMemory`] if there is no memory for it.
pub fn start(rate: usize) -> Result<(), Error> {
    global::ensure_started();
    engine::start(rate)?;
    // Blocks that wait in the thread's bins would be handed out without a look.
    masu_core::control::flush_thread();
    Ok(())
}

/// Stops sampling. Sampled blocks in use are still followed until they are freed. Does nothing while every block is
/// recorded (`policy:debug`).
///
/// ```
/// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
/// # fn main() -> Result<(), masu::prof::Error> {
/// masu::prof::start(masu::prof::DEFAULT_RATE)?;
/// masu::prof::stop();
/// assert!(!masu::prof::is_on());
/// assert!(masu::prof::snapshot().is_ok());
/// # Ok(())
/// # }
/// ```
pub fn stop() {
    engine::stop();
}

/// Whether a profile is being taken.
///
/// ```
/// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
/// # fn main() {
/// assert!(!masu::prof::is_on());
/// # }
/// ```
#[must_use]
pub fn is_on() -> bool {
    engine::rate() != 0
}

/// Returns the average bytes between two samples, as last set; 0 before the first start.
///
/// ```
/// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
/// # fn main() -> Result<(), masu::prof::Error> {
/// assert_eq!(masu::prof::rate(), 0);
/// masu::prof::start(64 << 10)?;
/// assert_eq!(masu::prof::rate(), 64 << 10);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn rate() -> usize {
    engine::last_rate()
}

/// Forgets all samples. Does nothing while every block is recorded (`policy:debug`).
///
/// ```
/// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
/// # fn main() -> Result<(), masu::prof::Error> {
/// masu::prof::start(1)?;
/// let kept = vec![0u8; 1000];
/// masu::prof::stop();
/// assert!(masu::prof::live_bytes() >= 1000);
/// masu::prof::reset();
/// assert_eq!(masu::prof::live_bytes(), 0);
/// # drop(kept);
/// # Ok(())
/// # }
/// ```
pub fn reset() {
    engine::reset();
}

/// Returns the bytes now in use, estimated from the samples; 0 before the first start. O(1).
///
/// ```
/// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
/// # fn main() -> Result<(), masu::prof::Error> {
/// masu::prof::start(1)?;
/// let kept = vec![0u8; 1 << 20];
/// assert!(masu::prof::live_bytes() >= 1 << 20);
/// # drop(kept);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn live_bytes() -> u64 {
    engine::totals().live
}

/// A profile at one moment.
///
/// ```
/// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
/// # fn main() -> Result<(), masu::prof::Error> {
/// masu::prof::start(masu::prof::DEFAULT_RATE)?;
/// let profile: masu::prof::Snapshot = masu::prof::snapshot()?;
/// println!("{} bytes were in use when most were", profile.peak_bytes());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Snapshot(Profile);

/// Returns the profile as it is now. Stops no thread, and takes time in proportion to the number of sampled stacks.
///
/// ```
/// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
/// # fn main() -> Result<(), masu::prof::Error> {
/// masu::prof::start(64 << 10)?;
/// let profile = masu::prof::snapshot()?;
/// println!("about {} bytes are in use", profile.live_bytes());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::NotStarted`], [`Error::Busy`], [`Error::Io`] if `/proc` is not mounted.
pub fn snapshot() -> Result<Snapshot, Error> {
    let taken = engine::Snapshot::take()?;
    let amount = |amount: engine::Amount| masu_profile::Amount {
        objects: amount.objects as f64 / 65536.0,
        bytes: amount.bytes as f64,
    };
    let place = |place: engine::Place<'_>| masu_profile::Place {
        size: place.size,
        samples: place.samples,
        squares: place.squares,
        allocated: amount(place.allocated),
        live: amount(place.live),
        peak: amount(place.peak),
        lived: place.lived as f64,
        frames: place.frames.iter().map(|&frame| frame as u64).collect(),
        ..masu_profile::Place::default()
    };
    let mut profile = Profile {
        rate: taken.rate as u64,
        pid: std::process::id(),
        milliseconds: taken.milliseconds,
        dropped: taken.dropped,
        places: taken.places().map(place).collect(),
        ..Profile::default()
    };
    drop(taken);
    profile.fit_peak(engine::totals().peak);
    // The name of a mapped file may have any bytes.
    // Not by `self`, where nothing is once the first thread has ended.
    profile.set_mappings(&String::from_utf8_lossy(&fs::read("/proc/thread-self/maps")?));
    // A newer program may have taken the place of this one.
    profile.find_deleted("self");
    Ok(Snapshot(profile))
}

/// Returns [`snapshot`] as a compressed protocol buffer in pprof's format, to be served at `/debug/pprof/heap`. As
/// collectors expect of a heap profile, it has the four sample types of Go's, the time of the snapshot, and no duration.
/// [`Snapshot::pprof`] has the peak as well, and says since when it was taken.
///
/// ```
/// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
/// # fn main() -> Result<(), masu::prof::Error> {
/// masu::prof::start(64 << 10)?;
/// let body: Vec<u8> = masu::prof::pprof()?;
/// assert_eq!(body[..2], [0x1f, 0x8b], "gzip");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As for [`snapshot`].
pub fn pprof() -> Result<Vec<u8>, Error> {
    let taken = snapshot()?;
    Ok(pprof::encode_for_collectors(&taken.0, &taken.symbols(), View::Live)?)
}

impl Snapshot {
    /// Returns the bytes in use.
    ///
    /// ```
    /// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
    /// # fn main() -> Result<(), masu::prof::Error> {
    /// masu::prof::start(1)?;
    /// let kept = vec![0u8; 1 << 20];
    /// let profile = masu::prof::snapshot()?;
    /// assert!(profile.live_bytes() >= 1 << 20);
    /// # drop(kept);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.0.places.iter().map(|place| place.live.bytes as u64).sum()
    }

    /// Returns the bytes in use at the peak: the largest estimate so far, but no more than all blocks in use could have
    /// at that moment. A profile of few samples may have missed the real peak.
    ///
    /// ```
    /// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
    /// # fn main() -> Result<(), masu::prof::Error> {
    /// masu::prof::start(1)?;
    /// let kept = vec![0u8; 1 << 20];
    /// let profile = masu::prof::snapshot()?;
    /// assert!(profile.peak_bytes() >= 1 << 20);
    /// # drop(kept);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.0.places.iter().map(|place| place.peak.bytes as u64).sum()
    }

    /// Returns the profile as a compressed protocol buffer in pprof's format. Sample types are `alloc_objects`,
    /// `alloc_space`, `inuse_objects`, `inuse_space` (the one shown first), `peak_objects` and `peak_space`.
    ///
    /// ```
    /// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
    /// # fn main() -> Result<(), masu::prof::Error> {
    /// masu::prof::start(1)?;
    /// let kept = vec![0u8; 1 << 20];
    /// let profile = masu::prof::snapshot()?;
    /// std::fs::write("/tmp/peak.pb.gz", profile.pprof()?)?;
    /// # std::fs::remove_file("/tmp/peak.pb.gz")?;
    /// # drop(kept);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`] if encoding fails.
    pub fn pprof(&self) -> Result<Vec<u8>, Error> {
        Ok(pprof::encode(&self.0, &self.symbols(), View::Live)?)
    }

    /// Returns the profile in masu's own format, for `masu prof FILE` on the same machine.
    ///
    /// ```
    /// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
    /// # fn main() -> Result<(), masu::prof::Error> {
    /// masu::prof::start(1)?;
    /// let kept = vec![0u8; 1 << 20];
    /// let profile = masu::prof::snapshot()?;
    /// std::fs::write("/tmp/heap.masu", profile.text())?;
    /// # std::fs::remove_file("/tmp/heap.masu")?;
    /// # drop(kept);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn text(&self) -> Vec<u8> {
        self.0.text().into_bytes()
    }

    /// Returns a flame graph of the memory in use, as SVG.
    ///
    /// ```
    /// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
    /// # fn main() -> Result<(), masu::prof::Error> {
    /// masu::prof::start(1)?;
    /// let kept = vec![0u8; 1 << 20];
    /// let profile = masu::prof::snapshot()?;
    /// let picture = profile.flamegraph()?;
    /// assert!(String::from_utf8_lossy(&picture).contains("<svg"));
    /// # drop(kept);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Empty`] if nothing was sampled.
    #[cfg(feature = "flamegraph")]
    pub fn flamegraph(&self) -> Result<Vec<u8>, Error> {
        let lines = masu_profile::stacks::folded(&self.0, &self.symbols(), View::Live);
        masu_profile::stacks::flame(&lines, View::Live, None).map_err(|_| Error::Empty)
    }

    #[cfg(feature = "flamegraph")]
    fn symbols(&self) -> Symbols {
        Symbols::of(&self.0)
    }

    #[cfg(not(feature = "flamegraph"))]
    fn symbols(&self) -> Symbols {
        Symbols::none()
    }
}
