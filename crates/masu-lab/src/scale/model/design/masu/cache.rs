//! A thread's cache of medium blocks, as the engine has it (`run/cache.rs`): a list for each class, a limit
//! that doubles where it is too small, a share of what all caches may hold.

use masu_core::config::Config;
use masu_core::rules::{
    CACHE_BATCH, CACHE_FIRST, CACHE_LEAST, CACHE_LONGEST, CACHE_MISSES, CACHE_MISSES_SHARED, CACHES,
};
use masu_core::size_class::{MEDIUM_CLASSES, UNIT, medium_class, units_of_medium_class};

use super::super::super::machine::Copied;
use super::super::super::what::What;
use super::super::Caller;
use super::pages::Pages;

/// What is said of all caches.
pub struct Caches {
    line: Copied,
    holders: usize,
    /// Caches of full size that all may have together.
    full: usize,
}

impl Caches {
    /// None holds anything.
    pub fn new(full: usize) -> Self {
        Caches { line: Copied::of(What::Caches), holders: 0, full: full.max(CACHES) }
    }

    /// What one may hold if there are so many `more`.
    fn share(&mut self, caller: &mut Caller<'_>, more: usize) -> usize {
        caller.read(&mut self.line);
        let most = Config::DEFAULT.run_cache;
        let share = most.saturating_mul(self.full) / (self.holders + more).max(self.full);
        if share < CACHE_LEAST.min(most) { 0 } else { share }
    }

    /// One more holds something, or one less.
    fn count(&mut self, caller: &mut Caller<'_>, more: bool) {
        // Holders and bytes are two words of one line.
        caller.change_atomic(&mut self.line);
        caller.change_atomic(&mut self.line);
        self.holders = if more { self.holders + 1 } else { self.holders - 1 };
    }
}

/// See the module.
#[derive(Clone)]
pub struct Cache {
    /// First units of runs.
    lists: Vec<Vec<u32>>,
    bytes: usize,
    limit: usize,
    holds: bool,
    gave: bool,
    misses: u32,
    served: u64,
}

impl Cache {
    /// An empty one.
    pub fn new() -> Self {
        Cache {
            lists: vec![Vec::new(); MEDIUM_CLASSES],
            bytes: 0,
            limit: CACHE_FIRST,
            holds: false,
            gave: false,
            misses: 0,
            served: 0,
        }
    }

    /// A run of so many units, if there is one.
    pub fn take(&mut self, caller: &mut Caller<'_>, all: &mut Caches, units: usize) -> Option<u32> {
        let class = medium_class(units);
        if let Some(run) = self.lists[class].pop() {
            self.bytes -= units * UNIT;
            self.served |= 1 << class;
            return Some(run);
        }
        self.misses = if self.gave { self.misses + 1 } else { 0 };
        caller.read(&mut all.line);
        let enough = if all.holders <= 1 { CACHE_MISSES } else { CACHE_MISSES_SHARED };
        if self.misses >= enough {
            self.misses = 0;
            self.limit = (self.limit * 2).max(CACHE_FIRST).min(all.share(caller, 0));
        }
        None
    }

    /// Keeps a run, or gives it and others back.
    pub fn put(
        &mut self,
        caller: &mut Caller<'_>,
        all: &mut Caches,
        pages: &mut Pages,
        run: u32,
        units: usize,
    ) {
        let bytes = units * UNIT;
        if bytes > Config::DEFAULT.run_cache / CACHE_LONGEST {
            return pages.give_runs(caller, &[run]);
        }
        if !self.holds {
            self.holds = true;
            self.limit = CACHE_FIRST.min(all.share(caller, 1));
            all.count(caller, true);
        }
        if self.bytes + bytes > self.limit {
            if bytes <= self.limit {
                self.make_room(caller, all, pages, bytes);
            }
            if self.bytes + bytes > self.limit {
                self.gave = true;
                return pages.give_runs(caller, &[run]);
            }
        }
        self.lists[medium_class(units)].push(run);
        self.bytes += bytes;
    }

    /// Until a quarter of the limit and so many bytes are free.
    fn make_room(
        &mut self,
        caller: &mut Caller<'_>,
        all: &mut Caches,
        pages: &mut Pages,
        bytes: usize,
    ) {
        self.gave = true;
        self.limit = self.limit.min(all.share(caller, 0));
        let target = (self.limit - self.limit / 4).saturating_sub(bytes);
        let served = std::mem::take(&mut self.served);
        for idle in [true, false] {
            for class in (0..MEDIUM_CLASSES).rev() {
                if self.bytes <= target {
                    return;
                }
                if (served >> class & 1 == 0) == idle {
                    self.give_class(caller, pages, class, target);
                }
            }
        }
    }

    fn give_class(
        &mut self,
        caller: &mut Caller<'_>,
        pages: &mut Pages,
        class: usize,
        target: usize,
    ) {
        let size = units_of_medium_class(class) * UNIT;
        loop {
            let mut batch = Vec::new();
            while batch.len() < CACHE_BATCH && self.bytes > target {
                let Some(run) = self.lists[class].pop() else { break };
                self.bytes -= size;
                batch.push(run);
            }
            if batch.is_empty() {
                return;
            }
            pages.give_runs(caller, &batch);
        }
    }

    /// Gives everything back.
    pub fn drain(&mut self, caller: &mut Caller<'_>, all: &mut Caches, pages: &mut Pages) {
        for class in 0..MEDIUM_CLASSES {
            self.give_class(caller, pages, class, 0);
        }
        if std::mem::take(&mut self.holds) {
            all.count(caller, false);
        }
    }
}
