//! The subject beside each of its peers, over all workloads.

use comfy_table::{Cell, Table};

use super::compare::of_role;
use super::summary::summed;
use super::table::right;
use super::{Comparison, Judged, Metric, Style};
use crate::race::results::{Measured, Results, Role};
use crate::stats::{Verdict, geometric_mean, median};

/// The subject beside each of its peers: the geometric mean and the median of the ratios, and in how many rows it takes
/// less, or more, beyond the noise. Less sensitive to single rows than everybody's distance from the best.
pub fn table(results: &Results, comparisons: &[Comparison], style: Style) -> String {
    let summed = summed(comparisons);
    let mut table = Table::new();
    let titles = summed.iter().map(|one| one.metric.name());
    table.set_header(std::iter::once("against").chain(titles));
    for peer in of_role(results, Role::Peer) {
        let cells = summed.iter().map(|one| right(beside(results, one.metric, peer)));
        table.add_row(std::iter::once(Cell::new(&results.arms[peer].name)).chain(cells));
    }
    style.draw(&mut table);
    table.to_string() + "\n"
}

/// `0.84, median 1.00: 23 less, 28 undecided, 20 more`.
fn beside(results: &Results, metric: Metric, peer: usize) -> String {
    let behaved = |one: &&Measured| [0, peer].iter().all(|&arm| one.failure(arm).is_none());
    let both = results.workloads.iter().filter(behaved);
    let judged = both.filter_map(|one| Judged::between(results, one, metric, 0, peer));
    let judged: Vec<_> = judged.collect();
    let ratios: Vec<_> = judged.iter().map(|one| one.ratio.centre).collect();
    let count = |wanted| judged.iter().filter(|one| one.verdict == wanted).count();
    match (geometric_mean(&ratios), median(&ratios)) {
        (Some(mean), Some(median)) => format!(
            "{mean:.2}, median {median:.2}: {} less, {} undecided, {} more",
            count(Verdict::Win),
            count(Verdict::Tie),
            count(Verdict::Loss)
        ),
        _ => "-".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::summary::METRICS;
    use super::*;
    use crate::testing::results;

    #[test]
    fn a_peer_has_its_own_comparison() {
        let results = results(&[
            ("masu", Role::Subject, &[1.0; 4]),
            ("glibc", Role::Peer, &[4.0; 4]),
            ("other", Role::Peer, &[1.001; 4]),
            ("glibc", Role::Twin, &[4.0; 4]),
        ]);
        let all = METRICS.map(|metric| Comparison::new(&results, metric));
        let text = table(&results, &all, Style::Markdown);
        let row = |name| text.lines().find(|line| line.contains(name)).unwrap();
        assert!(
            row("glibc").contains("| 0.25, median 0.25: 1 less, 0 undecided, 0 more |"),
            "{text}"
        );
        assert!(
            row("other").contains("| 1.00, median 1.00: 0 less, 1 undecided, 0 more |"),
            "{text}"
        );
    }
}
