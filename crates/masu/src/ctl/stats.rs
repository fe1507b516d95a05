//! Totals over the process in bytes, as of the last [`epoch`](super::epoch). The first read begins
//! the first epoch.

use super::figures::Figure;
use super::key::keys;

keys! {
    "masu::ctl::stats";

    /// `stats.allocated`: bytes in blocks that the program holds, by their size classes. Free small
    /// blocks in the threads' bins count as held.
    allocated, allocated_mib: "stats.allocated" => usize {
        read: || Figure::Allocated.read(),
    }

    /// `stats.active`: bytes in spans, runs and huge blocks that hold at least one block.
    active, active_mib: "stats.active" => usize {
        read: || Figure::Active.read(),
    }

    /// `stats.metadata`: bytes mapped for the engine's own tables.
    metadata, metadata_mib: "stats.metadata" => usize {
        read: || Figure::Metadata.read(),
    }

    /// `stats.resident`: bytes that may be resident: active memory, metadata, and free memory that
    /// has not yet gone back. An upper bound, because it includes pages that were never touched.
    resident, resident_mib: "stats.resident" => usize {
        read: || Figure::Resident.read(),
    }

    /// `stats.mapped`: bytes mapped and not [retained].
    mapped, mapped_mib: "stats.mapped" => usize {
        read: || Figure::Mapped.read(),
    }

    /// `stats.retained`: bytes of address space that are mapped, hold nothing and are not resident.
    retained, retained_mib: "stats.retained" => usize {
        read: || Figure::Retained.read(),
    }
}
