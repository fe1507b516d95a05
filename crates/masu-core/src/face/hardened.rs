//! The hardened heap, as the configuration asks for it.

use crate::config::Config;
use crate::hardened::{self, Options};
use crate::heap;
use crate::sys::fatal::write_stderr;
use crate::text::Text;

/// Has every request served by it from now on. `whole`: see [`Options::whole`].
#[cold]
#[inline(never)]
pub(super) fn start_configured(config: &Config, whole: bool) {
    let options = Options {
        quarantine_random: config.quarantine_random,
        quarantine_queue: config.quarantine_queue,
        guard_slabs: config.guard_slabs,
        whole,
    };
    if hardened::start(&options) {
        // Blocks that wait in bins would be handed out yet.
        heap::flush();
    } else if config.show_errors {
        let mut sink = write_stderr as fn(&[u8]);
        Text::new(&mut sink)
            .str("masu: warning: hardened: no addresses for it (ulimit -v?), or pages are not of 4 KiB; it is off")
            .line();
    }
}
