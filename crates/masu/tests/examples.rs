//! Every public item of the crate has an example. (rustdoc runs them; its own count of examples leaves methods out, and
//! needs a nightly toolchain.)

use std::fs;
use std::path::{Path, PathBuf};

/// Modules without public items: `pub` there is for the modules around them.
const INTERNAL: [&str; 17] = [
    "build.rs",
    "collect.rs",
    "cursor.rs",
    "elsewhere.rs",
    "figures.rs",
    "growth.rs",
    "memory.rs",
    "models.rs",
    "page.rs",
    "process.rs",
    "shared_pages.rs",
    "slots.rs",
    "stack.rs",
    "store.rs",
    "sync.rs",
    "table.rs",
    "upkeep.rs",
];

/// The public items of a file without an example, as lines.
fn lacking(text: &str) -> Vec<&str> {
    let mut documented = false;
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        let is_item =
            ["pub fn", "pub const fn", "pub unsafe fn", "pub struct", "pub enum", "pub trait"]
                .iter()
                .any(|start| line.strip_prefix(start).is_some_and(|rest| rest.starts_with(' ')));
        if is_item && !documented {
            found.push(line);
        }
        let is_comment = line.starts_with("///") || line.starts_with("#[");
        documented = is_comment && (documented || line.contains("```"));
    }
    found
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("the sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

#[test]
fn every_public_item_has_an_example() {
    let mut paths = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut paths);
    let (mut count, mut lacks) = (0, String::new());
    for path in paths {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        if INTERNAL.contains(&name) {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source");
        count += text.matches("pub fn ").count();
        for line in lacking(&text) {
            lacks += &format!("{}: {line}\n", path.display());
        }
    }
    assert!(lacks.is_empty(), "without an example:\n{lacks}");
    assert!(count > 150, "{count}");
}

#[test]
fn an_item_without_an_example_is_found() {
    let text = "/// ```\n/// f();\n/// ```\n#[inline]\npub fn f() {}\n\n/// Text.\npub fn g() {}\n";
    assert_eq!(lacking(text), ["pub fn g() {}"]);
}
