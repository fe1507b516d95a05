//! The same inside `face`, what doors call.

use super::order::Order;

const FACE: Order = Order {
    directory: "face",
    files: &[
        ("scarce", "what is done when memory is out"),
        ("hardened", "blocks of the hardened heap, and what it is to be like"),
        ("alloc", "allocation"),
        ("free", "frees"),
        ("leaks", "what is in use at exit"),
        ("profile", "the profile, as doors control it"),
        ("resize/hardened", "blocks of the hardened heap that change their size"),
        ("resize", "those of all kinds"),
        ("arenas", "the same in heaps that a program makes"),
        ("absent", "options for what the engine was built without"),
        ("guard", "guards, as options ask for them"),
        ("control", "what a running program may change"),
        ("start", "the process's start and end"),
        ("mod", "declares the files, and what doors call of them"),
    ],
};

#[test]
fn files_of_the_face_use_only_those_above_them() {
    FACE.assert_kept();
}

/// The check itself, on code that breaks the rule.
#[test]
fn broken_rules_inside_the_face_are_seen() {
    let up = |file: &str, text: &str| FACE.arrows_up(file, text).len();
    assert_eq!(up("face/hardened.rs", "use super::alloc::alloc_exact;"), 1);
    assert_eq!(up("face/alloc.rs", "use super::{free, hardened, resize};"), 2);
    assert_eq!(up("face/free.rs", "use crate::face::resize::hardened::hardened_stays;"), 1);
    assert_eq!(up("face/resize/hardened.rs", "use super::stays;"), 1);
    // What doors use is not for the files themselves.
    assert_eq!(up("face/resize.rs", "use super::alloc_exact;"), 1);

    assert_eq!(up("face/resize.rs", "mod hardened; use hardened::f; use crate::hardened;"), 0);
    assert_eq!(up("face.rs", "mod alloc; pub use alloc::alloc; use crate::heap;"), 0);
}
