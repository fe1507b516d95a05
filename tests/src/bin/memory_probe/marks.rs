//! The conversation with the watching test: a line out, a byte in.
//!
//! Between a mark and the answer to it the program sleeps in `read`, and neither
//! side of the exchange calls the allocator, so nothing but time passes while the
//! watcher looks at `/proc`.

use std::fmt::Write;

/// A line under construction on the stack.
struct Line {
    bytes: [u8; 96],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.len + text.len();
        let room = self.bytes.get_mut(self.len..end).ok_or(std::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// Announce that the program reached `name` holding `live` bytes; return when told to go on.
///
/// If the watcher has gone away, the program ends.
pub fn mark(name: &str, live: usize) {
    let mut line = Line { bytes: [0; 96], len: 0 };
    writeln!(line, "{name} {live}").expect("marks are short");
    let text = &line.bytes[..line.len];
    // SAFETY: the buffer is live and as long as stated.
    let written = unsafe { libc::write(1, text.as_ptr().cast(), text.len()) };
    let mut answer = 0u8;
    // SAFETY: one byte of room, as stated.
    let read = unsafe { libc::read(0, (&raw mut answer).cast(), 1) };
    if written != text.len() as isize || read != 1 {
        std::process::exit(2);
    }
}
