//! The registers that unwinding needs: the callee-saved ones, the stack pointer and the program counter.

/// Registers that a rule may restore, by their DWARF numbers.
#[cfg(target_arch = "x86_64")]
pub const KEPT: [u8; 6] = [3, 6, 12, 13, 14, 15];
/// Registers that a rule may restore, by their DWARF numbers.
#[cfg(target_arch = "aarch64")]
pub const KEPT: [u8; 12] = [19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30];
/// Registers that a rule may restore, by their DWARF numbers.
#[cfg(target_arch = "riscv64")]
pub const KEPT: [u8; 13] = [8, 9, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 1];

/// Their number.
pub const COUNT: usize = KEPT.len();
#[cfg(target_arch = "x86_64")]
mod numbers {
    pub const FRAME: usize = 1;
    pub const STACK: u64 = 7;
    pub const RETURN: u64 = 16;
    pub const ABOVE: i16 = 2;
}
#[cfg(target_arch = "aarch64")]
mod numbers {
    pub const FRAME: usize = 10;
    pub const STACK: u64 = 31;
    pub const RETURN: u64 = 30;
    pub const ABOVE: i16 = 2;
}
#[cfg(target_arch = "riscv64")]
mod numbers {
    pub const FRAME: usize = 0;
    pub const STACK: u64 = 2;
    pub const RETURN: u64 = 1;
    pub const ABOVE: i16 = 0;
}
/// The index of the frame pointer among them.
pub const FRAME: usize = numbers::FRAME;
/// The stack pointer's DWARF number.
pub const STACK: u64 = numbers::STACK;
/// The return address's DWARF number.
pub const RETURN: u64 = numbers::RETURN;
/// How many words the caller's stack pointer is above the address in the frame pointer. Just below it are the return
/// address and the caller's frame pointer.
pub const ABOVE: i16 = numbers::ABOVE;
/// The index among the kept registers of the one that holds the return address before it is saved:
/// the last.
#[cfg(not(target_arch = "x86_64"))]
pub const LINK: usize = COUNT - 1;

/// The registers at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registers {
    /// As [`KEPT`].
    pub kept: [usize; COUNT],
    /// The stack pointer.
    pub sp: usize,
    /// The program counter.
    pub pc: usize,
}

/// A frame: where its registers can be read. Most are never read.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// The address of each of [`KEPT`]; 0 means unknown.
    pub kept: [usize; COUNT],
    /// The stack pointer.
    pub sp: usize,
    /// The program counter.
    pub pc: usize,
}

impl Frame {
    /// The innermost frame. It reads the current registers.
    #[inline(always)]
    pub fn of(registers: &Registers) -> Self {
        let kept = core::array::from_fn(|i| registers.kept.as_ptr().wrapping_add(i).addr());
        Frame { kept, sp: registers.sp, pc: registers.pc }
    }
}

impl Registers {
    /// Returns the current registers of the function that this is inlined into.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub fn now() -> Self {
        let mut words = [0usize; COUNT + 2];
        // SAFETY: writes eight words, for which there is room.
        unsafe {
            core::arch::asm!(
                "mov [{w}], rbx",
                "mov [{w} + 8], rbp",
                "mov [{w} + 16], r12",
                "mov [{w} + 24], r13",
                "mov [{w} + 32], r14",
                "mov [{w} + 40], r15",
                "mov [{w} + 48], rsp",
                "lea {t}, [rip]",
                "mov [{w} + 56], {t}",
                w = in(reg) words.as_mut_ptr(), t = out(reg) _, options(nostack, preserves_flags));
        }
        let [b, bp, r12, r13, r14, r15, sp, pc] = words;
        Registers { kept: [b, bp, r12, r13, r14, r15], sp, pc }
    }

    /// Returns the current registers of the function that this is inlined into.
    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    pub fn now() -> Self {
        let mut words = [0usize; COUNT + 2];
        // SAFETY: writes fourteen words, for which there is room.
        unsafe {
            core::arch::asm!(
                "stp x19, x20, [{w}]",
                "stp x21, x22, [{w}, 16]",
                "stp x23, x24, [{w}, 32]",
                "stp x25, x26, [{w}, 48]",
                "stp x27, x28, [{w}, 64]",
                "stp x29, x30, [{w}, 80]",
                "mov {t}, sp",
                "str {t}, [{w}, 96]",
                "adr {t}, .",
                "str {t}, [{w}, 104]",
                w = in(reg) words.as_mut_ptr(), t = out(reg) _, options(nostack, preserves_flags));
        }
        let [kept @ .., sp, pc] = words;
        Registers { kept, sp, pc }
    }

    /// Returns the current registers of the function that this is inlined into.
    #[cfg(target_arch = "riscv64")]
    #[inline(always)]
    pub fn now() -> Self {
        let mut words = [0usize; COUNT + 2];
        // SAFETY: writes fifteen words, for which there is room.
        unsafe {
            core::arch::asm!(
                "sd s0, 0({w})",
                "sd s1, 8({w})",
                "sd s2, 16({w})",
                "sd s3, 24({w})",
                "sd s4, 32({w})",
                "sd s5, 40({w})",
                "sd s6, 48({w})",
                "sd s7, 56({w})",
                "sd s8, 64({w})",
                "sd s9, 72({w})",
                "sd s10, 80({w})",
                "sd s11, 88({w})",
                "sd ra, 96({w})",
                "sd sp, 104({w})",
                "auipc {t}, 0",
                "sd {t}, 112({w})",
                w = in(reg) words.as_mut_ptr(), t = out(reg) _, options(nostack, preserves_flags));
        }
        let [kept @ .., sp, pc] = words;
        Registers { kept, sp, pc }
    }
}

/// Removes a processor's signature from an address.
pub fn unsigned(address: usize) -> usize {
    if cfg!(target_arch = "aarch64") { address & ((1 << 48) - 1) } else { address }
}

/// The data that the kernel put on the stack before it called a signal handler.
pub mod signal {
    use super::{COUNT, Frame};
    use crate::memory::Stack;

    /// Offsets of the interrupted code's registers above the stack pointer that its handler returns with: the kept
    /// ones, then stack pointer and program counter.
    #[cfg(target_arch = "x86_64")]
    const AT: [usize; COUNT + 2] = [128, 120, 72, 80, 88, 96, 160, 168];
    #[cfg(target_arch = "aarch64")]
    const AT: [usize; COUNT + 2] =
        [464, 472, 480, 488, 496, 504, 512, 520, 528, 536, 544, 552, 560, 568];
    #[cfg(target_arch = "riscv64")]
    const AT: [usize; COUNT + 2] =
        [368, 376, 448, 456, 464, 472, 480, 488, 496, 504, 512, 520, 312, 320, 304];

    /// Returns the interrupted frame.
    pub fn interrupted(sp: usize, stack: &mut Stack) -> Option<Frame> {
        let [kept @ .., sp_at, pc_at] = AT.map(|offset| sp.wrapping_add(offset));
        Some(Frame { kept, sp: stack.word(sp_at)?, pc: stack.word(pc_at)? })
    }
}
