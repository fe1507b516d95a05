//! What is in use at exit, by the stacks that allocated it: exact, since every block was recorded. Whether anything
//! still leads to a block is not known, so what a program keeps on purpose is listed together with what it has
//! lost.

use crate::config::File;
use crate::guard;
use crate::outlet::Outlet;
use crate::prof::{Place, Snapshot};
use crate::sys::output;
use crate::text::Text;

/// The most sites that are listed.
const MOST: usize = 20;

/// Standard error, as it was at the start: many programs close it before they end.
static OUTLET: Outlet = Outlet::new();

/// At the start of a process that is to list its leaks.
#[cold]
#[inline(never)]
pub(super) fn open() {
    // Standard error can be kept or not; there is no file that could be refused.
    let _ = OUTLET.open(&File::STDERR);
}

/// At exit: lists the blocks in use. A fork's child is silent, since most of what it has is its
/// parent's.
#[cold]
#[inline(never)]
pub(super) fn report() {
    if !OUTLET.is_own() {
        return;
    }
    let Ok(snapshot) = Snapshot::take() else { return };
    let mut all = Sum::default();
    snapshot.places().for_each(|place| all.add(&place));
    if all.blocks != 0 {
        OUTLET.report(&mut |text| list(&snapshot, &all, text));
    }
}

/// Blocks and sites, added up.
#[derive(Default)]
struct Sum {
    places: u64,
    blocks: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, place: &Place) {
        let blocks = place.live.blocks();
        self.places += u64::from(blocks != 0);
        self.blocks += blocks;
        self.bytes += place.live.bytes;
    }

    fn say<'a, 'b>(&self, text: &'a mut Text<'b>) -> &'a mut Text<'b> {
        text.decimal(self.bytes).str(" bytes in ").decimal(self.blocks);
        text.str(if self.blocks == 1 { " block" } else { " blocks" })
    }
}

fn list(snapshot: &Snapshot, all: &Sum, text: &mut Text) {
    text.str("masu: in use at the end of process ").decimal(output::process().into()).str(": ");
    all.say(text).str(", lost or kept on purpose").line();
    let mut rest = Sum { ..*all };
    // The next largest; equal sizes come in their order.
    let mut last = (u64::MAX, 0);
    for _ in 0..MOST {
        let live = snapshot.places().enumerate().filter(|(_, place)| place.live.blocks() != 0);
        let behind = live.filter(|(i, place)| {
            place.live.bytes < last.0 || place.live.bytes == last.0 && *i > last.1
        });
        let Some((i, place)) =
            behind.max_by(|(i, a), (j, b)| a.live.bytes.cmp(&b.live.bytes).then(j.cmp(i)))
        else {
            break;
        };
        last = (place.live.bytes, i);
        let mut sum = Sum::default();
        sum.add(&place);
        sum.say(text.str("masu:   ")).str(", allocated by").line();
        guard::say_frames(place.frames, text);
        rest.places -= 1;
        rest.blocks -= sum.blocks;
        rest.bytes -= sum.bytes;
    }
    if rest.places != 0 {
        rest.say(text.str("masu:   ")).str(" from ").decimal(rest.places);
        text.str(" other places; prof_file writes them all to a file").line();
    }
    if snapshot.dropped != 0 {
        text.str("masu:   ").decimal(snapshot.dropped).str(" blocks could not be recorded").line();
    }
}
