//! Options: what a user can set, and where each value came from.
//!
//! A process is configured once, at start, from its environment:
//!
//! ```text
//! MASU_CONF="decay:1s,budget:16MiB" MASU_SHOW_STATS=1 program
//! ```
//!
//! `MASU_CONF` is a list of `key:value` (or `key=value`) separated by commas. Every key also has its own variable,
//! `MASU_` and the key in capitals, which takes precedence: built-in default < policy < what the program was compiled
//! with < `MASU_CONF` < variable. The case of keys and values does not matter, and `.` and `-` count as `_` in keys.
//!
//! The command `masu` passes its own options on as variables, and names them in `MASU_CONF_COMMAND`, a list like
//! `MASU_CONF`. It sets nothing: it only records the origin of variables with these values.
//!
//! A mistake never stops a program. An unknown key or a value of the wrong form is one line on
//! stderr that names the nearest key or the accepted form, and changes nothing. A process that runs
//! with more rights than its caller (`AT_SECURE`) does not look at the environment at all.
//!
//! - `words`: lists of names and units; `number`: numbers with a unit behind.
//! - `origin`: where a value came from.
//! - `policy`: the policies by name.
//! - `kinds`: how a value of each kind is read and shown.
//! - `keys`: the table of keys. A new key is one row there.
//! - `policy_values`: what each policy sets.
//! - `nearest`: the key that was probably meant.
//! - `environment`: the walk over the environment, precedence and warnings.

mod environment;
mod keys;
mod kinds;
mod nearest;
mod number;
mod origin;
mod policy;
mod policy_values;
#[cfg(test)]
mod tests;
pub(crate) mod words;

pub use keys::{Config, MOST_GUARD_SLOTS, Origins};
pub use kinds::{BackgroundThread, Delay, File, LimitOrAuto, MemoryTags, OnError, Statistics};
pub use origin::Origin;
pub use policy::Policy;
