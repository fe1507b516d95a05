//! A configuration that is compiled into the program.

use masu_core::config::{Config as Options, Delay, File, Origin, Statistics};

pub use masu_core::config::{BackgroundThread, MemoryTags, OnError, Policy};

/// A program's own settings, which the environment of a run overrides.
///
/// Every value is checked at compile time:
///
/// ```
/// use masu::{BackgroundThread, Config, Configured, Masu};
///
/// const CONFIG: Config = Config::new()
///     .decay_ms(2_000)
///     .budget(16 << 20)
///     .background_thread(BackgroundThread::Off);
///
/// #[global_allocator]
/// static GLOBAL: Configured = Masu::with_config(CONFIG);
/// ```
///
/// ```compile_fail,E0080
/// # use masu::{Config, Configured, Masu};
/// // Larger than the address space.
/// static GLOBAL: Configured = Masu::with_config(Config::new().huge_cache(1 << 60));
/// ```
///
/// Sizes are in bytes. Settings that the program leaves out keep the engine's documented defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config(Options);

/// The largest accepted size: the user half of a 48-bit address space, 128 TiB; on smaller machines, `usize::MAX`.
pub(crate) const SIZE_MAX: usize =
    if usize::BITS == 64 { (1u64 << 47) as usize } else { usize::MAX };
/// The longest decay time: a year of 365 days.
pub(crate) const DECAY_MAX_MS: u64 = 365 * 24 * 3600 * 1000;

/// Defines setters: documentation, name and type of the argument, key, check, message, value, and
/// an argument for the example.
macro_rules! setters {
    ($($(#[doc = $doc:literal])+ $name:ident($argument:ident: $type:ty), $key:ident, $valid:expr,
       $message:literal, $value:expr, $example:literal;)+) => {
        impl Config {
            $($(#[doc = $doc])+
            ///
            /// ```
            #[doc = concat!("const CONFIG: masu::Config = masu::Config::new().", stringify!($name), "(", $example, ");")]
            /// # let _ = masu::Masu::with_config(CONFIG);
            /// ```
            #[must_use]
            pub const fn $name(mut self, $argument: $type) -> Self {
                assert!($valid, $message);
                self.0.$key = $value;
                self.0.origins.$key = Origin::Program;
                self
            })+
        }
    };
}

setters! {
    /// Sets the policy: the values of all keys that neither the program nor the environment sets.
    /// The default is [`Policy::Default`]; `docs/configuration.md` has the table.
    policy(policy: Policy), policy, true, "", policy, "masu::Policy::Default";
    /// Sets how long freed memory stays with the process before it goes back to the system, in
    /// milliseconds: from 0 (at once) to a year. The default is 500.
    ///
    /// # Panics
    /// If it is more than a year; see [`decay_never`](Config::decay_never).
    decay_ms(ms: u64), decay, ms <= DECAY_MAX_MS,
        "decay of more than a year: see Config::decay_never", Delay::Millis(ms), "2_000";
    /// Sets how many bytes of freed memory may be past the decay time before the background thread
    /// may start. The default is 4 MiB.
    ///
    /// # Panics
    /// If it is more than 128 TiB.
    budget(bytes: usize), budget, bytes <= SIZE_MAX, "budget of more than 128 TiB", bytes, "16 << 20";
    /// Sets whether a background thread gives memory back while the program is idle. The default is
    /// [`BackgroundThread::Auto`].
    background_thread(who: BackgroundThread), background_thread, true, "", who, "masu::BackgroundThread::Off";
    /// Sets the maximum bytes of medium blocks (16 KiB to 1 MiB) that a thread keeps for its next
    /// requests. The default is 1 MiB.
    ///
    /// # Panics
    /// If it is more than 128 TiB.
    run_cache(bytes: usize), run_cache, bytes <= SIZE_MAX, "run_cache of more than 128 TiB", bytes, "256 << 10";
    /// Sets the maximum bytes of freed huge blocks (above 1 MiB) that are kept until they decay.
    /// The default is 1 GiB.
    ///
    /// # Panics
    /// If it is more than 128 TiB.
    huge_cache(bytes: usize), huge_cache, bytes <= SIZE_MAX,
        "huge_cache of more than 128 TiB", bytes, "64 << 20";
    /// Sets the maximum number of full spans of 64 KiB that a thread keeps for itself once other
    /// threads also allocate. The default is 32.
    retain_full(count: u32), retain_full, true, "", count, "4";
    /// Sets whether growing heaps, and huge blocks if the program filled the previous ones, use huge pages of 2 MiB. On
    /// by default.
    huge_pages(may: bool), huge_pages, true, "", may, "false";
    /// Sets the bytes in use above which a growing heap gets huge pages. The default is 32 MiB.
    ///
    /// # Panics
    /// If it is more than 128 TiB.
    huge_pages_from(bytes: usize), huge_pages_from, bytes <= SIZE_MAX,
        "huge_pages_from of more than 128 TiB", bytes, "4 << 20";
    /// Sets whether fresh memory is faulted in when it is taken from the system rather than on
    /// first use. Off by default.
    populate(may: bool), populate, true, "", may, "true";
    /// Sets the soft limit: the bytes in use above which everything free goes back at once; 0 means never. The default
    /// is nine tenths of the control group's limit. See [`limit`](crate::limit).
    ///
    /// # Panics
    /// If it is more than 128 TiB.
    limit_soft(bytes: usize), limit_soft, bytes <= SIZE_MAX,
        "limit_soft of more than 128 TiB", bytes, "900 << 20";
    /// Sets the hard limit: the bytes in use that allocations cannot exceed; they fail instead. 0,
    /// the default, means no limit. See [`limit`](crate::limit).
    ///
    /// # Panics
    /// If it is more than 128 TiB.
    limit_hard(bytes: usize), limit_hard, bytes <= SIZE_MAX,
        "limit_hard of more than 128 TiB", bytes, "1 << 30";
    /// Sets whether the limits and the memory pressure of the process's control group are read from
    /// the kernel's files. On by default.
    cgroup(look: bool), cgroup, true, "", look, "false";
    /// Sets whether statistics are written at exit, to stderr or to [`stats_file`](Config::stats_file). Off by default.
    show_stats(show: bool), show_stats, true, "",
        if show { Statistics::Text } else { Statistics::Off }, "true";
    /// Sets the file to which statistics are appended at exit, and switches them on. `%p` in its name becomes the
    /// process ID.
    ///
    /// # Panics
    /// If the path is empty or longer than 4000 bytes.
    stats_file(path: &'static str), stats_file, !path.is_empty() && path.len() <= File::LONGEST,
        "a path has 1 to 4000 bytes", File::new(path), "\"/tmp/stats.%p\"";
    /// Sets whether the user's other processes, such as `masu explain`, may read this one even where the kernel allows
    /// only its parents to (Yama's `ptrace_scope` 1). Off by default.
    observe(may: bool), observe, true, "", may, "true";
    /// Sets whether the effective configuration is written to stderr at start. Off by default.
    verbose(show: bool), verbose, true, "", show, "true";
    /// Sets whether mistakes, such as bad options and foreign frees, are reported on stderr. On by
    /// default.
    show_errors(show: bool), show_errors, true, "", show, "false";
    /// Sets what happens when the program frees or resizes something that is not a live block. By default masu writes a
    /// line and ends the process.
    on_error(then: OnError), on_error, true, "", then, "masu::OnError::Report";
    /// Sets whether every block is placed where bugs in unsafe code do the least harm and are found soonest. Off by
    /// default; [`Policy::Hardened`] turns it on too.
    hardened(all: bool), hardened, true, "", all, "true";
    /// Sets how many bytes of freed blocks a hardened heap holds back for each size class and arena, and then reuses in
    /// random order. The default is 16 KiB.
    ///
    /// # Panics
    /// If it is more than 128 TiB.
    quarantine_random(bytes: usize), quarantine_random, bytes <= SIZE_MAX,
        "quarantine_random of more than 128 TiB", bytes, "64 << 10";
    /// Sets how many bytes of freed blocks wait in a queue after [`quarantine_random`](Config::quarantine_random). The
    /// default is 16 KiB.
    ///
    /// # Panics
    /// If it is more than 128 TiB.
    quarantine_queue(bytes: usize), quarantine_queue, bytes <= SIZE_MAX,
        "quarantine_queue of more than 128 TiB", bytes, "64 << 10";
    /// Makes one slab in this many of a hardened heap inaccessible; 0 means none. The default is 8.
    guard_slabs(every: u32), guard_slabs, true, "", every, "2";
    /// Sets whether small blocks of a hardened heap have memory tags, which check each access, on an AArch64 processor
    /// that supports them. On by default, unless the processor is emulated.
    hardened_tags(when: MemoryTags), hardened_tags, true, "", when, "masu::MemoryTags::Off";
    /// Sets whether every block of a hardened heap is recorded with the stacks of its allocation and its free, for
    /// reports. Needs the feature `prof`. Off by default; [`Policy::Debug`] turns it on.
    block_stacks(each: bool), block_stacks, true, "", each, "true";
    /// Sets whether blocks still in use at exit are listed by the stacks that allocated them. Needs
    /// [`block_stacks`](Self::block_stacks). Off by default.
    show_leaks(show: bool), show_leaks, true, "", show, "true";
    /// Puts one in this many small blocks between inaccessible pages, so that an overrun or a use after free stops the
    /// program where it happens. 0, the default, means none.
    guard(one_in: usize), guard, one_in <= u32::MAX as usize, "guard of more than 1/4294967295", one_in, "5000";
    /// Sets the maximum number of blocks between inaccessible pages at a time, freed ones included; at most half of
    /// them are live. The default is 256.
    guard_slots(count: u32), guard_slots, true, "", count, "64";
    /// Sets whether a fault near a block between inaccessible pages is reported, by a handler that runs before the
    /// program's own. On by default.
    guard_report(tell: bool), guard_report, true, "", tell, "false";
}

impl Config {
    /// Returns the default configuration.
    ///
    /// ```
    /// const CONFIG: masu::Config = masu::Config::new();
    /// assert_eq!(CONFIG, masu::Config::default());
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        Config(Options::DEFAULT)
    }

    /// Keeps freed memory with the process for ever: `decay` is `never`.
    ///
    /// ```
    /// use masu::{Config, Configured, Masu};
    ///
    /// #[global_allocator]
    /// static GLOBAL: Configured = Masu::with_config(Config::new().decay_never());
    /// # fn main() { assert_eq!(masu::ctl::decay::read(), Ok(None)); }
    /// ```
    #[must_use]
    pub const fn decay_never(mut self) -> Self {
        self.0.decay = Delay::Never;
        self.0.origins.decay = Origin::Program;
        self
    }

    /// Writes statistics at exit as a line of JSON, as `docs/statistics.schema.json` describes it.
    ///
    /// ```
    /// const CONFIG: masu::Config = masu::Config::new().show_stats_json();
    /// # let _ = masu::Masu::with_config(CONFIG);
    /// ```
    #[must_use]
    pub const fn show_stats_json(mut self) -> Self {
        self.0.show_stats = Statistics::Json;
        self.0.origins.show_stats = Origin::Program;
        self
    }

    /// For the engine.
    pub(crate) const fn options(&self) -> &Options {
        &self.0
    }
}

impl Default for Config {
    fn default() -> Self {
        Config::new()
    }
}
