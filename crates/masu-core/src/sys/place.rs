//! What lies at an address that does not belong to the engine.
//!
//! Some addresses cannot be a block of any allocator in the process; the others may be.

use super::{auxv, host, mem};
use core::ffi::CStr;

/// What lies at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Nothing: it is below what is ever mapped, so it is a small number.
    Low,
    /// Nothing: no program has such addresses.
    Beyond,
    /// Unknown, but the address is not a multiple of [`LEAST`].
    Uneven,
    /// The stack of the calling thread, in use, or that of the first thread.
    Stack,
    /// The code or the variables of a loaded file, of the program itself if the name is empty.
    File(&'static CStr),
    /// Nothing.
    Unmapped,
    /// Memory that may be another allocator's.
    Other,
    /// Memory that is no allocator's, as the door says: [`place`] does not return it.
    Nobodys,
}

/// What every block's address is a multiple of, in every allocator.
pub const LEAST: usize = 8;

/// Below this nothing is mapped, usually: 64 KiB.
const LOW: usize = 64 << 10;
/// Beyond the largest addresses that a program can have, with five levels of page tables.
const BEYOND: usize = 1 << 56;
/// The most of a first stack that is looked at on its own thread, 64 MiB, and of any other stack, 8 MiB.
const FIRST_STACK: usize = 64 << 20;
const STACK: usize = 8 << 20;
/// How far above the calling function an address counts as on another thread's stack: other memory may lie
/// behind a small stack, such as a coroutine's.
const NEAR: usize = 1 << 20;

/// Finds out what lies at an address.
#[cold]
#[inline(never)]
pub fn place(p: *const u8) -> Place {
    let at = p.addr();
    if at < LOW {
        Place::Low
    } else if at >= BEYOND {
        Place::Beyond
    } else if !at.is_multiple_of(LEAST) {
        Place::Uneven
    } else if is_on_stack(at, stack_pointer()) {
        Place::Stack
    } else if let Some((name, _)) = host::loaded_from(p) {
        Place::File(name)
    } else if mem::is_unmapped(at) {
        Place::Unmapped
    } else if is_below(at, auxv::above_first_stack(), STACK) {
        Place::Stack
    } else {
        Place::Other
    }
}

fn is_below(at: usize, top: usize, most: usize) -> bool {
    at < top && top - at <= most
}

/// Whether an address is on the calling thread's stack, whose end in use is at `here`. The kernel puts the first
/// stack above all else, and a C library puts a thread's own words at the upper end of its stack.
fn is_on_stack(at: usize, here: usize) -> bool {
    let within = |top: usize, most: usize| here <= at && at < top && is_below(here, top, most);
    within(auxv::above_first_stack(), FIRST_STACK)
        || within(thread_pointer(), STACK) && at - here <= NEAR
}

/// From the register: under a sanitizer a variable may lie elsewhere.
fn stack_pointer() -> usize {
    let at: usize;
    #[cfg(miri)]
    {
        at = usize::MAX;
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: reads a register.
    unsafe {
        core::arch::asm!("mov {}, rsp", out(reg) at, options(nomem, nostack, preserves_flags));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: reads a register.
    unsafe {
        core::arch::asm!("mov {}, sp", out(reg) at, options(nomem, nostack, preserves_flags));
    }
    #[cfg(all(target_arch = "riscv64", not(miri)))]
    // SAFETY: reads a register.
    unsafe {
        core::arch::asm!("mv {}, sp", out(reg) at, options(nomem, nostack, preserves_flags));
    }
    at
}

fn thread_pointer() -> usize {
    let at: usize;
    #[cfg(miri)]
    {
        at = 0;
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the thread's own words begin with their address.
    unsafe {
        core::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) at,
            options(pure, readonly, nostack, preserves_flags));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: reads a register.
    unsafe {
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) at,
            options(pure, nomem, nostack, preserves_flags));
    }
    #[cfg(all(target_arch = "riscv64", not(miri)))]
    // SAFETY: reads a register.
    unsafe {
        core::arch::asm!("mv {}, tp", out(reg) at, options(pure, nomem, nostack, preserves_flags));
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: usize) -> Place {
        place(core::ptr::without_provenance(address))
    }

    #[test]
    fn what_no_allocator_hands_out_is_known() {
        let local = 0u64;
        static VARIABLE: u64 = 1;
        assert_eq!(at(8), Place::Low);
        assert_eq!(at(0xdead_beef_dead_bee0), Place::Beyond);
        assert_eq!(at(0x0000_7fff_ffff_f000), Place::Unmapped);
        assert_eq!(at((&raw const local).addr() + 1), Place::Uneven);
        if cfg!(miri) {
            return;
        }
        assert_eq!(at(stack_pointer()), Place::Stack);
        let outermost = auxv::above_first_stack() - 64;
        assert_eq!(at(outermost & !(LEAST - 1)), Place::Stack, "of another thread");
        let variable = place((&raw const VARIABLE).cast());
        assert!(matches!(variable, Place::File(_) | Place::Other), "{variable:?}");
    }

    #[test]
    fn a_fresh_mapping_may_be_anybodys() {
        let mapping = mem::map(4096).expect("memory");
        assert_eq!(at(mapping), Place::Other);
        mem::unmap(mapping, 4096);
        assert_eq!(at(mapping), Place::Unmapped);
    }
}
