//! The parts of the memory, and what each of them is.

use serde::Serialize;

/// What a part of the memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Live small blocks, up to 16 KiB, by their size classes.
    LiveSmall,
    /// Live medium blocks, up to 1 MiB.
    LiveMedium,
    /// Live huge blocks.
    LiveHuge,
    /// Live blocks of the hardened heap, with the checked bytes behind small ones.
    LiveHardened,
    /// Live blocks in memory from the program's extent hooks.
    LiveHooked,
    /// Free blocks in spans that have other blocks in use.
    FreeInSpans,
    /// Free blocks in threads' bins, ready for their next requests.
    Bins,
    /// Free medium blocks in threads' caches.
    Caches,
    /// Freed blocks on their way to the spans of other threads.
    Outboxes,
    /// Free pages of small and medium blocks that are not yet returned.
    DirtyPages,
    /// Pages of freed huge blocks that are not yet returned.
    DirtyHuge,
    /// Pages past the ends of huge blocks: of huge pages that they fill in part, or of longer blocks.
    HugeEnds,
    /// Parts of huge pages of 2 MiB that no block has used.
    HugePages,
    /// Other pages that no block uses, resident because the program has locked them.
    Locked,
    /// Free memory of the hardened heap: in slabs that have blocks in use, behind blocks with pages of their own, in
    /// quarantine, or not yet returned.
    FreeHardened,
    /// Free memory from extent hooks.
    FreeHooked,
    /// masu's tables.
    Tables,
    /// The heap profile: its samples and stacks, and the unwinding rules that it shares with guards.
    Profile,
    /// Guarded blocks, with the rest of their pages.
    Guards,
    /// Records of guarded blocks, live and freed: their stacks.
    GuardRecords,
    /// Records of the hardened heap's blocks.
    HardenedRecords,
    /// libmasu.so: its code and its variables.
    Library,
    /// Memory that changed its kind during the reading. May be negative.
    InMotion,
    /// Not masu's: the program's and its libraries' code and variables.
    Programs,
    /// Not masu's: mapped files.
    Files,
    /// Not masu's: memory shared with other processes.
    Shared,
    /// Not masu's: stacks of threads.
    Stacks,
    /// Not masu's: the `brk` area, which another allocator uses.
    Brk,
    /// Not masu's: other anonymous mappings of the program or of another allocator.
    Anonymous,
}

impl Kind {
    /// Whether it is masu's own overhead, not the program's blocks.
    pub fn is_overhead(self) -> bool {
        use Kind::*;
        matches!(
            self,
            FreeInSpans
                | Bins
                | Caches
                | Outboxes
                | DirtyPages
                | DirtyHuge
                | HugeEnds
                | HugePages
                | Locked
                | FreeHardened
                | FreeHooked
                | Tables
                | Profile
                | GuardRecords
                | HardenedRecords
                | Library
        )
    }

    /// Whether it is the program's blocks.
    pub fn is_live(self) -> bool {
        use Kind::*;
        matches!(self, LiveSmall | LiveMedium | LiveHuge | LiveHardened | LiveHooked)
    }

    /// Whether it is not masu's at all.
    pub fn is_elsewhere(self) -> bool {
        use Kind::*;
        matches!(self, Programs | Files | Shared | Stacks | Brk | Anonymous)
    }
}

/// A part of the memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Part {
    /// Its kind.
    pub kind: Kind,
    /// The name that the program gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Resident bytes.
    pub bytes: i64,
}
