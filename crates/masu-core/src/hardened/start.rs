//! The beginning of the hardened heap: of a process's own, or of what first-class heaps need of it.

use super::options::{self, Options};
use super::place::{PROCESS, Want};
use super::{large, tags};
use crate::settings;
use crate::size_class::UNIT;
use crate::sys::{auxv, cpu, mem};

/// Begins to serve every request. Returns `false` if there are no addresses for it, or pages are not of 4 KiB.
#[cold]
pub fn start(options: &Options) -> bool {
    if settings::hardened() {
        return true;
    }
    options::set(options);
    let want = Want::of_process(cpu::count(false) as usize);
    if !prepare(true) || !PROCESS.reserve(&want) || !PROCESS.make_arenas(PROCESS.room()) {
        return false;
    }
    settings::set_hardened();
    true
}

/// Makes what everything else needs, unless it exists. `of_process`: every request is to be served. Returns `false` if
/// memory is out, or pages are not of 4 KiB.
pub fn prepare(of_process: bool) -> bool {
    if large::is_there() {
        return true;
    }
    options::set_marks(has_marks());
    if auxv::page_size() != UNIT {
        return false;
    }
    tags::start(of_process);
    large::start()
}

/// Whether the kernel has guards that need no mappings.
fn has_marks() -> bool {
    let Ok(at) = mem::map(UNIT) else { return false };
    // SAFETY: just mapped. qemu-user reports success for advice that it does not know.
    let has = unsafe { mem::guard_install(at, UNIT) } && !mem::can_be_read(at);
    mem::unmap(at, UNIT);
    has
}
