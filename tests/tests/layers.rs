//! Holds the shape of the code: which part of the engine may use which, who may use the engine and
//! how, and what may depend on what.
//!
//! The engine's modules are layers. A module may use itself and the layers above it in [`LAYERS`],
//! never one below, so that each can be read, tested and changed knowing only what it stands on.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use masu_tests::{rust_files, workspace};
use proc_macro2::{TokenStream, TokenTree};

#[path = "layers/face.rs"]
mod face;
#[path = "layers/hardened.rs"]
mod hardened;
#[path = "layers/heap.rs"]
mod heap;
#[path = "layers/order.rs"]
mod order;
#[path = "layers/order_engine.rs"]
mod order_engine;
#[path = "layers/prof.rs"]
mod prof;

/// The layers of `crates/masu-core/src` in order, each with what it is for. A file belongs to the
/// longest name that its path begins with.
const LAYERS: &[(&str, &str)] = &[
    ("text", "formatting without core::fmt; stands on nothing"),
    ("own_process", "tests in a process of their own; part of tests only"),
    ("sync", "the one facade over atomics, so that the model checker can take their place"),
    ("features", "what the engine is built with"),
    ("config", "what a user can set; pure parsing, which every layer may ask about"),
    ("size_class", "arithmetic on sizes"),
    ("request", "a request for memory, classified"),
    ("tuning", "the constants of the policy"),
    ("sys", "the kernel and the CPU; the only place with system calls"),
    ("test_random", "what tests draw at random; part of tests only"),
    ("clock", "coarse time, advanced by purge and read by all, and how old what was noted is"),
    ("sharing", "what comes before a second thread"),
    ("lock", "a futex lock that fork can reset"),
    ("sharding", "how what a lock guards comes to have several"),
    ("deferred", "what is freed while a fork stands still"),
    ("turn", "who pays a debt, between who makes it and who is about to stop"),
    ("handshake", "reaching into a sleeping thread's cache"),
    ("holder", "such a cache: who holds how much, since when, and in a fork's child"),
    ("settings", "the options in force"),
    ("discards", "ranges of pages that go back to the kernel together"),
    ("named_file", "a file that an option names"),
    ("outlet", "where a report at exit goes"),
    ("ledger", "what is in use, as the pools charge it, and the limit that it never passes"),
    ("limit", "the soft limit, which is told when it is passed"),
    ("stack", "the calling thread's stack, as the door's function walks it"),
    ("prof", "the profile: what is sampled, and what samples say"),
    ("guard", "sampled blocks between inaccessible pages"),
    ("report", "one line about a program's mistake, from wherever it is found"),
    ("free_block", "what a freed block holds, and the check that it still does"),
    ("stats", "the counters that every layer bumps"),
    ("region", "address space, and from a pointer to its metadata"),
    ("spare", "blocks for threads that find the pools locked by a fork that stands still"),
    ("hardened", "every block of a process that asks for it, where mistakes harm least"),
    ("space", "ranges of 2 MiB units, which chunks and large blocks are: free, kept, moved"),
    ("huge", "large blocks"),
    ("run", "pages, and medium blocks of them"),
    ("span", "small blocks"),
    ("heap", "a thread's view of all three"),
    ("purge", "decides when the layers above give memory back"),
    ("stats/tables", "looks at every span and every heap"),
    ("stats/recent", "and counts what takes a walk"),
    ("stats/snapshot", "adds everybody's counters up"),
    ("stats/print", "and shows them"),
    ("stats/outlet", "at exit, where the options say"),
    ("fork", "every lock, and whole structures in a child"),
    ("outside", "what lies where, for readers outside the process"),
    ("rules", "what its threads go by, for a model of it"),
    ("face", "what the doors call"),
    ("models", "model checks of the protocols, and the world that they stand on"),
    ("lib", "declares the layers and the face"),
];

/// The arrows that point up, each to one function, with the reason why they must.
const EXCEPTIONS: &[(&str, &str, &str)] =
    &[("sync", "models::world", "the facade's other side: what loom's atomics lack")];

/// The engine's modules that are part of its face, for configuration and queries.
const FACE_MODULES: &[&str] =
    &["config", "control", "profile", "text", "size_class", "lock", "outside", "rules"];

/// The functions of its face that have the name of the layer they come from.
const FACE_FUNCTIONS: &[&str] = &["stats", "purge"];

/// What the engine may depend on (`no_std`, no C, no build script), and under which condition.
const ENGINE_DEPENDENCIES: &[(&str, Option<&str>)] = &[("loom", Some("cfg(loom)"))];

#[test]
fn arrows_between_the_layers_point_down() {
    let root = workspace().join("crates/masu-core/src");
    let mut wrong = Vec::new();
    for file in rust_files(&root) {
        let inside = file.strip_prefix(&root).expect("below the root");
        let text = fs::read_to_string(&file).expect("readable");
        wrong.extend(arrows_up(inside, &text));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_of_the_engine_is_a_layer_and_every_layer_exists() {
    let root = workspace().join("crates/masu-core/src");
    let modules: BTreeSet<String> = rust_files(&root)
        .iter()
        .map(|file| layer_of(file.strip_prefix(&root).expect("below the root")))
        .map(|layer| layer.unwrap_or_else(|unknown| panic!("no layer for {unknown}")).to_owned())
        .collect();
    let layers = LAYERS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(modules, layers);
}

#[test]
fn the_engine_is_used_through_its_face() {
    let mut wrong = Vec::new();
    let engine = workspace().join("crates/masu-core");
    let users = ["crates", "tests", "tools"].map(|user| rust_files(&workspace().join(user)));
    for file in users.into_iter().flatten().filter(|file| !file.starts_with(&engine)) {
        let text = fs::read_to_string(&file).expect("readable");
        wrong.extend(past_the_face(&file, &text));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_stay_short() {
    const LONGEST: usize = 500;
    let mut long = Vec::new();
    for file in rust_files(workspace()) {
        let lines = fs::read_to_string(&file).expect("readable").lines().count();
        if lines > LONGEST {
            long.push(format!("{}: {lines} lines, more than {LONGEST}", file.display()));
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn dependencies_are_the_allowed_ones() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let output = cargo.current_dir(workspace()).output().expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.iter().any(|package| package["name"] == "masu-core"));
    let wrong: Vec<String> = packages.iter().flat_map(forbidden_dependencies).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The walks lead a reader through functions that exist, in the files where they are.
#[test]
fn the_walks_in_the_architecture_exist() {
    let page = fs::read_to_string(workspace().join("ARCHITECTURE.md")).expect("readable");
    let (_, walks) = page.split_once("\n## Three walks\n").expect("the section");
    let walks = walks.split("\n## ").next().unwrap_or_default();
    let (mut text, mut steps) = (String::new(), 0);
    for row in walks.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = row.split('|').skip(1).map(|cell| cell.trim());
        let names = cells.next().unwrap_or_default();
        let file = cells.next().unwrap_or_default().trim_matches('`');
        if !file.is_empty() {
            text = fs::read_to_string(workspace().join("crates").join(file)).expect(file);
        }
        for name in names.split(", ").map(|name| name.trim_matches('`')) {
            let is_there =
                ["(", "<"].iter().any(|after| text.contains(&format!("fn {name}{after}")));
            assert!(is_there, "no `{name}` where the walks have it: {row}");
            steps += 1;
        }
    }
    assert!(steps > 20, "{steps} steps");
}

/// Users write seccomp filters by `docs/syscalls.md`.
#[test]
fn the_system_calls_declared_are_the_documented_ones() {
    let page = fs::read_to_string(workspace().join("docs/syscalls.md")).expect("readable");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('|').next());
    let names = rows.flat_map(|row| row.split([',', ' ', '`'])).filter(|name| !name.is_empty());
    let documented: BTreeSet<String> = names.map(str::to_uppercase).collect();
    for machine in ["x86_64", "generic"] {
        let file = workspace().join(format!("crates/masu-core/src/sys/nr_{machine}.rs"));
        let text = fs::read_to_string(file).expect("readable");
        // A thread's exit has no constant: it is in assembly, after the thread has left its stack.
        let end = Some("EXIT".to_owned());
        let declared: BTreeSet<String> = constants(&text).into_iter().chain(end).collect();
        assert_eq!(declared, documented, "{machine}");
    }
}

/// The checks themselves, on code and manifests that break the rules.
#[test]
fn broken_rules_are_seen() {
    let up = |file: &str, text: &str| arrows_up(Path::new(file), text).len();
    assert_eq!(up("span/list.rs", "use crate::heap::Heap;"), 1);
    assert_eq!(up("span/list.rs", "use crate::{region, purge, sync::fence, heap::{self}};"), 2);
    assert_eq!(up("span/list.rs", "fn f() { crate::heap::wake() }"), 1);
    assert_eq!(up("span/mod.rs", "use super::heap;"), 1);
    assert_eq!(up("clock.rs", "use super::purge;"), 1);
    assert_eq!(up("span/list.rs", "use super::super::heap;"), 1);
    assert_eq!(up("heap/free.rs", "fn f() { crate::purge::now() }"), 1);
    assert_eq!(up("sync.rs", "pub use crate::models::world::atomic::Cell;"), 0);
    assert_eq!(up("lock.rs", "use crate::models::world::atomic::Cell;"), 1);
    assert_eq!(up("stats/mod.rs", "use crate::heap;"), 1);
    assert_eq!(up("stats/snapshot.rs", "use crate::heap;"), 0);
    assert_eq!(up("heap/mod.rs", "use crate::span; use super::super::sync;"), 0);
    assert_eq!(up("span/list.rs", "//! See [`crate::heap`].\nuse super::heap_like;"), 0);
    assert_eq!(up("span/list.rs", "macro_rules! m { () => { $crate::heap::x() } }"), 1);

    let past = |text: &str| past_the_face(Path::new("x.rs"), text).len();
    assert_eq!(past("use masu_core::heap::Heap;"), 1);
    assert_eq!(past("use masu_core::{alloc, span};"), 1);
    assert_eq!(past("use masu_core::stats::snapshot;"), 1);
    assert_eq!(past("use masu_core::{alloc, config::Config}; fn f() { masu_core::stats() }"), 0);

    let manifest = |name: &str, dependency: &str, target: Option<&str>| {
        let package = serde_json::json!({
            "name": name,
            "targets": [],
            "dependencies": [{ "name": dependency, "kind": null, "target": target }],
        });
        forbidden_dependencies(&package).len()
    };
    assert_eq!(manifest("masu-core", "libc", None), 1);
    assert_eq!(manifest("masu-core", "loom", None), 1);
    assert_eq!(manifest("masu-core", "loom", Some("cfg(loom)")), 0);
    assert_eq!(manifest("masu-cli", "masu-lab", None), 1);
    assert_eq!(manifest("masu-cli", "clap", None), 0);
}

/// The arrows in `text`, the content of the engine's file `file`, that point to a layer below.
fn arrows_up(file: &Path, text: &str) -> Vec<String> {
    let own = match layer_of(file) {
        Ok(layer) => layer,
        Err(unknown) => return vec![format!("{unknown} is in no layer")],
    };
    // In `heap/mod.rs` and in `clock.rs`, `super` is the crate; in `heap/free.rs` it is `heap`.
    let levels = file.components().count() - usize::from(file.ends_with("mod.rs"));
    let supers = vec!["super"; levels];
    let paths = paths(text);
    let roots = [vec!["crate"], supers];
    let targets = roots.iter().flat_map(|root| paths.iter().filter_map(|p| below(p, root)));
    targets
        .filter_map(|target| {
            let rank = LAYERS.iter().position(|(name, _)| *name == target[0])?;
            let excepted = |&(from, to, _): &(&str, &str, &str)| {
                from == own && to.split("::").eq(target.iter().take(2).copied())
            };
            let up = rank > rank_of(own) && !EXCEPTIONS.iter().any(excepted);
            up.then(|| format!("{}: {own} may not use {}", file.display(), target.join("::")))
        })
        .collect()
}

/// The rest of `path` if it begins with `root` and goes on.
fn below<'p>(path: &'p [String], root: &[&str]) -> Option<Vec<&'p str>> {
    let (start, rest) = path.split_at_checked(root.len())?;
    let same = start.iter().zip(root).all(|(a, b)| a == b);
    (same && !rest.is_empty()).then(|| rest.iter().map(String::as_str).collect())
}

fn rank_of(layer: &str) -> usize {
    LAYERS.iter().position(|(name, _)| *name == layer).expect("a layer")
}

/// The layer that a file, by its path below `src`, belongs to.
fn layer_of(file: &Path) -> Result<&'static str, String> {
    let name = file.with_extension("");
    let layers = LAYERS.iter().map(|(layer, _)| *layer).filter(|layer| name.starts_with(layer));
    layers.max_by_key(|layer| layer.len()).ok_or_else(|| file.display().to_string())
}

/// The uses in `text` of the engine's internals.
fn past_the_face(file: &Path, text: &str) -> Vec<String> {
    let inner = |target: &Vec<&str>| {
        let is_layer = LAYERS.iter().any(|(layer, _)| *layer == target[0]);
        let is_function = target.len() == 1 && FACE_FUNCTIONS.contains(&target[0]);
        is_layer && !is_function && !FACE_MODULES.contains(&target[0])
    };
    let paths = paths(text);
    let targets = paths.iter().filter_map(|path| below(path, &["masu_core"]));
    let wrong = targets.filter(inner);
    wrong
        .map(|t| format!("{}: masu_core::{} is not its face", file.display(), t.join("::")))
        .collect()
}

/// Every path in the code of `text`, with groups written out: `a::{b, c::d}` is `a::b` and
/// `a::c::d`. Comments and strings are not code.
fn paths(text: &str) -> Vec<Vec<String>> {
    let tokens: TokenStream = text.parse().expect("Rust");
    let mut found = Vec::new();
    collect(tokens, &mut found);
    found
}

/// The names of all constants in `text`.
fn constants(text: &str) -> Vec<String> {
    let words: Vec<String> = paths(text).into_iter().flatten().collect();
    let named = words.windows(2).filter(|pair| pair[0] == "const");
    named.map(|pair| pair[1].clone()).filter(|name| name.to_uppercase() == *name).collect()
}

fn collect(tokens: TokenStream, found: &mut Vec<Vec<String>>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        let mut path = Vec::new();
        // An identifier, then any number of pairs of `::` and an identifier.
        while let Some(TokenTree::Ident(name)) = tokens.get(at) {
            path.push(name.to_string());
            at += 1;
            if !is_separator(&tokens, at) {
                break;
            }
            at += 2;
        }
        match tokens.get(at) {
            Some(TokenTree::Group(group)) => {
                let mut inner = Vec::new();
                collect(group.stream(), &mut inner);
                // The group continues the path only after a separator.
                let prefix = if at >= 2 && is_separator(&tokens, at - 2) { &path[..] } else { &[] };
                if prefix.is_empty() && !path.is_empty() {
                    found.push(path.clone());
                }
                found.extend(inner.into_iter().map(|rest| [prefix, &rest].concat()));
                at += 1;
            }
            _ if path.is_empty() => at += 1,
            _ => found.push(path),
        }
    }
}

fn is_separator(tokens: &[TokenTree], at: usize) -> bool {
    let colon = |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Punct(p)) if p.as_char() == ':');
    colon(tokens.get(at)) && colon(tokens.get(at + 1))
}

/// What the package, as `cargo metadata` describes it, may not have.
fn forbidden_dependencies(package: &serde_json::Value) -> Vec<String> {
    let name = package["name"].as_str().expect("a name");
    let mut wrong = Vec::new();
    for dependency in package["dependencies"].as_array().expect("dependencies") {
        let on = dependency["name"].as_str().expect("a name");
        let (target, kind) = (dependency["target"].as_str(), dependency["kind"].as_str());
        if on == "masu-lab" {
            wrong.push(format!("{name} depends on masu-lab, which is for nobody"));
        }
        let allowed = ENGINE_DEPENDENCIES.contains(&(on, target));
        if name == "masu-core" && kind != Some("dev") && !allowed {
            wrong.push(format!("masu-core may not depend on {on} ({target:?})"));
        }
    }
    let built = |target: &serde_json::Value| target["kind"][0] == "custom-build";
    if name == "masu-core" && package["targets"].as_array().expect("targets").iter().any(built) {
        wrong.push("masu-core may not have a build script".to_owned());
    }
    wrong
}
