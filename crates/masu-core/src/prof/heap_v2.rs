//! A profile in the format of jemalloc's tools: `jeprof` and others that read the same text.
//!
//! They multiply each stack's line by 1/(1 − e^(−x/rate)), where x is its average size. The sums here are
//! weighted already, sample by sample, so the file has the sums divided by that factor.

use super::area::{Amount, ONE};
use super::control::{Refused, last_rate};
use super::copy::Copy;
use super::draw;
use super::dump::{maps, stack, whole};
use crate::text::Text;

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
    let copy = Copy::of_all().ok_or(Refused::Busy)?;
    whole(to, |text| {
        text.str("heap_v2/").decimal(rate as u64).line();
        let (mut live, mut all) = ((0, 0), (0, 0));
        for (site, _) in copy.sites() {
            for (sum, amount) in [(&mut live, site.live), (&mut all, site.allocated)] {
                let (objects, bytes) = unweighed(amount, rate);
                *sum = (sum.0 + objects, sum.1 + bytes);
            }
        }
        counts(text, live, all);
        for (site, frames) in copy.sites() {
            // A reader takes a line without an address for none, and what follows for the stack before.
            match frames {
                [] => _ = text.str("@").str(" ").hex(0).line(),
                _ => stack(text, "@", frames),
            }
            counts(text, unweighed(site.live, rate), unweighed(site.allocated, rate));
        }
        drop(copy);
        text.line().str("MAPPED_LIBRARIES:").line();
        maps(text);
    })
}

fn counts(text: &mut Text, live: (u64, u64), all: (u64, u64)) {
    text.str("  t*: ").decimal(live.0).str(": ").decimal(live.1);
    text.str(" [").decimal(all.0).str(": ").decimal(all.1).str("]").line();
}

/// The blocks and bytes from which a reader computes this amount.
fn unweighed(amount: Amount, rate: usize) -> (u64, u64) {
    if amount.objects == 0 {
        return (0, 0);
    }
    let objects = amount.objects as f64 / ONE as f64;
    let size = amount.bytes as f64 / objects;
    let bytes = amount.bytes as f64 * draw::probability(size as usize, rate);
    // A reader divides bytes by blocks, and then by what follows from that: nothing that exists may be rounded to no
    // block, or to blocks without a byte.
    let blocks = ((bytes / size.max(1.0) + 0.5) as u64).max(1);
    (blocks, ((bytes + 0.5) as u64).max(blocks))
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
            assert!(text.contains("\n@ 0x0\n  t*: 1: 100 [1: 100]\n"), "{text}");
        });
    }

    /// `jeprof` divides by 1 − e^(−bytes / blocks / rate), and ends if that is zero.
    #[test]
    fn no_blocks_are_without_a_byte() {
        for (size, rate) in [(0, 1), (0, 1 << 19), (1, 1 << 19), (2, 4096), (3, 1 << 30)] {
            let objects = (ONE as f64 / draw::probability(16, rate)) as u64;
            let (blocks, bytes) = unweighed(Amount { objects, bytes: size * objects / ONE }, rate);
            assert!(blocks >= 1 && bytes >= blocks, "{size} {rate}: {blocks} {bytes}");
        }
        assert_eq!(unweighed(Amount::default(), 4096), (0, 0));
    }
}
