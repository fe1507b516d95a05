//! Sampled guards, as the configuration asks for them.

use crate::config::Config;
use crate::guard::{self, slots::MOST};
use crate::sys::fatal::write_stderr;
use crate::text::Text;

/// Puts the configuration's options for guards in force. `whole`: blocks have the bytes of their size class, and the
/// program's runtime may install its own fault handler after this.
#[cold]
#[inline(never)]
pub(super) fn start_configured(config: &Config, whole: bool) {
    let warn = |of: &str| {
        if config.show_errors {
            let mut sink = write_stderr as fn(&[u8]);
            Text::new(&mut sink).str("masu: warning: ").str(of).line();
        }
    };
    if config.guard_slots as usize > MOST {
        warn("guard_slots: limited to 1048576");
    }
    if whole {
        guard::give_whole_classes();
    }
    if !guard::start(config.guard, config.guard_slots as usize) {
        warn("no memory for guards: guard is off");
        return;
    }
    guard::FILE.name(&config.guard_file);
    if !config.guard_report {
        return;
    }
    if !guard::catch() {
        warn("guard_report: the program has no sigaction; faults are not reported");
    } else if whole {
        guard::watch();
    }
}
