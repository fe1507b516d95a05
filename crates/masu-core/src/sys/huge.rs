//! Huge pages: what the system allows, and where one would take no memory.

use super::{auxv, file, mem};
use crate::sync::{AtomicU8, Ordering};

const HUGE: usize = 2 << 20;
const PAGE: usize = 4096;
const PAGES: usize = HUGE / PAGE;

static KNOWN: AtomicU8 = AtomicU8::new(0);
const YES: u8 = 1;
const NO: u8 = 2;

/// Whether the kernel can collapse pages, and its administrator has not forbidden huge pages, which the kernel does not
/// heed in that call.
#[cold]
#[inline(never)]
pub fn are_allowed() -> bool {
    if KNOWN.load(Ordering::Relaxed) == 0 {
        let mut text = [0; 64];
        let said = file::read(c"/sys/kernel/mm/transparent_hugepage/enabled", &mut text);
        let may = said.is_some_and(|said| !said.windows(7).any(|word| word == b"[never]"));
        let is_known_size = auxv::page_size() == PAGE;
        let can = may && is_known_size && mem::knows_collapse();
        KNOWN.store(if can { YES } else { NO }, Ordering::Relaxed);
    }
    KNOWN.load(Ordering::Relaxed) == YES
}

/// Puts the pages of one aligned huge page into one. Returns `false` if the kernel refuses, which says nothing about
/// others: it does so where the program has locked or protected some of the pages. Contents do not change.
pub fn collapse(at: usize) -> bool {
    mem::collapse_huge(at, HUGE).is_ok()
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
    use crate::own_process::alone;

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
            if are_allowed() && collapse(at) {
                assert_eq!((at as *const u8).read(), 1);
                assert!(mem::is_resident(at + HUGE - PAGE), "one page takes the place of all");
            }
        }
    }

    // In a process of its own, because others ask too.
    #[test]
    fn a_kernel_that_does_not_know_how_is_not_asked() {
        alone!(a_kernel_that_does_not_know_how_is_not_asked, || {
            mem::refusals::set(1);
            assert!(!are_allowed());
        });
    }

    #[test]
    fn a_page_that_the_program_has_protected_keeps_only_its_own_from_becoming_one() {
        alone!(a_page_that_the_program_has_protected_keeps_only_its_own_from_becoming_one, || {
            let before = are_allowed();
            let at = mem::reserve(3 * HUGE).expect("addresses").next_multiple_of(HUGE);
            // SAFETY: the test's own memory, all of it.
            unsafe {
                (at as *mut u8).write_bytes(1, 2 * HUGE);
                assert!(mem::protect(at + HUGE / 2, PAGE, false));
            }
            assert!(!collapse(at));
            assert_eq!(are_allowed(), before);
            if before && is_cheap(at + HUGE) {
                assert!(collapse(at + HUGE));
            }
        });
    }
}
