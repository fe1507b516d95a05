//! Options that need a part that the engine was built without: the program runs without the part, and a message says
//! so.

use super::profile;
use crate::config::Config;
use crate::features;
use crate::sys::fatal::write_stderr;
use crate::text::Text;

/// Writes a line for each part that is requested but absent.
#[inline]
pub(super) fn tell(config: &Config) {
    let tell = |part| {
        if config.show_errors {
            say(part);
        }
    };
    if !features::HARDENED && config.hardened {
        tell("hardened");
    }
    if !features::GUARD && config.guard != 0 {
        tell("guard");
    }
    if !features::PROF && (config.block_stacks || profile::is_configured(config)) {
        tell("prof");
    }
}

#[cold]
#[inline(never)]
fn say(part: &str) {
    let mut sink = write_stderr as fn(&[u8]);
    let mut text = Text::new(&mut sink);
    text.str("masu: warning: ").str(part).str(": the program was built without it; ");
    text.str("enable the crate masu's feature ").str(part).line();
}
