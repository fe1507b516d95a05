//! `thread.*`: the calling thread's account, its arena and its cache.
//!
//! Invariants:
//!
//! 1. A scope of an arena's heap is opened only by [`arena`]. `arena.<i>.destroy` refuses an arena that a
//!    thread has chosen, and a program destroys none that another thread is choosing.
//! 2. Any other scope that a call opens is closed before the call ends.

use super::arenas;
use super::call::{Answer, Call, EAGAIN, EFAULT, Error};
use masu_core::{Scope, ThreadBytes};

fn account() -> Result<&'static ThreadBytes, Error> {
    masu_core::thread_bytes().ok_or(EAGAIN)
}

/// `thread.allocated`.
pub fn allocated(call: &Call) -> Answer {
    call.read_only()?;
    account()?;
    call.word(masu_core::control::thread_allocated())
}

/// `thread.deallocated`.
pub fn deallocated(call: &Call) -> Answer {
    call.read_only()?;
    account()?;
    call.word(masu_core::control::thread_deallocated())
}

/// `thread.allocatedp`. The caller will check whether the word moves at the next allocation: with
/// the thread's bins empty, it does.
pub fn allocatedp(call: &Call) -> Answer {
    call.read_only()?;
    let words = account()?.words();
    masu_core::control::flush_thread();
    masu_core::control::thread_allocated();
    call.pointer(words.0)
}

/// `thread.deallocatedp`.
pub fn deallocatedp(call: &Call) -> Answer {
    call.read_only()?;
    let words = account()?.words();
    masu_core::control::thread_deallocated();
    call.pointer(words.1)
}

/// `thread.peak.read`.
pub fn peak(call: &Call) -> Answer {
    call.read_only()?;
    call.word(account()?.peak())
}

/// `thread.peak.reset`.
pub fn reset_peak(call: &Call) -> Answer {
    call.neither()?;
    account()?.reset_peak();
    Ok(())
}

/// `thread.arena`: where the thread's blocks come from if they name no arena. The program must
/// ensure that no thread chooses an arena while another one destroys it.
pub fn arena(call: &Call) -> Answer {
    let old = match masu_core::scope() {
        Some(heap) => arenas::number_of(heap).ok_or(EFAULT)?,
        None => 0,
    };
    let new = call.new_unsigned()?;
    call.unsigned(old as u32)?;
    if let Some(new) = new {
        let heap = arenas::heap(new as usize);
        if new != 0 && heap.is_none() {
            return Err(EFAULT);
        }
        // SAFETY: invariant 1: the heap lives while threads have it, because it is not destroyed then. The scope
        // stays open until another takes its place.
        core::mem::forget(unsafe { Scope::open(heap) });
    }
    Ok(())
}

/// `thread.tcache.enabled`. There is always a cache, because all small blocks come from one;
/// switching it off empties it.
pub fn cache_enabled(call: &Call) -> Answer {
    let new = call.new_flag()?;
    call.flag(account()?.cache_wanted())?;
    if let Some(new) = new {
        account()?.set_cache_wanted(new);
        if !new {
            masu_core::control::flush_thread();
        }
    }
    Ok(())
}

/// `thread.tcache.max`: all small blocks are cached.
pub fn cache_max(call: &Call) -> Answer {
    call.read_only()?;
    call.size(masu_core::size_class::SMALL_MAX)
}

/// `thread.tcache.flush`.
pub fn flush(call: &Call) -> Answer {
    call.neither()?;
    masu_core::control::flush_thread();
    Ok(())
}

/// `thread.idle`: the thread is about to wait for a long time.
pub fn idle(call: &Call) -> Answer {
    call.neither()?;
    masu_core::control::idle_thread();
    Ok(())
}
