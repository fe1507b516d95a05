//! What came of building the peers, as a table for `docs/benchmarks`.

use comfy_table::Table;
use masu_bench::report::Style;

use super::Peer;
use crate::paths;

/// The document.
pub fn markdown(peers: &[Peer]) -> String {
    let mut table = Table::new();
    table.set_header(["allocator", "version", "from", "preloaded", "linked in"]);
    for peer in peers {
        let loaded = cell(peer.library.is_some(), peer.reason.as_deref());
        let linked = cell(peer.program.is_some(), peer.program_reason.as_deref());
        table.add_row([&peer.name, &peer.version, &peer.origin, &loaded, &linked]);
    }
    Style::Markdown.draw(&mut table);
    format!(
        "# The peers\n\n\
         What `cargo run --release -p masu-lab -- peers` built. *Preloaded* is a shared object for \
         `LD_PRELOAD` that was seen to serve malloc; *linked in* is the measured program with the \
         allocator as Rust's global one, or as its C library's, that was seen to compute what it \
         should.\n\n{table}\n"
    )
}

/// Whether it is there, or why not.
fn cell(built: bool, reason: Option<&str>) -> String {
    match (built, reason) {
        (true, _) => "yes".into(),
        (false, Some(reason)) => format!("no: {}", short(reason)),
        (false, None) => "-".into(),
    }
}

/// A reason in one cell: the first sentence of it, up to what names a place of this machine. What programs said
/// beyond that is in their logs.
fn short(reason: &str) -> String {
    let workspace = format!("{}/", paths::workspace().display());
    let reason = reason.replace(&workspace, "");
    // `tools::run` joins lines by bars.
    let line = reason.split(" | ").flat_map(str::lines).find(|line| !line.trim().is_empty());
    let clauses: Vec<&str> =
        line.unwrap_or_default().split(": ").take_while(|clause| !names_a_place(clause)).collect();
    let label = |clause: &&&str| matches!(**clause, "error" | "fatal error" | "Caused by");
    let labels = clauses.iter().rev().take_while(label).count();
    match clauses[..clauses.len() - labels].join(": ").replace('|', " ").trim() {
        "" => "it cannot be built".into(),
        sentence => sentence.into(),
    }
}

/// Whether a word of `clause` is an absolute path, or an option or a URL with one.
fn names_a_place(clause: &str) -> bool {
    clause.split_whitespace().any(|word| {
        let word =
            word.trim_start_matches(|c: char| c.is_ascii_punctuation() && !"/-~".contains(c));
        let is_option = word.starts_with('-');
        word.starts_with(['/', '~']) || word.contains("file:/") || is_option && word.contains('/')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_has_a_line_with_its_reason() {
        let peer = |name: &str, library: bool, reason: Option<&str>| Peer {
            name: name.into(),
            version: "1.2".into(),
            origin: "crate".into(),
            library: library.then(|| "lib.so".into()),
            reason: reason.map(String::from),
            program: None,
            program_reason: None,
        };
        let lost = format!("{}/x failed | no", paths::workspace().display());
        let text = markdown(&[peer("good", true, None), peer("bad", false, Some(&lost))]);
        assert!(text.contains("| good") && text.contains("| yes"), "{text}");
        assert!(text.contains("no: x failed |"), "{text}");
        assert!(!text.contains(&paths::workspace().display().to_string()), "{text}");
    }

    #[test]
    fn a_reason_is_a_sentence_and_names_no_place() {
        let musl = "a nightly toolchain with the component rust-src is needed: cargo failed (exit status: 101): \
                    error: \"/root/.rustup/toolchains/x/Cargo.lock\" does not exist, unable to build | try:";
        assert_eq!(
            short(musl),
            "a nightly toolchain with the component rust-src is needed: cargo failed (exit status: 101)"
        );
        assert_eq!(
            short(
                "cargo failed (exit status: 101): error: no such crate: x | Caused by: | /home/a"
            ),
            "cargo failed (exit status: 101): error: no such crate: x"
        );
        assert_eq!(
            short("cc failed (exit status: 1): cannot use -L/opt/lib"),
            "cc failed (exit status: 1)"
        );
        assert_eq!(short("(`/usr/bin/cc` is missing)"), "it cannot be built");
        // Those of the recipes stay whole.
        let own = "the object under test is target/release/libmasu.so or MASU_LIB";
        assert_eq!(short(own), own);
    }
}
