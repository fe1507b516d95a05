//! The walk from frame to frame.

use crate::cache::Cache;
use crate::cfi::{self, END, Rule, SIGNAL};
#[cfg(target_arch = "x86_64")]
use crate::epilogue;
use crate::kept::kept;
use crate::memory::Stack;
use crate::module::Module;
use crate::plain;
use crate::registers::{FRAME, Frame, Registers, signal};
use crate::tables::Entry;
use core::hint::black_box;
use core::mem::MaybeUninit;
use core::slice;

/// Maximum number of frames examined.
const MOST: usize = 1024;
/// The largest plausible frame of code without tables.
const LARGEST: usize = 1 << 20;

/// Returns the return addresses of the calling thread's stack, innermost first, up to the length of `frames`. For an
/// interrupted function it is the address one past where it stopped.
#[inline(never)]
pub fn walk(frames: &mut [MaybeUninit<usize>]) -> &[usize] {
    walk_from(&Registers::now(), frames, false)
}

/// Like [`walk`], without the innermost frames of the library that this code belongs to. If it belongs to a program
/// they stay.
#[inline(never)]
pub fn walk_outside(frames: &mut [MaybeUninit<usize>]) -> &[usize] {
    walk_from(&Registers::now(), frames, true)
}

#[inline(always)]
fn walk_from<'f>(
    registers: &Registers,
    frames: &'f mut [MaybeUninit<usize>],
    outside: bool,
) -> &'f [usize] {
    let n = plain::collect(registers, frames, outside)
        .unwrap_or_else(|| general(registers, frames, outside));
    // The frame whose registers were taken lasts for the whole walk.
    let n = black_box(n).min(frames.len());
    // SAFETY: that many have been written.
    unsafe { slice::from_raw_parts(frames.as_ptr().cast(), n) }
}

/// Writes the frames of any stack, and returns their number.
#[inline(always)]
pub fn general(registers: &Registers, frames: &mut [MaybeUninit<usize>], outside: bool) -> usize {
    Walk::from(registers).collect(frames, outside)
}

struct Walk {
    frame: Frame,
    stack: Stack,
    /// The module of its code.
    module: Option<Module>,
    /// The address is the program counter, not a return address.
    exact: bool,
}

impl Walk {
    #[inline(always)]
    fn from(registers: &Registers) -> Self {
        let (frame, stack) = (Frame::of(registers), Stack::at(registers.sp));
        Walk { frame, stack, module: None, exact: true }
    }

    #[inline(never)]
    fn collect(mut self, frames: &mut [MaybeUninit<usize>], outside: bool) -> usize {
        let mut own = 0..0;
        let mut n = 0;
        // Of addresses without a table, the first is one that code with a table returns to, and the others are as
        // reliable as the frames after them.
        let mut unknown = 0usize;
        let mut may_read = true;
        let mut rule = Rule::new();
        for i in 0..MOST {
            // A call may be the last instruction of its function.
            let place = self.frame.pc.wrapping_sub(usize::from(!self.exact));
            if !self.module.as_ref().is_some_and(|module| module.has(place)) {
                self.module = Module::of(place, &mut may_read);
            }
            if i == 0
                && outside
                && let Some(module) = self.module.as_ref().filter(|module| module.is_library())
            {
                own = module.start..module.end;
            }
            if self.by_table(place, &mut rule) {
                unknown = 0;
            } else {
                if let Some(found) = self.by_epilogue() {
                    rule = found;
                } else {
                    let by_pointer = self.by_frame_pointer();
                    let is_known = by_pointer.is_none() && self.module.is_some();
                    unknown = if is_known { 0 } else { unknown + 1 };
                    let Some(found) = by_pointer else { break };
                    rule = found;
                }
            }
            if !self.step(&rule) {
                break;
            }
            let pc = self.frame.pc;
            if n == 0 && own.contains(&pc) {
                continue;
            }
            let Some(frame) = frames.get_mut(n) else { break };
            frame.write(pc + usize::from(self.exact));
            n += 1;
        }
        let doubtful = unknown.saturating_sub(1);
        n.saturating_sub(doubtful)
    }

    /// Moves on to the caller. Returns `false` if there is none, or none that is known.
    #[inline(always)]
    fn step(&mut self, rule: &Rule) -> bool {
        if rule.flags & END != 0 {
            return false;
        }
        let (frame, stack) = (&mut self.frame, &mut self.stack);
        self.exact = rule.flags & SIGNAL != 0;
        let stepped = if self.exact {
            signal::interrupted(frame.sp, stack).map(|caller| *frame = caller)
        } else {
            rule.apply(frame, stack)
        };
        stepped.is_some() && self.frame.pc > 1
    }

    /// Finds the frame's rule in the tables of its module. Returns `false` if it has none.
    #[inline(always)]
    fn by_table(&self, place: usize, rule: &mut Rule) -> bool {
        let (Some(module), Some(kept)) = (&self.module, kept()) else { return false };
        kept.rules.get(place, module.tag, rule.words_mut())
            || find_rule(&kept.rules, module, place, rule).is_some()
    }

    /// Returns the rule for code without a table that has nothing left to do but return.
    #[cfg(target_arch = "x86_64")]
    #[cold]
    fn by_epilogue(&mut self) -> Option<Rule> {
        if self.exact { None } else { epilogue::rule(self.frame.pc, &mut self.stack) }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn by_epilogue(&mut self) -> Option<Rule> {
        None
    }

    /// Returns the rule for code without a table, which was generated at run time, or which an engine has put into its
    /// program's file ahead of time.
    #[cold]
    fn by_frame_pointer(&mut self) -> Option<Rule> {
        let pointer = self.stack.word(*self.frame.kept.get(FRAME)?)?;
        let sound = pointer >= self.frame.sp && pointer - self.frame.sp < LARGEST;
        let sound = sound && !self.exact && self.stack.goes_on(self.frame.sp, pointer);
        sound.then(Rule::by_frame_pointer)
    }
}

/// Finds the rule in the module's tables, and keeps it.
#[cold]
#[inline(never)]
fn find_rule(rules: &Cache, module: &Module, place: usize, to: &mut Rule) -> Option<()> {
    let entry = Entry::of(place, module)?;
    let rule = cfi::rule(&entry, place)?;
    rules.put(place, module.tag, &rule);
    *to = rule;
    Some(())
}
