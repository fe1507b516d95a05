//! A profile as a file of lines, for `masu prof`.
//!
//! ```text
//! masu heap profile 1
//! rate 524288
//! pid 4711
//! ms 10250                     since the first start, or since everything was last forgotten
//! dropped 0
//! live 8388608                 bytes in use
//! peak 9437184                 bytes in use when most were, to which the places' add up at most
//! place SIZE SAMPLES SQUARES ALLOCATED BYTES LIVE BYTES PEAK BYTES LIVED @ 0x… 0x…
//! maps
//! …                            /proc/self/maps as it is
//! end
//! ```
//!
//! A place is a stack, innermost return address first, and the size of the blocks allocated there. Numbers of blocks
//! are in 65,536ths, each before the bytes that were asked for in them; LIVED is the milliseconds that the freed ones
//! lived, added up. SQUARES is how many blocks each sample stands for, squared and added up, in 256ths: rates change,
//! and a figure's margin of error depends on the rates that its samples were drawn at. All figures are weighted
//! already, except that what places had at the peak may add up to more than was possible then: a reader makes it smaller
//! in proportion. Sites with no samples left alive are included, with what they have allocated.

use super::area::Amount;
use super::control::Refused;
use super::peak::totals;
use super::snapshot::Snapshot;
use crate::sync::{AtomicU32, Ordering};
use crate::sys::file;
use crate::sys::output::{self, Descriptor};
use crate::text::Text;

/// Dumps written so far.
static DUMPS: AtomicU32 = AtomicU32::new(0);

/// The number of the next dump, from 0.
pub fn next_dump() -> u32 {
    DUMPS.fetch_add(1, Ordering::Relaxed)
}

/// Writes the profile to a descriptor, in masu's own format: see `docs/profiling.md`.
///
/// # Errors
/// [`Refused::NotStarted`], [`Refused::Busy`].
#[cold]
#[inline(never)]
pub fn write(to: u32) -> Result<(), Refused> {
    let snapshot = Snapshot::take()?;
    let sums = totals();
    whole(to, |text| {
        text.str("masu heap profile 1").line();
        for (name, value) in [
            ("rate ", snapshot.rate as u64),
            ("pid ", output::process().into()),
            ("ms ", snapshot.milliseconds),
            ("dropped ", snapshot.dropped),
            ("live ", sums.live),
            ("peak ", sums.peak),
        ] {
            text.str(name).decimal(value).line();
        }
        for place in snapshot.places() {
            text.str("place ").decimal(place.size).str(" ").decimal(place.samples);
            text.str(" ").decimal((place.squares * 256.0) as u64);
            for Amount { objects, bytes } in [place.allocated, place.live, place.peak] {
                text.str(" ").decimal(objects).str(" ").decimal(bytes);
            }
            text.str(" ").decimal(place.lived);
            stack(text, " @", place.frames);
        }
        drop(snapshot);
        text.str("maps").line();
        maps(text);
        text.str("end").line();
    })
}

/// Has a text written. It is refused if the descriptor does not take all of it.
pub fn whole(to: u32, write: impl FnOnce(&mut Text)) -> Result<(), Refused> {
    let mut whole = true;
    let mut sink = |bytes: &[u8]| whole &= Descriptor(to).takes(bytes);
    let mut text = Text::new(&mut sink);
    write(&mut text);
    drop(text);
    if whole { Ok(()) } else { Err(Refused::Busy) }
}

/// Writes a stack's line, behind a mark that says that it is one.
pub fn stack(text: &mut Text, mark: &str, frames: &[usize]) {
    text.str(mark);
    for &frame in frames {
        text.str(" ").hex(frame as u64);
    }
    text.line();
}

/// Writes what is mapped where. Not by `/proc/self`, where nothing is once the first thread has ended.
pub fn maps(text: &mut Text) {
    text.flush();
    file::read_all(c"/proc/thread-self/maps", |bytes| {
        text.bytes(bytes);
    });
}
