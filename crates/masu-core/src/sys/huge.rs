//! Huge pages: what the system allows, and where one would take no memory.

use super::{auxv, file};
use crate::sync::{AtomicU8, Ordering};

const HUGE: usize = 2 << 20;
const PAGE: usize = 4096;
const PAGES: usize = HUGE / PAGE;

/// Whether the system may make huge pages where a program asks for them. Its administrator may have forbidden that, which
/// the kernel does not heed in a call that collapses pages.
#[cold]
#[inline(never)]
pub fn are_allowed() -> bool {
    const YES: u8 = 1;
    const NO: u8 = 2;
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    if KNOWN.load(Ordering::Relaxed) == 0 {
        let mut text = [0; 64];
        let said = file::read(c"/sys/kernel/mm/transparent_hugepage/enabled", &mut text);
        let may = said.is_some_and(|said| !said.windows(7).any(|word| word == b"[never]"));
        let is_known_size = auxv::page_size() == PAGE;
        KNOWN.store(if may && is_known_size { YES } else { NO }, Ordering::Relaxed);
    }
    KNOWN.load(Ordering::Relaxed) == YES
}

/// Pages of a huge page that may be without memory: 32 KiB.
pub const MISSING: usize = 8;

/// Whether nearly all pages of one aligned huge page are resident and this process's alone, so that one in their place
/// takes next to no memory.
#[cold]
#[inline(never)]
pub fn is_cheap(at: usize) -> bool {
    const PRESENT: u64 = 1 << 63;
    const SWAPPED: u64 = 1 << 62;
    const EXCLUSIVE: u64 = 1 << 56;
    let mut bytes = [0; PAGES * 8];
    let Some(read) = file::read_at(c"/proc/self/pagemap", at / PAGE * 8, &mut bytes) else {
        return false;
    };
    let mut left = MISSING;
    let (words, _) = read.as_chunks::<8>();
    let fits = words.iter().all(|word| {
        let word = u64::from_ne_bytes(*word);
        match word & PRESENT != 0 {
            true => word & EXCLUSIVE != 0,
            false if word & SWAPPED == 0 && left != 0 => {
                left -= 1;
                true
            }
            false => false,
        }
    });
    words.len() == PAGES && fits
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::sys::mem;

    #[test]
    fn a_huge_page_is_cheap_where_its_pages_are_there() {
        let at = mem::reserve(2 * HUGE).expect("addresses").next_multiple_of(HUGE);
        // SAFETY: the test's own memory, all of it.
        unsafe {
            mem::forbid_huge(at, HUGE);
            assert!(!is_cheap(at), "it has no pages");
            for page in 0..PAGES - MISSING {
                ((at + page * PAGE) as *mut u8).write(1);
                assert_eq!(is_cheap(at), page + 1 == PAGES - MISSING, "{page}");
            }
            if are_allowed() && mem::collapse_huge(at, HUGE) {
                assert_eq!((at as *const u8).read(), 1);
                assert!(mem::is_resident(at + HUGE - PAGE), "one page takes the place of all");
            }
        }
    }
}
