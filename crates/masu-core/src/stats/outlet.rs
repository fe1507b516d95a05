//! Writes the statistics at exit, to where the options say. Without those options, nothing here runs and nothing is
//! kept.

use super::print;
use crate::config::File;
use crate::outlet::Outlet;
use crate::settings;
use crate::sys::fatal::{may_tell, write_stderr};
use crate::sys::output;
use crate::text::Text;

static OUTLET: Outlet = Outlet::new();

/// At the start of a process that is to report: opens its destination.
#[cold]
#[inline(never)]
pub fn open(file: &File) {
    if let Err(error) = OUTLET.open(file)
        && settings::show_errors()
    {
        let mut sink = write_stderr as fn(&[u8]);
        Text::new(&mut sink)
            .str("masu: warning: ")
            .str("stats_file: cannot ")
            .str("open ")
            .quoted(file.path())
            .str(" (error ")
            .decimal(error.0 as u64)
            .str("); statistics go to stderr")
            .line();
    }
}

/// At exit: writes the statistics to what was opened.
#[cold]
#[inline(never)]
pub fn report() {
    let is_whole = OUTLET.report(&mut |text| {
        let (mut name, process) = ([0; 16], output::process());
        if settings::stats_as_json() {
            print::json(process, output::name(&mut name), text);
        } else if OUTLET.template().is_some() {
            print::print_of(process, output::name(&mut name), text);
        } else {
            print::print(text);
        }
    });
    if let Some(template) = OUTLET.template()
        && !is_whole
        && settings::show_errors()
        && may_tell()
    {
        let mut sink = write_stderr as fn(&[u8]);
        let mut text = Text::new(&mut sink);
        text.str("masu: warning: ").str("stats_file: cannot ").str("write ");
        text.quoted(template.to_bytes()).line();
    }
}
