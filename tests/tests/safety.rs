//! Checks the arguments of unsafe code in the engine and in the two doors to it, the crate and the C library's: what a
//! comment relies on stands where it says.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use masu_tests::{rust_files, workspace};

/// The crates, each with the number of citations that it has at least.
const CRATES: [(&str, usize); 3] = [("masu-core", 200), ("masu", 150), ("libmasu", 50)];

/// Those of them in which every comment cites an invariant, or passes a promise on.
const STRICT: [&str; 2] = ["masu", "libmasu"];

/// The production code of a crate: its source directory, and the path inside it and the text of each file.
fn sources(of: &str) -> (PathBuf, Vec<(PathBuf, String)>) {
    let root = workspace().join("crates").join(of).join("src");
    let files = rust_files(&root).into_iter().filter_map(|file| {
        let inside = file.strip_prefix(&root).expect("below the root").to_owned();
        let is_model = inside.iter().any(|part| part == "models" || part == "models.rs");
        (!is_model).then(|| (inside, fs::read_to_string(&file).expect("readable")))
    });
    let files = files.collect();
    (root, files)
}

/// A module's head lists the invariants that it keeps, by number; comments elsewhere name one by number and module, so
/// that a reader finds what they rely on.
#[test]
fn invariants_are_numbered_and_those_that_are_cited_exist() {
    let mut wrong = Vec::new();
    for (of, least) in CRATES {
        let (root, files) = sources(of);
        let mut cited = 0;
        for (inside, text) in files {
            let inside = format!("{of}/{}", inside.display());
            if text.contains("//! Invariant:") {
                wrong.push(format!("{inside}: an invariant without a number"));
            }
            for (number, module) in citations(&text) {
                cited += 1;
                let head = match &module {
                    None => text.clone(),
                    Some(module) => module_text(&root, of, module),
                };
                if !invariants(&head).contains(&number) {
                    let module = module.unwrap_or_else(|| "its own module".into());
                    wrong.push(format!("{inside}: {module} has no invariant {number}"));
                }
            }
        }
        assert!(cited > least, "{of}: {cited} citations");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// In the doors, every comment on unsafe code says which invariant makes it sound, or that its function's callers have
/// promised it. And no invariant is listed there that no comment needs.
#[test]
fn every_argument_of_the_doors_names_what_it_rests_on() {
    let mut wrong = Vec::new();
    for of in STRICT {
        let (root, files) = sources(of);
        let mut needed = BTreeSet::new();
        for (inside, text) in &files {
            let own = root.join(inside);
            for (line, argument) in arguments(text) {
                let cited = citations(&format!("// {argument}"));
                if cited.is_empty() && !is_promised(&argument) {
                    wrong.push(format!("{of}/{}:{line}: {argument}", inside.display()));
                }
                needed.extend(cited.into_iter().map(|(number, module)| {
                    let file = module.and_then(|module| module_file(&root, of, &module));
                    (file.unwrap_or_else(|| own.clone()), number)
                }));
            }
        }
        for (inside, text) in &files {
            for number in invariants(text) {
                if !needed.contains(&(root.join(inside), number)) {
                    let inside = inside.display();
                    wrong.push(format!("{of}/{inside}: nothing rests on invariant {number}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A promise can be passed on only by a function that states its callers' duties. (Clippy checks that unsafe ones do.)
#[test]
fn promises_are_passed_on_by_those_that_ask_for_them() {
    let mut wrong = Vec::new();
    for (of, _) in CRATES {
        for (inside, text) in sources(of).1 {
            let inside = inside.display();
            wrong.extend(unasked(&text).iter().map(|line| format!("{of}/{inside}:{line}")));
        }
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
    assert_eq!(citations("// invariants 1, 2 and 3: as 4."), [(1, None), (2, None), (3, None)]);
    assert_eq!(
        invariants("//! Invariants (of it):\n//! 1. a\n//!    b\n//! 2. c\n//!\n//! 3. d"),
        [1, 2]
    );
    assert_eq!(invariants("//! a\n\n// Invariants:\n//\n// 1. b\n\n// 2. c"), [1]);

    let text = "    // SAFETY: it\n    // is 1.\n    // SAFETY: b\n    /// // SAFETY: c\n    f(); // SAFETY: d";
    assert_eq!(arguments(text), [(1, "it is 1.".into()), (3, "b".into())]);
    assert!(is_promised("passed on: a block.") && !is_promised("it is passed on."));

    let passed = |head: &str| {
        unasked(&format!("{head} {{\n    // SAFETY: passed on.\n    unsafe {{ g() }}\n}}"))
    };
    assert_eq!(passed("fn f(of: fn(u8)) -> u8"), [2]);
    assert_eq!(passed("pub(super) unsafe fn f()"), []);
    assert_eq!(passed("unsafe fn f() {}\n\nfn h(\n    p: *mut u8,\n)"), [6]);
}

/// The numbers of the invariants at the head of `text`; of a module whose head its users read, in comments after it.
fn invariants(text: &str) -> Vec<usize> {
    let inside = |line: &'_ str| -> Option<String> {
        let rest = line.strip_prefix("//! ").or_else(|| line.strip_prefix("// "));
        rest.map(str::to_owned).or_else(|| matches!(line, "//!" | "//").then(String::new))
    };
    let heading = |line: &&str| !inside(line).is_some_and(|rest| rest.starts_with("Invariants"));
    let mut lines = text.lines().skip_while(heading).skip(1).peekable();
    lines.next_if(|line| matches!(*line, "//!" | "//"));
    let list = lines.map_while(inside).take_while(|rest| !rest.is_empty());
    list.filter_map(|rest| rest.split_once(". ")?.0.parse().ok()).collect()
}

/// The file of the module `module` of the crate `of`, which may also be the crate itself.
fn module_file(root: &Path, of: &str, module: &str) -> Option<PathBuf> {
    let file = root.join(if module == of { "lib" } else { module }.replace("::", "/"));
    [file.with_extension("rs"), file.join("mod.rs")].into_iter().find(|file| file.exists())
}

/// Its text; empty if there is none.
fn module_text(root: &Path, of: &str, module: &str) -> String {
    let file = module_file(root, of, module);
    file.map(|file| fs::read_to_string(file).expect("readable")).unwrap_or_default()
}

/// The comments on unsafe code, each on one line, with the number of its first line.
fn arguments(text: &str) -> Vec<(usize, String)> {
    const BEGINNING: &str = "// SAFETY: ";
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let starts = (0..lines.len()).filter(|&at| lines[at].starts_with(BEGINNING));
    let whole = |at: usize| {
        let goes_on = |line: &&&str| line.starts_with("// ") && !line.starts_with(BEGINNING);
        let rest = lines[at + 1..].iter().take_while(goes_on).map(|line| &line[3..]);
        let parts: Vec<&str> = [&lines[at][BEGINNING.len()..]].into_iter().chain(rest).collect();
        (at + 1, parts.join(" "))
    };
    starts.map(whole).collect()
}

/// Whether an argument is that the callers of its function have promised it.
fn is_promised(argument: &str) -> bool {
    argument.starts_with("passed on") || argument.starts_with("as the caller says")
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
        let next = |rest: &'_ str| -> usize {
            let number = rest.trim_start_matches(',').trim_start().trim_start_matches("and ");
            rest.len() - number.len()
        };
        while rest[next(rest)..].starts_with(|c: char| c.is_ascii_digit()) {
            rest = &rest[next(rest)..];
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
        said.is_some_and(is_promised)
    };
    let safe = |at: usize| {
        let mut above = lines[..at].iter().rev();
        let of = above.find(|line| indent(line) < indent(lines[at]) && is_function(line));
        of.is_none_or(|line| !line.contains("unsafe "))
    };
    (0..lines.len()).filter(|&at| passes_on(lines[at]) && safe(at)).map(|at| at + 1).collect()
}
