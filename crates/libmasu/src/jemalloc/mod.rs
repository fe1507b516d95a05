//! The jemalloc door: the `*allocx` family, `mallctl` and `malloc_stats_print`.
//!
//! Programs and libraries that know jemalloc look up its functions and change their behaviour if
//! they find all of them, so the door must be complete. Flags, argument rules and error numbers are
//! those of jemalloc's manual; where the two allocators differ inside, this table says what
//! jemalloc's terms mean in masu.
//!
//! | jemalloc | here |
//! |---|---|
//! | arena 0, automatic arenas | the common memory of all threads |
//! | an arena made by `arenas.create` | a separate heap ([`masu_core::Arena`]) |
//! | thread cache, explicit caches | the thread's bins; explicit ones are numbers without contents |
//! | dirty decay time | the option `decay`; there is one for all arenas |
//! | muzzy pages | none: memory that is given back is given back fully |
//! | bins | size classes of small blocks; spans are 64 KiB |
//! | large extents | medium and huge blocks |
//! | extent hooks | supply the memory of separate heaps, not the common memory |
//! | profiling | masu's own sampling, in jemalloc's file format |
//!
//! - [`flags`]: decodes the `flags` argument. [`allocx`]: the seven functions.
//! - [`arenas`], [`caches`]: numbers that stand for heaps and for thread caches.
//! - [`names`]: from names to numbers and back. [`tree`]: what each name does. [`call`]: one call's
//!   arguments. [`ctl`]: the three functions.
//! - [`figures`]: statistics as of the last epoch. [`print`]: `malloc_stats_print`.
//! - [`prof`]: the heap profile.
//! - [`conf`]: `MALLOC_CONF` and the program's `malloc_conf`.
//!
//! All of it except the `*allocx` functions is cold, and lies in its own section after the code
//! that every program runs. Tables hold no addresses, so the loader has nothing to relocate.

mod allocx;
mod arenas;
mod caches;
mod call;
pub mod conf;
mod ctl;
mod figures;
mod flags;
mod names;
mod print;
pub mod prof;
mod thread;
mod tree;
