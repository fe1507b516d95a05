//! The rule of a frame, which says how to find its caller's registers, and the program in the unwinding tables that
//! gives it.
//!
//! A program makes a table with a row for each stretch of a function's code. Only the row of one address is needed, so
//! the program runs until it passes that address. Only the registers that functions preserve are needed from the row; a
//! rule that needs more than the forms below counts as unknown, and the stack ends there.
//!
//! | | forms |
//! |---|---|
//! | the caller's stack pointer (CFA) | register + n; the word at register + n |
//! | a register | the same as before; the word at CFA + n; the word at the frame pointer + n |
//! | return address | the word at CFA + n; on AArch64 and RISC-V the link register's |

use crate::memory::Stack;
use crate::registers::{ABOVE, COUNT, FRAME, Frame, KEPT, RETURN, STACK, unsigned};
use crate::tables::{Cursor, Entry};
use core::mem::offset_of;

/// What [`plain`](crate::plain) needs of a rule, if the flag [`PLAIN`] is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain {
    /// The rule's first word.
    first: u64,
    /// The offset in words of the caller's frame pointer from the CFA, or [`SAME`].
    pub frame: i16,
}

impl Plain {
    /// Where a rule has `frame`.
    const AT: usize = offset_of!(Rule, kept) + 2 * FRAME;

    /// From the words of a rule, of which it takes two.
    #[inline(always)]
    pub fn of(word: impl Fn(usize) -> u64) -> Self {
        Plain { first: word(0), frame: (word(Self::AT / 8) >> (Self::AT % 8 * 8)) as i16 }
    }

    /// As in the rule.
    #[inline(always)]
    pub fn flags(self) -> u8 {
        (self.first >> 40) as u8
    }

    /// Whether the base of the CFA is the frame pointer, rather than the stack pointer.
    #[inline(always)]
    pub fn is_by_frame(self) -> bool {
        (self.first >> 32) as u8 != 0
    }

    /// As in the rule.
    #[inline(always)]
    pub fn offset(self) -> isize {
        self.first as i32 as isize
    }

    /// As in the rule.
    #[inline(always)]
    pub fn back(self) -> i16 {
        (self.first >> 48) as i16
    }
}

/// How to get from a frame to its caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct Rule {
    /// Added to the base.
    pub offset: i32,
    /// The base of the CFA: 0 is the stack pointer, n the register n - 1 of [`KEPT`].
    pub base: u8,
    /// Further properties of the rule.
    pub flags: u8,
    /// The offset in words of the return address from the CFA, or [`SAME`].
    pub back: i16,
    /// Registers whose offsets are relative to the frame pointer.
    by_frame: u16,
    /// The offset in words of each kept register, or [`SAME`].
    kept: [i16; SLOTS],
}

/// Slots for the kept registers: a number that makes a rule a whole number of words.
const SLOTS: usize = if COUNT <= 7 { 7 } else { 15 };

/// The CFA is the word at base + offset.
pub const INDIRECT: u8 = 1;
/// The next frame was interrupted by a signal.
pub const SIGNAL: u8 = 2;
/// The outermost frame.
pub const END: u8 = 4;
/// The CFA has a form that is not supported. No returned rule has this.
const UNKNOWN: u8 = 8;
/// A form that [`plain`](crate::plain) understands.
pub const PLAIN: u8 = 16;
/// The register is unchanged.
pub const SAME: i16 = i16::MIN;
/// The register's value is unknown. It becomes 0, and a frame that depends on it ends the stack.
pub const LOST: i16 = i16::MIN + 1;

/// Size of a rule in words.
pub const WORDS: usize = size_of::<Rule>() / 8;
const _: () = assert!(size_of::<Rule>() == 8 + 2 + 2 * SLOTS);

impl Rule {
    /// The rule at the entry of a function before its program has run.
    pub const fn new() -> Self {
        Rule { base: 0, flags: 0, back: SAME, offset: 0, by_frame: 0, kept: [SAME; SLOTS] }
    }

    /// Returns the rule of code that keeps a frame pointer.
    pub fn by_frame_pointer() -> Self {
        let mut rule = Rule::new();
        rule.base = FRAME as u8 + 1;
        rule.offset = i32::from(ABOVE) * 8;
        rule.back = -1;
        if let Some(frame) = rule.kept.get_mut(FRAME) {
            *frame = -2;
        }
        rule
    }

    /// Returns the rule of code whose frame has so many bytes, the return address included.
    #[cfg(target_arch = "x86_64")]
    pub fn by_stack_pointer(bytes: i32) -> Self {
        let mut rule = Rule::new();
        rule.offset = bytes;
        rule.back = -1;
        rule
    }

    /// Rebuilds a rule from the result of [`Rule::words`].
    #[cfg(test)]
    pub fn of(words: [u64; WORDS]) -> Self {
        // SAFETY: integers without padding, of the same size.
        unsafe { core::mem::transmute(words) }
    }

    /// The offset in words of the caller's frame pointer from the CFA, or [`SAME`].
    fn frame(&self) -> i16 {
        self.kept.get(FRAME).map_or(SAME, |&at| at)
    }

    /// Notes whether the rule is plain: there is no caller, or its frame pointer and the CFA follow from the stack pointer
    /// and the frame pointer, and the return address is in memory.
    fn note_plain(&mut self) {
        let is_based = self.base == 0 || self.base == FRAME as u8 + 1;
        let is_framed = self.frame() != LOST && self.by_frame >> FRAME & 1 == 0;
        let is_plain = self.flags & (INDIRECT | SIGNAL | UNKNOWN) == 0 && self.back > LOST;
        if is_based && is_framed && is_plain || self.flags & (SIGNAL | END) == END {
            self.flags |= PLAIN;
        }
    }

    /// The rule as words.
    #[inline(always)]
    pub fn words(&self) -> [u64; WORDS] {
        // SAFETY: integers without padding, of the same size.
        unsafe { core::mem::transmute(*self) }
    }

    /// The same, to be written.
    #[inline(always)]
    pub fn words_mut(&mut self) -> &mut [u64; WORDS] {
        // SAFETY: integers without padding, of the same size, at a multiple of eight; any words are a rule.
        unsafe { &mut *core::ptr::from_mut(self).cast() }
    }

    /// Replaces a frame by its caller's. `None` if memory is unreadable or the stack would not grow; the frame is then
    /// invalid.
    #[inline(always)]
    pub fn apply(&self, frame: &mut Frame, stack: &mut Stack) -> Option<()> {
        let mut cfa = match self.base {
            0 => frame.sp,
            n => stack.word(*frame.kept.get(usize::from(n) - 1)?)?,
        };
        cfa = cfa.wrapping_add_signed(self.offset as isize);
        if self.flags & INDIRECT != 0 {
            cfa = stack.word(cfa)?;
        }
        let pointer = match self.by_frame {
            0 => 0,
            _ => stack.word(*frame.kept.get(FRAME)?)?,
        };
        for (i, (slot, &at)) in frame.kept.iter_mut().zip(&self.kept).enumerate() {
            if at == LOST {
                *slot = 0;
            } else if at != SAME {
                let from = if self.by_frame >> i & 1 != 0 { pointer } else { cfa };
                *slot = from.wrapping_add_signed(isize::from(at) * 8);
            }
        }
        let pc = match self.back {
            #[cfg(not(target_arch = "x86_64"))]
            SAME => stack.word(*frame.kept.get(crate::registers::LINK)?)?,
            #[cfg(target_arch = "x86_64")]
            SAME => return None,
            LOST => return None,
            at => stack.word(cfa.wrapping_add_signed(isize::from(at) * 8))?,
        };
        let (pc, before) = (unsigned(pc), (frame.sp, frame.pc));
        (frame.sp, frame.pc) = (cfa, pc);
        // A leaf function's frame may be empty if calls put no return address on the stack.
        let is_empty = !cfg!(target_arch = "x86_64") && cfa == before.0;
        (cfa > before.0 || is_empty && pc != before.1).then_some(())
    }

    /// Returns the slot of a register by its DWARF number, mutably.
    fn slot(&mut self, register: u64) -> Option<&mut i16> {
        if cfg!(target_arch = "x86_64") && register == RETURN {
            return Some(&mut self.back);
        }
        self.kept.get_mut(index(register)?)
    }

    /// Records a register's word at an offset from the CFA.
    pub fn save(&mut self, register: u64, offset: i64) -> Option<()> {
        let at = i16::try_from(offset / 8).ok().filter(|_| offset % 8 == 0);
        if let Some(i) = index(register) {
            self.by_frame &= !(1 << i);
        }
        if let Some(slot) = self.slot(register) {
            *slot = at.filter(|&at| at > LOST)?;
        }
        Some(())
    }

    /// Marks a register as being where this does not follow it.
    fn lose(&mut self, register: u64) {
        if let Some(slot) = self.slot(register) {
            *slot = LOST;
        }
    }

    /// Restores a register from another row.
    fn restore(&mut self, register: u64, from: &Rule) {
        let mut from = *from;
        if let Some(&mut was) = from.slot(register)
            && let Some(slot) = self.slot(register)
        {
            *slot = was;
        }
        if let Some(i) = index(register) {
            self.by_frame = self.by_frame & !(1 << i) | from.by_frame & 1 << i;
        }
    }

    /// Sets the base of the CFA to a register.
    fn set_base(&mut self, register: u64) {
        self.flags &= !(INDIRECT | UNKNOWN);
        match index(register) {
            _ if register == STACK => self.base = 0,
            Some(i) => self.base = i as u8 + 1,
            // A register that a function uses for a few instructions, without a call.
            None => self.flags |= UNKNOWN,
        }
    }
}

/// Returns the index in [`KEPT`] of a DWARF number.
fn index(register: u64) -> Option<usize> {
    KEPT.iter().position(|&kept| u64::from(kept) == register).filter(|&i| i < COUNT)
}

/// Maximum depth of saved rows. Compilers need one.
const PILE: usize = 4;

/// A program being run.
struct Machine<'e> {
    entry: &'e Entry,
    rule: Rule,
    /// The result of the part that all entries share.
    initial: Rule,
    pile: [Rule; PILE],
    height: usize,
    /// Where the current row begins.
    at: usize,
    pc: usize,
}

/// Returns the rule of an address in the function of `entry`; `None` if there is none that this understands.
pub fn rule(entry: &Entry, pc: usize) -> Option<Rule> {
    let new = Rule::new();
    let mut machine = Machine {
        entry,
        rule: new,
        initial: new,
        pile: [new; PILE],
        height: 0,
        at: entry.start,
        pc,
    };
    if machine.run(entry.shared)? {
        machine.initial = machine.rule;
        machine.run(entry.own)?;
    }
    if entry.is_signal {
        machine.rule.flags |= SIGNAL;
    }
    machine.rule.note_plain();
    let is_known = machine.rule.flags & (UNKNOWN | SIGNAL) != UNKNOWN;
    is_known.then_some(machine.rule)
}

impl Machine<'_> {
    /// Runs a program to its end, or to the row of the address, in which case it returns `false`.
    fn run(&mut self, mut code: Cursor) -> Option<bool> {
        while !code.is_empty() {
            let byte = code.u8()?;
            let low = u64::from(byte & 0x3f);
            let ahead = match byte >> 6 {
                1 => low as usize,
                2 => {
                    let offset = code.uleb()? as i64;
                    self.rule.save(low, offset.wrapping_mul(self.entry.data))?;
                    0
                }
                3 => {
                    let initial = self.initial;
                    self.rule.restore(low, &initial);
                    0
                }
                _ => self.extended(byte, &mut code)?,
            };
            if ahead != 0 {
                let next = self.at.checked_add(ahead.checked_mul(self.entry.code)?)?;
                if next > self.pc {
                    return Some(false);
                }
                self.at = next;
            }
        }
        Some(true)
    }

    /// Runs an instruction with a byte of its own. Returns how far it advances.
    fn extended(&mut self, byte: u8, code: &mut Cursor) -> Option<usize> {
        let data = self.entry.data;
        match byte {
            // nop
            0x00 => {}
            // set_loc, which compact tables never use.
            0x01 => return None,
            0x02 => return Some(code.u8()?.into()),
            0x03 => return Some(code.u16()?.into()),
            0x04 => return Some(code.u32()? as usize),
            // offset_extended, restore_extended
            0x05 => {
                let (register, offset) = (code.uleb()?, code.uleb()? as i64);
                self.rule.save(register, offset.wrapping_mul(data))?;
            }
            0x06 => {
                let (register, initial) = (code.uleb()?, self.initial);
                self.rule.restore(register, &initial);
            }
            // undefined, same_value
            0x07 | 0x08 => {
                let register = code.uleb()?;
                if register == RETURN && byte == 0x07 {
                    self.rule.flags |= END;
                }
                if let Some(slot) = self.rule.slot(register) {
                    *slot = SAME;
                }
            }
            // register: in another register, which is not followed.
            0x09 => {
                let (register, _) = (code.uleb()?, code.uleb()?);
                self.rule.lose(register);
            }
            // remember_state, restore_state
            0x0a => {
                *self.pile.get_mut(self.height)? = self.rule;
                self.height += 1;
            }
            0x0b => {
                self.height = self.height.checked_sub(1)?;
                self.rule = *self.pile.get(self.height)?;
            }
            // def_cfa, its register, its offset, and the signed forms
            0x0c => {
                self.rule.set_base(code.uleb()?);
                self.rule.offset = i32::try_from(code.uleb()?).ok()?;
            }
            0x0d => self.rule.set_base(code.uleb()?),
            0x0e => self.rule.offset = i32::try_from(code.uleb()?).ok()?,
            0x12 => {
                self.rule.set_base(code.uleb()?);
                self.rule.offset = i32::try_from(code.sleb()?.wrapping_mul(data)).ok()?;
            }
            0x13 => self.rule.offset = i32::try_from(code.sleb()?.wrapping_mul(data)).ok()?,
            // def_cfa_expression
            0x0f => {
                let expression = code.block()?;
                // A signal's frame is read as the kernel wrote it.
                if !self.entry.is_signal {
                    match simple(expression) {
                        Some((register, offset, indirect)) => {
                            self.rule.set_base(register);
                            self.rule.offset = offset;
                            self.rule.flags |= if indirect { INDIRECT } else { 0 };
                        }
                        None => self.rule.flags |= UNKNOWN,
                    }
                }
            }
            // expression
            0x10 => {
                let (register, expression) = (code.uleb()?, code.block()?);
                if self.by_frame(register, expression).is_none() {
                    self.rule.lose(register);
                }
            }
            // offset_extended_sf
            0x11 => {
                let (register, offset) = (code.uleb()?, code.sleb()?);
                self.rule.save(register, offset.wrapping_mul(data))?;
            }
            // val_offset, val_offset_sf, val_expression: no compiler writes these for kept
            // registers.
            0x14 | 0x15 => {
                let (register, _) = (code.uleb()?, code.uleb()?);
                self.rule.lose(register);
            }
            0x16 => {
                let (register, _) = (code.uleb()?, code.block()?);
                self.rule.lose(register);
            }
            // Whether the return address is signed (AArch64); the size of the arguments
            0x2d => {}
            0x2e => {
                code.uleb()?;
            }
            _ => return None,
        }
        Some(0)
    }

    /// A register's word lies at an offset from the frame pointer: functions that align their
    /// stack.
    fn by_frame(&mut self, register: u64, expression: Cursor) -> Option<()> {
        let (base, offset, indirect) = simple(expression)?;
        if index(base)? != FRAME || indirect {
            return None;
        }
        self.rule.save(register, offset.into())?;
        self.rule.by_frame |= 1 << index(register)?;
        Some(())
    }
}

/// Parses an expression that is a register and an offset, or the word at that place.
fn simple(mut expression: Cursor) -> Option<(u64, i32, bool)> {
    const BREG: u8 = 0x70;
    const DEREF: u8 = 0x06;
    let register = expression.u8()?.checked_sub(BREG).filter(|&n| n < 32)?;
    let offset = i32::try_from(expression.sleb()?).ok()?;
    let indirect = !expression.is_empty() && expression.u8()? == DEREF;
    expression.is_empty().then_some((register.into(), offset, indirect))
}

#[cfg(test)]
impl Rule {
    /// Returns where a kept register is: whether relative to the frame pointer, and the offset.
    pub fn of_kept(&self, i: usize) -> (bool, i16) {
        (self.by_frame >> i & 1 != 0 && self.kept[i] != SAME, self.kept[i])
    }
}
