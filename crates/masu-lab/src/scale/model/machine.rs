//! Simulated cores, and the cache lines and locks that move between them, one core at a time.
//!
//! Each core and each line adds up how long it is busy. A core does one thing at a time and a line
//! is with one core at a time, so nobody is done before the busiest of them is: the utilisation law
//! of queueing theory, which gives the best throughput that any interleaving could have. Now and
//! then all cores meet: what the program does one after the other is not done at once.

/// What things take, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// What a program does with a block between two calls.
    pub work: f64,
    /// A call that touches nothing shared.
    pub local: f64,
    /// An atomic read-modify-write on a line that is there.
    pub atomic: f64,
    /// A line that another core has, where nothing goes on before it is there: locks, and atomic
    /// read-modify-writes.
    pub transfer: f64,
    /// A line that another core has, read or written by ordinary instructions: a core goes on meanwhile,
    /// and has several such lines on their way at once.
    pub overlapped: f64,
    /// What is done under a lock.
    pub locked: f64,
}

/// The costs of the curves: the order of magnitude of server processors of today, where a core
/// has several lines on their way at once.
pub const COSTS: Costs =
    Costs { work: 30.0, local: 6.0, atomic: 6.0, transfer: 70.0, overlapped: 10.0, locked: 20.0 };

/// A cache line that cores write, and the core that has it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Line {
    /// One more than the core's number; nobody at first.
    owner: usize,
    /// How long it was held, or on its way, so far.
    busy: f64,
}

/// A cache line that is hardly ever written: every core can have a copy.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Copied {
    /// A bit for each core that has one, up to 256 cores.
    holders: [u64; 4],
}

/// The cores.
pub struct Machine {
    costs: Costs,
    /// How long each was busy.
    cores: Vec<f64>,
    /// How long the busiest line was.
    busiest_line: f64,
    /// Lines that moved.
    pub transfers: u64,
    /// Locks that changed hands.
    pub hand_overs: u64,
}

impl Machine {
    /// So many cores on which things take so long.
    pub fn new(cores: usize, costs: Costs) -> Self {
        Machine { costs, cores: vec![0.0; cores], busiest_line: 0.0, transfers: 0, hand_overs: 0 }
    }

    /// Every core waits until the busiest is done with what it has had to do so far.
    pub fn meet(&mut self) {
        let last = self.cores.iter().copied().fold(0.0, f64::max);
        self.cores.fill(last);
    }

    /// The earliest time at which everything can be done, in nanoseconds.
    pub fn end(&self) -> f64 {
        self.cores.iter().copied().fold(self.busiest_line, f64::max)
    }

    /// The program does something of its own, and calls.
    pub fn work(&mut self, core: usize) {
        self.cores[core] += self.costs.work + self.costs.local;
    }

    /// A core writes a line, by an atomic operation.
    pub fn atomic(&mut self, core: usize, line: &mut Line) {
        self.take(core, line, self.costs.transfer);
        self.hold(core, line, self.costs.atomic);
    }

    /// A core reads and writes a line by ordinary instructions.
    pub fn fetch(&mut self, core: usize, line: &mut Line) {
        self.take(core, line, self.costs.overlapped);
    }

    /// A line moves to a core, which takes so long.
    fn take(&mut self, core: usize, line: &mut Line, time: f64) {
        if line.owner == core + 1 {
            return;
        }
        if line.owner != 0 {
            self.transfers += 1;
            self.hold(core, line, time);
        }
        line.owner = core + 1;
    }

    /// A core and a line are busy with each other.
    fn hold(&mut self, core: usize, line: &mut Line, time: f64) {
        self.cores[core] += time;
        line.busy += time;
        self.busiest_line = self.busiest_line.max(line.busy);
    }

    /// A core reads a line that every core can have: only its first look costs.
    pub fn read(&mut self, core: usize, line: &mut Copied) {
        let (word, bit) = (core / 64 % 4, 1 << (core % 64));
        if line.holders[word] & bit == 0 {
            line.holders[word] |= bit;
            self.transfers += 1;
            self.cores[core] += self.costs.overlapped;
        }
    }

    /// A core changes such a line: it has the only copy then.
    pub fn change(&mut self, core: usize, line: &mut Copied) {
        *line = Copied::default();
        line.holders[core / 64 % 4] |= 1 << (core % 64);
        self.cores[core] += self.costs.atomic;
    }

    /// A core takes a lock, works under it for so many units and gives it back. What the lock
    /// protects is one more line, which moves with it.
    pub fn locked(&mut self, core: usize, lock: &mut Line, units: usize) {
        if lock.owner != 0 && lock.owner != core + 1 {
            self.hand_overs += 1;
            self.transfers += 1;
            self.hold(core, lock, self.costs.transfer);
        }
        self.take(core, lock, self.costs.transfer);
        self.hold(core, lock, 2.0 * self.costs.atomic + self.costs.locked * units as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_moves_only_when_another_core_wants_it() {
        let mut machine = Machine::new(2, COSTS);
        let mut line = Line::default();
        for core in [0, 0, 1, 1, 0] {
            machine.atomic(core, &mut line);
        }
        assert_eq!(machine.transfers, 2);
        assert_eq!(machine.cores[1], COSTS.atomic * 2.0 + COSTS.transfer);
        assert_eq!(machine.end(), COSTS.atomic * 5.0 + COSTS.transfer * 2.0, "the line is busiest");
    }

    #[test]
    fn ordinary_instructions_do_not_wait_for_a_line() {
        let mut machine = Machine::new(2, COSTS);
        let mut line = Line::default();
        machine.fetch(0, &mut line);
        machine.fetch(1, &mut line);
        assert_eq!((machine.transfers, machine.cores[1]), (1, COSTS.overlapped));
        machine.atomic(0, &mut line);
        assert_eq!((machine.transfers, machine.cores[0]), (2, COSTS.transfer + COSTS.atomic));
        let mut copied = Copied::default();
        machine.read(1, &mut copied);
        assert_eq!(machine.cores[1], 2.0 * COSTS.overlapped);
    }

    #[test]
    fn what_is_done_one_after_the_other_takes_its_time() {
        let mut machine = Machine::new(2, COSTS);
        let each = COSTS.work + COSTS.local;
        machine.work(0);
        machine.work(1);
        assert_eq!(machine.end(), each);
        machine.meet();
        machine.work(1);
        machine.meet();
        machine.work(0);
        assert_eq!(machine.end(), 3.0 * each);
    }

    #[test]
    fn a_copied_line_costs_each_core_once_until_it_changes() {
        let mut machine = Machine::new(256, COSTS);
        let mut line = Copied::default();
        machine.change(0, &mut line);
        for core in [0, 1, 1, 255, 0] {
            machine.read(core, &mut line);
        }
        assert_eq!(machine.transfers, 2);
        machine.change(255, &mut line);
        for core in [255, 0, 1] {
            machine.read(core, &mut line);
        }
        assert_eq!(machine.transfers, 4);
    }

    #[test]
    fn cores_that_want_one_lock_wait_for_each_other() {
        let mut machine = Machine::new(8, COSTS);
        let mut lock = Line::default();
        for core in 0..8 {
            machine.locked(core, &mut lock, 1);
        }
        assert_eq!((machine.hand_overs, machine.transfers), (7, 14));
        assert!(machine.end() > 8.0 * COSTS.locked + 7.0 * COSTS.transfer);
        assert!(machine.cores[0] < COSTS.transfer);
    }
}
