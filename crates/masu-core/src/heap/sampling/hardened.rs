//! Samples and guards in a hardened process, where no refill foresees them: each block is drawn by itself.

use super::counted;
use crate::guard;
use crate::heap::birth;
use crate::prof::{self, Draw};
use crate::size_class::TABLE_MAX;
use core::ptr::null_mut;

/// If every block is recorded, this many blocks of a site are drawn, and then one in N.
const SURE: u64 = 64;

/// In a hardened process, where each block is drawn by itself: a block between guards, all zero, if this one is drawn
/// and there is room. Null otherwise.
#[inline]
pub fn guarded(bytes: usize, align: usize, size: usize) -> *mut u8 {
    if guard::rate() == 0 || bytes.wrapping_sub(1) >= TABLE_MAX {
        null_mut()
    } else {
        draw_guarded(bytes, align, size)
    }
}

#[cold]
#[inline(never)]
fn draw_guarded(bytes: usize, align: usize, size: usize) -> *mut u8 {
    let Some(heap) = birth::current_or_new() else { return null_mut() };
    let sampling = &heap.sampling;
    // A site that allocates again and again is guarded at first, and then now and then.
    if prof::is_every()
        && let Some((site, before)) = prof::site_here(size)
    {
        sampling.site.set(site);
        if before >= SURE && !before.is_multiple_of(SURE) {
            return null_mut();
        }
    }
    sampling.follow();
    if !sampling.guarded.pass(1) {
        return null_mut();
    }
    sampling.redraw_guarded();
    guard::alloc(bytes, align, Draw::of(sampling.generator.get()).coin())
}

/// [`counted`] of a block in a hardened process, if there is a profile.
///
/// # Safety
/// As there.
#[inline]
pub unsafe fn counted_beside_guards(p: *mut u8, size: usize) {
    // If every block is recorded, there is a rate too.
    if prof::rate() != 0 || prof::is_asked() {
        // SAFETY: passed on.
        unsafe { counted(p, size) }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::own_process::alone;
    use crate::prof;

    /// Such blocks have no more bytes than they were requested with.
    #[test]
    fn the_shortest_blocks_are_samples_too() {
        alone!(the_shortest_blocks_are_samples_too, || {
            let config = Config { hardened: true, prof: true, prof_rate: 1, ..Config::DEFAULT };
            // SAFETY: no environment.
            unsafe { crate::start_configured(&config, core::ptr::null(), false, false) };
            let before = prof::totals();
            for i in 0..1000 {
                assert!(!crate::alloc([0, 1, 2, 4, 8][i % 5]).is_null());
            }
            let after = prof::totals();
            assert_eq!((after.samples - before.samples, after.live - before.live), (1000, 3000));
        });
    }
}
