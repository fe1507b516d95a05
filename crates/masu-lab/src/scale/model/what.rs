//! What a simulated cache line holds, so that a report can say which one everybody waits for.

/// What a line holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum What {
    /// The first line of a block.
    Block,
    /// The lock of the page pool, or of one of its shards.
    Pool,
    /// What the pool keeps of a chunk, and where it looks for one.
    Chunk,
    /// The lengths of neighbouring runs.
    Runs,
    /// What a shard counts: pages in spans, in runs, free and fresh.
    Account,
    /// The counter of spans emptied by others.
    Emptied,
    /// What all caches of medium blocks hold together.
    Caches,
    /// What all outboxes hold together.
    Outboxes,
    /// The lock of whoever gives pages back.
    Discards,
    /// The lock of the space, from which chunks come.
    Space,
    /// The locks and the numbers of the spans that nobody owns, of four classes.
    Abandoned,
    /// The lock of the table of heaps, and how many there are.
    Heaps,
    /// The lock of the shared arena.
    SharedArena,
    /// The lock of a processor's cache of small blocks.
    ProcessorCache,
    /// The lock of a class's magazines that no processor has.
    Depot,
    /// Page map entries of neighbouring spans.
    PageMap,
    /// A span's remote word.
    RemoteWord,
    /// A span's record.
    Record,
    /// The lock of an arena, in the design that has one for each.
    ArenaLock,
    /// The lock of the list of arenas without threads, there.
    Arenas,
    /// The record of a page, in the design that has a compare-and-swap for each.
    Page,
}

impl What {
    /// All of them, in order.
    pub const ALL: [What; 21] = [
        What::Block,
        What::Pool,
        What::Chunk,
        What::Runs,
        What::Account,
        What::Emptied,
        What::Caches,
        What::Outboxes,
        What::Discards,
        What::Space,
        What::Abandoned,
        What::Heaps,
        What::SharedArena,
        What::ProcessorCache,
        What::Depot,
        What::PageMap,
        What::RemoteWord,
        What::Record,
        What::ArenaLock,
        What::Arenas,
        What::Page,
    ];

    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            What::Block => "a block",
            What::Pool => "the page pool's lock",
            What::Chunk => "a chunk's record",
            What::Runs => "the lengths of neighbouring runs",
            What::Account => "a shard's counters of pages",
            What::Emptied => "the counter of emptied spans",
            What::Caches => "the sum of all caches",
            What::Outboxes => "the sum of all outboxes",
            What::Discards => "the lock of discards",
            What::Space => "the space's lock",
            What::Abandoned => "a line of abandoned lists",
            What::Heaps => "the table of heaps",
            What::SharedArena => "the shared arena's lock",
            What::ProcessorCache => "a processor's cache",
            What::Depot => "a class's depot",
            What::PageMap => "a line of the page map",
            What::RemoteWord => "a span's remote word",
            What::Record => "a span's record",
            What::ArenaLock => "an arena's lock",
            What::Arenas => "the list of unused arenas",
            What::Page => "a page's record",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::What;

    #[test]
    fn each_has_its_place_and_its_words() {
        for (place, what) in What::ALL.into_iter().enumerate() {
            assert_eq!(what as usize, place);
            let same = What::ALL.iter().filter(|other| other.words() == what.words());
            assert_eq!(same.count(), 1, "{what:?}");
        }
    }
}
