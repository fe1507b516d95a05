//! The rule of code without a table that only returns: what is left of it says how large its frame is.
//!
//! Glue that is generated at run time often calls one function, frees its frame and returns, without a frame pointer:
//! CPython puts such a trampoline before each Python function under `-X perf`. The instructions behind the call will
//! run next, so what they say is certain, unlike a register that may hold a frame pointer.

use crate::cfi::Rule;
use crate::memory::{PAGE, Stack};

/// Returns the rule of a frame whose code continues at `pc`. `None` if its next eight bytes do anything but move the
/// stack pointer, restore registers and return. Of these, those on the call's own page are read: that page runs, so it
/// stays, while another thread may be unmapping the next one.
#[cold]
pub fn rule(pc: usize, stack: &mut Stack) -> Option<Rule> {
    if pc.is_multiple_of(PAGE) {
        // The call was its page's last instruction.
        return None;
    }
    let (at, bits) = (pc & !7, pc % 8 * 8);
    let low = stack.read(at)? as u64;
    // Zeroes are none of the instructions that are known.
    let high = if (at + 8).is_multiple_of(PAGE) { 0 } else { stack.read(at + 8)? as u64 };
    decode(low >> bits | high << 1 << (63 - bits))
}

/// Returns the rule of a frame by the code that is left of its function, its first instruction in the lowest byte.
pub fn decode(code: u64) -> Option<Rule> {
    let mut rule = Rule::by_stack_pointer(0);
    // The first pass finds the size of the frame, and the second one where registers are in it.
    for _ in 0..2 {
        let (mut left, mut at) = (code, 0);
        while left as u8 != RETURN {
            let (register, length) = match left.to_le_bytes() {
                [0x48, 0x83, 0xc4, bytes @ ..0x80, ..] => {
                    // add $bytes, %rsp
                    at += i32::from(bytes);
                    left >>= 32;
                    continue;
                }
                [0x5b, ..] => (3, 8), // pop %rbx
                [0x5d, ..] => (6, 8), // pop %rbp
                [0x41, code @ 0x5c..=0x5f, ..] => (code - 0x5c + 12, 16), // pop %r12 to %r15
                _ => return None,
            };
            rule.save(u64::from(register), i64::from(at - rule.offset))?;
            at += 8;
            left >>= length;
        }
        rule.offset = at + 8;
    }
    Some(rule)
}

/// The instruction that returns.
const RETURN: u8 = 0xc3;
