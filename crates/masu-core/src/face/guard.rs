//! Sampled guards, as the configuration asks for them.

use crate::config::Config;
use crate::guard;
use crate::stats;
use crate::sync::{AtomicPtr, Ordering};
use crate::sys::fatal::write_stderr;
use crate::sys::output::{self, Descriptor};
use crate::text::Text;
use core::ffi::CStr;
use core::ptr::null_mut;

/// The name of the file that reports go to, absolute; null: there is none.
static FILE: AtomicPtr<u8> = AtomicPtr::new(null_mut());

/// What the configuration says of guards.
#[cold]
#[inline(never)]
pub(super) fn start_configured(config: &Config) {
    if !guard::start(config.guard, config.guard_slots as usize) {
        if config.show_errors {
            let mut sink = write_stderr as fn(&[u8]);
            Text::new(&mut sink).str("masu: warning: no memory for guards: guard is off").line();
        }
        return;
    }
    if let Some(name) = stats::keep_name(config.guard_file.path()) {
        FILE.store(name.as_ptr().cast_mut().cast(), Ordering::Release);
        guard::set_file(open);
    }
    if config.guard_report && !guard::catch() && config.show_errors {
        let mut sink = write_stderr as fn(&[u8]);
        Text::new(&mut sink)
            .str("masu: warning: guard_report: the program has no sigaction; faults end it without a word")
            .line();
    }
}

fn open() -> Option<Descriptor> {
    let mut path = [0u8; 4096];
    // SAFETY: `start_configured` stored it: a C string that stays.
    let template = unsafe { CStr::from_ptr(FILE.load(Ordering::Acquire).cast()) };
    stats::expand(template.to_bytes(), output::process(), &mut path);
    Descriptor::append_to(CStr::from_bytes_until_nul(&path).ok()?).ok()
}
