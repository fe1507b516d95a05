//! The report for a terminal: the stacks that matter most.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use masu_profile::symbols::{Frame, Symbols};
use masu_profile::view::{View, bytes, margin, variance};
use masu_profile::{Amount, Profile};

use crate::printable::printable;

/// Maximum number of stacks shown, and of frames of each.
const STACKS: usize = 15;
const FRAMES: usize = 16;

/// What is shown of a stack.
#[derive(Default, Clone)]
struct Entry {
    amount: Amount,
    variance: f64,
    /// The bytes that its samples stand for, those of a base included.
    sampled: f64,
    freed: f64,
    lived: f64,
}

/// Writes the report. For [`View::Growth`], an earlier profile was subtracted.
pub fn report(profile: &Profile, symbols: &Symbols, view: View) -> String {
    let stacks = gather(profile, symbols, view);
    let total: Entry = stacks.values().fold(Entry::default(), |mut sum, entry| {
        sum.amount.bytes += entry.amount.bytes;
        sum.amount.objects += entry.amount.objects;
        sum.variance += entry.variance;
        sum.sampled += entry.sampled;
        sum
    });
    let mut list: Vec<_> =
        stacks.into_iter().filter(|(_, entry)| entry.amount.bytes != 0.0).collect();
    list.sort_by(|(a, x), (b, y)| y.amount.bytes.total_cmp(&x.amount.bytes).then_with(|| a.cmp(b)));
    let mut text = String::new();
    let free = profile.free.filter(|_| view == View::Retained);
    // What has shrunk counts as well: the balance of both may be anything.
    let changed = || list.iter().map(|(_, entry)| entry.amount.bytes.abs()).sum();
    let all = free.map_or_else(changed, |free| free.bytes);
    let milliseconds = free.map_or(profile.milliseconds, |free| free.milliseconds);
    let _ = writeln!(
        text,
        "{}: {} (process {}, {:.1} s, a sample in {})",
        view.title(),
        if free.is_some() { bytes(all) } else { figure(view, &total) },
        profile.pid,
        milliseconds as f64 / 1000.0,
        bytes(profile.rate as f64),
    );
    for (stack, entry) in list.iter().take(STACKS) {
        let _ = write!(
            text,
            "\n{:5.1} %  {}",
            100.0 * entry.amount.bytes / all.max(1.0),
            figure(view, entry)
        );
        if view == View::Lifetimes {
            let _ = write!(text, ", {}", lifetime(entry));
        }
        text.push('\n');
        for frame in stack.iter().take(FRAMES) {
            let _ = writeln!(text, "         {}", printable(&frame.to_string()));
        }
        if stack.len() > FRAMES {
            let _ = writeln!(text, "         … {} more", stack.len() - FRAMES);
        }
        if stack.is_empty() {
            text.push_str(
                "         (no stack: the table was full, or the program has no unwinding tables)\n",
            );
        }
    }
    if list.len() > STACKS {
        let rest: f64 = list.iter().skip(STACKS).map(|(_, entry)| entry.amount.bytes).sum();
        let _ = writeln!(text, "\n{} other stacks: {}", list.len() - STACKS, bytes(rest));
    }
    for (part, what) in free.iter().flat_map(|free| {
        [
            (free.unknown, "beside blocks of sizes without a sample"),
            (free.samples, "beside the samples' own blocks"),
        ]
    }) {
        if part >= 0.5 {
            let _ =
                writeln!(text, "\n{:5.1} %  {} {what}", 100.0 * part / all.max(1.0), bytes(part));
        }
    }
    if list.is_empty() {
        text.push_str(match view {
            View::Growth => "\nNothing that was sampled grew or shrank between the two profiles.\n",
            View::Retained if all < 0.5 => "\nNo block in use keeps free memory.\n",
            _ => "\nNothing was sampled: a smaller --rate takes more samples.\n",
        });
    }
    if !symbols.bare.is_empty() {
        let name = |file: &PathBuf| printable(&file.to_string_lossy());
        let files: Vec<_> = symbols.bare.iter().map(name).collect();
        let _ = writeln!(text, "\nWithout symbols: {}", files.join(", "));
    }
    text
}

/// Formats a view's figure of a stack, or of all.
fn figure(view: View, entry: &Entry) -> String {
    let of = bytes(entry.amount.bytes);
    let blocks = match entry.amount.objects.round() {
        1.0 => "1 block".to_owned(),
        n => format!("{n:.0} blocks"),
    };
    if view == View::Retained {
        return format!("{of} kept by {blocks}");
    }
    let margin = margin(entry.variance, entry.sampled);
    let few = if margin > entry.amount.bytes.abs() { ": too few samples" } else { "" };
    format!("{of} ± {} in {blocks}{few}", bytes(margin))
}

fn gather(profile: &Profile, symbols: &Symbols, view: View) -> HashMap<Vec<Frame>, Entry> {
    let mut stacks: HashMap<Vec<Frame>, Entry> = HashMap::new();
    for place in &profile.places {
        let amount = view.of(place);
        if amount.bytes == 0.0 {
            continue;
        }
        let entry = stacks.entry(symbols.stack(&place.frames).cloned().collect()).or_default();
        entry.amount.bytes += amount.bytes;
        entry.amount.objects += amount.objects;
        entry.variance += variance(amount.bytes, place);
        entry.sampled += amount.bytes.abs();
        entry.freed += place.allocated.objects - place.live.objects;
        entry.lived += place.lived;
    }
    stacks
}

fn lifetime(entry: &Entry) -> String {
    let kept = 100.0 * (1.0 - entry.freed / entry.amount.objects);
    if entry.freed < 0.5 {
        return "never freed".into();
    }
    let mean = match entry.lived / entry.freed {
        mean if mean < 1.0 => "within 1 ms".to_owned(),
        mean if mean < 1000.0 => format!("after {mean:.0} ms"),
        mean => format!("after {:.1} s", mean / 1000.0),
    };
    if kept < 0.05 {
        format!("freed {mean} on average")
    } else {
        format!("freed {mean} on average except for {kept:.0} %")
    }
}

#[cfg(test)]
mod tests {
    use masu_profile::{Mapping, Place};

    use super::*;

    /// A profile with so many bytes in use at each of these calls.
    fn live(calls: &[(u64, f64)]) -> Profile {
        let place = |&(frame, bytes)| Place {
            live: Amount { objects: 1.0, bytes },
            frames: vec![frame],
            ..Place::default()
        };
        Profile { places: calls.iter().map(place).collect(), ..Profile::default() }
    }

    #[test]
    fn shares_of_growth_are_of_all_that_has_changed() {
        let profile = live(&[(0x10, 3e6), (0x20, -9e6)]);
        let text = report(&profile, &Symbols::of(&profile), View::Growth);
        assert!(
            text.contains("\n 25.0 %  2.9 MiB") && text.contains("\n-75.0 %  -8.6 MiB"),
            "{text}"
        );
    }

    #[test]
    fn no_file_has_a_name_that_controls_the_terminal() {
        let path = "/no/such/a\x1b[2J".into();
        let mapping = Mapping { start: 0, end: 0x1000, offset: 0, path, file: None };
        let profile = Profile { mappings: vec![mapping], ..live(&[(0x10, 3e6)]) };
        let text = report(&profile, &Symbols::of(&profile), View::Live);
        assert!(text.contains(" a?[2J+0xf\n"), "{text}");
        assert!(text.contains("Without symbols: /no/such/a?[2J\n"), "{text}");
    }
}
