//! The constants that govern the engine's threads, for the lab's model of them. The model imports the figures, so it
//! cannot differ from the engine. Programs must not use them: they change with the engine.

pub use crate::heap::mode::{Mode, Retention};
pub use crate::heap::outbox::MOST as LONGEST_CHAINS;
pub use crate::region::{CHUNK, GRANULE};
pub use crate::run::{Affinity, UNITS};
pub use crate::sharding::{most_lenders, most_shards};
pub use crate::span::{CARVE, CARVE_GROWING, capacity, threshold};
pub use crate::tuning::*;
