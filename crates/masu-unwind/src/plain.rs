//! Walks through plain frames, whose rules were found before: nearly every stack consists of them.
//!
//! Only the stack pointer and the frame pointer are followed. So a frame whose rule needs another register, or has
//! another form, or is not at hand, ends this walk without a result, and the [general one](crate::walk) begins anew.

use crate::cfi::{END, PLAIN, SAME};
use crate::kept::kept;
use crate::memory::Stack;
use crate::registers::{FRAME, Registers, unsigned};
use core::mem::MaybeUninit;

/// Writes the frames of a stack, and returns their number, as the general walk would.
#[inline(never)]
pub fn collect(
    registers: &Registers,
    frames: &mut [MaybeUninit<usize>],
    outside: bool,
) -> Option<usize> {
    let kept = kept()?;
    let rules = kept.rules.now();
    let mut stack = Stack::at(registers.sp);
    let mut sp = registers.sp;
    // Where the frame pointer can be read.
    let mut pointer = registers.kept.as_ptr().wrapping_add(FRAME).addr();
    let mut place = registers.pc;
    let (mut module, skipped) = kept.lasting.own(place)?;
    let own = if outside { skipped..module.end } else { 0..0 };
    let mut n = 0;
    while n < frames.len() {
        if !module.has(place) {
            module = kept.lasting.of(place)?;
        }
        let rule = rules.plain(place, module.tag)?;
        if rule.flags() & (PLAIN | END) != PLAIN {
            return (rule.flags() & PLAIN != 0).then_some(n);
        }
        let base = if rule.is_by_frame() { stack.read(pointer)? } else { sp };
        let cfa = base.wrapping_add_signed(rule.offset());
        if cfa <= sp {
            return None;
        }
        sp = cfa;
        let word = |at: i16| cfa.wrapping_add_signed(isize::from(at) * 8);
        if rule.frame != SAME {
            pointer = word(rule.frame);
        }
        let pc = unsigned(stack.read(word(rule.back()))?);
        // A call may be the last instruction of its function.
        place = pc.checked_sub(1).filter(|&place| place != 0)?;
        if n == 0 && own.contains(&pc) {
            continue;
        }
        frames.get_mut(n)?.write(pc);
        n += 1;
    }
    Some(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::general;
    use core::ffi::{c_int, c_void};
    use core::hint::black_box;
    use std::sync::atomic::{AtomicBool, Ordering};

    type Both = (Vec<usize>, Option<Vec<usize>>);

    /// More walks than it takes until the rules of a stack are all at hand. Those of five frames may share four places in
    /// the table in use: each walk then puts one in another's place, until the next table follows, which is empty. Other
    /// tests' walks may have that happen at any moment.
    const TRIES: usize = 500;

    /// The general walk's frames, and those of a plain one from the same place, if it gets through.
    #[inline(never)]
    fn both(n: usize, room: usize, outside: bool) -> Both {
        if n != 0 {
            return black_box(both(n - 1, room, outside));
        }
        let registers = Registers::now();
        let take = |walk: &dyn Fn(&mut [MaybeUninit<usize>]) -> Option<usize>| {
            let mut room = vec![MaybeUninit::uninit(); room];
            let n = walk(&mut room)?;
            // SAFETY: that many have been written.
            Some(room[..n].iter().map(|frame| unsafe { frame.assume_init() }).collect())
        };
        let find = |_| {
            let all = take(&|room| Some(general(&registers, room, outside))).expect("any stack");
            (all, take(&|room| collect(&registers, room, outside)))
        };
        let mut found = (0..TRIES).map(find);
        black_box(found.find(|(_, plain)| plain.is_some()).unwrap_or_else(|| find(TRIES)))
    }

    #[test]
    fn a_plain_walk_finds_what_the_general_one_finds() {
        for outside in [false, true] {
            for (n, room) in [(0, 127), (1, 127), (50, 127), (50, 300), (50, 12), (0, 3), (0, 0)] {
                let (general, plain) = both(n, room, outside);
                assert_eq!(plain.as_ref(), Some(&general), "{n} calls, room for {room}");
                assert!(general.len() == room || general.len() > n + 5);
            }
        }
    }

    /// Rules that were never looked up, and registers that a plain walk does not follow, are the general walk's.
    #[test]
    fn a_plain_walk_without_a_rule_leaves_the_stack_to_the_general_one() {
        extern "C" fn handler(_: c_int) {
            let (general, plain) = both(0, 64, false);
            assert!(general.len() > 5 && plain.is_none(), "a signal's frame is not plain");
            SEEN.store(true, Ordering::Relaxed);
        }
        static SEEN: AtomicBool = AtomicBool::new(false);
        unsafe extern "C" {
            fn signal(signal: c_int, handler: extern "C" fn(c_int)) -> usize;
            fn raise(signal: c_int) -> c_int;
        }
        // SAFETY: SIGURG, which is otherwise unused here.
        unsafe {
            signal(23, handler);
            raise(23);
        }
        assert!(SEEN.load(Ordering::Relaxed));
        #[inline(never)]
        fn fresh(room: &mut [MaybeUninit<usize>]) -> [Option<usize>; 2] {
            let registers = Registers::now();
            let first = collect(&registers, room, false);
            let then = (0..TRIES).find_map(|_| {
                general(&registers, &mut [MaybeUninit::uninit(); 64], false);
                collect(&registers, room, false)
            });
            black_box([first, then])
        }
        let [first, then] = fresh(&mut [MaybeUninit::uninit(); 64]);
        assert!(first.is_none() && then > Some(5), "{first:?} {then:?}");
    }

    // A function that is based on its frame pointer calls one that uses this register otherwise; and one is based on a
    // register that a plain walk does not follow.
    #[cfg(target_arch = "x86_64")]
    core::arch::global_asm!(
        "masu_unwind_by_frame:",
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "sub rsp, 80",
        "call 2f",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        "2:",
        ".cfi_startproc",
        "sub rsp, 24",
        ".cfi_def_cfa_offset 32",
        "mov [rsp + 8], rbp",
        ".cfi_offset rbp, -24",
        "xor ebp, ebp",
        "call rsi",
        "mov rbp, [rsp + 8]",
        "add rsp, 24",
        ".cfi_def_cfa_offset 8",
        "ret",
        ".cfi_endproc",
        "masu_unwind_by_another:",
        ".cfi_startproc",
        "push rbx",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbx, -16",
        "push rbp",
        ".cfi_def_cfa_offset 24",
        ".cfi_offset rbp, -24",
        "mov rbx, rsp",
        ".cfi_def_cfa_register rbx",
        "mov rbp, rsp",
        "sub rsp, 88",
        "call rsi",
        "mov rsp, rbx",
        "pop rbp",
        "pop rbx",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    );

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_frame_pointer_is_found_where_it_was_saved() {
        type Callee = extern "C" fn(*mut c_void);
        unsafe extern "C" {
            #[link_name = "masu_unwind_by_frame"]
            safe fn by_frame(found: *mut c_void, callee: Callee);
            #[link_name = "masu_unwind_by_another"]
            safe fn by_another(found: *mut c_void, callee: Callee);
        }
        extern "C" fn callee(found: *mut c_void) {
            // SAFETY: the place below.
            unsafe { *found.cast::<Option<Both>>() = Some(both(0, 127, false)) };
        }
        let mut found: [Option<Both>; 2] = [None, None];
        by_frame((&raw mut found[0]).cast(), callee);
        by_another((&raw mut found[1]).cast(), callee);
        let [Some((general, plain)), Some((others, none))] = found else { panic!("not called") };
        assert_eq!(plain.as_ref(), Some(&general));
        // One function more.
        assert_eq!((general.len(), none), (others.len() + 1, None));
        assert_eq!(general[general.len() - 5..], others[others.len() - 5..]);
    }
}
