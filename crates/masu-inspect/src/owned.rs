//! Which addresses are masu's.
//!
//! They are looked up before the kernel is asked about the mappings and once more after that: a heap that grows in
//! between has memory that nothing explains yet, and it is not the program's.

use crate::engine::Engine;
use crate::error::Error;
use crate::hardened;
use crate::memory::Memory;
use crate::ranges::Ranges;

/// Address ranges that are masu's.
pub struct Owned {
    /// All of them.
    pub all: Ranges,
    /// Those from hooks, which may be mapped files.
    pub hooked: Ranges,
}

impl Owned {
    /// Joins an engine's ranges and those from hooks.
    pub fn of(mut engines: Vec<(u64, u64)>, hooked: Vec<(u64, u64)>) -> Owned {
        engines.extend(&hooked);
        Owned { all: Ranges::of(engines), hooked: Ranges::of(hooked) }
    }

    /// Adds what the engines have taken since.
    ///
    /// # Errors
    /// If the process cannot be read.
    pub fn grow(&mut self, memory: &Memory, engines: &[Engine]) -> Result<(), Error> {
        let mut all: Vec<_> = self.all.within(0, u64::MAX).collect();
        for engine in engines {
            let mut now = engine.clone();
            now.look(memory)?;
            all.extend(now.owned());
            all.append(&mut hardened::ranges(memory, &now)?);
        }
        self.all = Ranges::of(all);
        Ok(())
    }
}
