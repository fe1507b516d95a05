//! Blocks that are not executed as a page's commands: each has a test that executes or compares it, or a reason.

use std::fs;

use masu_tests::pages::{Block, blocks, pages};
use masu_tests::workspace;

use crate::run::output;

/// Where a block is put to the test.
pub enum Elsewhere {
    /// By a part of this file: mostly a test, which reads the block from the page.
    In(&'static str, &'static str),
    /// Nowhere, and why.
    Nowhere(&'static str),
}
use Elsewhere::{In, Nowhere};

const CODE: &str = "tests/tests/documentation/code.rs";
const CONTAINERS: &str = "tests/tests/distribution/containers.rs";
const INSTALLED: &str = "tests/tests/distribution/pages.rs";
const KUBERNETES: &str = "tests/tests/distribution/kubernetes.rs";
const PACKAGING: &str = "tests/tests/packaging.rs";
const FROM_SOURCE: Elsewhere = In(INSTALLED, "fn from_source_with_make");
const RUBY: Elsewhere = In(INSTALLED, "fn as_a_gem");
const NODE: Elsewhere = In(INSTALLED, "fn as_an_npm_package");
const PYTHON: Elsewhere = In(INSTALLED, "fn as_a_wheel");
const CXX: Elsewhere = In(PACKAGING, "fn the_page_on_cxx_is_true");
const ZIG: Elsewhere = In(PACKAGING, "fn the_page_on_zig_is_true");
const SWIFT: Elsewhere = In(PACKAGING, "fn the_page_on_swift_is_true");
const SHOWN: Elsewhere = In(CONTAINERS, "fn the_documentation_shows_these_files");
const LIVES_IN: Elsewhere = In("crates/masu/src/lib.rs", "include_str!(\"../README.md\")");

/// A page, a part of one of its blocks, of which the opening fence is the first line, and where the block is tested.
#[rustfmt::skip]
const BLOCKS: &[(&str, &str, Elsewhere)] = &[
    ("ARCHITECTURE.md", "```text", Nowhere("a drawing")),
    ("CONTRIBUTING.md", "./check quick", Nowhere("it runs this test")),
    ("README.md", "./demo ", In("tests/chroots", "\"$root/demo\"")),
    ("README.md", "sudo make install", FROM_SOURCE),
    ("README.md", "```rust", In(CODE, "fn two_lines_put_a_rust_program_on_masu")),
    ("crates/masu/README.md", "```rust", LIVES_IN),
    ("crates/masu/README.md", "[dependencies]", In(CODE, "fn two_lines_put_a_rust_program_on_masu")),
    ("crates/masu/README.md", "[profile.release.package", In("crates/masu/tests/size.rs", "[profile.release.package.masu-core]\\nopt-level = \\\"s\\\"\\ncodegen-units = 1\\n")),
    ("docs/cxx.md", "```cpp", CXX),
    ("docs/cxx.md", "```cmake", CXX),
    ("docs/cxx.md", "```text", CXX),
    ("docs/docker.md", "docker run", Nowhere("it takes a service; `containers.rs` executes what it would start")),
    ("docs/docker.md", "docker build -t masu -f packaging/docker/masu.Dockerfile .\n", Nowhere("it takes a service; `main.rs` there makes the same packages")),
    ("docs/docker.md", "```dockerfile\nFROM", SHOWN),
    ("docs/docker.md", "```bash", SHOWN),
    ("docs/docker.md", "```sh\n#!/bin/sh", SHOWN),
    ("docs/experiments.md", "```sh", Nowhere("it takes perf, two builds and hours")),
    ("docs/hardened.md", "```rust", In(CODE, "fn a_hardened_heap_is_for_a_part_of_a_program")),
    ("docs/installing.md", "sudo make uninstall", FROM_SOURCE),
    ("docs/installing.md", "sudo apt install", In(INSTALLED, "fn as_debian_packages")),
    ("docs/installing.md", "sudo ./install.sh", In("tests/tests/distribution/tarball.rs", "fn the_page_on_installing_is_true")),
    ("docs/installing.md", "gem install", RUBY),
    ("docs/installing.md", "npm install", NODE),
    ("docs/installing.md", "pip install", PYTHON),
    ("docs/jemalloc.md", "redis-server", In(INSTALLED, "fn under_jemallocs_name")),
    ("docs/jemalloc.md", "pkg-config", In(INSTALLED, "fn under_jemallocs_name")),
    ("docs/jemalloc.md", "private-archive", In(INSTALLED, "fn under_jemallocs_name")),
    ("docs/jemalloc.md", "```c\n", In(CODE, "fn a_hook_binds_an_arenas_memory")),
    ("docs/kubernetes.md", "```dockerfile", In(KUBERNETES, "fn the_deployment_is_one")),
    ("docs/kubernetes.md", "```yaml", In(KUBERNETES, "fn the_deployment_is_one")),
    ("docs/kubernetes.md", "kubectl exec", Nowhere("it takes a cluster")),
    ("docs/kubernetes.md", "kustomization.yaml", In(KUBERNETES, "fn the_component_adds_masu_and_keeps_the_rest")),
    ("docs/kubernetes.md", "helm upgrade", In(KUBERNETES, "fn the_pieces_for_helm_are_the_deployments")),
    ("docs/languages.md", "ERL_FLAGS", In("tests/programs/cases/erlang.sh", "erl +Mea min ")),
    ("docs/languages.md", "```swift", SWIFT),
    ("docs/languages.md", "swiftc", SWIFT),
    ("docs/languages.md", "```zig", ZIG),
    ("docs/languages.md", "zig build-exe", ZIG),
    ("docs/limits.md", "```c\n", In(CODE, "fn a_callback_makes_room")),
    ("docs/moving.md", "```toml", In(CODE, "fn two_lines_put_a_rust_program_on_masu")),
    ("docs/moving.md", "```rust", In(CODE, "fn two_lines_put_a_rust_program_on_masu")),
    ("docs/watch-a-fleet.md", "```yaml", Nowhere("Prometheus's and Parca's own settings; `export/prometheus.rs` runs Prometheus with its own")),
    ("docs/watch-a-fleet.md", "```dockerfile", Nowhere("it takes a service")),
    ("docs/watch-a-fleet.md", "```alloy", Nowhere("Alloy's own setting")),
    ("packaging/node/README.md", "npm install", NODE),
    ("packaging/python/README.md", "pip install", PYTHON),
    ("packaging/ruby/README.md", "gem install", RUBY),
    ("packaging/ruby/README.md", "web: masu", Nowhere("a Procfile of Heroku's, with the command above")),
    ("tools/xquo/README.md", "```sh", In("tools/xquo/tests/pipelines.rs", "fn ")),
];

fn is_in(block: &Block, part: &str) -> bool {
    format!("```{}\n{}", block.language, block.text).contains(part)
}

/// Where this block of a page is tested, if not with the page's commands.
pub fn elsewhere(page: &str, block: &Block) -> Option<&'static Elsewhere> {
    let is_this = |(of, part, _): &&(&str, &str, Elsewhere)| *of == page && is_in(block, part);
    BLOCKS.iter().find(is_this).map(|(_, _, place)| place)
}

/// Each block of each page, by its path in the workspace. `txt` marks samples with figures of one run.
fn all_blocks() -> Vec<(String, Vec<Block>)> {
    let of = |page: std::path::PathBuf| {
        let page = page.strip_prefix(workspace()).expect("in it").display().to_string();
        let blocks = blocks(&page).into_iter().filter(|block| block.language != "txt").collect();
        (page, blocks)
    };
    pages(workspace()).into_iter().map(of).collect()
}

#[test]
fn every_block_is_tested_or_has_a_reason() {
    let here = include_str!("commands.rs");
    let mut untested = Vec::new();
    for (page, blocks) in all_blocks() {
        let is_run = here.contains(&format!("check(\"{page}\")"));
        for (i, block) in blocks.iter().enumerate() {
            let is_output = output(block).is_some() && i > 0 && blocks[i - 1].is_commands();
            let is_tested = is_output || is_run && block.is_commands();
            if !is_tested && elsewhere(&page, block).is_none() {
                untested.push(format!("{page}: ```{}\n{}", block.language, block.text));
            }
        }
    }
    assert!(untested.is_empty(), "neither run, nor in `BLOCKS`:\n{}", untested.join("\n"));
}

/// A block that is gone, and a test that is, have no place in the table.
#[test]
fn the_table_names_blocks_and_tests_that_exist() {
    let all = all_blocks();
    for (page, part, place) in BLOCKS {
        let blocks = all.iter().find(|(of, _)| of == page).map(|(_, blocks)| blocks);
        let found = blocks.is_some_and(|blocks| blocks.iter().any(|block| is_in(block, part)));
        assert!(found, "{page} has no block with {part}");
        match place {
            In(file, part) => {
                let text = fs::read_to_string(workspace().join(file)).expect(file);
                assert!(text.contains(part), "{file} has no {part}");
            }
            Nowhere(reason) => assert!(!reason.is_empty()),
        }
    }
}
