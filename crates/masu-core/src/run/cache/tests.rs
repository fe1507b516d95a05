//! Which runs are kept.

use super::*;
use crate::own_process::alone;
use crate::run::Home;

#[test]
fn runs_of_up_to_an_eighth_of_the_most_are_kept() {
    let most = settings::run_cache();
    let longest = most / CACHE_LONGEST / UNIT;
    let cache = RunCache::new();
    for (units, kept) in [(1, true), (longest, true), (longest + 4, false), (256, false)] {
        let (at, _) = pool::take(units, 1, Home::ANY).expect("memory");
        cache.begin();
        cache.limit.set(most);
        // SAFETY: the test's run, of that length.
        unsafe { cache.put(at as *mut u8, units) };
        assert_eq!(cache.bytes(), if kept { units * UNIT } else { 0 }, "{units} units");
        cache.drain();
        assert_eq!(cache.bytes(), 0);
    }
}

/// Its thread takes out what it put in, and then rests: others get its share.
#[test]
fn a_cache_that_was_emptied_counts_no_longer() {
    alone!(a_cache_that_was_emptied_counts_no_longer, || {
        let cache = RunCache::new();
        let (at, _) = pool::take(1, 1, Home::ANY).expect("memory");
        // SAFETY: the test's run, of that length.
        unsafe { cache.put(at as *mut u8, 1) };
        assert_eq!(cache.take(1), Some(at as *mut u8));
        assert_eq!((cache.bytes(), TOTAL.holders()), (0, 1));
        assert!(!cache.visit(true));
        assert_eq!((TOTAL.holders(), TOTAL.bytes()), (0, 0));
    });
}
