//! Checks the arguments of the engine's unsafe code: what a comment relies on stands where it says.

use std::fs;
use std::path::{Path, PathBuf};

use masu_tests::{rust_files, workspace};

fn engine() -> PathBuf {
    workspace().join("crates/masu-core/src")
}

/// A module's head lists the invariants that it keeps, by number; comments elsewhere name one by number and module, so
/// that a reader finds what they rely on.
#[test]
fn invariants_are_numbered_and_those_that_are_cited_exist() {
    let root = engine();
    let (mut wrong, mut cited) = (Vec::new(), 0);
    for file in rust_files(&root) {
        let inside = file.strip_prefix(&root).expect("below the root");
        if inside.starts_with("models") {
            continue;
        }
        let text = fs::read_to_string(&file).expect("readable");
        if text.contains("//! Invariant:") {
            wrong.push(format!("{}: an invariant without a number", inside.display()));
        }
        for (number, module) in citations(&text) {
            cited += 1;
            let head = match &module {
                None => text.clone(),
                Some(module) => module_text(&root, module),
            };
            if !invariants(&head).contains(&number) {
                let module = module.unwrap_or_else(|| "its own module".into());
                wrong.push(format!("{}: {module} has no invariant {number}", inside.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cited > 200, "{cited} citations");
}

/// A promise can be passed on only by a function that states its callers' duties. (Clippy checks that unsafe ones do.)
#[test]
fn promises_are_passed_on_by_those_that_ask_for_them() {
    let root = engine();
    let mut wrong = Vec::new();
    for file in rust_files(&root) {
        let text = fs::read_to_string(&file).expect("readable");
        let inside = file.strip_prefix(&root).expect("below the root").display();
        wrong.extend(unasked(&text).iter().map(|line| format!("{inside}:{line}")));
    }
    assert!(wrong.is_empty(), "passed on by a safe function: {}", wrong.join(" "));
}

/// The checks themselves, on comments that break the rules.
#[test]
fn broken_rules_are_seen() {
    let of = |n, module: &str| (n, Some(module.to_owned()));
    let text = "// SAFETY: invariants 1 and 12 of `span::record`, and\n    // invariant 3 of\n    // `heap`.\nx";
    assert_eq!(citations(text), [of(1, "span::record"), of(12, "span::record"), of(3, "heap")]);
    assert_eq!(citations("/// Keeps invariant 2: all is well."), [(2, None)]);
    assert_eq!(citations("let invariant = 2; // The invariants of a list."), []);
    assert_eq!(
        invariants("//! Invariants (of it):\n//! 1. a\n//!    b\n//! 2. c\n//!\n//! 3. d"),
        [1, 2]
    );

    let passed = |head: &str| {
        unasked(&format!("{head} {{\n    // SAFETY: passed on.\n    unsafe {{ g() }}\n}}"))
    };
    assert_eq!(passed("fn f(of: fn(u8)) -> u8"), [2]);
    assert_eq!(passed("pub(super) unsafe fn f()"), []);
    assert_eq!(passed("unsafe fn f() {}\n\nfn h(\n    p: *mut u8,\n)"), [6]);
}

/// The numbers of the invariants at the head of `text`.
fn invariants(text: &str) -> Vec<usize> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("//! Invariants"));
    lines.next();
    let list = lines.take_while(|line| line.starts_with("//! "));
    list.filter_map(|line| line[4..].split_once(". ")?.0.parse().ok()).collect()
}

/// The text of the engine's module `module`; empty if there is none.
fn module_text(root: &Path, module: &str) -> String {
    let file = root.join(module.replace("::", "/"));
    let read = |file: PathBuf| fs::read_to_string(file).ok();
    read(file.with_extension("rs")).or_else(|| read(file.join("mod.rs"))).unwrap_or_default()
}

/// The invariants that the comments of `text` name, with the module if they name one.
fn citations(text: &str) -> Vec<(usize, Option<String>)> {
    let comment = |line: &str| {
        let line = line.trim_start();
        let rest = line.strip_prefix("//")?.trim_start_matches(['/', '!']);
        Some(format!(" {}", rest.trim()))
    };
    let prose: String = text.lines().map(|line| comment(line).unwrap_or("\n".into())).collect();
    let mut found = Vec::new();
    for part in prose.split("nvariant").skip(1) {
        let mut rest = part.strip_prefix('s').unwrap_or(part);
        let mut numbers = Vec::new();
        while let Some(next) = rest.trim_start().trim_start_matches("and ").chars().next() {
            if !next.is_ascii_digit() {
                break;
            }
            rest = rest.trim_start().trim_start_matches("and ");
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            numbers.extend(rest[..end].parse::<usize>());
            rest = &rest[end..];
        }
        let module = rest.strip_prefix(" of `").and_then(|rest| Some(rest.split_once('`')?.0));
        found.extend(numbers.into_iter().map(|number| (number, module.map(str::to_owned))));
    }
    found
}

/// The lines of `text` that pass a promise on within a safe function: the last one above that is less indented.
fn unasked(text: &str) -> Vec<usize> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let is_function = |line: &str| {
        !line.trim_start().starts_with("//") && line.split_whitespace().any(|word| word == "fn")
    };
    let lines: Vec<&str> = text.lines().collect();
    let passes_on = |line: &str| {
        let said = line.trim_start().strip_prefix("// SAFETY: ");
        said.is_some_and(|said| {
            said.starts_with("passed on") || said.starts_with("as the caller says")
        })
    };
    let safe = |at: usize| {
        let mut above = lines[..at].iter().rev();
        let of = above.find(|line| indent(line) < indent(lines[at]) && is_function(line));
        of.is_none_or(|line| !line.contains("unsafe "))
    };
    (0..lines.len()).filter(|&at| passes_on(lines[at]) && safe(at)).map(|at| at + 1).collect()
}
