//! Names that a process has chosen itself, as a terminal and XML can have them.

/// Returns `text` with a question mark for each character that would control a terminal or that XML forbids.
pub fn printable(text: &str) -> String {
    let harmless = |c: char| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}');
    text.chars().map(|c| if harmless(c) { c } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_can_send_control_codes() {
        assert_eq!(printable("a\nb\x1b[31m\u{9b}c\u{fffe}"), "a?b?[31m?c?");
        assert_eq!(printable("größe 1"), "größe 1");
    }
}
