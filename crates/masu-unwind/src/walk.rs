//! The walk from frame to frame.

use crate::cache::Cache;
use crate::cfi::{self, END, Rule, SIGNAL};
use crate::kept::kept;
use crate::memory::Stack;
use crate::module::Module;
use crate::registers::{FRAME, Registers, signal};
use crate::tables::Entry;

/// Most frames that are looked at.
const MOST: usize = 1024;
/// The largest frame that is believed of code without tables.
const LARGEST: usize = 1 << 20;

/// Writes the return addresses of the calling thread's stack to `frames`, innermost first, as many as fit, and
/// returns their number. Of an interrupted function it is the address behind the one where it is.
#[inline(never)]
pub fn walk(frames: &mut [usize]) -> usize {
    let n = Walk::from(Registers::now()).collect(frames, false);
    // The frame whose registers were taken lasts as long as the walk.
    core::hint::black_box(n)
}

/// [`walk`], without the frames of the library that this code is part of at the inner end. If it is part of a
/// program they stay.
#[inline(never)]
pub fn walk_outside(frames: &mut [usize]) -> usize {
    let n = Walk::from(Registers::now()).collect(frames, true);
    core::hint::black_box(n)
}

struct Walk {
    registers: Registers,
    stack: Stack,
    module: Option<Module>,
    /// The address is where the program is, not where it returns to.
    exact: bool,
}

impl Walk {
    #[inline(always)]
    fn from(registers: Registers) -> Self {
        Walk { stack: Stack::at(registers.sp), registers, module: None, exact: true }
    }

    #[inline(never)]
    fn collect(mut self, frames: &mut [usize], outside: bool) -> usize {
        let mut own = None;
        let mut n = 0;
        // Of addresses that no table has, the first is one that code with a table returns to, and the others are
        // as good as what follows them.
        let mut unknown = 0usize;
        for _ in 0..MOST {
            let is_modules = self.find_module();
            if outside && own.is_none() {
                own =
                    self.module.filter(Module::is_library).map(|module| (module.start, module.end));
                own = own.or(Some((0, 0)));
            }
            let rule = self.rule();
            let is_known = rule.as_ref().map_or(is_modules, |(_, is_of_table)| *is_of_table);
            unknown = if is_known { 0 } else { unknown + 1 };
            let Some((rule, _)) = rule else { break };
            if !self.step(&rule) {
                break;
            }
            let pc = self.registers.pc;
            let is_own = own.is_some_and(|(start, end)| (start..end).contains(&pc));
            if n == 0 && is_own {
                continue;
            }
            let Some(frame) = frames.get_mut(n) else { break };
            *frame = if self.exact { pc + 1 } else { pc };
            n += 1;
        }
        let doubtful = unknown.saturating_sub(1);
        n.saturating_sub(doubtful)
    }

    /// The address to look up: a call may be the last instruction of its function.
    fn place(&self) -> usize {
        if self.exact { self.registers.pc } else { self.registers.pc.wrapping_sub(1) }
    }

    /// Whether the frame's code is some module's, which is kept.
    fn find_module(&mut self) -> bool {
        let place = self.place();
        if !self.module.is_some_and(|module| module.has(place)) {
            self.module = Module::of(place);
        }
        self.module.is_some()
    }

    /// Goes on to the caller. `false`: there is none, or none that is known.
    fn step(&mut self, rule: &Rule) -> bool {
        if rule.flags & END != 0 {
            return false;
        }
        let stack = &mut self.stack;
        let caller = if rule.flags & SIGNAL != 0 {
            signal::interrupted(self.registers.sp, |at| stack.word(at))
        } else {
            rule.apply(&self.registers, |at| stack.word(at))
        };
        let Some(caller) = caller.filter(|caller| caller.pc > 1) else { return false };
        self.registers = caller;
        self.exact = rule.flags & SIGNAL != 0;
        true
    }

    /// The rule for this frame, and whether it is a table's. Code without a table is what was made at run time, and
    /// what an engine has put into its program's file ahead of time.
    fn rule(&self) -> Option<(Rule, bool)> {
        if let Some(rule) = self.rule_of_table() {
            return Some((rule, true));
        }
        let frame = *self.registers.kept.get(FRAME)?;
        let sound = frame >= self.registers.sp && frame - self.registers.sp < LARGEST;
        (sound && !self.exact).then(|| (Rule::by_frame_pointer(), false))
    }

    fn rule_of_table(&self) -> Option<Rule> {
        let place = self.place();
        let module = self.module?;
        let rules = &kept()?.rules;
        rules.get(place, module.tag).or_else(|| find_rule(rules, &module, place))
    }
}

/// The rule in the module's tables, which is kept.
#[cold]
#[inline(never)]
fn find_rule(rules: &Cache, module: &Module, place: usize) -> Option<Rule> {
    let entry = Entry::find(place, module.segment(module.header)?, |at| module.segment(at))?;
    let rule = cfi::rule(&entry, place)?;
    rules.put(place, module.tag, &rule);
    Some(rule)
}
