//! The contents of a core file, for people.

use std::fmt::Write;

use super::{Ended, Stack};
use crate::printable::printable;

/// Writes all of it.
pub fn render(ended: &Ended) -> String {
    let how = match &ended.signal {
        Some(signal) => format!("ended by {}", signal.name),
        None => "dumped while it was running".into(),
    };
    let thread = ended.at.as_ref().map_or(0, |stack| stack.thread);
    let which = match ended.threads {
        1 => String::new(),
        threads => format!(" in thread {thread} of {threads}"),
    };
    let Ended { process, name, masu, .. } = ended;
    let name = printable(name);
    let mut text = format!("process {process} ({name}) on masu {masu}: {how}{which}\n");
    let what = match &ended.fault {
        Some(fault) => {
            let address = fault.address.as_deref();
            let address = address.unwrap_or("an address that no program can have");
            let _ = writeln!(text, "access to {address}: {}", fault.text);
            "accessed by"
        }
        None if ended.signal.is_some() => {
            text.push_str("no access to memory faulted\n");
            "the signal was raised in"
        }
        None => "where it was:",
    };
    say(&mut text, what, ended.at.as_ref());
    let block = ended.fault.as_ref().and_then(|fault| fault.place.block.as_ref());
    for (what, stack) in block.into_iter().flat_map(|block| block.stacks()) {
        say(&mut text, &format!("{what} by"), stack);
    }
    text.push_str("`gdb PROGRAM CORE` shows the stacks of all threads, and their variables.\n");
    match &ended.memory {
        Some(account) => {
            text.push_str("\nIts memory, as far as it was dumped:\n");
            text.push_str(&crate::see::text::render(account, &[], crate::see::text::WIDTH));
        }
        None => text.push_str("\nToo little of its memory was dumped to show more.\n"),
    }
    text
}

fn say(text: &mut String, what: &str, stack: Option<&Stack>) {
    let Some(Stack { thread, frames }) = stack else { return };
    let _ = writeln!(text, "  {what} thread {thread}");
    for (i, frame) in frames.iter().enumerate() {
        let _ = writeln!(text, "    #{i:<3}{}", frame.text);
    }
}
