//! Where a value came from.

/// Where the value of a key came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The documented default.
    BuiltIn,
    /// The policy.
    Policy,
    /// What the program was compiled with.
    Program,
    /// jemalloc's `MALLOC_CONF`, which only the door that has jemalloc's names reads.
    MallocConf,
    /// The list `MASU_CONF`.
    List,
    /// The key's own variable.
    Variable,
    /// An option of the command `masu`, which has set the key's own variable.
    Command,
}
