//! Sampled guards, as the configuration asks for them.

use crate::config::Config;
use crate::guard;
use crate::sys::fatal::write_stderr;
use crate::text::Text;

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
    guard::FILE.name(&config.guard_file);
    if config.guard_report && !guard::catch() && config.show_errors {
        let mut sink = write_stderr as fn(&[u8]);
        Text::new(&mut sink)
            .str("masu: warning: guard_report: the program has no sigaction; faults end it without a word")
            .line();
    }
}
