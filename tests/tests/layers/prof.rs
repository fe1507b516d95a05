//! The same inside `prof`, the heap profile.

use super::order::Order;

const PROF: Order = Order {
    directory: "prof",
    files: &[
        ("heads", "which chain an address's sample is in"),
        ("switch", "whether a profile is taken, and what asks for one from outside"),
        ("names", "which thread, and what the program calls it"),
        ("draw", "how far apart samples are, and what each stands for"),
        ("area", "where records of samples and sites lie"),
        ("peak", "what is alive in all, and was at most"),
        ("sites", "sites by stack"),
        ("table", "samples by address"),
        ("every", "and every block, where that is wanted"),
        ("control", "start and stop"),
        ("blocks", "what becomes of a block that may be a sample"),
        ("copy", "the sites, to be read at leisure"),
        ("snapshot", "place by place"),
        ("dump", "as a file of masu's"),
        ("heap_v2", "as one of jemalloc's"),
        ("mod", "declares the files, and what others use of them"),
    ],
};

#[test]
fn files_of_the_profile_use_only_those_above_them() {
    PROF.assert_kept();
}

/// The check itself, on code that breaks the rule.
#[test]
fn broken_rules_inside_the_profile_are_seen() {
    let up = |file: &str, text: &str| PROF.arrows_up(file, text).len();
    assert_eq!(up("prof/area.rs", "use super::table::ONE;"), 1);
    assert_eq!(up("prof/table.rs", "use super::{LIVE, draw, peak};"), 1);
    assert_eq!(up("prof/every.rs", "fn f() { super::control::stop() }"), 1);
    assert_eq!(up("prof/table.rs", "use super::{draw, peak}; use crate::ledger;"), 0);
    assert_eq!(up("prof/mod.rs", "pub use table::Totals; use super::features;"), 0);
}
