//! From which shard a thread takes (the engine's `run/home`): by its number, or on a machine with several nodes by its
//! node and by its number among the threads there. In an oversubscribed process only the first threads have heaps; the
//! others take by their processors.

use super::super::Caller;

/// See the module.
pub struct Homes {
    by_node: bool,
    /// Threads that have heaps.
    heaps: usize,
    /// By thread: its node, and its home.
    of: Vec<Option<(usize, usize)>>,
    /// By node: how many homes it has given.
    given: Vec<usize>,
}

impl Homes {
    /// Nobody has one.
    pub fn new(by_node: bool, heaps: usize) -> Self {
        Homes { by_node, heaps, of: Vec::new(), given: Vec::new() }
    }

    /// Whether a thread has a heap.
    pub fn has_heap(&self, thread: usize) -> bool {
        thread < self.heaps
    }

    /// That of the caller's processor.
    pub fn here(&self, caller: &Caller<'_>) -> usize {
        match caller.machine.nodes.number {
            nodes if self.by_node && nodes > 1 => caller.core * nodes + caller.node(),
            _ => caller.core,
        }
    }

    /// The caller's. It is noticed at once when the thread has moved.
    pub fn of(&mut self, caller: &Caller<'_>) -> usize {
        let (thread, nodes, node) = (caller.thread, caller.machine.nodes.number, caller.node());
        if !self.has_heap(thread) {
            return self.here(caller);
        }
        if !self.by_node || nodes == 1 {
            return thread;
        }
        self.of.resize(self.of.len().max(thread + 1), None);
        self.given.resize(nodes, 0);
        match self.of[thread] {
            Some((of, home)) if of == node => home,
            _ => {
                let home = self.given[node] * nodes + node;
                self.given[node] += 1;
                self.of[thread] = Some((node, home));
                home
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::super::machine::{COSTS, Machine};
    use super::super::super::super::nodes::Nodes;
    use super::*;

    #[test]
    fn threads_of_a_node_are_counted_and_counted_again_when_they_move() {
        let mut machine = Machine::new(4, COSTS);
        let home = |homes: &mut Homes, machine: &mut Machine, thread| {
            homes.of(&Caller { machine, core: thread, thread })
        };
        let (mut homes, mut alike) = (Homes::new(true, 4), Homes::new(false, 4));
        assert_eq!(home(&mut homes, &mut machine, 3), 3, "there is one node");
        machine.nodes = Nodes::new(2, vec![0, 0, 1, 0]);
        let all = |homes: &mut Homes, machine: &mut Machine| {
            [0, 1, 2, 3].map(|thread| home(homes, machine, thread))
        };
        assert_eq!(all(&mut alike, &mut machine), [0, 1, 2, 3]);
        assert_eq!(all(&mut homes, &mut machine), [0, 2, 1, 4]);
        assert_eq!(all(&mut homes, &mut machine), [0, 2, 1, 4], "they stay");
        machine.nodes.shift();
        assert_eq!(all(&mut homes, &mut machine), [3, 5, 6, 7]);
        let mut none = Homes::new(true, 0);
        assert_eq!(all(&mut none, &mut machine), [1, 3, 4, 7], "processors, on their nodes");
    }
}
