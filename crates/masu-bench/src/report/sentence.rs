//! Who wins one workload, in sentences: who is best in time or not to be told apart from the best,
//! everybody who is beyond the noise, and what the subject does to memory.

use super::standing::{Judged, Place, Standing, noise_text};
use super::{Metric, list};
use crate::race::results::{Measured, Results};
use crate::stats::Verdict;

/// Rounds below which a reader is warned.
pub const ENOUGH: usize = 5;

/// Who wins `measured`, by how much, and whether that is more than noise.
pub fn sentence(results: &Results, measured: &Measured) -> String {
    let name = |place: &Place| results.arms[place.arm].name.clone();
    let standing = Standing::new(results, measured, Metric::Wall);
    let (best, rest) = standing.split();
    if best.is_empty() {
        return match measured.runs.is_empty() {
            true => "Nobody wins: nothing was timed.".into(),
            false => "Nobody wins: no allocator ran it without a failure.".into(),
        };
    }
    if let ([only], []) = (best.as_slice(), rest.as_slice()) {
        let failed = results.shown().any(|arm| measured.failure(arm).is_some());
        return match failed {
            true => format!("Nobody wins: only {} ran it without a failure.", name(only)),
            false => format!("Nobody wins yet: only {} has run it.", name(only)),
        };
    }
    if standing.noise.is_none() {
        return "Nobody wins yet: measuring how much two entries of the same allocator differ takes two rounds of \
                both."
            .into();
    }
    let noise = format!("the noise of {}", noise_text(standing.noise, 1));
    let mut worse: Vec<String> =
        rest.iter().map(|place| format!("{}{}", name(place), times(place.to_best))).collect();
    if let Some(first) = rest.first() {
        worse[0] = format!("{} takes{}", name(first), times(first.to_best));
    }
    let time = match (best.as_slice(), worse.as_slice()) {
        ([winner], worse) => {
            let worse = list(worse);
            format!("{} is the fastest: {worse} times as long, beyond {noise}.", name(winner))
        }
        (several, []) => {
            let names: Vec<String> = several.iter().map(|place| name(place)).collect();
            format!("A tie in time: {} differ by no more than {noise}.", list(&names))
        }
        (several, worse) => {
            let names: Vec<String> = several.iter().map(|place| name(place)).collect();
            let worse = list(worse);
            format!(
                "A tie in time between {}, within {noise}; beyond it, {worse} times as long.",
                list(&names)
            )
        }
    };
    let rounds = measured.runs.iter().map(|run| run.round + 1).max().unwrap_or(0);
    let caution = match rounds < ENOUGH {
        true => format!(" Fewer than {ENOUGH} rounds prove little."),
        false => String::new(),
    };
    time + &memory(results, measured) + &caution
}

/// An interval whose farther end is farther than this part of the centre is written with both ends.
const WIDE: f64 = 0.5;

/// ` 1.35 ± 0.02`, or ` 6.12 (1.40 to 14.60)`, where ± would hold what the interval does not; nothing if it was not
/// compared.
fn times(judged: Option<Judged>) -> String {
    judged.map_or(String::new(), |Judged { ratio, .. }| match ratio.spread() {
        Some(spread) if spread > WIDE => {
            format!(" {:.2} ({:.2} to {:.2})", ratio.centre, ratio.low, ratio.high)
        }
        Some(spread) => format!(" {:.2} ± {:.2}", ratio.centre, ratio.centre * spread),
        None => format!(" {:.2}", ratio.centre),
    })
}

/// The subject's peak memory beside that of the system's allocator.
fn memory(results: &Results, measured: &Measured) -> String {
    let system = results.shown().find(|&arm| results.arms[arm].library.is_none());
    let subject = results.shown().next().expect("a race has a subject");
    let both = system
        .filter(|&system| system != subject)
        .filter(|&system| [system, subject].into_iter().all(|arm| measured.failure(arm).is_none()));
    let Some(system) = both else { return String::new() };
    let Some(judged) = Judged::between(results, measured, Metric::Peak, subject, system) else {
        return String::new();
    };
    let (name, other) = (&results.arms[subject].name, &results.arms[system].name);
    match judged.verdict {
        Verdict::Tie => format!(" In peak memory, {name} and {other} cannot be told apart."),
        _ => format!(" {name} takes{} times the peak memory of {other}.", times(Some(judged))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::results::Role;
    use crate::testing;

    fn said(masu: &[f64], glibc: &[f64], other: &[f64]) -> String {
        let results = testing::results(&[
            ("masu", Role::Subject, masu),
            ("glibc", Role::Peer, glibc),
            ("other", Role::Peer, other),
            ("glibc", Role::Twin, glibc),
        ]);
        sentence(&results, &results.workloads[0])
    }

    #[test]
    fn the_fastest_is_named_and_everybody_beyond_the_noise() {
        assert_eq!(
            said(&[1.0; 8], &[1.5; 8], &[1.2; 8]),
            "masu is the fastest: other takes 1.20 ± 0.00 and glibc 1.50 ± 0.00 times as long, beyond \
             the noise of ±1.0%. masu takes 0.67 ± 0.00 times the peak memory of glibc."
        );
        let glibc = said(&[1.5; 8], &[1.0; 8], &[2.0; 8]);
        assert!(glibc.starts_with("glibc is the fastest: masu takes 1.50 ± 0.00 and"), "{glibc}");
        assert!(
            glibc.ends_with("masu takes 1.50 ± 0.00 times the peak memory of glibc."),
            "{glibc}"
        );
    }

    #[test]
    fn a_difference_within_the_noise_is_a_tie() {
        let said = said(&[1.0; 8], &[1.005; 8], &[2.0; 8]);
        assert!(
            said.starts_with(
                "A tie in time between masu and glibc, within the noise of ±1.0%; beyond it, other \
                 takes 2.00 ± 0.00 times as long."
            ),
            "{said}"
        );
        assert!(said.ends_with("In peak memory, masu and glibc cannot be told apart."), "{said}");
    }

    /// ± 6.07 would hold 1, whereas the interval lies beyond the noise.
    #[test]
    fn a_wide_interval_is_written_with_its_ends() {
        let lopsided = [3.0, 4.0, 5.0, 6.0, 6.2, 9.0, 12.0, 15.0];
        let said = said(&[1.0; 8], &lopsided, &[1.2; 8]);
        assert!(said.contains("glibc 6.10 (3.93 to 12.17) times as long, beyond"), "{said}");
        assert!(said.contains("masu takes 0.16 (0.08 to 0.25) times the peak"), "{said}");
    }

    /// The one in the middle is erratic, so that nothing tells it from the best, and the steady last
    /// one is beyond the noise: it must be named, and no other in its place.
    #[test]
    fn who_alone_is_beyond_the_noise_is_named() {
        let erratic = [0.7, 0.8, 1.6, 2.0, 1.5, 2.2, 0.6, 2.1];
        let said = said(&[1.0; 8], &[1.07; 8], &erratic);
        assert!(
            said.starts_with(
                "A tie in time between masu and other, within the noise of ±1.0%; beyond it, glibc \
                 takes 1.07 ± 0.00 times as long."
            ),
            "{said}"
        );
    }

    #[test]
    fn few_rounds_prove_little() {
        let said = said(&[1.0, 1.01, 1.0], &[2.0, 2.01, 2.0], &[3.0, 3.01, 3.0]);
        assert!(said.starts_with("masu is the fastest: glibc takes 2.00 ±"), "{said}");
        assert!(said.ends_with("Fewer than 5 rounds prove little."), "{said}");
    }

    /// Two rounds of a program that takes a millisecond and 2.5 MiB.
    #[test]
    fn where_the_data_carry_no_verdict_none_is_given() {
        let said = said(&[0.0025, 0.0026], &[0.0026, 0.0024], &[0.0025, 0.0025]);
        assert!(said.starts_with("A tie in time: "), "{said}");
        assert!(said.contains("masu and glibc cannot be told apart"), "{said}");
    }

    #[test]
    fn who_failed_wins_nothing() {
        let nan = [f64::NAN; 8];
        let said = |masu: &[f64], glibc: &[f64], other: &[f64]| self::said(masu, glibc, other);
        let two = said(&nan, &[2.0; 8], &[3.0; 8]);
        assert!(two.starts_with("glibc is the fastest: other takes 1.50 ± 0.00 times"), "{two}");
        assert!(!two.contains("masu"), "{two}");
        let nobody = said(&nan, &nan, &nan);
        assert_eq!(nobody, "Nobody wins: no allocator ran it without a failure.");
        let nothing = said(&[], &[], &[]);
        assert_eq!(nothing, "Nobody wins: nothing was timed.");
        let one = said(&[1.0; 8], &nan, &nan);
        assert_eq!(one, "Nobody wins: only masu ran it without a failure.");
    }

    /// As when the time is up.
    #[test]
    fn who_has_not_run_has_not_failed() {
        assert_eq!(said(&[1.0; 8], &[], &[]), "Nobody wins yet: only masu has run it.");
    }

    /// As after Ctrl-C before anybody's second entry had its turn.
    #[test]
    fn without_a_second_entry_nobody_wins() {
        let results = testing::results(&[
            ("masu", Role::Subject, &[1.0]),
            ("glibc", Role::Peer, &[2.0]),
            ("glibc", Role::Twin, &[]),
        ]);
        let said = sentence(&results, &results.workloads[0]);
        assert!(said.starts_with("Nobody wins yet: measuring how much two entries"), "{said}");
    }
}
