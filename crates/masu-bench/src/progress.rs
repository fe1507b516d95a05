//! A progress bar on standard error, where somebody is watching.

use std::fmt::Write;
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};

use crate::race::Step;

/// A bar that is told of each run before it starts.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar for so many steps; hidden if standard error is no terminal.
    pub fn new(steps: usize) -> Self {
        let template = "{bar:30.cyan/dim} {percent:>3} %  {msg}  {left}";
        let style = ProgressStyle::with_template(template).expect("the template is fixed");
        let style = style.with_key("left", |state: &ProgressState, out: &mut dyn Write| {
            // A terminal that takes nothing is nobody to tell.
            let _ = out.write_str(&left(state.pos(), state.eta()));
        });
        Progress(ProgressBar::new(steps as u64).with_style(style))
    }

    /// The next run of a race begins.
    pub fn race(&self, step: Step) {
        self.0.set_length(step.total as u64);
        self.0.set_position(step.done as u64);
        self.0.set_message(format!("{} on {}, {}", step.task, step.arm, step.phase));
    }

    /// The next step of something else begins.
    pub fn step(&self, message: impl Into<String>) {
        self.0.set_message(message.into());
        self.0.inc(1);
    }

    /// Everything is done; the bar goes away.
    pub fn done(self) {
        self.0.finish_and_clear();
    }
}

/// The estimate; before the first step is over there is none.
fn left(done: u64, time: Duration) -> String {
    match done {
        0 => String::new(),
        _ => format!("about {:#} left", HumanDuration(time)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_estimated_from_nothing() {
        assert_eq!(left(0, Duration::ZERO), "");
        assert_eq!(left(3, Duration::from_secs(7)), "about 7s left");
        assert_eq!(left(3, Duration::from_secs(180)), "about 3m left");
    }
}
