//! Pages with an owner. The owner's calls are its own; everybody else pushes a freed block on the
//! page's list by a compare-and-swap, and the owner takes that list when it has nothing else. The
//! page's record, which the owner uses in every call, and the list that others push on are one line.

use super::super::machine::{Line, Machine};
use super::{Bins, Slots, bins, capacity};

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
            waiting: vec![vec![Vec::new(); super::CLASSES]; threads],
        }
    }

    pub fn alloc(
        &mut self,
        machine: &mut Machine,
        core: usize,
        thread: usize,
        class: usize,
    ) -> u32 {
        if self.bins[thread][class].is_empty() {
            if let Some(page) = self.waiting[thread][class].pop() {
                let page = &mut self.pages[page as usize];
                machine.atomic(core, &mut page.line);
                self.bins[thread][class].extend(page.pushed.drain(..));
            } else {
                let number = self.pages.len() as u32;
                let fresh = self.slots.carve(class, number, capacity(class));
                self.bins[thread][class].extend(fresh.rev());
                let line = Line::default();
                self.pages.push(One { owner: thread, class, line, pushed: Vec::new() });
            }
        }
        let slot = self.bins[thread][class].pop_back().expect("the bin was filled");
        machine.fetch(core, &mut self.pages[self.slots.home(slot) as usize].line);
        self.slots.touch(machine, core, slot);
        slot
    }

    pub fn free(&mut self, machine: &mut Machine, core: usize, thread: usize, slot: u32) {
        self.slots.touch(machine, core, slot);
        let number = self.slots.home(slot);
        let page = &mut self.pages[number as usize];
        if page.owner == thread {
            machine.fetch(core, &mut page.line);
            return self.bins[thread][page.class].push_back(slot);
        }
        machine.atomic(core, &mut page.line);
        if page.pushed.is_empty() {
            self.waiting[page.owner][page.class].push(number);
        }
        page.pushed.push(slot);
    }
}
