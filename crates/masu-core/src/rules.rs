//! What the engine's threads go by, for a model of it: so the model imports the figures, and cannot say
//! anything else than the engine does. Not for programs; it changes with the engine.

pub use crate::heap::mode::{Mode, Retention};
pub use crate::heap::outbox::MOST as LONGEST_CHAINS;
pub use crate::region::{CHUNK, GRANULE};
pub use crate::run::{Affinity, UNITS};
pub use crate::span::{CARVE, CARVE_GROWING, capacity, threshold};
pub use crate::tuning::*;
