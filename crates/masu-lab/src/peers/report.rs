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

/// A reason without the places of this machine, and in one cell.
fn short(reason: &str) -> String {
    let workspace = format!("{}/", paths::workspace().display());
    reason.replace(&workspace, "").replace(['|', '\n'], " ")
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
        assert!(text.contains("no: x failed   no"), "{text}");
        assert!(!text.contains(&paths::workspace().display().to_string()), "{text}");
    }
}
