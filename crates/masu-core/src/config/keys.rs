//! The table of keys.
//!
//! A row is: documentation, name, kind, default. It makes the field of [`Config`] and of [`Origins`], the name in the
//! environment, the parser and the line in the effective configuration.

use super::kinds::{
    self, BackgroundThread, Count, Delay, File, Flag, Kind, Limit, LimitOrAuto, MemoryTags, NoFile,
    OnError, OneIn, Size, Statistics, Tag,
};
use super::origin::Origin;
use super::policy::Policy;
use super::words::{nth, position};
use crate::text::Text;

/// The outcome of `key:value`.
pub(super) enum Outcome {
    /// The value is set.
    Set,
    /// No such key.
    UnknownKey,
    /// The value has the wrong form; this is the right one.
    BadValue(&'static str),
}

macro_rules! keys {
    ($($(#[doc = $doc:literal])+ $name:ident: $kind:ty = $default:expr;)+) => {
        /// The options of the engine with their values.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Config {
            $($(#[doc = $doc])+ pub $name: <$kind as Kind>::Value,)+
            /// Where each value came from.
            pub origins: Origins,
        }

        /// The origin of each value of a [`Config`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Origins {
            $(#[doc = concat!("Origin of `", stringify!($name), "`.")] pub $name: Origin,)+
        }

        /// A key, in the order of the table.
        #[derive(Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        #[allow(non_camel_case_types, reason = "the keys' own names")]
        pub(super) enum Key {
            $($name,)+
        }

        impl Key {
            const ALL: &[Key] = &[$(Key::$name),+];
            const TAGS: &[Tag] = &[$(<$kind as Kind>::TAG),+];
        }

        /// Every key's name, with a space behind each.
        pub(super) const NAMES: &str = concat!($(stringify!($name), " "),+);

        impl Config {
            /// The documented defaults.
            pub const DEFAULT: Config = Config {
                $($name: $default,)+
                origins: Origins { $($name: Origin::BuiltIn,)+ },
            };

            /// Sets a key to the value that a word stands for.
            pub(super) fn put(&mut self, key: Key, word: u64, origin: Origin) {
                match key {
                    $(Key::$name => {
                        self.$name = <$kind as Kind>::from_word(word);
                        self.origins.$name = origin;
                    })+
                }
            }

            /// A key's value as a word.
            fn word(&self, key: Key) -> u64 {
                match key {
                    $(Key::$name => <$kind as Kind>::word(self.$name),)+
                }
            }

            /// Where a key's value came from.
            pub(super) fn origin(&self, key: Key) -> Origin {
                match key {
                    $(Key::$name => self.origins.$name,)+
                }
            }
        }
    };
}

impl Config {
    /// Sets the key called `name`, as a user writes it, to what `value` says.
    pub(super) fn set(&mut self, name: &[u8], value: &[u8], origin: Origin) -> Outcome {
        // The list's last word is the empty one behind its last space.
        let at = position(NAMES, name).filter(|_| !name.is_empty());
        let row = at.and_then(|i| Some((*Key::ALL.get(i)?, *Key::TAGS.get(i)?)));
        let Some((key, tag)) = row else { return Outcome::UnknownKey };
        let Some(word) = kinds::parse(tag, value) else {
            return Outcome::BadValue(kinds::form(tag));
        };
        self.put(key, word, origin);
        Outcome::Set
    }

    /// Writes a line per key: name, value, origin.
    pub fn show(&self, text: &mut Text) {
        text.str("masu: effective configuration").line();
        for (i, (key, tag)) in Key::ALL.iter().zip(Key::TAGS).enumerate() {
            let name = nth(NAMES, i);
            text.str("masu:   ").bytes(name).tab(28);
            kinds::show(*tag, self.word(*key), text);
            text.tab(40);
            match self.origin(*key) {
                Origin::Variable => text.str("MASU_").upper(name),
                Origin::Command => text.str("masu's command line"),
                origin => text
                    .bytes(nth("built-in policy program MALLOC_CONF MASU_CONF", origin as usize)),
            };
            text.line();
        }
        text.flush();
    }
}

/// Most slots for guarded blocks: more are not made.
pub const MOST_GUARD_SLOTS: u32 = 1 << 20;

keys! {
    /// The values of all keys that nothing else sets; see `docs/configuration.md`.
    policy: Policy = Policy::Default;
    /// How long freed memory stays with the process before it goes back to the system. Zero returns it at once.
    decay: Delay = Delay::Millis(500);
    /// Bytes of stale memory above which masu may start a background thread to return it.
    budget: Size = 4 << 20;
    /// Whether a background thread returns memory while the program is idle.
    background_thread: BackgroundThread = BackgroundThread::Auto;
    /// Most bytes of medium blocks that a thread caches.
    run_cache: Size = 1 << 20;
    /// Most bytes of freed huge blocks that are kept until they decay.
    huge_cache: Size = 1 << 30;
    /// Most full spans that a heap keeps as its own once other threads allocate too; further ones go to the threads
    /// that free into them.
    retain_full: Count = 32;
    /// Whether huge pages of 2 MiB serve growing heaps, and blocks if the last ones were filled.
    huge_pages: Flag = true;
    /// Bytes in use from which on a growing heap has huge pages.
    huge_pages_from: Size = 32 << 20;
    /// Whether fresh memory is faulted in when it is taken from the system, not when it is first used.
    populate: Flag = false;
    /// Bytes in use above which the engine returns all free memory at once, and then calls the program's callback.
    /// `auto`: nine tenths of the memory limit of the process's control group, if it has one. Zero: no limit.
    limit_soft: LimitOrAuto = LimitOrAuto::AUTO;
    /// Bytes in use above which allocations fail. Zero: no limit.
    limit_hard: Limit = 0;
    /// Whether the limits and the pressure of the process's control group are read from the kernel's files.
    cgroup: Flag = true;
    /// Statistics at exit: as text or as a line of JSON.
    show_stats: Statistics = Statistics::Off;
    /// The file to append them to; `%p` in its name is the process ID. Naming a file asks for statistics.
    stats_file: File = File::STDERR;
    /// Whether a heap profile is taken from the start.
    prof: Flag = false;
    /// Bytes between two samples of the profile, on average.
    prof_rate: Size = 512 << 10;
    /// The file to write the profile to at exit; `%p` in its name is the process ID. Naming a file asks for a profile.
    prof_file: NoFile = File::STDERR;
    /// Whether the user's other processes may read this one if the kernel lets only its parents do so (Yama's
    /// `ptrace_scope` 1): for `masu explain` and similar tools.
    observe: Flag = false;
    /// Whether this configuration is printed on stderr at start.
    verbose: Flag = false;
    /// Whether a line on stderr reports each mistake found: bad options, and the mistakes of `on_error`.
    show_errors: Flag = true;
    /// What happens when the program frees, resizes or measures a pointer to no live block.
    on_error: OnError = OnError::Abort;
    /// Whether every block lies where mistakes do the least harm and are found soonest.
    hardened: Flag = false;
    /// Bytes of freed blocks that wait, for each size and arena, in random order before reuse.
    quarantine_random: Size = 16 << 10;
    /// Bytes of freed blocks that then wait in a queue.
    quarantine_queue: Size = 16 << 10;
    /// One slab in this many is inaccessible; 0 for none.
    guard_slabs: Count = 8;
    /// Whether small blocks of a hardened heap have memory tags, if the processor supports them (AArch64's MTE).
    hardened_tags: MemoryTags = MemoryTags::Auto;
    /// Whether every block of a hardened heap is recorded with the stacks of its allocation and its free, for reports.
    block_stacks: Flag = false;
    /// Whether blocks in use at exit are listed by the stacks of their allocations.
    show_leaks: Flag = false;
    /// One small block in this many lies between inaccessible pages; 0 for none.
    guard: OneIn = 0;
    /// Slots for guarded blocks. At most half hold live blocks; freed ones have slots too.
    guard_slots: Count = 256;
    /// Whether a fault near a guarded block is reported.
    guard_report: Flag = true;
    /// The file to append reports about guarded blocks to; `%p` in its name is the process ID.
    guard_file: NoFile = File::STDERR;
}
