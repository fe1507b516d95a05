//! Interprets an account: what is expensive, why it is there, what to do.

use masu_core::rules::LONELY_BUDGET;
use masu_inspect::Account;
use masu_inspect::account::Kind;
use schemars::JsonSchema;
use serde::Serialize;

use crate::bytes::Bytes;

/// One piece of advice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Advice {
    /// The bytes concerned.
    pub bytes: u64,
    /// The finding.
    pub what: String,
    /// Why it is there.
    pub why: String,
    /// What can be done about it.
    pub todo: String,
}

/// The smallest share of the RSS that is worth a sentence.
const WORTH: f64 = 0.03;

/// Returns everything that is worth a sentence, most expensive first.
pub fn of(account: &Account) -> Vec<Advice> {
    let all = [
        live, spans, held, going, ends, huge_pages, tables, profile, guards, hardened, hooked,
        anonymous, brk, programs, stacks, shared, swapped,
    ];
    let mut advice: Vec<_> = all.iter().filter_map(|judge| judge(account)).collect();
    advice.retain(|advice| advice.bytes as f64 >= account.rss as f64 * WORTH);
    advice.sort_by_key(|advice| u64::MAX - advice.bytes);
    advice
}

/// Returns the bytes of some kinds.
fn sum(account: &Account, kinds: &[Kind]) -> u64 {
    kinds.iter().map(|&kind| account.bytes(kind)).sum::<i64>().try_into().unwrap_or(0)
}

/// Returns advice on some bytes, if there are any.
fn some(bytes: u64, what: &str, why: impl Into<String>, todo: impl Into<String>) -> Option<Advice> {
    let what = what.replace("{}", &Bytes(bytes).to_string());
    (bytes != 0).then(|| Advice { bytes, what, why: why.into(), todo: todo.into() })
}

fn live(account: &Account) -> Option<Advice> {
    let bytes = sum(
        account,
        &[Kind::LiveSmall, Kind::LiveMedium, Kind::LiveHuge, Kind::LiveHardened, Kind::LiveHooked],
    );
    let rounding = account.rounding_at_most.min(bytes);
    // All figures are of resident bytes, as their sum is.
    let largest = account.classes.iter().max_by_key(|class| class.live_bytes);
    let (small, size) = largest.map_or((0, 0), |class| (class.live_bytes, class.size));
    let small_blocks = largest.map_or(0, |class| class.live);
    let of: Vec<_> = [
        (format!("{small_blocks} blocks of up to {}", Bytes(size)), small),
        (counted(account.medium_blocks, "medium"), sum(account, &[Kind::LiveMedium])),
        (counted(account.huge_blocks, "huge"), sum(account, &[Kind::LiveHuge])),
        (
            format!("{} in the hardened heap", account.hardened_blocks),
            sum(account, &[Kind::LiveHardened]),
        ),
        ("those in memory of the program's own hooks".into(), sum(account, &[Kind::LiveHooked])),
    ]
    .into_iter()
    .filter(|(_, bytes)| *bytes > 0)
    .map(|(name, bytes)| format!("{name} ({})", Bytes(bytes)))
    .collect();
    let most =
        if of.is_empty() { String::new() } else { format!(", most of all {}", of.join(", ")) };
    let untouched = match account.allocated.saturating_sub(bytes) {
        rest if rest as f64 >= bytes as f64 * WORTH => {
            format!(" {} more of its blocks are not resident.", Bytes(rest))
        }
        _ => String::new(),
    };
    let why = format!(
        "It has allocated them and not freed them{most}.{untouched} At most {} of that is rounding to block sizes.",
        Bytes(rounding)
    );
    let todo = "No allocator can give them back. If they grow without end, find out who allocates them: \
                `masu watch -p PID` shows whether they do, `masu prof -p PID --growth --for 10m` who it is.";
    some(
        bytes,
        "{} are blocks that the program holds.",
        why,
        todo.replace("PID", &account.process.to_string()),
    )
}

fn spans(account: &Account) -> Option<Advice> {
    let bytes = sum(account, &[Kind::FreeInSpans]);
    let worst = account.classes.iter().max_by_key(|class| class.free_bytes)?;
    let share = worst.live as f64 / worst.capacity.max(1) as f64 * 100.0;
    let why = format!(
        "Other blocks of the same 64 KiB are still in use, so only pages without any can go back. Most of them, {}, \
         are among blocks of {}, of whose {} spans {share:.0} % is in use.",
        Bytes(worst.free_bytes),
        Bytes(worst.size),
        worst.spans
    );
    let todo = "It serves the next allocations of these sizes. `masu prof --retained -p PID` names the places whose \
                blocks keep it. Free together what was allocated together; allocate long-lived objects before the \
                others, or in a heap of their own (masu_heap_create, masu::Heap).";
    some(
        bytes,
        "{} are free blocks that lie beside live ones.",
        why,
        todo.replace("PID", &account.process.to_string()),
    )
}

fn held(account: &Account) -> Option<Advice> {
    let bytes = sum(account, &[Kind::Bins, Kind::Caches, Kind::Outboxes]);
    let threads = account.threads.len();
    let why = format!(
        "{threads} threads and heaps keep blocks at hand, so that malloc takes no lock. What a sleeping thread holds \
         of medium blocks and of others' blocks {}; its bins stay.",
        match account.going_back.decay_ms {
            Some(_) => format!("is taken from it after {}", decay(account)),
            None => "stays with it, since decay is never".into(),
        }
    );
    let todo = "If the process has more threads than it needs, use fewer. MASU_RUN_CACHE=0 keeps no medium blocks in \
                threads; MASU_POLICY=low-memory keeps less of everything.";
    some(bytes, "{} are free blocks that threads keep for themselves.", why, todo)
}

/// Returns a number of blocks of a kind, in words.
fn counted(n: u64, kind: &str) -> String {
    if n == 1 { format!("a {kind} one") } else { format!("{n} {kind} ones") }
}

/// Returns the decay time.
fn decay(account: &Account) -> String {
    match account.going_back.decay_ms {
        Some(ms) if ms % 1000 == 0 => format!("{} s", ms / 1000),
        Some(ms) => format!("{ms} ms"),
        None => "never".into(),
    }
}

fn going(account: &Account) -> Option<Advice> {
    let bytes = sum(account, &[Kind::DirtyPages, Kind::DirtyHuge]);
    let back = account.going_back;
    let mut todo = format!("To have it back now: masu purge -p {}.", account.process);
    let why = match back.decay_ms {
        None => {
            todo.push_str(" To have it back by itself, do not set decay to never.");
            "They stay, since decay is set to never.".to_owned()
        }
        Some(_) if back.background => {
            format!("The background thread is at it: they go back within {}.", decay(account))
        }
        Some(_) => {
            let is_little = bytes <= back.budget;
            todo.push_str(match is_little {
                true => " To have less of it at rest: MASU_CONF=background_thread:on,budget:1MiB.",
                false => " To have it back by itself: MASU_CONF=background_thread:on.",
            });
            let why = match is_little {
                true => format!(
                    "They are less than {}, for which masu starts no thread.",
                    Bytes(back.budget)
                ),
                false => format!(
                    "No background thread runs: a process with one thread gets one from {} on.",
                    Bytes(LONELY_BUDGET as u64)
                ),
            };
            format!(
                "{why} They go back when a thread's free next takes a slow path, {} or later after they became free. \
                 Blocks that a thread takes from its own lists and puts back there take none.",
                decay(account)
            )
        }
    };
    some(bytes, "{} are free pages that have not gone back to the system yet.", why, todo)
}

fn ends(account: &Account) -> Option<Advice> {
    let bytes = sum(account, &[Kind::HugeEnds]);
    some(
        bytes,
        "{} are pages behind the ends of huge blocks.",
        "They are the rests of huge pages that the blocks fill in part, or were left when blocks became shorter.",
        "If that is much, MASU_HUGE_PAGES=0 takes pages of 4 KiB only.",
    )
}

fn huge_pages(account: &Account) -> Option<Advice> {
    let why = format!(
        "The kernel puts a huge page of 2 MiB in place as a whole, with what no block has used yet. {} of the heap are \
         in huge pages.",
        Bytes(account.huge_pages)
    );
    some(
        sum(account, &[Kind::HugePages]),
        "{} are parts of huge pages that nothing has used.",
        why,
        "Next allocations use them. If that is much, MASU_HUGE_PAGES=0 takes pages of 4 KiB only.",
    )
}

fn tables(account: &Account) -> Option<Advice> {
    some(
        sum(account, &[Kind::Tables, Kind::Library]),
        "{} are masu itself: its tables and its library.",
        "The tables grow with the most memory that the process has had, by about 0.3 %, and with its threads, by a page \
         each.",
        "In a small process that is what masu costs; there is nothing to do.",
    )
}

fn profile(account: &Account) -> Option<Advice> {
    some(
        sum(account, &[Kind::Profile]),
        "{} are recorded stacks.",
        "The heap profile remembers each sample that is alive and each stack once, and stays when it is switched off. \
         Guards, too, keep the rules by which stacks are walked.",
        "A larger MASU_PROF_RATE takes fewer samples, and less memory.",
    )
}

fn guards(account: &Account) -> Option<Advice> {
    some(
        sum(account, &[Kind::Guards, Kind::GuardRecords]),
        "{} are guarded blocks, and what is known of them.",
        "Each small block that the option guard samples has a page or two to itself while it lives, and a record with \
         the stacks of its allocation and its free.",
        "A smaller guard_slots bounds both; a rarer guard:1/N reaches that bound later.",
    )
}

fn hooked(account: &Account) -> Option<Advice> {
    some(
        sum(account, &[Kind::FreeHooked]),
        "{} are free in memory of the program's own hooks.",
        "It goes back after the decay time, if the hooks take it back, and only by calls of the program: \
         the background thread calls no hooks.",
        "`mallctl(\"arena.<i>.purge\")` has it go now; hooks without `dalloc`, `decommit` and purges keep it for ever.",
    )
}

fn hardened(account: &Account) -> Option<Advice> {
    some(
        sum(account, &[Kind::FreeHardened, Kind::HardenedRecords]),
        "{} are free memory and records of the hardened heap.",
        "What was freed waits in quarantine, and a slab's pages go back only when none of its blocks is in use: slots are \
         drawn, so that the live ones lie far apart.",
        format!(
            "`masu purge -p {}` gives back slabs without blocks. A smaller quarantine_random and quarantine_queue hold \
             less of what was freed.",
            account.process
        ),
    )
}

fn anonymous(account: &Account) -> Option<Advice> {
    some(
        sum(account, &[Kind::Anonymous]),
        "{} are anonymous mappings that masu does not know of.",
        "The program maps them itself, past malloc: a garbage collector's heap, a just-in-time compiler's code, an \
         interpreter's arenas (Python's objects of up to 512 bytes), or another allocator linked into it.",
        format!(
            "`masu doctor -p {}` names other allocators. For Python, PYTHONMALLOC=malloc sends its objects to masu.",
            account.process
        ),
    )
}

fn brk(account: &Account) -> Option<Advice> {
    some(
        sum(account, &[Kind::Brk]),
        "{} lie in the brk area, which masu does not use.",
        "Another allocator is in the process, or one was before masu took over.",
        format!("`masu doctor -p {}` says whose malloc each file gets.", account.process),
    )
}

fn programs(account: &Account) -> Option<Advice> {
    some(
        sum(account, &[Kind::Programs, Kind::Files]),
        "{} are files: the program, its libraries, and data files that it has mapped.",
        "Most of that is shared with other processes that run the same files, and the kernel drops what is clean when \
         memory gets scarce.",
        "`Pss` in /proc/PID/smaps_rollup counts only this process's share."
            .replace("PID", &account.process.to_string()),
    )
}

fn stacks(account: &Account) -> Option<Advice> {
    some(
        sum(account, &[Kind::Stacks]),
        "{} are threads' stacks.",
        "A stack keeps the pages of its deepest call until its thread ends.",
        "Fewer threads, or less depth, take less.",
    )
}

fn shared(account: &Account) -> Option<Advice> {
    some(
        sum(account, &[Kind::Shared]),
        "{} are memory that the process shares with others.",
        "Each of these processes counts it in full in its RSS.",
        "Look at Pss in smaps_rollup, which counts each one's share.",
    )
}

fn swapped(account: &Account) -> Option<Advice> {
    some(
        account.swapped,
        "{} more are swapped out.",
        "The system had too little memory; the RSS does not count them.",
        "They come back when the program touches them.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use masu_inspect::account::{Class, GoingBack, Part};

    /// Of a process with one thread, that has so much of some kinds.
    fn account(parts: &[(Kind, i64)]) -> Account {
        let part = |&(kind, bytes)| Part { kind, name: None, bytes };
        let rss = parts.iter().map(|(_, bytes)| bytes.unsigned_abs()).sum();
        Account {
            process: 7,
            name: "x".into(),
            masu: "1".into(),
            copies: 1,
            rss,
            sum: rss,
            closes: true,
            parts: parts.iter().map(part).collect(),
            allocated: 0,
            rounding_at_most: 0,
            medium_blocks: 0,
            huge_blocks: 0,
            hardened_blocks: 0,
            huge_pages: 0,
            swapped: 0,
            going_back: GoingBack {
                decay_ms: Some(500),
                budget: 4 << 20,
                background: false,
                purged: 0,
            },
            classes: Vec::new(),
            threads: Vec::new(),
        }
    }

    /// The only advice.
    fn only(account: &Account) -> Advice {
        let [advice] = &of(account)[..] else { panic!("{:?}", of(account)) };
        advice.clone()
    }

    #[test]
    fn parts_are_no_larger_than_the_whole() {
        let mut account = account(&[(Kind::LiveSmall, 404 << 10), (Kind::FreeInSpans, 200 << 10)]);
        let class = |size, live, live_bytes, free_bytes| Class {
            size,
            spans: 4,
            live,
            capacity: 4 * (64 << 10) / size,
            live_bytes,
            free_bytes,
        };
        account.classes =
            vec![class(9344, 100, 104 << 10, 0), class(1024, 300, 300 << 10, 200 << 10)];
        (account.medium_blocks, account.huge_blocks) = (1, 1);
        account.allocated = 200 << 20;
        let [live, free] = &of(&account)[..] else { panic!("{:?}", of(&account)) };
        let said = "most of all 300 blocks of up to 1 KiB (300 KiB). 200 MiB more of its blocks are not resident.";
        assert!(live.why.contains(said), "{live:?}");
        assert!(free.why.contains("Most of them, 200 KiB, are among blocks of 1 KiB"), "{free:?}");
    }

    #[test]
    fn what_threads_keep_is_not_taken_where_decay_is_never() {
        let mut account = account(&[(Kind::Bins, 1 << 20)]);
        assert!(only(&account).why.contains("is taken from it after 500 ms; its bins stay"));
        account.going_back.decay_ms = None;
        assert!(only(&account).why.contains("stays with it, since decay is never; its bins stay"));
    }

    #[test]
    fn free_pages_go_back_by_slow_frees_or_by_the_background_thread() {
        let mut account = account(&[(Kind::DirtyPages, 60 << 20)]);
        let lonely = only(&account);
        assert!(
            lonely.why.contains("one from 64 MiB on. They go back when a thread's free"),
            "{lonely:?}"
        );
        assert!(lonely.why.contains("its own lists"), "{lonely:?}");
        assert!(lonely.todo.ends_with("MASU_CONF=background_thread:on."), "{lonely:?}");
        (account.parts[0].bytes, account.rss) = (1 << 20, 1 << 20);
        let little = only(&account);
        assert!(little.why.contains("less than 4 MiB") && little.why.contains("its own lists"));
        assert!(little.todo.contains("background_thread:on,budget:1MiB"), "{little:?}");
        account.going_back.background = true;
        assert!(only(&account).why.ends_with("they go back within 500 ms."));
        account.going_back.decay_ms = None;
        assert_eq!(only(&account).why, "They stay, since decay is set to never.");
    }
}
