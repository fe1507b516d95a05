//! The pages of the library and of its configuration. The text is in `manual/`; the table of keys
//! is the engine's, with the meanings from the documentation.

use masu_core::config::Config;
use masu_core::text::Text;

use super::Page;

const DOCUMENTATION: &str = include_str!("configuration.in");

pub fn pages() -> Vec<Page> {
    [("libmasu.3", include_str!("libmasu.3.in")), ("masu-conf.7", include_str!("masu-conf.7.in"))]
        .map(|(file, source)| Page {
            file: file.into(),
            source: source
                .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
                .replace("@KEYS@", keys().trim_end()),
        })
        .into()
}

/// Returns an entry for every key of the engine: its variable, kind, default and meaning.
fn keys() -> String {
    let mut shown = Vec::new();
    let mut sink = |bytes: &[u8]| shown.extend_from_slice(bytes);
    Config::DEFAULT.show(&mut Text::new(&mut sink));
    let shown = String::from_utf8_lossy(&shown);
    let keys = shown.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1));
    keys.map(|key| {
        let [kind, default, meaning] = row(key).unwrap_or_default();
        let variable = key.to_ascii_uppercase();
        format!(
            ".TP\n\\fB{key}\\fR, \\fBMASU_{variable}\\fR ({}; default {})\n{}\n",
            roff(kind),
            roff(default),
            roff(meaning)
        )
    })
    .collect()
}

/// Returns kind, default and meaning of `key` from the documentation's table.
pub fn row(key: &str) -> Option<[&'static str; 3]> {
    let start = format!("| `{key}` |");
    // Other tables have rows for some of the keys, too.
    let (_, keys) = DOCUMENTATION.split_once("\n## Keys\n")?;
    let row = keys.lines().find_map(|line| line.strip_prefix(&start))?;
    let mut cells = row.trim_end_matches('|').split(" |").map(str::trim);
    Some([cells.next()?, cells.next()?, cells.next()?])
}

/// Converts Markdown's code and links for `man`.
fn roff(markdown: &str) -> String {
    let mut roff = String::new();
    let mut code = false;
    let mut rest = markdown.chars();
    while let Some(c) = rest.next() {
        match c {
            '`' => {
                code = !code;
                roff.push_str(if code { "\\fB" } else { "\\fR" });
            }
            '\\' => roff.push_str("\\e"),
            '-' => roff.push_str("\\-"),
            '[' if !code => {}
            // The text of a link stays, its address is removed.
            ']' if !code => {
                if rest.as_str().starts_with('(') {
                    rest.by_ref().find(|&c| c == ')');
                }
            }
            c => roff.push(c),
        }
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_becomes_roff() {
        assert_eq!(roff("`a_b` or [text](file.md#x), 8-32 [b]"), "\\fBa_b\\fR or text, 8\\-32 b");
    }

    #[test]
    fn every_key_has_kind_default_and_meaning() {
        let keys = keys();
        assert!(keys.contains("\\fBdecay\\fR, \\fBMASU_DECAY\\fR (time; default \\fB500ms\\fR)\n"));
        assert!(keys.contains("MASU_HARDENED\\fR (yes or no; default \\fB0\\fR)\n"), "{keys}");
        assert!(!keys.contains("(; default )"), "a key without a row in the documentation: {keys}");
        assert!(keys.lines().all(|line| !line.is_empty()), "{keys}");
    }
}
