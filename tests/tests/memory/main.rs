//! What masu does with memory, seen from outside: how much goes back to the system and when, what
//! threads, forks and changing sizes cost, and what each option changes.
//!
//! Every test runs a program twice, with the library under test preloaded and on the system's own
//! malloc, and prints one line of figures (`cargo test -p masu-tests --test memory -- --nocapture`):
//!
//! ```text
//! burst: rss_anon=35.1MiB rss_file=2.4MiB live=32.0MiB glibc=1160.9MiB ratio=0.03
//! ```
//!
//! `rss_anon` and `rss_file` are anonymous and file-backed resident memory, `live` what the
//! program holds, `glibc` the anonymous memory of the same run on the system's malloc, and `ratio`
//! the first over the last.

mod compare;
mod config;
mod figures;
mod huge_pages;
mod probe;
mod returning;
mod shapes;
mod small;
mod stats;
mod threads;
