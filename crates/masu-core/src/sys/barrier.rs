//! `membarrier(2)`: a memory barrier in every running thread of the process.

use super::raw::{nr, syscall};
use super::result;
use crate::sync::{AtomicU32, Ordering};

const PRIVATE_EXPEDITED: usize = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: usize = 1 << 4;

const UNKNOWN: u32 = 0;
const READY: u32 = 1;
const ABSENT: u32 = 2;
static STATE: AtomicU32 = AtomicU32::new(UNKNOWN);

fn membarrier(command: usize) -> bool {
    // SAFETY: the call takes no pointers.
    result(unsafe { syscall(nr::MEMBARRIER, [command, 0, 0, 0, 0, 0]) }).is_ok()
}

/// Makes all running threads of the process pass a full barrier. Returns `false` if the kernel
/// cannot, or is not allowed to.
pub fn all_threads() -> bool {
    if STATE.load(Ordering::Relaxed) == UNKNOWN {
        let ready = membarrier(REGISTER_PRIVATE_EXPEDITED);
        STATE.store(if ready { READY } else { ABSENT }, Ordering::Relaxed);
    }
    STATE.load(Ordering::Relaxed) == READY && membarrier(PRIVATE_EXPEDITED)
}
