//! Modules that stay as long as what is kept: this code's own, the program, and the C library. Nearly all frames are
//! theirs, and each is looked up once in a process.
//!
//! | | operation | ordering |
//! |---|---|---|
//! | keep a module | store of its end, 0 until then | release: its other words |
//! | look | load of its end | acquire: the same |

use crate::module::Module;
use crate::sys;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// They, all zero as long as they are not known.
pub struct Lasting {
    /// The first one is this code's own.
    kept: [Kept; 3],
    /// Where those of its frames begin that [`walk_outside`](crate::walk_outside) leaves out: at its start if it is a
    /// library, else at its end.
    skipped: AtomicUsize,
}

struct Kept {
    from: AtomicUsize,
    end: AtomicUsize,
    tag: AtomicU64,
}

/// A module's code, and its tag.
#[derive(Clone, Copy)]
pub struct Code {
    pub from: usize,
    pub end: usize,
    pub tag: u64,
}

impl Code {
    /// Whether an address lies in it.
    #[inline(always)]
    pub fn has(&self, place: usize) -> bool {
        (self.from..self.end).contains(&place)
    }
}

impl Lasting {
    /// Returns this code's own module, given an address of it, and where those of its frames begin that are left out.
    #[inline(always)]
    pub fn own(&self, place: usize) -> Option<(Code, usize)> {
        let mut own = self.kept[0].get();
        if own.end == 0 {
            self.find(place);
            own = self.kept[0].get();
        }
        own.has(place).then(|| (own, self.skipped.load(Ordering::Relaxed)))
    }

    /// Returns the module of an address on the calling thread's stack.
    #[inline(always)]
    pub fn of(&self, place: usize) -> Option<Code> {
        let mut kept = self.kept.iter().map(Kept::get);
        kept.find(|code| code.has(place)).or_else(|| {
            let module = Module::of(place, &mut false)?;
            Some(Code { from: module.from, end: module.end, tag: module.tag })
        })
    }

    /// Notes them all. Threads that do so at the same time write the same.
    #[cold]
    #[inline(never)]
    fn find(&self, place: usize) {
        let [program, library] = sys::lasting();
        // The own one last: it says that all are known.
        for (i, place) in [program, library, place].into_iter().enumerate() {
            let (Some(module), Some(kept)) = (Module::of(place, &mut false), self.kept.get(2 - i))
            else {
                continue;
            };
            self.skipped.store(
                if module.is_library() { module.start } else { module.end },
                Ordering::Relaxed,
            );
            kept.from.store(module.from, Ordering::Relaxed);
            kept.tag.store(module.tag, Ordering::Relaxed);
            kept.end.store(module.end, Ordering::Release);
        }
    }
}

impl Kept {
    #[inline(always)]
    fn get(&self) -> Code {
        let end = self.end.load(Ordering::Acquire);
        Code { from: self.from.load(Ordering::Relaxed), end, tag: self.tag.load(Ordering::Relaxed) }
    }
}
