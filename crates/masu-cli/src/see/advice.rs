//! Interprets an account: what is expensive, why it is there, what to do.

use std::cmp::Reverse;

use masu_core::rules::LONELY_BUDGET;
use masu_inspect::account::Kind;
use masu_inspect::{Account, Error};
use masu_watch::process::ran;
use serde::Serialize;

use super::sampled::{Keepers, add_sampled};
use crate::bytes::Bytes;

/// One piece of advice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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

/// The smallest share of the program's blocks that is worth a word.
const MAIN: f64 = 0.01;

/// Explains a process, and returns everything that is worth a sentence, most expensive first.
pub fn explain(process: u32) -> Result<(Account, Vec<Advice>), Error> {
    let before = ran(process);
    let mut account = masu_inspect::explain(process)?;
    let is_active = ran(process) != before;
    let keepers = add_sampled(&mut account);
    let advice = of(&account, is_active, keepers);
    Ok((account, advice))
}

/// Returns what is worth a sentence. An active process has just run.
fn of(account: &Account, is_active: bool, keepers: Option<Keepers>) -> Vec<Advice> {
    let all = [
        live, held, ends, huge_pages, locked, tables, profile, guards, hooked, anonymous, brk,
        programs, stacks, shared, swapped,
    ];
    let mut advice: Vec<_> = all.iter().filter_map(|judge| judge(account)).collect();
    advice.extend(spans(account, keepers));
    let can_purge = is_active || account.going_back.background;
    advice.extend(going(account, can_purge));
    advice.extend(hardened(account, can_purge));
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
    let mut of = vec![
        (format!("{} of up to {}", counted(small_blocks, "block"), Bytes(size)), small),
        (counted(account.medium_blocks, "medium block"), sum(account, &[Kind::LiveMedium])),
        (counted(account.huge_blocks, "huge block"), sum(account, &[Kind::LiveHuge])),
        (
            format!("{} in the hardened heap", counted(account.hardened_blocks, "block")),
            sum(account, &[Kind::LiveHardened]),
        ),
        ("blocks in memory of the program's own hooks".into(), sum(account, &[Kind::LiveHooked])),
    ];
    of.retain(|(_, part)| *part as f64 > bytes as f64 * MAIN);
    of.sort_by_key(|(_, part)| Reverse(*part));
    let of: Vec<_> =
        of.into_iter().map(|(name, part)| format!("{name} ({})", Bytes(part))).collect();
    let most = if of.is_empty() { String::new() } else { format!(", mainly {}", of.join(", ")) };
    let untouched = match account.allocated.saturating_sub(bytes) {
        rest if rest as f64 >= bytes as f64 * WORTH => {
            format!(" {} more of its blocks are not resident.", Bytes(rest))
        }
        _ => String::new(),
    };
    let rounding = account.rounding_in(bytes).map_or_else(
        || format!("At most {}", Bytes(rounding)),
        |about| format!("By the running profile, about {}", Bytes(about)),
    );
    let why = format!(
        "It allocated them and has not freed them{most}.{untouched} {rounding} of that is rounding up to size classes."
    );
    let todo = "No allocator can return them. `masu watch -p PID` shows whether they keep growing; \
                `masu prof -p PID --growth --for 10m` shows which code allocates them.";
    some(
        bytes,
        "{} are blocks that the program holds.",
        why,
        todo.replace("PID", &account.process.to_string()),
    )
}

fn spans(account: &Account, keepers: Option<Keepers>) -> Option<Advice> {
    let bytes = sum(account, &[Kind::FreeInSpans]);
    let worst = account.classes.iter().max_by_key(|class| class.free_bytes)?;
    let share = worst.live as f64 / worst.capacity.max(1) as f64 * 100.0;
    let kept = keepers.map_or(String::new(), |by| {
        let stacks = counted(by.stacks as u64, "call stack");
        format!(
            " By the running profile, blocks from {stacks} keep {:.0} % of it.",
            by.share * 100.0
        )
    });
    let why = format!(
        "Other blocks of the same 64 KiB are still in use, so only pages without live blocks can go back. The largest \
         part, {}, is in blocks of {}, whose {} spans are {share:.0} % in use.{kept}",
        Bytes(worst.free_bytes),
        Bytes(worst.size),
        worst.spans
    );
    let todo = "The next allocations of these sizes use them. `masu prof --retained -p PID` names the code whose \
                blocks keep them. Free together what was allocated together; allocate long-lived objects before the \
                others, or in a heap of their own (masu_heap_create, masu::Heap).";
    some(
        bytes,
        "{} are free blocks among live ones.",
        why,
        todo.replace("PID", &account.process.to_string()),
    )
}

fn held(account: &Account) -> Option<Advice> {
    let bytes = sum(account, &[Kind::Bins, Kind::Caches, Kind::Outboxes]);
    let threads = account.threads.len();
    let why = format!(
        "{threads} threads and heaps cache free blocks, so that malloc takes no lock. {}",
        match account.going_back.decay_ms {
            Some(_) => format!(
                "masu takes medium blocks and other threads' blocks from a sleeping thread after {}; its bins stay.",
                decay(account)
            ),
            None => "A sleeping thread keeps all of them, since decay is never.".into(),
        }
    );
    let todo = "Use fewer threads if the process has more than it needs. With MASU_RUN_CACHE=0, threads cache no \
                medium blocks; with MASU_POLICY=low-memory, they cache less of everything.";
    some(bytes, "{} are free blocks that threads cache.", why, todo)
}

/// Returns a number of blocks of a kind, in words.
fn counted(n: u64, kind: &str) -> String {
    if n == 1 { format!("1 {kind}") } else { format!("{n} {kind}s") }
}

/// Returns the decay time.
fn decay(account: &Account) -> String {
    match account.going_back.decay_ms {
        Some(ms) if ms % 1000 == 0 => format!("{} s", ms / 1000),
        Some(ms) => format!("{ms} ms"),
        None => "never".into(),
    }
}

/// Free pages. A purge reaches only a process that runs: its next free that takes a slow path, or its background thread.
fn going(account: &Account, can_purge: bool) -> Option<Advice> {
    let bytes = sum(account, &[Kind::DirtyPages, Kind::DirtyHuge]);
    let back = account.going_back;
    let now = format!("To return them now: `masu purge -p {}`.", account.process);
    let mut todo = Vec::from_iter(can_purge.then_some(&*now));
    let why = match back.decay_ms {
        None => {
            todo.push("To have them returned automatically, do not set decay to never.");
            "They stay, since decay is set to never.".to_owned()
        }
        Some(_) if back.background => {
            format!("The background thread returns them within {}.", decay(account))
        }
        Some(_) => {
            let is_little = bytes <= back.budget;
            todo.push(match is_little {
                true => "To keep fewer at rest: MASU_CONF=background_thread:on,budget:1MiB.",
                false => "To have them returned automatically: MASU_CONF=background_thread:on.",
            });
            let why = match is_little {
                true => format!(
                    "masu starts no background thread for less than {}.",
                    Bytes(back.budget)
                ),
                false => format!(
                    "No background thread runs: a single-threaded process gets one from {} on.",
                    Bytes(LONELY_BUDGET as u64)
                ),
            };
            let idle = match can_purge {
                true => "",
                false => " The process is idle, so `masu purge` would not reach it.",
            };
            format!(
                "{why} They go back when a thread's free next takes a slow path, at least {} after they became free. \
                 A thread that only takes blocks from its own lists and puts them back there takes no slow path.{idle}",
                decay(account)
            )
        }
    };
    let what = "{} are free pages not yet returned to the system.";
    some(bytes, what, why, todo.join(" "))
}

fn ends(account: &Account) -> Option<Advice> {
    let bytes = sum(account, &[Kind::HugeEnds]);
    some(
        bytes,
        "{} are pages past the ends of huge blocks.",
        "They are the unused ends of huge pages that the blocks fill in part, or were left when blocks shrank.",
        "If that is too much, MASU_HUGE_PAGES=0 uses pages of 4 KiB only.",
    )
}

fn huge_pages(account: &Account) -> Option<Advice> {
    let why = format!(
        "The kernel maps a huge page of 2 MiB as a whole, including the parts that no block has used yet. Huge pages \
         hold {} of the heap.",
        Bytes(account.huge_pages)
    );
    some(
        sum(account, &[Kind::HugePages]),
        "{} are parts of huge pages that nothing has used.",
        why,
        "Later allocations use them. If that is too much, MASU_HUGE_PAGES=0 uses pages of 4 KiB only.",
    )
}

fn locked(account: &Account) -> Option<Advice> {
    some(
        sum(account, &[Kind::Locked]),
        "{} are unused pages that the program has locked in memory.",
        "`mlockall` makes all pages of a new mapping resident at once, whether or not a block uses them.",
        "Later allocations use them. With MCL_ONFAULT, `mlockall` locks each page only when it is first used.",
    )
}

fn tables(account: &Account) -> Option<Advice> {
    some(
        sum(account, &[Kind::Tables, Kind::Library]),
        "{} are masu itself: its tables and its library.",
        "The tables grow by about 0.3 % of the most memory that the process has had, and by a page for each thread.",
        "There is nothing to do: in a small process, this is what masu costs.",
    )
}

fn profile(account: &Account) -> Option<Advice> {
    some(
        sum(account, &[Kind::Profile]),
        "{} are recorded stacks.",
        "The heap profile records each live sample, and each stack once. The records stay when it is switched off. \
         Guards, too, keep the rules for walking stacks.",
        "A larger MASU_PROF_RATE takes fewer samples, and less memory.",
    )
}

fn guards(account: &Account) -> Option<Advice> {
    some(
        sum(account, &[Kind::Guards, Kind::GuardRecords]),
        "{} are guarded blocks and their records.",
        "Each small block that the option guard samples has a page or two to itself while it is live, and a record \
         with the stacks of its allocation and its free.",
        "A smaller guard_slots bounds both; a rarer guard:1/N reaches that bound later.",
    )
}

fn hooked(account: &Account) -> Option<Advice> {
    some(
        sum(account, &[Kind::FreeHooked]),
        "{} are free in memory of the program's own hooks.",
        "It goes back after the decay time if the hooks accept it, and only during calls of the program: \
         the background thread calls no hooks.",
        "`mallctl(\"arena.<i>.purge\")` returns it now. Hooks without `dalloc`, `decommit` and purges keep it forever.",
    )
}

fn hardened(account: &Account, can_purge: bool) -> Option<Advice> {
    let now = match can_purge {
        true => format!("`masu purge -p {}` returns empty slabs. ", account.process),
        false => String::new(),
    };
    some(
        sum(account, &[Kind::FreeHardened, Kind::HardenedRecords]),
        "{} are free memory and records of the hardened heap.",
        "Freed blocks wait in quarantine, and a slab's pages go back only when none of its blocks is in use. Slots are \
         chosen at random, so live blocks lie far apart.",
        format!(
            "{now}With a smaller quarantine_random and quarantine_queue, fewer freed blocks wait."
        ),
    )
}

fn anonymous(account: &Account) -> Option<Advice> {
    some(
        sum(account, &[Kind::Anonymous]),
        "{} are anonymous mappings that are not masu's.",
        "The program maps them itself, without malloc: a garbage collector's heap, a just-in-time compiler's code, an \
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
        "Another allocator is at work in the process, or was before masu took over.",
        format!("`masu doctor -p {}` says which malloc each file gets.", account.process),
    )
}

fn programs(account: &Account) -> Option<Advice> {
    some(
        sum(account, &[Kind::Programs, Kind::Files]),
        "{} are mapped files: the program, its libraries, and data.",
        "Processes that map the same files share most of that, and the kernel drops clean pages when memory gets \
         scarce.",
        "`Pss` in /proc/PID/smaps_rollup counts only this process's share."
            .replace("PID", &account.process.to_string()),
    )
}

fn stacks(account: &Account) -> Option<Advice> {
    some(
        sum(account, &[Kind::Stacks]),
        "{} are threads' stacks.",
        "A stack keeps the pages of its deepest call until its thread ends.",
        "Fewer threads, or less depth, take less memory.",
    )
}

fn shared(account: &Account) -> Option<Advice> {
    some(
        sum(account, &[Kind::Shared]),
        "{} are memory that the process shares with others.",
        "Each of these processes counts it in full in its RSS.",
        "`Pss` in /proc/PID/smaps_rollup counts only this process's share."
            .replace("PID", &account.process.to_string()),
    )
}

fn swapped(account: &Account) -> Option<Advice> {
    some(
        account.swapped,
        "{} more are swapped out.",
        "The system had too little memory. The RSS does not count them.",
        "They come back when the program touches them.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use masu_inspect::account::{Class, GoingBack, Part};

    /// The account of a process with one thread and these parts.
    fn account(parts: &[(Kind, i64)]) -> Account {
        let part = |&(kind, bytes)| Part { kind, name: None, bytes };
        let rss = parts.iter().map(|(_, bytes)| bytes.unsigned_abs()).sum();
        Account {
            rss,
            sum: rss,
            closes: true,
            parts: parts.iter().map(part).collect(),
            going_back: GoingBack {
                decay_ms: Some(500),
                budget: 4 << 20,
                background: false,
                purged: 0,
            },
            ..Account::of(7, "x".into(), &[])
        }
    }

    /// The only advice.
    fn only(account: &Account) -> Advice {
        let all = of(account, false, None);
        let [advice] = &all[..] else { panic!("{all:?}") };
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
        let keepers = Keepers { stacks: 14, share: 0.97 };
        let all = of(&account, false, Some(keepers));
        let [live, free] = &all[..] else { panic!("{all:?}") };
        let said = "mainly 300 blocks of up to 1 KiB (300 KiB). 200 MiB more of its blocks are not resident.";
        assert!(live.why.contains(said), "{live:?}");
        assert!(free.why.contains("The largest part, 200 KiB, is in blocks of 1 KiB"), "{free:?}");
        assert!(free.why.ends_with("blocks from 14 call stacks keep 97 % of it."), "{free:?}");
    }

    #[test]
    fn the_largest_blocks_are_named_first_and_small_parts_not_at_all() {
        let parts =
            [(Kind::LiveSmall, 4 << 10), (Kind::LiveMedium, 1 << 20), (Kind::LiveHuge, 9 << 20)];
        let mut account = account(&parts);
        let (size, live_bytes) = (4096, 4096);
        account.classes =
            vec![Class { size, live_bytes, spans: 1, live: 1, capacity: 16, free_bytes: 0 }];
        (account.medium_blocks, account.huge_blocks, account.allocated) = (1, 3, 10 << 20);
        let said = only(&account).why;
        assert!(
            said.contains("mainly 3 huge blocks (9 MiB), 1 medium block (1 MiB). At most"),
            "{said}"
        );
        account.parts.retain(|part| part.kind == Kind::LiveSmall);
        account.rss = 4096;
        let said = only(&account).why;
        assert!(said.contains("mainly 1 block of up to 4 KiB (4 KiB)."), "{said}");
    }

    #[test]
    fn what_threads_keep_is_not_taken_where_decay_is_never() {
        let mut account = account(&[(Kind::Bins, 1 << 20)]);
        assert!(only(&account).why.contains("from a sleeping thread after 500 ms; its bins stay"));
        account.going_back.decay_ms = None;
        assert!(only(&account).why.contains("keeps all of them, since decay is never"));
    }

    #[test]
    fn a_purge_is_advised_only_where_it_reaches_the_process() {
        for kind in [Kind::DirtyPages, Kind::FreeHardened] {
            let mut account = account(&[(kind, 60 << 20)]);
            assert!(!only(&account).todo.contains("masu purge"), "{account:?}");
            assert!(of(&account, true, None)[0].todo.contains("`masu purge -p 7`"), "{account:?}");
            account.going_back.background = true;
            assert!(only(&account).todo.contains("`masu purge -p 7`"), "{account:?}");
        }
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
        assert!(only(&account).why.ends_with("returns them within 500 ms."));
        account.going_back.decay_ms = None;
        assert_eq!(only(&account).why, "They stay, since decay is set to never.");
    }
}
