//! A progress bar on standard error, where somebody is watching.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar that is advanced before each step.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar of so many steps; hidden if standard error is no terminal.
    pub fn new(steps: usize) -> Self {
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}");
        Progress(ProgressBar::new(steps as u64).with_style(style.expect("the template is fixed")))
    }

    /// The next step begins.
    pub fn step(&self, message: impl Into<String>) {
        self.0.set_message(message.into());
        self.0.inc(1);
    }

    /// Everything is done; the bar goes away.
    pub fn done(self) {
        self.0.finish_and_clear();
    }
}
