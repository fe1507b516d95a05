//! Simulated cores, and the cache lines and locks that move between them, one core at a time.
//!
//! Each core and each line adds up how long it is busy. A core does one thing at a time and a line
//! is with one core at a time, so nobody is done before the busiest of them is: the utilisation law
//! of queueing theory, which gives the best throughput that any interleaving could have. Now and
//! then all cores meet: what the program does one after the other is not done at once.
//!
//! A lock is a line that stays busy while it is held, and whatever its holder waits for meanwhile.

use super::nodes::Nodes;
use super::what::What;

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
    /// An instruction of what is done beside that: in a slow path, or under a lock.
    pub instruction: f64,
    /// A system call that gives pages back, for its caller.
    pub discard: f64,
}

/// The costs of the curves: the order of magnitude of server processors of today, where a core
/// has several lines on their way at once.
pub const COSTS: Costs = Costs {
    work: 30.0,
    local: 6.0,
    atomic: 6.0,
    transfer: 70.0,
    overlapped: 10.0,
    instruction: 0.15,
    discard: 2_000.0,
};

/// A cache line that cores write, and the core that has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// How long it was held, or on its way, since counting began for the `epoch`th time.
    busy: f64,
    /// One more than the core's number; nobody at first.
    owner: u16,
    epoch: u8,
    what: What,
}

impl Line {
    /// One that nobody has.
    pub fn of(what: What) -> Self {
        Line { busy: 0.0, owner: 0, epoch: 0, what }
    }
}

/// A cache line that is read more often than written: every core can have a copy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Copied {
    line: Line,
    /// A bit for each core that has one, up to 256 cores.
    holders: [u64; 4],
}

impl Copied {
    /// One that nobody has.
    pub fn of(what: What) -> Self {
        Copied { line: Line::of(what), holders: [0; 4] }
    }
}

/// What happened since counting began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines that moved, to be read or written.
    pub transfers: u64,
    /// Those of them that one core wrote after another.
    pub written: u64,
    /// Lines that moved from one node to another.
    pub far_lines: u64,
    /// Locks that were taken.
    pub locks: u64,
    /// Those of them that another core held last.
    pub hand_overs: u64,
    /// Atomic read-modify-writes, two for most locks.
    pub atomics: u64,
    /// System calls that give pages back.
    pub discards: u64,
    /// Bytes allocated; those that lie on another node, and the blocks that have any.
    pub bytes: u64,
    /// See there.
    pub far_bytes: u64,
    /// See there.
    pub far_blocks: u64,
}

/// The cores.
pub struct Machine {
    costs: Costs,
    /// How long each was busy.
    cores: Vec<f64>,
    /// How long the busiest line of each kind was.
    busiest: [f64; What::ALL.len()],
    epoch: u8,
    /// Where memory lies.
    pub nodes: Nodes,
    /// What happened.
    pub counts: Counts,
}

impl Machine {
    /// So many cores on which things take so long.
    pub fn new(cores: usize, costs: Costs) -> Self {
        Machine {
            costs,
            cores: vec![0.0; cores],
            busiest: [0.0; What::ALL.len()],
            epoch: 0,
            nodes: Nodes::one(),
            counts: Counts::default(),
        }
    }

    /// Begins to count: what was before is forgotten, but every line stays where it is.
    pub fn begin(&mut self) {
        self.cores.fill(0.0);
        self.busiest.fill(0.0);
        self.epoch = self.epoch.wrapping_add(1);
        self.counts = Counts::default();
    }

    /// Every core waits until the busiest is done with what it has had to do so far.
    pub fn meet(&mut self) {
        let last = self.busiest_core();
        self.cores.fill(last);
    }

    /// How long the busiest core was busy.
    pub fn busiest_core(&self) -> f64 {
        self.cores.iter().copied().fold(0.0, f64::max)
    }

    /// The line that was busiest, and how long.
    pub fn busiest_line(&self) -> (What, f64) {
        let most = |a: (What, f64), b: (What, f64)| if b.1 > a.1 { b } else { a };
        What::ALL.into_iter().zip(self.busiest).fold((What::Block, 0.0), most)
    }

    /// The earliest time at which everything can be done, in nanoseconds.
    pub fn end(&self) -> f64 {
        self.busiest_core().max(self.busiest_line().1)
    }

    /// The program does something of its own, and calls.
    pub fn work(&mut self, core: usize) {
        self.cores[core] += self.costs.work + self.costs.local;
    }

    /// A core executes so many instructions on what it has.
    pub fn execute(&mut self, core: usize, instructions: u32) {
        self.cores[core] += self.costs.instruction * f64::from(instructions);
    }

    /// How long a core has been busy so far.
    pub fn clock(&self, core: usize) -> f64 {
        self.cores[core]
    }

    /// A core has the kernel take pages back, which interrupts all others.
    pub fn discard(&mut self, core: usize, calls: u64) {
        self.counts.discards += calls;
        self.cores[core] += self.costs.discard * calls as f64;
    }

    /// A core gets a block of so many bytes.
    pub fn allocated(&mut self, core: usize, at: usize, bytes: usize) {
        let far = self.nodes.touch(core, at, bytes);
        self.counts.bytes += bytes as u64;
        self.counts.far_bytes += far as u64;
        self.counts.far_blocks += u64::from(far != 0);
    }

    /// A line has moved to a core.
    fn moved(&mut self, core: usize, line: &Line) {
        let from = usize::from(line.owner - 1);
        self.counts.transfers += 1;
        self.counts.far_lines += u64::from(self.nodes.of(from) != self.nodes.of(core));
    }

    /// A core writes a line, by an atomic operation.
    pub fn atomic(&mut self, core: usize, line: &mut Line) {
        self.counts.atomics += 1;
        self.take(core, line, self.costs.transfer);
        self.hold(core, line, self.costs.atomic);
    }

    /// A core reads and writes a line by ordinary instructions.
    pub fn fetch(&mut self, core: usize, line: &mut Line) {
        self.take(core, line, self.costs.overlapped);
    }

    /// The same where nothing goes on before the line is there: it says where to look next.
    pub fn follow(&mut self, core: usize, line: &mut Line) {
        self.take(core, line, self.costs.transfer);
    }

    /// A line moves to a core, which takes so long.
    fn take(&mut self, core: usize, line: &mut Line, time: f64) {
        let own = core as u16 + 1;
        if line.owner == own {
            return;
        }
        if line.owner != 0 {
            self.moved(core, line);
            self.counts.written += 1;
            self.hold(core, line, time);
        }
        line.owner = own;
    }

    /// A core and a line are busy with each other.
    fn hold(&mut self, core: usize, line: &mut Line, time: f64) {
        self.cores[core] += time;
        self.keep_busy(line, time);
    }

    fn keep_busy(&mut self, line: &mut Line, time: f64) {
        if line.epoch != self.epoch {
            (line.epoch, line.busy) = (self.epoch, 0.0);
        }
        line.busy += time;
        let busiest = &mut self.busiest[line.what as usize];
        *busiest = busiest.max(line.busy);
    }

    /// A core reads a line that every core can have: only its first look costs.
    pub fn read(&mut self, core: usize, line: &mut Copied) {
        let (word, bit) = (core / 64 % 4, 1 << (core % 64));
        if line.holders[word] & bit == 0 {
            line.holders[word] |= bit;
            if line.line.owner != 0 {
                self.moved(core, &line.line);
                self.hold(core, &mut line.line, self.costs.overlapped);
            }
        }
    }

    /// A core changes such a line by ordinary instructions: it has the only copy then.
    pub fn change(&mut self, core: usize, line: &mut Copied) {
        self.own(core, line, self.costs.overlapped);
    }

    /// The same by an atomic operation.
    pub fn change_atomic(&mut self, core: usize, line: &mut Copied) {
        self.counts.atomics += 1;
        self.own(core, line, self.costs.transfer);
        self.hold(core, &mut line.line, self.costs.atomic);
    }

    fn own(&mut self, core: usize, line: &mut Copied, time: f64) {
        let mut only = [0; 4];
        only[core / 64 % 4] = 1 << (core % 64);
        if line.line.owner != core as u16 + 1 {
            self.take(core, &mut line.line, time);
        } else if line.holders != only {
            // Others have copies, and have to let go of them.
            self.counts.transfers += 1;
            self.hold(core, &mut line.line, time);
        }
        line.holders = only;
    }

    /// A core takes a lock. What it returns is for [`release`](Self::release).
    pub fn acquire(&mut self, core: usize, lock: &mut Line) -> f64 {
        self.counts.locks += 1;
        self.counts.hand_overs += u64::from(lock.owner != 0 && lock.owner != core as u16 + 1);
        self.atomic(core, lock);
        self.cores[core]
    }

    /// A core takes a lock on a line that others only read. There may be more locks on it.
    pub fn enter(&mut self, core: usize, line: &mut Copied) -> f64 {
        self.counts.locks += 1;
        let other = line.line.owner != 0 && line.line.owner != core as u16 + 1;
        self.counts.hand_overs += u64::from(other);
        self.change_atomic(core, line);
        self.cores[core]
    }

    /// It gives that lock back.
    pub fn leave(&mut self, core: usize, line: &mut Copied, since: f64) {
        self.release(core, &mut line.line, since);
    }

    /// It gives the lock back, which was busy all the while.
    pub fn release(&mut self, core: usize, lock: &mut Line, since: f64) {
        self.counts.atomics += 1;
        self.cores[core] += self.costs.atomic;
        self.lay_down(core, lock, since);
    }

    /// The same with a lock for which a store is enough.
    pub fn lay_down(&mut self, core: usize, lock: &mut Line, since: f64) {
        self.keep_busy(lock, self.cores[core] - since);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line {
        Line::of(What::Block)
    }

    #[test]
    fn a_line_moves_only_when_another_core_wants_it() {
        let mut machine = Machine::new(2, COSTS);
        let mut line = line();
        for core in [0, 0, 1, 1, 0] {
            machine.atomic(core, &mut line);
        }
        assert_eq!((machine.counts.written, machine.counts.atomics), (2, 5));
        assert_eq!(machine.cores[1], COSTS.atomic * 2.0 + COSTS.transfer);
        assert_eq!(machine.end(), COSTS.atomic * 5.0 + COSTS.transfer * 2.0, "the line is busiest");
    }

    #[test]
    fn ordinary_instructions_do_not_wait_for_a_line() {
        let mut machine = Machine::new(2, COSTS);
        let mut line = line();
        machine.fetch(0, &mut line);
        machine.fetch(1, &mut line);
        assert_eq!((machine.counts.transfers, machine.cores[1]), (1, COSTS.overlapped));
        machine.atomic(0, &mut line);
        assert_eq!(machine.cores[0], COSTS.transfer + COSTS.atomic);
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
        let mut line = Copied::of(What::PageMap);
        machine.change(0, &mut line);
        for core in [0, 1, 1, 255, 0] {
            machine.read(core, &mut line);
        }
        assert_eq!((machine.counts.transfers, machine.counts.written), (2, 0));
        machine.change(255, &mut line);
        for core in [255, 0, 1] {
            machine.read(core, &mut line);
        }
        assert_eq!((machine.counts.transfers, machine.counts.written), (5, 1));
        machine.change_atomic(255, &mut line);
        assert_eq!(machine.counts.transfers, 6, "the copies of the others have to go");
        machine.change_atomic(255, &mut line);
        assert_eq!(machine.counts.transfers, 6, "nobody has one");
    }

    #[test]
    fn cores_that_want_one_lock_wait_for_each_other() {
        let mut machine = Machine::new(8, COSTS);
        let mut lock = Line::of(What::Pool);
        for core in 0..8 {
            let since = machine.acquire(core, &mut lock);
            machine.execute(core, 100);
            machine.release(core, &mut lock, since);
        }
        assert_eq!((machine.counts.locks, machine.counts.hand_overs), (8, 7));
        let (what, busy) = machine.busiest_line();
        let held = 100.0 * COSTS.instruction + 2.0 * COSTS.atomic;
        assert_eq!(what, What::Pool);
        assert!((busy - 8.0 * held - 7.0 * COSTS.transfer).abs() < 1e-6, "{busy}");
        assert!(machine.cores[0] < COSTS.transfer);
    }

    #[test]
    fn a_lock_is_busy_while_its_holder_waits_for_other_lines() {
        let mut machine = Machine::new(2, COSTS);
        let (mut lock, mut word) = (Copied::of(What::Abandoned), line());
        machine.atomic(1, &mut word);
        let since = machine.enter(0, &mut lock);
        machine.atomic(0, &mut word);
        machine.leave(0, &mut lock, since);
        let held = COSTS.transfer + 3.0 * COSTS.atomic;
        assert_eq!(machine.busiest_line(), (What::Abandoned, held));
        assert_eq!((machine.counts.locks, machine.counts.atomics), (1, 4));
    }

    #[test]
    fn counting_begins_anew_but_lines_stay() {
        let mut machine = Machine::new(2, COSTS);
        let mut line = line();
        machine.atomic(0, &mut line);
        machine.begin();
        assert_eq!(machine.end(), 0.0);
        machine.atomic(1, &mut line);
        assert_eq!((machine.counts.written, machine.end()), (1, COSTS.atomic + COSTS.transfer));
    }
}
