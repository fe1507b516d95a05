//! What the engine is built with. A constant switches off every entry to a part that is left out, so the compiler sees
//! that the part is never used and omits its code from the program.
//!
//! The engine's own tests have everything.

/// The hardened heap, for a process or for a first-class heap.
pub const HARDENED: bool = cfg!(any(test, feature = "hardened"));
/// Sampled blocks between inaccessible pages.
pub const GUARD: bool = cfg!(any(test, feature = "guard"));
/// The heap profile.
pub const PROF: bool = cfg!(any(test, feature = "prof"));
/// First-class heaps over memory that functions of the program provide.
pub const HOOKS: bool = cfg!(any(test, feature = "hooks"));
