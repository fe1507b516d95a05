//! Code that pages show, in programs of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use masu_tests::pages::{block, blocks};
use masu_tests::{Compile, Run, is_masu, library, scratch, words, workspace};

/// The page's block of TOML that names the crate as a dependency.
fn dependency(page: &str) -> String {
    block(page, "[dependencies]").text
}

/// Builds and runs a package whose manifest has the lines of `docs/moving.md`, and this program. The registry's crate is
/// the workspace's: a stand-in, until it is published.
fn package(program: &str, features: &[&str]) -> Option<String> {
    if !is_masu() {
        println!("the crate is masu");
        return None;
    }
    let test = std::env::current_exe().expect("a test has a path");
    let place = scratch();
    let own = format!(
        "[package]\nname = \"documented\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [patch.crates-io]\nmasu = {{ path = {:?} }}\n\n",
        workspace().join("crates/masu")
    );
    let write = |name: &str, text: &str| fs::write(place.path().join(name), text).expect("written");
    fs::create_dir(place.path().join("src")).expect("made");
    write("Cargo.toml", &(own + &dependency("docs/moving.md")));
    write("src/main.rs", program);
    // The workspace's versions, which are already downloaded.
    fs::copy(workspace().join("Cargo.lock"), place.path().join("Cargo.lock")).expect("a lock file");
    let target: PathBuf = test.ancestors().nth(2).expect("below the target directory").into();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--offline", "--quiet"]).args(features).current_dir(place.path());
    cargo.env_remove("RUSTFLAGS").env("CARGO_TARGET_DIR", target.join("documented"));
    succeed(&mut cargo);
    Some(succeed(&mut Command::new(target.join("documented/debug/documented"))))
}

#[track_caller]
fn succeed(command: &mut Command) -> String {
    let done = command.env_remove("LD_PRELOAD").output().expect("it runs");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {}\n{errors}", done.status);
    String::from_utf8(done.stdout).expect("text")
}

/// Both tests build in one directory, so they are one after the other. The three pages show the same lines.
#[test]
fn two_lines_put_a_rust_program_on_masu() {
    let lines = block("docs/moving.md", "#[global_allocator]").text;
    assert_eq!(lines, block("README.md", "#[global_allocator]").text);
    let all = blocks("crates/masu/README.md");
    assert!(all.iter().any(|block| block.language == "rust" && block.text == lines));
    let line = |page: &str| {
        let toml = dependency(page);
        toml.lines().map(|line| words(line.split('#').next().expect("a part"))).collect::<Vec<_>>()
    };
    assert_eq!(line("docs/moving.md"), line("crates/masu/README.md"));
    let program = format!(
        "{lines}\nfn main() {{\n    let block = vec![1u8; 1 << 20];\n    \
         println!(\"{{}}\", masu::ctl::stats::allocated::read().unwrap() >= block.len());\n}}\n"
    );
    let Some(said) = package(&program, &[]) else { return };
    assert_eq!(said, "true\n");
    a_hardened_heap_is_for_a_part_of_a_program();
}

fn a_hardened_heap_is_for_a_part_of_a_program() {
    let program = format!(
        "fn parse(packet: &[u8]) -> Box<[u8]> {{\n    packet.into()\n}}\n\n\
         fn main() -> Result<(), Box<dyn std::error::Error>> {{\n{}    packet.push(7);\n    \
         println!(\"{{}} {{}}\", tree.len(), heap.stats().blocks);\n    drop(tree);\n    Ok(())\n}}\n",
        block("docs/hardened.md", "masu::Heap::hardened()").text
    );
    let said = package(&program, &["--features", "masu/hardened"]).expect("masu, as above");
    assert_eq!(said, "0 1\n");
}

/// Runs a C program on masu, with its headers, and returns what it prints.
fn c_program(text: &str, variables: &[(&str, &str)]) -> Option<String> {
    if !is_masu() {
        println!("the functions are masu's");
        return None;
    }
    let place = scratch();
    let source = place.path().join("documented.c");
    fs::write(&source, text).expect("written");
    let library: &Path = library().expect("masu is a library");
    let headers = workspace().join("crates/libmasu/include");
    let compile = Compile::with("gcc").flag("-I").file(headers.join("masu/compat"));
    let program = compile.flag("-I").file(&headers).file(&source).file(library).build();
    let mut run = Run::program(&program);
    for (name, value) in variables {
        run = run.env(name, value);
    }
    Some(run.run().success().stdout)
}

/// `docs/limits.md`: the callback is called, once, when use passes the soft limit.
#[test]
fn a_callback_makes_room() {
    let page = block("docs/limits.md", "masu_set_limit_callback").text;
    let (before, inside) = page.split_once("...\n").expect("two parts");
    let program = format!(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
         static unsigned dropped;\nstatic void *cache = &dropped;\n\
         static void cache_drop_oldest(void *cache) {{ ++*(unsigned *)cache; }}\n\
         {before}int main(void) {{\n{inside}\
         for (int i = 0; i < 64; i++) memset(malloc(100000), 1, 100000);\n\
         printf(\"%u\\n\", dropped);\n}}\n"
    );
    let below = c_program(&program, &[("MASU_LIMIT_SOFT", "400MiB")]);
    let Some(below) = below else { return };
    assert_eq!(below, "0\n");
    assert_eq!(c_program(&program, &[("MASU_LIMIT_SOFT", "4MiB")]).as_deref(), Some("1\n"));
}

/// `docs/jemalloc.md`: the hook is asked for an arena's memory, and binds all of it. `mbind` is a stand-in that takes
/// notes: most machines have one node.
#[test]
fn a_hook_binds_an_arenas_memory() {
    let program = format!(
        "#include <jemalloc/jemalloc.h>\n#include <stdbool.h>\n#include <stdio.h>\n\
         enum {{ MPOL_BIND = 2 }};\nstatic size_t bound;\nstatic unsigned long nodes;\n\
         static void mbind(void *at, size_t size, int mode, unsigned long *node, unsigned long bits, unsigned flags) {{\n\
         if (at && mode == MPOL_BIND && bits == 64 && !flags) bound += size, nodes |= *node;\n}}\n\
         static extent_hooks_t *defaults;\n{}\
         int main(void) {{\nsize_t length = sizeof defaults;\n\
         if (mallctl(\"arena.0.extent_hooks\", &defaults, &length, NULL, 0)) return 1;\n\
         extent_hooks_t own = *defaults, *hooks = &own;\nown.alloc = on_node_1;\nunsigned arena;\n\
         length = sizeof arena;\nif (mallctl(\"arenas.create\", &arena, &length, &hooks, sizeof hooks)) return 2;\n\
         if (!mallocx(100, MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE)) return 3;\n\
         printf(\"%zu %lu\\n\", bound, nodes);\n}}\n",
        block("docs/jemalloc.md", "on_node_1").text
    );
    let Some(said) = c_program(&program, &[]) else { return };
    assert_eq!(said, format!("{} 2\n", 2 << 20));
}
