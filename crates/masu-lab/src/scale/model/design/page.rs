//! Pages with an owner. The owner's calls are its own; everybody else pushes a freed block on the
//! page's list by a compare-and-swap, and the owner takes that list when it has nothing else. The
//! page's record, which the owner uses in every call, and the list that others push on are one line.

use super::super::machine::Line;
use super::super::what::What;
use super::{Binned, Bins, CLASSES, Caller, Slots, bins};

struct One {
    owner: usize,
    class: usize,
    /// The record's line.
    line: Line,
    pushed: Vec<u32>,
}

/// See the module.
pub struct Page {
    slots: Slots,
    pages: Vec<One>,
    bins: Vec<Bins>,
    /// Pages by thread and class that somebody may have pushed on.
    waiting: Vec<Vec<Vec<u32>>>,
}

impl Page {
    pub fn new(threads: usize) -> Self {
        Page {
            slots: Slots::default(),
            pages: Vec::new(),
            bins: (0..threads).map(|_| bins()).collect(),
            waiting: vec![vec![Vec::new(); CLASSES]; threads],
        }
    }
}

impl Binned for Page {
    fn slots(&mut self) -> &mut Slots {
        &mut self.slots
    }

    fn bin(&mut self, thread: usize, class: usize) -> &mut Vec<u32> {
        &mut self.bins[thread][class]
    }

    fn refill(&mut self, caller: &mut Caller<'_>, class: usize) {
        let owner = caller.thread;
        if let Some(page) = self.waiting[owner][class].pop() {
            let page = &mut self.pages[page as usize];
            caller.atomic(&mut page.line);
            return self.bins[owner][class].append(&mut page.pushed);
        }
        let number = self.pages.len() as u32;
        let fresh = self.slots.carve(class, number);
        self.bins[owner][class].extend(fresh.rev());
        let line = Line::of(What::Page);
        self.pages.push(One { owner, class, line, pushed: Vec::new() });
    }

    fn taken(&mut self, caller: &mut Caller<'_>, slot: u32) {
        let page = self.slots.home(slot);
        caller.fetch(&mut self.pages[page].line);
    }

    fn put(&mut self, caller: &mut Caller<'_>, slot: u32) {
        let number = self.slots.home(slot);
        let page = &mut self.pages[number];
        if page.owner == caller.thread {
            caller.fetch(&mut page.line);
            return self.bins[caller.thread][page.class].push(slot);
        }
        caller.atomic(&mut page.line);
        if page.pushed.is_empty() {
            self.waiting[page.owner][page.class].push(number as u32);
        }
        page.pushed.push(slot);
    }
}
