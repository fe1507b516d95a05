//! The sites, which samples belong to, by their stacks.
//!
//! Invariants, under the lock of [`table`](super::table):
//! 1. sites lie one behind the other, each with its frames behind it, and each is in the chain of its hash.
//! 2. they are never moved, and never removed except all together. Each is written whole before anything leads to it.

use super::area::{Amount, Area, FIRST_SITE, SITE_BYTES, Site};
use super::draw::DEFAULT_RATE;
use super::heads::Heads;
use super::peak;
use crate::sync::{AtomicUsize, Ordering};

/// The deepest stack: the outermost frames of deeper ones are cut off.
pub const FRAMES: usize = 127;
/// Most bytes of sites at the default rate; a profile with an n times finer rate may have n times more.
const AT_DEFAULT: usize = 3 << 19;
/// As many bytes of sites count as one record: then there is a head for about two sites.
const A_RECORD: usize = 4 << 10;

/// The heads of the chains.
static HEADS: Heads = Heads::new();
/// Where the next site goes, and the most bytes of them. Under the lock.
pub static SITES: AtomicUsize = AtomicUsize::new(FIRST_SITE);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// Makes room for what a profile of this rate may have.
pub fn make_room(rate: usize) {
    let finer = (DEFAULT_RATE / rate.max(1)).max(1);
    MOST.fetch_max(AT_DEFAULT.saturating_mul(finer).min(SITE_BYTES), Ordering::Relaxed);
}

/// Most bytes of sites.
pub fn most_bytes() -> usize {
    MOST.load(Ordering::Relaxed)
}

/// Bytes of memory that they have used, with their heads.
pub fn bytes() -> usize {
    HEADS.bytes() + SITES.load(Ordering::Relaxed)
}

/// Forgets them all: their heads are zero. Under the lock.
pub fn clear() {
    SITES.store(FIRST_SITE, Ordering::Relaxed);
    HEADS.begin_anew();
}

/// The site of a stack and a kind; the site of no stack if there is no room for more sites. Under the lock.
///
/// # Safety
/// The lock must be held.
pub unsafe fn site_of(area: Area, frames: &[usize], kind: u16) -> Option<u32> {
    let depth = frames.len().min(FRAMES);
    let mut hash = u64::from(kind) | (depth as u64) << 32;
    for &frame in frames {
        hash = (hash.rotate_left(5) ^ frame as u64).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
    hash ^= hash >> 29;
    let offset = SITES.load(Ordering::Relaxed);
    if offset == FIRST_SITE {
        // The page is written before it is read: one fault.
        area.begin_sites();
    }
    if HEADS.are_few(offset / A_RECORD) {
        grow(area, offset);
    }
    let head = area.site_head(HEADS.of(hash as usize));
    // SAFETY: under the lock, and invariants 1 and 2.
    unsafe {
        let mut at = *head;
        while at != 0 {
            let s = area.site(at);
            if (*s).hash == hash && (*s).kind == kind && frames_of(s) == frames {
                return Some(at);
            }
            at = (*s).next;
        }
        let end = offset + size_of::<Site>() + depth * 8;
        // The last 8 KiB are for sites without a stack.
        let most = MOST.load(Ordering::Relaxed);
        if end > most - if depth == 0 { 0 } else { 8 << 10 } {
            return if depth == 0 { None } else { site_of(area, &[], kind) };
        }
        SITES.store(end, Ordering::Relaxed);
        let at = (offset / 8) as u32;
        let s = area.site(at);
        s.write(Site {
            hash,
            next: *head,
            depth: depth as u16,
            kind,
            samples: 0,
            squares: 0.0,
            allocated: Amount::default(),
            live: Amount::default(),
            at_peak: Amount::default(),
            peak: peak::number(),
            lived: 0,
        });
        s.add(1).cast::<usize>().copy_from_nonoverlapping(frames.as_ptr(), depth);
        *head = at;
        Some(at)
    }
}

/// Enters all sites in the next table of heads. Under the lock.
#[cold]
fn grow(area: Area, end: usize) {
    HEADS.grow(|next| {
        let mut offset = FIRST_SITE;
        while offset < end {
            let at = (offset / 8) as u32;
            // SAFETY: under the lock, and invariant 1.
            unsafe {
                let s = &mut *area.site(at);
                s.next = area.site_head(next.of(s.hash as usize)).replace(at);
                offset += size_of::<Site>() + usize::from(s.depth) * 8;
            }
        }
    });
}

/// A site's frames.
///
/// # Safety
/// They must be behind it and must not change.
pub unsafe fn frames_of<'a>(s: *const Site) -> &'a [usize] {
    // SAFETY: passed on (invariant 2).
    unsafe { core::slice::from_raw_parts(s.add(1).cast(), usize::from((*s).depth)) }
}
