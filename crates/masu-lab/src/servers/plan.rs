//! How much is measured in the time that there is.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::CALIBRATION;

/// The shortest time at a level that says anything.
const SHORTEST: f64 = 1.0;
/// Levels of this length are worth another round.
const ENOUGH: f64 = 3.0;
/// The longest ones, unless somebody asks for longer ones.
const LONGEST: f64 = 10.0;

/// What is asked for.
pub struct Wish {
    /// Seconds that each service takes to start.
    pub starts: Vec<f64>,
    /// How many allocators there are.
    pub allocators: usize,
    /// The levels, in percent.
    pub levels: Vec<u32>,
    /// Rounds, at most.
    pub rounds: usize,
    /// Seconds at a level.
    pub seconds: Option<f64>,
    /// The time that all of it may take.
    pub time: Option<Duration>,
}

/// What is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The levels, in percent.
    pub levels: Vec<u32>,
    /// Rounds.
    pub rounds: usize,
    /// Seconds at a level.
    pub seconds: f64,
}

impl Plan {
    /// The most rounds of levels that are long enough; else one round of what there is time for.
    pub fn new(wish: Wish) -> Result<Self> {
        let Wish { levels, rounds, time, .. } = &wish;
        let plan = |rounds, seconds| Plan { levels: levels.clone(), rounds, seconds };
        let Some(time) = time else { return Ok(plan(*rounds, wish.seconds.unwrap_or(LONGEST))) };
        let longest = |rounds: usize| {
            let left = time.as_secs_f64() - wish.fixed(rounds);
            left / (wish.starts.len() * wish.allocators * rounds) as f64 / wish.share()
        };
        let enough = wish.seconds.unwrap_or(ENOUGH);
        let rounds = (1..=*rounds).rev().find(|&rounds| longest(rounds) >= enough).unwrap_or(1);
        let seconds = longest(rounds);
        ensure!(
            seconds >= SHORTEST,
            "{} services on {} allocators take at least {:.0} s: name fewer with --only, --against or --levels",
            wish.starts.len(),
            wish.allocators,
            wish.fixed(1) + wish.share() * (wish.starts.len() * wish.allocators) as f64
        );
        Ok(plan(rounds, seconds.min(wish.seconds.unwrap_or(LONGEST))))
    }

    /// How long a server is loaded before anything counts.
    pub fn warm_up(&self) -> Duration {
        Duration::from_secs_f64((self.seconds * WARM_UP).max(SHORTEST / 2.0))
    }

    /// Every round with all allocators: in an order that begins elsewhere each time and every other time goes backwards.
    pub fn order(&self, allocators: usize) -> Vec<(usize, usize)> {
        let turn = move |round: usize| {
            (0..allocators).map(move |turn| {
                let place = (turn + round) % allocators;
                (round, if round.is_multiple_of(2) { place } else { allocators - 1 - place })
            })
        };
        (0..self.rounds).flat_map(turn).collect()
    }
}

/// The warm-up, as a share of a level.
const WARM_UP: f64 = 0.4;

impl Wish {
    /// Seconds that go whatever the levels' length is: starts, capacities, ends.
    fn fixed(&self, rounds: usize) -> f64 {
        // What is prepared, and half of the rest of two neighbours, beside which nobody is loaded.
        let once = CALIBRATION.as_secs_f64() * 1.5 + 6.0;
        let cells = (self.allocators * rounds) as f64;
        self.starts.iter().map(|start| 2.0 * start + once + cells * (start + 0.3)).sum()
    }

    /// What of a cell is a multiple of a level.
    fn share(&self) -> f64 {
        self.levels.len() as f64 + WARM_UP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(time: Option<u64>) -> Wish {
        let time = time.map(Duration::from_secs);
        let (starts, levels) = (vec![1.0; 10], vec![30, 60, 90]);
        Wish { starts, allocators: 5, levels, rounds: 3, seconds: None, time }
    }

    #[test]
    fn more_time_makes_levels_longer_and_then_rounds_more() {
        let plan = |seconds| Plan::new(wish(Some(seconds))).unwrap();
        let [short, medium, long] = [400, 800, 7200].map(plan);
        assert!(short.rounds == 1 && short.seconds < ENOUGH, "{short:?}");
        assert!(medium.rounds == 1 && medium.seconds > short.seconds, "{medium:?}");
        assert_eq!((long.rounds, long.seconds), (3, LONGEST));
        assert_eq!(Plan::new(wish(None)).unwrap(), long);
        // All of it fits.
        let takes = wish(None).fixed(1) + short.seconds * wish(None).share() * 50.0;
        assert!((takes - 400.0).abs() < 1.0, "{takes}");
        assert!(Plan::new(wish(Some(60))).unwrap_err().to_string().contains("--only"));
    }

    #[test]
    fn every_allocator_has_its_turn_in_every_round_and_none_is_always_first() {
        let plan = Plan { levels: vec![60], rounds: 4, seconds: 1.0 };
        let order = plan.order(3);
        for round in 0..4 {
            let mut turns: Vec<_> =
                order.iter().filter(|turn| turn.0 == round).map(|turn| turn.1).collect();
            turns.sort_unstable();
            assert_eq!(turns, [0, 1, 2]);
        }
        let first: std::collections::BTreeSet<_> = order.chunks(3).map(|turn| turn[0].1).collect();
        assert!(first.len() > 1, "{order:?}");
    }
}
