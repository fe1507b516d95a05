//! What the engine tells the profile of blocks: which one is a sample, and what becomes of it.

use super::area::Record;
use super::control::SWITCH;
use super::every::{self, is_every};
use super::names::calling_thread;
use super::peak;
use super::sites::FRAMES;
use super::table::{self, Drawn, Origin};
use crate::features;
use crate::stack;
use crate::sync::{AtomicPtr, Ordering};
use crate::sys::output;
use crate::sys::tags::untagged;
use core::ptr::null_mut;

/// What a door does after each sample: it gets the bytes that the sample stands for, and what all blocks in use can have
/// at most. It is called where a request is served, when the thread holds no lock of the engine.
pub type Then = fn(u64, fn() -> u64);

/// It; null if there is none.
static THEN: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// Has a function called after each sample.
pub fn set_then(then: Then) {
    THEN.store(then as *mut (), Ordering::Release);
}

/// Whether a block that is freed may be a sample.
#[inline(always)]
pub fn any_live() -> bool {
    features::PROF && peak::samples() != 0
}

/// Keeps a block that has just been drawn as a sample: `size` bytes of it were asked for, and it has `usable`.
/// `home`: see [`Record`]. `most`: the bytes that all blocks in use can have at most.
#[cold]
#[inline(never)]
pub fn sample(p: *mut u8, size: usize, usable: usize, rate: usize, home: u32, most: fn() -> u64) {
    if SWITCH.is_left_behind(output::process) {
        return;
    }
    let mut room = stack::room::<FRAMES>();
    let frames = stack::walk(&mut room);
    let (address, thread) = (untagged(p.addr()), calling_thread());
    let drawn = Drawn { address, size, usable, rate, home, thread, most };
    let Some(bytes) = table::insert(drawn, Origin::Stack(frames)) else {
        return table::dropped();
    };
    let then = THEN.load(Ordering::Acquire);
    if !then.is_null() {
        // SAFETY: `set_then` has stored such a function.
        let then = unsafe { core::mem::transmute::<*mut (), Then>(then) };
        then(bytes, most);
    }
}

/// Records a block of `size` bytes that was allocated just now, if every one is recorded: see [`every`]. `site`: what
/// [`site_here`](every::site_here) has returned for it, or 0.
#[cold]
#[inline(never)]
pub fn allocated(p: *const u8, size: usize, site: u32) {
    every::allocated(untagged(p.addr()), size, site);
}

/// Ends the sample of a block that is freed, or about to move, if it was one. Called before the block can have a new
/// owner.
#[cold]
#[inline(never)]
pub fn freed(p: *const u8) {
    if is_every() {
        every::freed(untagged(p.addr()));
    } else {
        table::remove(untagged(p.addr()));
    }
}

/// The bytes of the block that a small sample was drawn for. Its own may be longer.
#[cold]
#[inline(never)]
pub fn usable(p: *const u8) -> Option<usize> {
    table::usable(untagged(p.addr()))
}

/// Takes out the sample of a block that is about to move, if it is one.
#[inline]
pub fn set_aside(p: *const u8) -> Option<Record> {
    if any_live() { table::set_aside(untagged(p.addr())) } else { None }
}

/// Puts it back: the block did not move.
#[cold]
#[inline(never)]
pub fn put_back(sample: Record) {
    table::put_back(sample);
}

/// Ends the samples of all blocks for which `ends` returns true: they are freed.
#[cold]
#[inline(never)]
pub fn ended(ends: impl Fn(*const u8) -> bool) {
    table::remove_all(|address| ends(address as *const u8));
}
