//! The kinds of value a key can have: how each is read, shown, and described to a user who got it wrong.
//!
//! Numbers are decimal, may have a fraction (`1.5GiB`), and carry their unit. Sizes are binary:
//! `k`, `KB` and `KiB` all mean 1024 bytes. A bare number is bytes, or milliseconds.
//!
//! Every value fits a word, and one function reads all kinds and one shows them: a function for each would take
//! four times the space in the library, for code that runs once.
//!
//! Invariants:
//! 1. a [`File`]'s `start` is null, or points to `length` bytes that do not change as long as the value is used.
//!    [`File::new`] takes them for ever; `File::read` only takes what the caller of
//!    [`Config::under_environment`](super::Config::under_environment) vouches for.

use super::number::Number;
use super::policy::Policy;
use super::words::{nth, position};
use crate::text::{self, Text};

/// Tells the kinds apart at run time.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Tag {
    /// [`Size`]
    Size,
    /// [`Limit`]
    Limit,
    /// [`LimitOrAuto`]
    LimitOrAuto,
    /// [`Count`]
    Count,
    /// [`OneIn`]
    OneIn,
    /// [`Flag`]
    Flag,
    /// [`Delay`]
    Delay,
    /// [`BackgroundThread`]
    BackgroundThread,
    /// [`MemoryTags`]
    MemoryTags,
    /// [`OnError`]
    OnError,
    /// [`Policy`]
    Policy,
    /// [`Statistics`]
    Statistics,
    /// [`File`]
    File,
    /// [`NoFile`]
    NoFile,
}

/// A kind of value.
pub trait Kind {
    /// The type a value is stored in.
    type Value: Copy;
    /// Which kind it is.
    const TAG: Tag;
    /// The value that a word stands for.
    fn from_word(word: u64) -> Self::Value;
    /// The word for a value.
    fn word(value: Self::Value) -> u64;

    /// Reads what a user wrote; `None` if it does not have this kind's form.
    #[cfg(test)]
    fn parse(written: &[u8]) -> Option<Self::Value> {
        parse(Self::TAG, written).map(Self::from_word)
    }
}

/// Kinds whose values are words of a list: the variants of an enum without fields. Any other word stands for the
/// last one.
macro_rules! words {
    ($($of:ident: $($variant:ident)*, $other:ident;)*) => {$(
        impl Kind for $of {
            type Value = $of;
            const TAG: Tag = Tag::$of;
            fn from_word(word: u64) -> $of {
                $(if word == $of::$variant as u64 {
                    return $of::$variant;
                })*
                $of::$other
            }
            fn word(value: $of) -> u64 {
                value as u64
            }
        }
    )*};
}
words! {
    BackgroundThread: Auto On, Off;
    MemoryTags: Auto On, Off;
    OnError: Abort Report, Ignore;
    Policy: LowMemory Throughput Container Realtime Hardened Debug, Default;
    Statistics: Off Text, Json;
}

/// The accepted form, to complete "… is not".
pub fn form(tag: Tag) -> &'static str {
    match tag {
        Tag::Size => "a size like 512KiB, 4MiB or 1GiB",
        Tag::Limit => "a size like 512MiB or off",
        Tag::LimitOrAuto => "auto, a size like 512MiB or off",
        Tag::Count => "a whole number like 32",
        Tag::OneIn => "a share like 1/5000, or off",
        Tag::Flag => "1 or 0 (or true, false, yes, no, on, off)",
        Tag::Delay => "a time like 500ms, 2s or never",
        Tag::BackgroundThread | Tag::MemoryTags => "auto, on or off",
        Tag::OnError => "abort, report or ignore",
        Tag::Policy => "default, low-memory, throughput, container, realtime, hardened or debug",
        Tag::Statistics => "1 or 0 (or text, json)",
        Tag::File => "a path like /tmp/stats.%p, or stderr",
        Tag::NoFile => "a path like /tmp/profile.%p, or none",
    }
}

/// The words for no, in the first half, and for yes.
const FLAGS: &str = "0 false no off 1 true yes on";
/// [`OnError`], in the order of its values.
const ON_ERROR: &str = "abort report ignore";
const UNITS_OF_SIZE: &str = " b k kb kib m mb mib g gb gib t tb tib";
const UNITS_OF_TIME: &str = " ms s m min h";

/// The word for what a user wrote; `None` if it does not have the kind's form.
pub fn parse(tag: Tag, written: &[u8]) -> Option<u64> {
    let flag = || position(FLAGS, written).map(|i| u64::from(i >= 4));
    match tag {
        Tag::Flag => flag(),
        Tag::BackgroundThread | Tag::MemoryTags if position("auto", written).is_some() => {
            Some(BackgroundThread::Auto as u64)
        }
        Tag::BackgroundThread | Tag::MemoryTags => {
            flag().map(|on| BackgroundThread::Off as u64 - on)
        }
        Tag::OnError => position(ON_ERROR, written).map(|i| i as u64),
        Tag::Policy => Policy::read(written),
        Tag::Statistics => match position("text json", written) {
            Some(form) => Some(form as u64 + 1),
            None => flag(),
        },
        Tag::NoFile if position("none", written).is_some() => Some(0),
        Tag::File | Tag::NoFile => File::read(written).map(<File as Kind>::word),
        Tag::Delay if position("never -1", written).is_some() => Some(u64::MAX),
        Tag::LimitOrAuto if position("auto", written).is_some() => Some(u64::MAX),
        Tag::Limit | Tag::LimitOrAuto if position("off", written).is_some() => Some(0),
        Tag::OneIn if position("off 0", written).is_some() => Some(0),
        Tag::OneIn => parse(Tag::Count, written.strip_prefix(b"1/")?).filter(|&many| many != 0),
        Tag::Count => match Number::split(written)? {
            (number, b"") if number.digits == 0 => u32::try_from(number.whole).ok().map(u64::from),
            _ => None,
        },
        Tag::Delay => {
            let (number, unit) = Number::split(written)?;
            let millis = [1, 1, 1000, 60_000, 60_000, 3_600_000];
            number.times(*millis.get(position(UNITS_OF_TIME, unit)?)?)
        }
        Tag::Size | Tag::Limit | Tag::LimitOrAuto => {
            let (number, unit) = Number::split(written)?;
            // One byte, then three names for each power of 1024.
            number.times(1 << ((position(UNITS_OF_SIZE, unit)? + 1) / 3 * 10))
        }
    }
}

/// Writes a value in a form that [`parse`] reads back.
pub fn show(tag: Tag, word: u64, text: &mut Text) {
    let list = match tag {
        Tag::Flag => "off on",
        Tag::BackgroundThread | Tag::MemoryTags => "auto on off",
        Tag::OnError => ON_ERROR,
        Tag::Policy => Policy::NAMES,
        Tag::Statistics => "off text json",
        Tag::File | Tag::NoFile => {
            match File::from_word(word).path() {
                [] if tag == Tag::NoFile => text.str("none"),
                [] => text.str("stderr"),
                path => text.printable(path),
            };
            return;
        }
        Tag::Delay if word == u64::MAX => {
            text.str("never");
            return;
        }
        Tag::Delay => {
            let seconds = word != 0 && word.is_multiple_of(1000);
            let (number, unit) = if seconds { (word / 1000, "s") } else { (word, "ms") };
            text.decimal(number).str(unit);
            return;
        }
        Tag::OneIn if word != 0 => {
            text.str("1/").decimal(word);
            return;
        }
        Tag::OneIn => "off",
        Tag::Limit | Tag::LimitOrAuto if word == 0 => "off",
        Tag::LimitOrAuto if word == u64::MAX => {
            text.str("auto");
            return;
        }
        Tag::Size | Tag::Limit | Tag::LimitOrAuto => {
            text.bytes(text::exact_bytes(word).as_bytes());
            return;
        }
        Tag::Count => {
            text.decimal(word);
            return;
        }
    };
    text.bytes(nth(list, word as usize));
}

/// Makes a type the kind of an option in bytes; its tag has its name.
macro_rules! bytes {
    ($kind:ident) => {
        impl Kind for $kind {
            type Value = usize;
            const TAG: Tag = Tag::$kind;
            fn from_word(word: u64) -> usize {
                word as usize
            }
            fn word(value: usize) -> u64 {
                value as u64
            }
        }
    };
}

/// Bytes.
pub struct Size;

bytes!(Size);

/// Most bytes; 0 for no limit.
pub struct Limit;

bytes!(Limit);

/// Most bytes; 0 for no limit, [`AUTO`](LimitOrAuto::AUTO) for what the system allows.
pub struct LimitOrAuto;

impl LimitOrAuto {
    /// What the system allows.
    pub const AUTO: usize = usize::MAX;
}

bytes!(LimitOrAuto);

/// One in this many; 0 for none.
pub struct OneIn;

bytes!(OneIn);

/// A plain number.
pub struct Count;

impl Kind for Count {
    type Value = u32;
    const TAG: Tag = Tag::Count;
    fn from_word(word: u64) -> u32 {
        word as u32
    }
    fn word(value: u32) -> u64 {
        value.into()
    }
}

/// Yes or no.
pub struct Flag;

impl Kind for Flag {
    type Value = bool;
    const TAG: Tag = Tag::Flag;
    fn from_word(word: u64) -> bool {
        word != 0
    }
    fn word(value: bool) -> u64 {
        value.into()
    }
}

/// A length of time, or for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// This many milliseconds; 0 is at once.
    Millis(u64),
    /// For ever.
    Never,
}

impl Delay {
    /// The milliseconds; all bits set for ever.
    pub const fn to_word(self) -> u64 {
        match self {
            Delay::Millis(n) => n,
            Delay::Never => u64::MAX,
        }
    }
}

impl Kind for Delay {
    type Value = Delay;
    const TAG: Tag = Tag::Delay;
    fn from_word(word: u64) -> Delay {
        if word == u64::MAX { Delay::Never } else { Delay::Millis(word) }
    }
    fn word(value: Delay) -> u64 {
        value.to_word()
    }
}

/// What gives memory back while the program is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackgroundThread {
    /// A thread once there is enough to give back and the program is already multi-threaded.
    Auto,
    /// A thread as soon as there is something to give back.
    On,
    /// Only the program's own calls.
    Off,
}

/// Whether small blocks of a hardened heap have memory tags. Its words are those of [`BackgroundThread`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryTags {
    /// If the processor supports them, and is not an emulated one.
    Auto,
    /// If the processor supports them.
    On,
    /// Never.
    Off,
}

const _: () = assert!(MemoryTags::Off as u64 == BackgroundThread::Off as u64);

/// What happens when a pointer is found not to be a live block's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnError {
    /// A line is written, and the process ends by `SIGABRT`.
    Abort,
    /// A line is written, and the pointer is left alone.
    Report,
    /// The pointer is left alone.
    Ignore,
}

/// Whether statistics are written at exit, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistics {
    /// They are not.
    Off,
    /// A line for each figure.
    Text,
    /// One line of JSON.
    Json,
}

/// The path of a file, or standard error. The path stays where the user wrote it, because its reader has no
/// memory of its own to keep it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    start: *const u8,
    length: usize,
}

// SAFETY: invariant 1: the bytes that it points to are only read, and do not change.
unsafe impl Sync for File {}
// SAFETY: invariant 1, as for `Sync`.
unsafe impl Send for File {}

impl File {
    /// Standard error.
    pub const STDERR: File = File { start: core::ptr::null(), length: 0 };
    /// The longest path, in bytes: the kernel's limit, less the end and a number put in.
    pub const LONGEST: usize = 4000;
    /// Bits of an address in a word; the length has the rest. User space ends below.
    const ADDRESS_BITS: u32 = 48;

    /// The file at `path`.
    pub const fn new(path: &'static str) -> File {
        File { start: path.as_ptr(), length: path.len() }
    }

    /// The path that a user wrote; `None` if it is no path. O(1).
    fn read(written: &[u8]) -> Option<File> {
        if position("stderr", written).is_some() {
            return Some(File::STDERR);
        }
        let fits =
            written.len() <= File::LONGEST && (written.as_ptr() as u64) >> Self::ADDRESS_BITS == 0;
        let fits = fits && !matches!(written, [] | [.., b'/']);
        fits.then_some(File { start: written.as_ptr(), length: written.len() })
    }

    /// The path; empty for standard error.
    pub fn path(&self) -> &[u8] {
        if self.start.is_null() {
            return &[];
        }
        // SAFETY: invariant 1.
        unsafe { core::slice::from_raw_parts(self.start, self.length) }
    }
}

impl Kind for File {
    type Value = File;
    const TAG: Tag = Tag::File;
    fn from_word(word: u64) -> File {
        let start = (word & ((1 << File::ADDRESS_BITS) - 1)) as usize;
        let start = core::ptr::with_exposed_provenance(start);
        File { start, length: (word >> File::ADDRESS_BITS) as usize }
    }
    fn word(value: File) -> u64 {
        value.start.expose_provenance() as u64 | (value.length as u64) << File::ADDRESS_BITS
    }
}

/// The path of a file, or none, which is [`File::STDERR`].
pub struct NoFile;

impl Kind for NoFile {
    type Value = File;
    const TAG: Tag = Tag::NoFile;
    fn from_word(word: u64) -> File {
        <File as Kind>::from_word(word)
    }
    fn word(value: File) -> u64 {
        <File as Kind>::word(value)
    }
}
