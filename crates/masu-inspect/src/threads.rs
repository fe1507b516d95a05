//! Which of the kernel's threads has which heap.
//!
//! A heap's record does not say whose it is, but each thread has the address of its heap in a word of its static TLS.
//! With glibc the kernel tells where a thread's list of robust mutexes begins: in the thread's control block, which lies
//! as far from its static TLS in every thread. So that word is at one distance from the lists, the one at which most
//! threads have the address of a heap. musl makes such lists only for threads that need them: there, threads stay
//! unknown, and so they do in a core file.

use std::collections::{HashMap, HashSet};
use std::fs;

use masu_watch::process::threads;

use crate::engine::Engine;
use crate::memory::Memory;
use crate::tables::u64_at;

/// How far from the list the word is searched for, in both directions.
const REACH: u64 = 16 << 10;
/// Maximum number of threads that are searched for it.
const SEARCHED: usize = 64;

/// The kernel's number and name of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its number.
    pub tid: u32,
    /// Its name, as the program set it.
    pub name: String,
}

/// Returns the threads that are known, by the numbers of their heaps.
pub fn of(memory: &Memory, engine: &Engine) -> HashMap<u64, Known> {
    if memory.core().is_some() || engine.base == 0 {
        return HashMap::new();
    }
    let process = memory.process;
    let lists: Vec<(u32, u64)> =
        threads(process).filter_map(|tid| Some((tid, robust_list(tid)?))).collect();
    let windows = lists.iter().take(SEARCHED).filter_map(|&(_, list)| {
        let bytes = memory.filled(list.checked_sub(REACH)?, 2 * REACH).ok()?;
        Some(heaps_in(engine, &bytes))
    });
    let Some(distance) = distance(windows) else { return HashMap::new() };
    let name = |tid| fs::read_to_string(format!("/proc/{process}/task/{tid}/comm")).ok();
    let mut known: HashMap<u64, Option<Known>> = HashMap::new();
    for (tid, list) in lists {
        let word = memory.word(list.wrapping_add_signed(distance)).ok();
        if let (Some(heap), Some(name)) = (word.and_then(|word| heap(engine, word)), name(tid)) {
            let thread = Known { tid, name: name.trim_end_matches('\n').to_owned() };
            // A heap has one thread. One that changed hands meanwhile is nobody's.
            known.entry(heap).and_modify(|other| *other = None).or_insert(Some(thread));
        }
    }
    known.into_iter().filter_map(|(heap, known)| Some((heap, known?))).collect()
}

/// Where a thread's list of robust mutexes begins, if it has one.
fn robust_list(tid: u32) -> Option<u64> {
    let (mut list, mut len) = (0_u64, 0_usize);
    // SAFETY: the kernel writes a pointer and a size to the two variables, which outlive the call.
    let done =
        unsafe { libc::syscall(libc::SYS_get_robust_list, tid, &raw mut list, &raw mut len) };
    (done == 0 && list != 0 && list.is_multiple_of(8)).then_some(list)
}

/// The number of the heap whose address is a word.
fn heap(engine: &Engine, word: u64) -> Option<u64> {
    let l = &engine.layout;
    let first = engine.base - l.heaps_below + l.heap_at;
    let offset = word.checked_sub(first)?;
    let heap = offset / l.heap_stride;
    (offset % l.heap_stride == 0 && heap < engine.figures.heaps).then_some(heap)
}

/// Yields the heaps whose addresses are around a list, and how far from it.
fn heaps_in(engine: &Engine, bytes: &[u8]) -> Vec<(i64, u64)> {
    let words = (0..bytes.len() as u64).step_by(8);
    words
        .filter_map(|at| Some((at as i64 - REACH as i64, heap(engine, u64_at(bytes, at))?)))
        .collect()
}

/// The distance at which most threads have the address of a heap of their own; among equals, the shortest.
fn distance(windows: impl Iterator<Item = Vec<(i64, u64)>>) -> Option<i64> {
    let mut heaps: HashMap<i64, HashSet<u64>> = HashMap::new();
    for (distance, heap) in windows.flatten() {
        heaps.entry(distance).or_default().insert(heap);
    }
    let most = heaps.into_iter().max_by_key(|(distance, heaps)| (heaps.len(), -distance.abs()))?;
    Some(most.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_is_that_of_most_threads() {
        // A stack has the addresses of its own heap and of an earlier thread's, nearer to the list.
        let windows = [vec![(-800, 1), (-64, 1)], vec![(-800, 2), (-64, 1)], vec![(-800, 3)]];
        assert_eq!(distance(windows.into_iter()), Some(-800));
        assert_eq!(distance([vec![(-800, 1), (64, 1)]].into_iter()), Some(64));
        assert_eq!(distance([Vec::new()].into_iter()), None);
    }

    #[test]
    fn the_kernel_knows_the_list_of_this_thread() {
        // SAFETY: a system call without arguments.
        let tid = unsafe { libc::gettid() };
        assert_eq!(robust_list(tid as u32).is_some(), cfg!(target_env = "gnu"));
        assert_eq!(robust_list(i32::MAX as u32), None);
    }
}
