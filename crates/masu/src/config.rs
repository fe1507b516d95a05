//! A configuration that is compiled into the program.

use masu_core::config::{Config as Options, Delay, File, Origin, Statistics};

pub use masu_core::config::{BackgroundThread, MemoryTags, OnError, Policy};

/// What a program sets for itself, under what the environment of a run says.
///
/// Every value is checked when the program is compiled:
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
/// // More than there is address space.
/// static GLOBAL: Configured = Masu::with_config(Config::new().huge_cache(1 << 60));
/// ```
///
/// Sizes are in bytes. What is not set has the default that the engine documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config(Options);

/// The largest size that makes sense: the user half of a 48-bit address space, 128 TiB; on smaller machines, all there is.
pub(crate) const SIZE_MAX: usize =
    if usize::BITS == 64 { (1u64 << 47) as usize } else { usize::MAX };
/// The longest decay time: a year of 365 days.
pub(crate) const DECAY_MAX_MS: u64 = 365 * 24 * 3600 * 1000;

/// Defines setters: documentation, name and type of the argument, what is checked, the value, one for
/// an example.
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
    /// Values for all keys that neither the program nor the environment sets. By default
    /// [`Policy::Default`]; `docs/configuration.md` has the table.
    policy(policy: Policy), policy, true, "", policy, "masu::Policy::Default";
    /// How long freed memory stays with the process before it goes back to the system, in
    /// milliseconds: 0, at once, to a year. By default 500.
    ///
    /// # Panics
    /// When it is more than a year; see [`decay_never`](Config::decay_never).
    decay_ms(ms: u64), decay, ms <= DECAY_MAX_MS,
        "decay of more than a year: see Config::decay_never", Delay::Millis(ms), "2_000";
    /// Bytes of freed memory past their time above which the background thread may be started. By
    /// default 4 MiB.
    ///
    /// # Panics
    /// When it is more than 128 TiB.
    budget(bytes: usize), budget, bytes <= SIZE_MAX, "budget of more than 128 TiB", bytes, "16 << 20";
    /// Whether a background thread gives memory back while the program is idle. By default
    /// [`BackgroundThread::Auto`].
    background_thread(who: BackgroundThread), background_thread, true, "", who, "masu::BackgroundThread::Off";
    /// Most bytes of medium blocks (16 KiB to 1 MiB) that a thread keeps for its next requests. By
    /// default 2 MiB.
    ///
    /// # Panics
    /// When it is more than 128 TiB.
    run_cache(bytes: usize), run_cache, bytes <= SIZE_MAX, "run_cache of more than 128 TiB", bytes, "256 << 10";
    /// Most bytes of freed huge blocks (above 1 MiB) that are kept until they decay. By default
    /// 1 GiB.
    ///
    /// # Panics
    /// When it is more than 128 TiB.
    huge_cache(bytes: usize), huge_cache, bytes <= SIZE_MAX,
        "huge_cache of more than 128 TiB", bytes, "64 << 20";
    /// Most full spans of 64 KiB that a thread keeps as its own once other threads allocate too. By
    /// default 32.
    retain_full(count: u32), retain_full, true, "", count, "4";
    /// Whether a heap of more than 32 MiB that grows, and blocks where the last ones were filled, take
    /// huge pages of 2 MiB. By default they do.
    huge_pages(may: bool), huge_pages, true, "", may, "false";
    /// Whether fresh memory is faulted in when it is taken from the system, not when it is used. By
    /// default it is not.
    populate(may: bool), populate, true, "", may, "true";
    /// Bytes in use above which everything free goes back at once; 0: never. By default nine tenths of
    /// what the control group allows. See [`limit`](crate::limit).
    ///
    /// # Panics
    /// When it is more than 128 TiB.
    limit_soft(bytes: usize), limit_soft, bytes <= SIZE_MAX,
        "limit_soft of more than 128 TiB", bytes, "900 << 20";
    /// Bytes in use that allocations never exceed: they fail; 0, the default: no limit. See
    /// [`limit`](crate::limit).
    ///
    /// # Panics
    /// When it is more than 128 TiB.
    limit_hard(bytes: usize), limit_hard, bytes <= SIZE_MAX,
        "limit_hard of more than 128 TiB", bytes, "1 << 30";
    /// Whether limits and pressure of the process's control group are looked up, in files of the
    /// kernel. By default they are.
    cgroup(look: bool), cgroup, true, "", look, "false";
    /// Whether statistics are written at exit, to stderr or to [`stats_file`](Config::stats_file). By default
    /// they are not.
    show_stats(show: bool), show_stats, true, "",
        if show { Statistics::Text } else { Statistics::Off }, "true";
    /// The file that statistics are appended to at exit; `%p` in its name is the number of the process. To name
    /// one is to ask for them.
    ///
    /// # Panics
    /// When the path is empty or longer than 4000 bytes.
    stats_file(path: &'static str), stats_file, !path.is_empty() && path.len() <= File::LONGEST,
        "a path has 1 to 4000 bytes", File::new(path), "\"/tmp/stats.%p\"";
    /// Whether the user's other processes may read this one where the kernel lets only its parents do so (Yama's
    /// `ptrace_scope` 1): for `masu explain` and its like. By default they may not.
    observe(may: bool), observe, true, "", may, "true";
    /// Whether the configuration in force is written to stderr at start. By default it is not.
    verbose(show: bool), verbose, true, "", show, "true";
    /// Whether mistakes, such as bad options and foreign frees, are told on stderr. By default they
    /// are.
    show_errors(show: bool), show_errors, true, "", show, "false";
    /// What is done when something that is not a live block is freed or resized. By default a line is written and
    /// the process ends.
    on_error(then: OnError), on_error, true, "", then, "masu::OnError::Report";
    /// Whether every block lies where mistakes of unsafe code harm least and are found soonest. By default none does;
    /// [`Policy::Hardened`] says the same.
    hardened(all: bool), hardened, true, "", all, "true";
    /// Bytes of freed blocks that wait in a hardened heap, for each size class and arena, in an order that is drawn. By
    /// default 16 KiB.
    ///
    /// # Panics
    /// When it is more than 128 TiB.
    quarantine_random(bytes: usize), quarantine_random, bytes <= SIZE_MAX,
        "quarantine_random of more than 128 TiB", bytes, "64 << 10";
    /// Bytes that then wait in a queue. By default 16 KiB.
    ///
    /// # Panics
    /// When it is more than 128 TiB.
    quarantine_queue(bytes: usize), quarantine_queue, bytes <= SIZE_MAX,
        "quarantine_queue of more than 128 TiB", bytes, "64 << 10";
    /// Of so many slabs of a hardened heap one is inaccessible; 0: none. By default 8.
    guard_slabs(every: u32), guard_slabs, true, "", every, "2";
    /// Whether small blocks of a hardened heap have memory tags, by which each access is checked: on an AArch64 processor that
    /// has them. By default they do, unless the processor is an emulated one.
    hardened_tags(when: MemoryTags), hardened_tags, true, "", when, "masu::MemoryTags::Off";
    /// Whether every block of a hardened heap is recorded with the stacks of its allocation and its free, for reports:
    /// that takes the feature `prof`. By default none is; [`Policy::Debug`] says so, too.
    block_stacks(each: bool), block_stacks, true, "", each, "true";
    /// Whether blocks that are in use at exit are then listed by these stacks. By default they are not.
    show_leaks(show: bool), show_leaks, true, "", show, "true";
    /// How many small blocks lie between inaccessible pages, so that what runs beyond them, or uses them after they
    /// were freed, stops where it happens: one in so many; 0, the default: none.
    guard(one_in: usize), guard, one_in <= u32::MAX as usize, "guard of more than 1/4294967295", one_in, "5000";
    /// How many such blocks there can be at a time, freed ones included, of which half can be live. By default 256.
    guard_slots(count: u32), guard_slots, true, "", count, "64";
    /// Whether a fault near such a block is told of, by a handler before the program's own. By default it is.
    guard_report(tell: bool), guard_report, true, "", tell, "false";
}

impl Config {
    /// The defaults.
    ///
    /// ```
    /// const CONFIG: masu::Config = masu::Config::new();
    /// assert_eq!(CONFIG, masu::Config::default());
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        Config(Options::DEFAULT)
    }

    /// Freed memory stays with the process for ever.
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

    /// Statistics at exit are a line of JSON, as `docs/statistics.schema.json` describes it.
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
