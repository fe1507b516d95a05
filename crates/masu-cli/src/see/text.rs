//! The account for people.

use std::fmt::Write;

use anstyle::Style;
use masu_inspect::Account;
use masu_inspect::account::{Kind, Part, Thread};

use super::advice::Advice;
use crate::bytes::Bytes;
use crate::columns::paragraph;
use crate::printable::printable;

const BOLD: Style = Style::new().bold();
/// Columns of a line of text, at most.
pub const WIDTH: usize = 80;
/// Maximum number of rows shown of a table.
const ROWS: usize = 6;

/// The groups of parts, in their order.
const GROUPS: [(&str, &[Kind]); 4] = {
    use Kind::*;
    [
        (
            "blocks that the program holds",
            &[LiveSmall, LiveMedium, LiveHuge, LiveHardened, LiveHooked],
        ),
        (
            "free memory that masu holds",
            &[
                FreeInSpans,
                DirtyPages,
                DirtyHuge,
                Bins,
                Caches,
                Outboxes,
                HugeEnds,
                HugePages,
                Locked,
                FreeHardened,
                FreeHooked,
            ],
        ),
        ("masu itself", &[Tables, Library, Profile, Guards, GuardRecords, HardenedRecords]),
        ("not masu's", &[Programs, Anonymous, Brk, Stacks, Files, Shared]),
    ]
};

/// Returns the name of a part.
fn name(part: &Part) -> String {
    let name = match part.kind {
        Kind::LiveSmall => "small ones, up to 16 KiB",
        Kind::LiveMedium => "medium ones, up to 1 MiB",
        Kind::LiveHuge => "huge ones",
        Kind::FreeInSpans => "beside small blocks, in their spans",
        Kind::Bins => "in threads' bins, for their next malloc",
        Kind::Caches => "medium blocks in threads' caches",
        Kind::Outboxes => "on their way to other threads' spans",
        Kind::DirtyPages => "free pages, not yet returned",
        Kind::DirtyHuge => "freed huge blocks, not yet returned",
        Kind::HugeEnds => "past the ends of huge blocks",
        Kind::HugePages => "parts of huge pages that nothing has used",
        Kind::Locked => "unused pages that the program has locked",
        Kind::Tables => "tables",
        Kind::Profile => "recorded stacks",
        Kind::Guards => "guarded blocks, and the rest of their pages",
        Kind::GuardRecords => "guarded blocks' stacks",
        Kind::LiveHardened => "in the hardened heap",
        Kind::FreeHardened => "in the hardened heap and its quarantine",
        Kind::LiveHooked => "in memory of the program's own hooks",
        Kind::FreeHooked => "in memory of the program's own hooks",
        Kind::HardenedRecords => "the hardened heap's records",
        Kind::Library => "libmasu.so",
        Kind::InMotion => "in motion: changed while it was read",
        Kind::Programs => "the program and its libraries",
        Kind::Files => "mapped files",
        Kind::Shared => "shared memory",
        Kind::Stacks => "stacks",
        Kind::Brk => "the brk area, of another allocator",
        Kind::Anonymous => match &part.name {
            Some(name) => return format!("anonymous: {}", printable(name)),
            None => "anonymous: mapped by the program itself",
        },
    };
    name.into()
}

/// The RSS beyond the sum, which was read a moment later.
const BETWEEN: &str = "in motion: came or went while it was read";

/// What the program requested of its resident blocks, and what rounding adds: by a running profile.
const REQUESTED: &str = "of which requested, estimated";
/// See there.
const ROUNDING: &str = "of which rounding to size classes, estimated";

/// Writes what went back, which is no part of the sum.
fn returned(text: &mut String, account: &Account) {
    for (name, bytes) in [
        ("returned inside spans in use: holds no memory", account.returned_in_spans),
        ("returned in all so far", account.going_back.purged),
    ] {
        if bytes != 0 {
            let _ = writeln!(text, "  {name:<46}{:>12}", Bytes(bytes).to_string());
        }
    }
}

/// Writes all of it, with paragraphs of at most `width` columns.
pub fn render(account: &Account, advice: &[Advice], width: usize) -> String {
    let mut text = format!(
        "{BOLD}process {} ({}) on masu {}: {} resident{BOLD:#}\n\n",
        account.process,
        printable(&account.name),
        account.masu,
        Bytes(account.rss),
    );
    for (title, kinds) in GROUPS {
        let mut parts: Vec<&Part> =
            account.parts.iter().filter(|part| kinds.contains(&part.kind)).collect();
        parts.sort_by_key(|part| -part.bytes);
        let sum: i64 = parts.iter().map(|part| part.bytes).sum();
        row(&mut text, account, "", title, sum, BOLD);
        for part in parts {
            row(&mut text, account, "  ", &name(part), part.bytes, Style::new());
        }
        let resident = if kinds.contains(&Kind::LiveSmall) { sum.unsigned_abs() } else { 0 };
        if let Some(rounding) = account.rounding_in(resident).filter(|_| resident != 0) {
            let rounding = rounding.cast_signed();
            row(&mut text, account, "  ", REQUESTED, sum - rounding, Style::new());
            row(&mut text, account, "  ", ROUNDING, rounding, Style::new());
        }
    }
    if let Some(part) = account.parts.iter().find(|part| part.kind == Kind::InMotion) {
        row(&mut text, account, "", &name(part), part.bytes, Style::new());
    }
    row(&mut text, account, "", "sum", account.sum.cast_signed(), BOLD);
    let between = account.rss.cast_signed() - account.sum.cast_signed();
    // Less is shown as nothing.
    if between.unsigned_abs() >= account.rss / 2000 && between != 0 {
        row(&mut text, account, "", BETWEEN, between, Style::new());
    }
    returned(&mut text, account);
    classes(&mut text, account);
    threads(&mut text, account);
    text.push('\n');
    for (number, advice) in (1..).zip(advice) {
        let lead = format!("{number}. ");
        text.push_str(&paragraph(&lead, &format!("{} {}", advice.what, advice.why), width));
        text.push_str(&paragraph("   → ", &advice.todo, width));
    }
    text
}

fn row(text: &mut String, account: &Account, indent: &str, name: &str, bytes: i64, style: Style) {
    let sign = if bytes < 0 { "-" } else { "" };
    let amount = format!("{sign}{}", Bytes(bytes.unsigned_abs()));
    let share = bytes as f64 / account.rss.max(1) as f64 * 100.0;
    let name = format!("{indent}{name}");
    let _ = writeln!(text, "{style}  {name:<46}{amount:>12}{share:>8.1} %{style:#}");
}

/// Writes where free blocks lie beside live ones.
fn classes(text: &mut String, account: &Account) {
    let mut classes: Vec<_> =
        account.classes.iter().filter(|class| class.free_bytes >= LEAST).collect();
    classes.sort_by_key(|class| u64::MAX - class.free_bytes);
    if classes.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "\n{BOLD}  {:>12}{:>9}{:>14}{:>12}{:>12}{BOLD:#}",
        "block size", "spans", "live blocks", "in use", "free"
    );
    for class in classes.iter().take(ROWS) {
        let share = class.live as f64 / class.capacity.max(1) as f64 * 100.0;
        let _ = writeln!(
            text,
            "  {:>12}{:>9}{:>14}{:>10.0} %{:>12}",
            Bytes(class.size).to_string(),
            class.spans,
            class.live,
            share,
            Bytes(class.free_bytes).to_string(),
        );
    }
}

/// Less than this, a span, is not worth a row.
const LEAST: u64 = 64 << 10;

/// Columns of a thread's number and name.
const OWNER: usize = 32;

/// Writes what threads hold.
fn threads(text: &mut String, account: &Account) {
    let bytes = |thread: &Thread| thread.bins + thread.cache + thread.outbox;
    let threads: Vec<_> = account.threads.iter().filter(|thread| bytes(thread) >= LEAST).collect();
    if threads.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "\n{BOLD}  {:<OWNER$}{:>12}{:>12}{:>14}{BOLD:#}",
        "held by", "in bins", "in cache", "on the way"
    );
    for thread in threads.iter().take(ROWS) {
        let [bins, cache, outbox] =
            [thread.bins, thread.cache, thread.outbox].map(|n| Bytes(n).to_string());
        let owner = match (thread.tid, &thread.name) {
            (Some(tid), Some(name)) => format!("thread {tid} {}", printable(name)),
            _ => thread.owner.clone(),
        };
        let _ = writeln!(text, "  {owner:<OWNER$}{bins:>12}{cache:>12}{outbox:>14}");
    }
    if let Some(more) = threads.get(ROWS..).filter(|more| !more.is_empty()) {
        let rest = more.iter().map(|thread| bytes(thread)).sum();
        let _ = writeln!(text, "  {} more hold {}", more.len(), Bytes(rest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_sum_lacks_has_a_line() {
        let part = |bytes| Part { kind: Kind::LiveHuge, name: None, bytes };
        let mut account = Account {
            rss: 100 << 20,
            sum: 94 << 20,
            parts: vec![part(94 << 20)],
            ..Account::of(7, "x".into(), &[])
        };
        assert_eq!(lines(&account, BETWEEN), [format!("{BETWEEN} 6 MiB 6.0 %")]);
        account.sum = account.rss - 1;
        assert_eq!(lines(&account, BETWEEN), Vec::<String>::new());
    }

    /// The lines of an account's text that contain a word, without spaces between their columns.
    fn lines(account: &Account, word: &str) -> Vec<String> {
        let text = render(account, &[], WIDTH);
        let lines = text.lines().filter(|line| line.contains(word));
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn requested_bytes_and_rounding_add_up_to_the_blocks() {
        let part = |bytes| Part { kind: Kind::LiveSmall, name: None, bytes };
        let mut account = Account {
            rss: 100 << 20,
            sum: 100 << 20,
            parts: vec![part(80 << 20)],
            // A fifth is not resident.
            allocated: 100 << 20,
            ..Account::of(7, "x".into(), &[])
        };
        assert_eq!(lines(&account, "estimated"), Vec::<String>::new());
        account.rounding_by_profile = Some(25 << 20);
        assert_eq!(
            lines(&account, "estimated"),
            [
                "of which requested, estimated 60 MiB 60.0 %",
                "of which rounding to size classes, estimated 20 MiB 20.0 %"
            ]
        );
    }

    #[test]
    fn what_went_back_is_told_below_the_sum() {
        let mut account = Account { rss: 1 << 20, sum: 1 << 20, ..Account::of(7, "x".into(), &[]) };
        assert_eq!(lines(&account, "returned"), Vec::<String>::new());
        (account.returned_in_spans, account.going_back.purged) = (3 << 20, 9 << 20);
        assert_eq!(
            lines(&account, "returned"),
            ["returned inside spans in use: holds no memory 3 MiB", "returned in all so far 9 MiB"]
        );
    }

    #[test]
    fn threads_are_named_as_the_kernel_does_where_it_is_known() {
        let thread = |tid, name: &str, bins| Thread {
            owner: "thread 5".into(),
            tid,
            name: tid.map(|_| name.into()),
            bins,
            cache: 0,
            outbox: 0,
            allocated: 0,
            freed: 0,
        };
        let least = u64::from(u16::MAX) + 1;
        let threads = vec![
            thread(Some(4171), "work\x1b[2Jer", 2 * least),
            thread(None, "", least),
            thread(Some(4172), "idle", least - 1),
        ];
        let account = Account { threads, ..Account::of(7, "x".into(), &[]) };
        assert_eq!(
            lines(&account, "thread "),
            ["thread 4171 work?[2Jer 128 KiB 0 bytes 0 bytes", "thread 5 64 KiB 0 bytes 0 bytes"]
        );
    }

    #[test]
    fn no_part_has_a_name_that_controls_the_terminal() {
        let part =
            |name: &str| Part { kind: Kind::Anonymous, name: Some(name.into()), bytes: 1 << 20 };
        let (parts, rss, sum) = (vec![part("a\x1b[2J")], 1 << 20, 1 << 20);
        let account = Account { parts, rss, sum, ..Account::of(7, "x".into(), &[]) };
        let text = render(&account, &[], WIDTH);
        assert!(text.contains("anonymous: a?[2J"), "{text}");
    }
}
