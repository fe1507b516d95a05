//! What the experiment says: the aims first, then the medians, ours beside the published ones.

use anyhow::Result;

use super::cells::SIZES;
use super::judge::{self, judge};
use super::output::Cell;
use super::patterns::Pattern;
use super::published::{self, MACHINES, Published};
use super::{COLUMNS, Results};
use crate::experiments::files::markdown;
use crate::stats::Verdict;

/// The sizes of the tables; the files have all of them.
const SHOWN: [usize; 6] = [8, 64, 256, 1024, 2048, 4096];

/// The whole report.
pub fn render(results: &Results, cells: &[Cell]) -> Result<String> {
    let published = published::read()?;
    let mut text = head(results);
    text += &aims(results, cells);
    for pattern in Pattern::ALL {
        let name = pattern.name();
        text += &format!(
            "\n## {name}\n\n![{name}](memalloc-bench/total_{name}.svg)\n\nMilliseconds for 1000 batches of 100, medians:\n\n"
        );
        text += &table(cells, &published, pattern, |cell| cell.total_ms.median);
        text += "\nMicroseconds for the first batch, medians:\n\n";
        text += &table(cells, &Published::new(), pattern, |cell| cell.latency_us.median);
        text += "\nPage faults in 1000 batches after the first 1000 of a process, the most:\n\n";
        let faults = |cell: &Cell| cell.faults_max.map_or(f64::NAN, |count| count as f64);
        text += &table(cells, &Published::new(), pattern, faults);
    }
    Ok(text)
}

fn head(results: &Results) -> String {
    format!(
        "# memalloc-bench: Slab against Box, and what masu offers\n\n\
         Measured {} by `cargo run --release -p masu-lab -- memalloc-bench`: {} iterations in {} interleaved rounds.\n\n\
         {}.\n\n\
         Columns without `masu` in their name run on the system's allocator. A slab moves each object in and out, \
         a box and a lease do not, so slabs get slower with size. `(published)` rows are the article's, read off its \
         figures. All nineteen sizes, every measurement and more charts: `results/memalloc-bench`, after a run.\n",
        results.date, results.iterations, results.rounds, results.machine,
    )
}

fn find<'c>(cells: &'c [Cell], name: &str, pattern: Pattern, size: usize) -> Option<&'c Cell> {
    cells.iter().find(|cell| {
        (cell.allocator, cell.pattern, cell.size_bytes) == (name, pattern.name(), size)
    })
}

/// How columns are compared.
const JUDGED: &str = "A cell is slower if it is so in the rounds' ratios of medians beyond doubt (their interval of 95 % lies \
                      above 1) and by more than the noise, which is what the same store measured twice differs by in \
                      nineteen of twenty sizes of the pattern; faster likewise; level otherwise. All processes of a round \
                      run in turns, and one process is one sample.";

/// What is wanted of masu, and whether it is so.
fn aims(results: &Results, cells: &[Cell]) -> String {
    let mut lines = Vec::new();
    for pattern in [Pattern::Lifo, Pattern::Fifo] {
        let time = |size| Some(find(cells, "masu_box", pattern, size)?.total_ms.median);
        let worst = SIZES
            .into_iter()
            .filter_map(|size| Some((size, time(size)? / time(64)?)))
            .max_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((size, ratio)) = worst {
            lines.push(said(
                ratio <= 2.0,
                format!(
                    "box on masu, {}: at most {ratio:.2} times its 64 B time, at {size} B (aim: 2)",
                    pattern.name()
                ),
            ));
        }
    }
    let most = |name: &str| {
        let of_name = cells.iter().filter(|cell| cell.allocator == name);
        of_name.filter_map(|cell| Some((cell.faults_max?, cell))).max_by_key(|(count, _)| *count)
    };
    for (name, aim) in [("masu_box", Some(10)), ("box", None)] {
        if let Some((count, cell)) = most(name) {
            let place = format!("{} {} B", cell.pattern, cell.size_bytes);
            let text = format!("page faults in 1000 batches of {name}: at most {count}, {place}");
            lines.push(match aim {
                Some(aim) => said(count <= aim, format!("{text} (aim: {aim})")),
                None => format!("- {text}"),
            });
        }
    }
    let slabs = ("slab_warm", "slab_warm_again");
    let pairs = [
        ("masu_slab_warm", "slab_warm", slabs),
        ("masu_slab_warm", "slab_warm_on_masu", slabs),
        ("masu_slab_cold", "slab_cold", ("slab_cold", "slab_cold_again")),
        ("masu_pool_cold", "bufpool_cold", ("bufpool_cold", "bufpool_cold_again")),
        ("masu_pool_warm", "bufpool_warm", ("bufpool_warm", "bufpool_warm_again")),
        ("masu_box", "box", slabs),
    ];
    for (mine, theirs, twins) in pairs {
        lines.push(never_slower(results, mine, theirs, twins));
    }
    for name in ["masu_slab_cold", "slab_cold", "bufpool_cold"] {
        let worst = SIZES
            .into_iter()
            .flat_map(|size| Pattern::ALL.map(|pattern| (pattern, size)))
            .filter_map(|(pattern, size)| {
                let latency = find(cells, name, pattern, size)?.latency_us;
                Some((latency.max / latency.median, pattern, size))
            })
            .max_by(|a, b| a.0.total_cmp(&b.0));
        let lifo = find(cells, name, Pattern::Lifo, 256).map(|cell| cell.latency_us);
        if let (Some((worst, pattern, size)), Some(lifo)) = (worst, lifo) {
            let text = format!(
                "first batch of {name}, slowest over median: {:.1} in lifo 256 B as published, at most {worst:.1} ({} {size} B)",
                lifo.max / lifo.median,
                pattern.name()
            );
            lines.push(match name {
                "masu_slab_cold" => said(lifo.max / lifo.median <= 3.0, text + " (aim: 3)"),
                _ => format!("- {text}"),
            });
        }
    }
    format!("\n## Aims\n\n{JUDGED}\n\n{}\n", lines.join("\n"))
}

fn said(holds: bool, text: String) -> String {
    format!("- {}: {text}", if holds { "holds" } else { "MISSED" })
}

/// In how many cells one column takes longer than another by more than the noise, and in how many less.
fn never_slower(results: &Results, mine: &str, theirs: &str, twins: (&str, &str)) -> String {
    let judged = judge(results, mine, theirs, twins);
    let slower = judged.slower();
    let cell = |cell: &judge::Cell| {
        format!("{} {} B {:.2}", cell.pattern.name(), cell.size, cell.ratio.centre)
    };
    let worst: Vec<String> = slower.iter().take(6).map(cell).collect();
    let list = if worst.is_empty() { String::new() } else { format!(": {}", worst.join(", ")) };
    let noise = |(pattern, noise): &(Pattern, f64)| format!("{} {noise:.2}", pattern.name());
    let noise: Vec<String> = judged.noise.iter().map(noise).collect();
    said(
        slower.is_empty(),
        format!(
            "{mine} against {theirs}: {:.2} on average, slower in {} cells, level in {}, faster in {}{list} \
             (noise, by {}: {})",
            judged.mean(),
            slower.len(),
            judged.count(Verdict::Tie),
            judged.count(Verdict::Win),
            twins.1,
            noise.join(", "),
        ),
    )
}

fn table(
    cells: &[Cell],
    published: &Published,
    pattern: Pattern,
    of: impl Fn(&Cell) -> f64,
) -> String {
    let header: Vec<String> =
        std::iter::once("column".into()).chain(SHOWN.map(|size| format!("{size} B"))).collect();
    let show = |value: Option<f64>| match value {
        Some(value) if value.is_finite() && value < 10.0 && value.fract() != 0.0 => {
            format!("{value:.3}")
        }
        Some(value) if value.is_finite() => format!("{value:.0}"),
        _ => "-".into(),
    };
    let mut rows = Vec::new();
    for column in COLUMNS {
        let figures = SHOWN.map(|size| show(find(cells, column.name, pattern, size).map(&of)));
        rows.push(std::iter::once(column.name.to_string()).chain(figures).collect());
        for (machine, model) in MACHINES {
            let figure = |size| {
                published.get(&(machine, pattern.name().to_string(), column.name, size)).copied()
            };
            if figure(SHOWN[0]).is_some() {
                let name = format!("{} (published, {model})", column.name);
                rows.push(
                    std::iter::once(name).chain(SHOWN.map(|size| show(figure(size)))).collect(),
                );
            }
        }
    }
    markdown(&header, &rows)
}
