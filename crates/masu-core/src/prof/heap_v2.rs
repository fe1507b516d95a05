//! A profile in the format of jemalloc's tools: `jeprof` and others that read the same text.
//!
//! ```text
//! heap_v2/524288
//!   t*: 28106: 56637512 [40000: 80000000]      blocks and bytes in use, and all that were allocated
//!   t4711: 352: 16777344 [0: 0] reader         what a thread has in use, and its name
//! @ 0x5f86da8 0x5f5a1dc …                      a stack, and the same of it
//!   t*: 13: 6688 [20: 9000]
//!   t4711: 12: 6496 [0: 0]
//!
//! MAPPED_LIBRARIES:
//! …                                            /proc/self/maps as it is
//! ```
//!
//! Readers multiply each stack's line by 1/(1 − e^(−x/rate)), where x is its average size. The sums here are
//! weighted already, sample by sample, so the file has the sums divided by that factor.

use super::area::{Amount, ONE};
use super::control::{Refused, last_rate};
use super::copy::Copy;
use super::draw;
use super::dump::{maps, stack, whole};
use super::names;
use crate::text::Text;
use core::cell::Cell;

/// Writes the profile to a descriptor in the format of jemalloc's tools.
///
/// # Errors
/// As for [`dump`](super::dump::write).
#[cold]
#[inline(never)]
pub fn write(to: u32) -> Result<(), Refused> {
    let rate = last_rate();
    if rate == 0 {
        return Err(Refused::NotStarted);
    }
    let copy = Copy::of_all(true).ok_or(Refused::Busy)?;
    whole(to, |text| {
        text.str("heap_v2/").decimal(rate as u64).line();
        let (mut live, mut all) = (Amount::default(), Amount::default());
        let threads = Cell::new(0);
        for (site, _) in copy.sites() {
            for (sum, amount) in [(&mut live, site.live), (&mut all, site.allocated)] {
                let Amount { objects, bytes } = unweighed(amount, rate);
                sum.add(objects, bytes);
            }
            for part in copy.chained(site.next) {
                copy.add(&threads, part.thread.get(), unweighed(part.amount.get(), rate));
            }
        }
        counts(text, None, live, all).line();
        parts(text, &copy, threads.get(), 0);
        for (site, frames) in copy.sites() {
            // A reader takes a line without an address for none, and what follows for the stack before.
            match frames {
                [] => _ = text.str("@").str(" ").hex(0).line(),
                _ => stack(text, "@", frames),
            }
            let [live, all] = [site.live, site.allocated].map(|amount| unweighed(amount, rate));
            counts(text, None, live, all).line();
            parts(text, &copy, site.next, rate);
        }
        drop(copy);
        text.line().str("MAPPED_LIBRARIES:").line();
        maps(text);
    })
}

/// The lines of threads: of a site's, or (`rate` is 0) of the sums, which are unweighed already and have names.
#[inline(never)]
fn parts(text: &mut Text, copy: &Copy, first: u32, rate: usize) {
    for part in copy.chained(first) {
        let (thread, amount) = (part.thread.get(), part.amount.get());
        let live = if rate == 0 { amount } else { unweighed(amount, rate) };
        counts(text, Some(thread), live, Amount::default());
        let name = if rate == 0 { names::copy_of(thread) } else { [0; names::BYTES] };
        for (n, &byte) in name.iter().take_while(|&&byte| byte != 0).enumerate() {
            text.str(if n == 0 { " " } else { "" }).bytes(&[byte]);
        }
        text.line();
    }
}

/// Stacks that are compared with each other, so that there are at least as many as differ among these.
const COMPARED: usize = 4096;

/// What is in use, and the stacks that have some of it, or fewer; `None` if nothing is.
#[cold]
#[inline(never)]
pub fn in_use() -> Option<(Amount, u64)> {
    let copy = Copy::of_all(false)?;
    let live = || copy.sites().filter(|(site, _)| site.live.objects != 0);
    let (mut sum, mut stacks) = (Amount::default(), 0);
    for (n, (site, frames)) in live().enumerate() {
        sum.add(site.live.objects, site.live.bytes);
        if n < COMPARED && !live().take(n).any(|(_, other)| other == frames) {
            stacks += 1;
        }
    }
    // To the nearest block.
    sum.objects += ONE / 2;
    (stacks != 0).then_some((sum, stacks))
}

/// The beginning of a line: of a thread, or of all.
#[inline(never)]
fn counts<'a, 'b>(
    text: &'a mut Text<'b>,
    thread: Option<u32>,
    live: Amount,
    all: Amount,
) -> &'a mut Text<'b> {
    text.str("  t");
    match thread {
        Some(thread) => text.decimal(thread.into()),
        None => text.str("*"),
    };
    let numbers = [live.objects, live.bytes, all.objects, all.bytes];
    for (before, number) in [": ", ": ", " [", ": "].into_iter().zip(numbers) {
        text.str(before).decimal(number);
    }
    text.str("]")
}

/// The blocks and bytes from which a reader computes this amount.
fn unweighed(amount: Amount, rate: usize) -> Amount {
    if amount.objects == 0 {
        return Amount::default();
    }
    let objects = amount.objects as f64 / ONE as f64;
    let size = amount.bytes as f64 / objects;
    let bytes = amount.bytes as f64 * draw::probability(size as usize, rate);
    // A reader divides bytes by blocks, and then by what follows from that: nothing that exists may be rounded to no
    // block, or to blocks without a byte.
    let blocks = ((bytes / size.max(1.0) + 0.5) as u64).max(1);
    Amount { objects: blocks, bytes: ((bytes + 0.5) as u64).max(blocks) }
}

#[cfg(test)]
mod tests {
    use super::super::{sample, start};
    use super::*;
    use crate::own_process::alone;
    use std::io::Read;
    use std::os::fd::AsRawFd;

    /// There is no unwinder here. Where sites have no more room there is no stack either.
    #[test]
    fn each_stack_has_an_address() {
        alone!(each_stack_has_an_address, || {
            start(1).expect("memory");
            sample((1 << 20) as *mut u8, 100, 112, 1, 0, || u64::MAX);
            let (mut reader, writer) = std::io::pipe().expect("a pipe");
            let text = std::thread::spawn(move || {
                let mut text = String::new();
                reader.read_to_string(&mut text).map(|_| text)
            });
            assert_eq!(write(writer.as_raw_fd() as u32), Ok(()));
            drop(writer);
            let text = text.join().expect("a thread").expect("UTF-8");
            let me = crate::sys::thread::id();
            let lines = format!("\n@ 0x0\n  t*: 1: 100 [1: 100]\n  t{me}: 1: 100 [0: 0]\n");
            assert!(text.contains(&lines), "{text}");
        });
    }

    /// `jeprof` divides by 1 − e^(−bytes / blocks / rate), and ends if that is zero.
    #[test]
    fn no_blocks_are_without_a_byte() {
        for (size, rate) in [(0, 1), (0, 1 << 19), (1, 1 << 19), (2, 4096), (3, 1 << 30)] {
            let objects = (ONE as f64 / draw::probability(16, rate)) as u64;
            let found = unweighed(Amount { objects, bytes: size * objects / ONE }, rate);
            assert!(found.objects >= 1 && found.bytes >= found.objects, "{size} {rate}: {found:?}");
        }
        assert_eq!(unweighed(Amount::default(), 4096), Amount::default());
    }
}
