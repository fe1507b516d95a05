//! What is to be raced, and under which conditions.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::results::{Absent, Entrant, Role};
use super::task::Task;
use crate::arm::Arm;

/// What is to be raced. Make it with [`Plan::new`] and change what should be otherwise.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The allocators: the subject first, then all others.
    pub arms: Vec<Arm>,
    /// What is measured.
    pub tasks: Vec<Task>,
    /// How often each pair of task and allocator runs at most.
    pub rounds: usize,
    /// The time that all of it may take.
    pub time: Option<Duration>,
    /// How many more rounds the least certain tasks may have if bounded time is left.
    pub uncertain: usize,
    /// When a single run is given up.
    pub limit: Duration,
    /// The arms that take part twice, to show the noise.
    pub twins: Vec<usize>,
    /// The arms that are shown but are nobody's best, since more than the allocator differs.
    pub aside: Vec<usize>,
    /// How many more times the system's allocator takes part, to show what choosing the best of
    /// so many does.
    pub copies: usize,
    /// How much of the machine's memory to touch before the first run, in MiB.
    pub warm_mib: u64,
    /// Whether to run each pair once before the timed rounds and watch its memory.
    pub watch: bool,
    /// How many rounds to time single operations in, where the task hands them over.
    pub latency_rounds: usize,
    /// Whether to count instructions under callgrind, and with which factor on a workload's work.
    pub instructions: Option<f64>,
    /// Allocators and programs that were to take part and cannot: the results name them.
    pub absent: Vec<Absent>,
    /// Becomes true when the race is to stop.
    pub stop: Arc<AtomicBool>,
}

impl Plan {
    /// A race of seven rounds, with a twin of the subject and of the system's allocator.
    pub fn new(arms: Vec<Arm>, tasks: Vec<Task>) -> Self {
        let system = system_of(&arms);
        let mut twins = vec![0, system];
        twins.dedup();
        Plan {
            arms,
            tasks,
            rounds: 7,
            time: None,
            uncertain: 0,
            limit: Duration::from_secs(60),
            twins,
            aside: Vec::new(),
            copies: 0,
            warm_mib: 1024,
            watch: true,
            latency_rounds: 3,
            instructions: None,
            absent: Vec::new(),
            stop: Arc::default(),
        }
    }

    /// Everybody who takes part in a timed round, with what for.
    pub(super) fn entrants(&self) -> Vec<(Arm, Role)> {
        let role = |place| match place {
            0 => Role::Subject,
            place if self.aside.contains(&place) => Role::Aside,
            _ => Role::Peer,
        };
        let shown = self.arms.iter().enumerate().map(|(place, arm)| (arm.clone(), role(place)));
        let twins = self.twins.iter().map(|&arm| (self.arms[arm].clone(), Role::Twin));
        let copy = (self.arms[self.system()].clone(), Role::Copy);
        shown.chain(twins).chain(std::iter::repeat_n(copy, self.copies)).collect()
    }

    /// The same as they are recorded.
    pub(super) fn recorded(&self) -> Vec<Entrant> {
        self.entrants().iter().map(|(arm, role)| Entrant::of(arm, *role)).collect()
    }

    /// The arm whose output is the reference: the system's own allocator, if it takes part.
    pub fn system(&self) -> usize {
        system_of(&self.arms)
    }

    /// The objects of all arms.
    pub(super) fn libraries(&self) -> Vec<PathBuf> {
        self.arms.iter().filter_map(|arm| arm.library.clone()).collect()
    }
}

fn system_of(arms: &[Arm]) -> usize {
    arms.iter().position(|arm| arm.library.is_none()).unwrap_or(0)
}

/// The order of the entrants in a round of a task: drawn at random, the same in every race, so that nobody has a place
/// or a predecessor of its own, neither in a row nor in the mean of all rows.
pub fn order(entrants: usize, round: usize, task: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..entrants).collect();
    let seed = (task as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ round as u64;
    fastrand::Rng::with_seed(seed).shuffle(&mut order);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_runs_every_entrant_once() {
        for round in 0..20 {
            let mut entrants = order(7, round, 3);
            entrants.sort_unstable();
            assert_eq!(entrants, [0, 1, 2, 3, 4, 5, 6]);
        }
    }

    #[test]
    fn nobody_always_follows_the_same_one() {
        let before_three = |round| {
            let order = order(5, round, 0);
            let place = order.iter().position(|&entrant| entrant == 3).unwrap();
            (place > 0).then(|| order[place - 1])
        };
        let mut seen: Vec<_> = (0..40).map(before_three).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [None, Some(0), Some(1), Some(2), Some(4)]);
    }

    /// With few rounds, one order for all tasks would give somebody the same place in every row.
    #[test]
    fn tasks_have_orders_of_their_own() {
        let mut first: Vec<_> = (0..40).map(|task| order(5, 0, task)[0]).collect();
        first.sort_unstable();
        first.dedup();
        assert_eq!(first, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn twins_and_copies_come_last() {
        let peer = Arm::preloading("x", "1", "/lib/x.so".into());
        let other = Arm { name: "y".into(), ..peer.clone() };
        let arms = vec![peer, Arm::glibc(), other];
        let plan = Plan { copies: 2, aside: vec![2], ..Plan::new(arms, Vec::new()) };
        let roles: Vec<_> = plan.recorded().iter().map(|entrant| entrant.role).collect();
        use Role::{Aside, Copy, Peer, Subject, Twin};
        assert_eq!(roles, [Subject, Peer, Aside, Twin, Twin, Copy, Copy]);
        assert_eq!(plan.recorded()[6].name, "glibc");
    }
}
