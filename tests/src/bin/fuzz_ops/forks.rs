//! Forks in the middle of the work.
//!
//! The child has one thread and a copy of everything. It goes on with its worker's blocks, frees
//! blocks of threads that it does not have, and starts a thread, as servers do.

use std::collections::HashSet;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

use crate::calls::Fault;
use crate::worker::Worker;

/// The exit code of a child that has done all of its work. One whose thread panics ends with 0, as that was its last.
const DONE: i32 = 42;

impl Worker {
    /// Fork, and wait for the child's verdict.
    pub fn fork(&mut self) -> Result<(), Fault> {
        let seed = self.random.u64(..);
        let shared = self.shared.clone();
        let frozen = shared.model.freeze();
        // SAFETY: the child uses nothing that another thread may have locked: this thread holds the
        // model, and the bookkeeping allocator and the one under test handle forks themselves.
        let child = unsafe { libc::fork() };
        drop(frozen);
        if child == 0 {
            self.random.seed(seed);
            self.child();
        }
        let mut status = 0;
        // SAFETY: room for the status; the child is ours.
        while unsafe { libc::waitpid(child, &mut status, 0) } != child {}
        match (libc::WIFSIGNALED(status), libc::WTERMSIG(status)) {
            (true, libc::SIGALRM) => Err("a forked child hung".into()),
            (true, signal) => Err(format!("a forked child died of signal {signal}")),
            (false, _) if libc::WEXITSTATUS(status) == DONE => Ok(()),
            (false, _) => Err(format!("a forked child ended early: {status:#x}")),
        }
    }

    /// The child's work.
    fn child(&mut self) -> ! {
        // SAFETY: no handler is installed, so a child that hangs is killed.
        unsafe { libc::alarm(self.shared.options.child_seconds) };
        self.alone = true;
        self.run_for(200);
        let own: HashSet<usize> = self.blocks.iter().map(|block| block.address).collect();
        for address in self.shared.model.take(200, |address| own.contains(&address)) {
            // SAFETY: the block was live when the process forked, its thread does not exist here,
            // and the model gave it up.
            unsafe { libc::free(std::ptr::with_exposed_provenance_mut(address)) };
        }
        self.run_for(100);
        if self.random.bool() {
            let random = self.random.fork();
            let mut heir = Self::new(Arc::clone(&self.shared), 0, 0, 0);
            heir.alone = true;
            heir.random = random;
            heir.name = self.name ^ 1 << 30;
            for _ in 0..self.blocks.len() / 2 {
                self.take().into_iter().for_each(|block| heir.hold(block));
            }
            // Not by the standard library, which takes a lock when a thread starts; a thread that
            // does not exist here may have held it.
            let mut thread = MaybeUninit::uninit();
            let heir = Box::into_raw(Box::new(heir)).cast();
            // SAFETY: the body takes the box over.
            let error =
                unsafe { libc::pthread_create(thread.as_mut_ptr(), ptr::null(), run_heir, heir) };
            assert_eq!(error, 0, "a forked child cannot start a thread");
            self.run_for(200);
            // SAFETY: the thread was started, which wrote its id, and is joined once.
            unsafe { libc::pthread_join(thread.assume_init(), ptr::null_mut()) };
        }
        self.empty();
        // SAFETY: ends the child without running what the parent registered.
        unsafe { libc::_exit(DONE) };
    }

    /// Do this many steps.
    fn run_for(&mut self, steps: u32) {
        for _ in 0..steps {
            self.step();
        }
    }

    /// Free everything.
    fn empty(&mut self) {
        while let Some(block) = self.take() {
            let shared = &self.shared;
            shared.retire(block).unwrap_or_else(|f| shared.report(&f, "the end of a child"));
        }
    }
}

/// The thread of a child, which works on some of its blocks and frees them.
extern "C" fn run_heir(worker: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: the argument is the worker's box, given up by the thread that started this one.
    let mut worker = unsafe { Box::from_raw(worker.cast::<Worker>()) };
    worker.run_for(200);
    worker.empty();
    ptr::null_mut()
}
