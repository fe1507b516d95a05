//! masu's heap profiles, and the formats they are shown in.
//!
//! ```text
//! raw        a profile, and the file that the library writes
//!  ├─ view     which of its figures are asked for, and how sure they are
//!  ├─ files    opening what another process names
//!  ├─ symbols, made  from addresses to functions
//!  ├─ base     less an earlier profile
//!  └─ pprof, stacks   the forms it comes in
//! ```

pub mod base;
pub mod files;
#[cfg(feature = "symbols")]
mod made;
pub mod pprof;
pub mod raw;
pub mod stacks;
pub mod symbols;
pub mod view;

pub use raw::{Amount, Mapping, Moment, Place, Profile};
pub use symbols::Symbols;
pub use view::View;
