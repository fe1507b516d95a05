//! The allocators masu is compared with, as objects that can be preloaded and as programs that
//! have them linked in.
//!
//! `masu-lab peers` goes through the recipes: fetch the sources, build one shared
//! object each, load it into a program and see that it serves every C allocation
//! function; then build the measured program with the allocator as Rust's global one. What came
//! of it, good or bad, is kept in `peers.json`, from which the other commands take their arms. A
//! race may be using what is replaced: each file is put in its place whole, and only after it
//! has proved itself. The programs contain the workloads, and masu's the engine: a race of them
//! first has those built anew whose sources changed ([`relink`]).

pub mod hardened;
mod linked;
mod recipes;
pub mod report;
mod sources;
mod tools;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use masu_bench::work;

use crate::experiments::files;
use crate::{arm::Arm, paths};
use recipes::{Built, Recipe};
use sources::Sources;

/// What became of one peer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Peer {
    /// The name used in tables and for `--against`.
    pub name: String,
    /// The allocator's own version.
    pub version: String,
    /// Where the sources or the package came from.
    pub origin: String,
    /// The verified shared object; absent if it could not be built.
    pub library: Option<PathBuf>,
    /// Why there is no library.
    pub reason: Option<String>,
    /// `masu-work` with the allocator linked in as Rust's global allocator, or as its C library's;
    /// absent if it cannot be that.
    #[serde(default)]
    pub program: Option<PathBuf>,
    /// Why there is no program, if there should be one.
    #[serde(default)]
    pub program_reason: Option<String>,
}

/// Builds every peer, or those named in `only`, and rewrites the list and the document in
/// `docs/benchmarks`.
pub fn build(only: &[String]) -> Result<Vec<Peer>> {
    check_names(only)?;
    fs::create_dir_all(paths::peers().join("build"))?;
    let sources = Sources::fetch()?;
    let old = list().unwrap_or_default();
    let mut peers = Vec::new();
    for recipe in all() {
        let wanted = only.is_empty() || only.iter().any(|name| name == recipe.name);
        let peer = match old.iter().find(|peer| peer.name == recipe.name) {
            Some(kept) if !wanted => kept.clone(),
            _ if !wanted => continue,
            _ => {
                eprintln!("building {}", recipe.name);
                build_one(recipe, &sources)
            }
        };
        peers.push(peer);
    }
    keep(&peers)?;
    Ok(peers)
}

/// Brings the programs with an allocator linked in up to the sources: those of the peers that were
/// built before, or of those in `only`, and masu's. Cargo knows what changed; where nothing did this
/// takes a second or two for each. What cannot be built anew is not kept: a program that does other
/// work than the sources say must not be measured.
pub fn relink(only: &[String]) -> Result<Vec<Peer>> {
    check_names(only)?;
    fs::create_dir_all(paths::peers().join("build"))?;
    let mut peers = list().unwrap_or_default();
    let before = serde_json::to_string(&peers)?;
    for recipe in all() {
        let place = peers.iter().position(|peer| peer.name == recipe.name);
        let wanted = match only {
            [] => place.is_some() || recipe.name == "masu",
            names => names.iter().any(|name| name == recipe.name),
        };
        if wanted {
            let place = place.unwrap_or_else(|| {
                peers.push(Peer::of(recipe));
                peers.len() - 1
            });
            eprintln!("linking {}", recipe.name);
            link_one(recipe, &mut peers[place]);
        }
    }
    if serde_json::to_string(&peers)? != before {
        keep(&peers)?;
    }
    Ok(peers)
}

/// Every recipe.
fn all() -> impl Iterator<Item = &'static Recipe> {
    recipes::ALL.iter().chain(&hardened::ALL)
}

/// Writes the list, and the document in `docs/benchmarks`.
fn keep(peers: &[Peer]) -> Result<()> {
    fs::write(list_path(), serde_json::to_string_pretty(peers)? + "\n")?;
    let document = paths::workspace().join("docs/benchmarks/peers.md");
    files::write(&document, &report::markdown(peers))
}

fn check_names(names: &[String]) -> Result<()> {
    for name in names {
        let known = all().any(|recipe| recipe.name == name);
        ensure!(known, "no recipe for a peer called `{name}`");
    }
    Ok(())
}

/// The list as the last build left it.
pub fn list() -> Result<Vec<Peer>> {
    let path = list_path();
    let text = fs::read_to_string(&path).with_context(|| {
        format!("{} is missing: run `masu-lab peers` to build the peers", path.display())
    })?;
    Ok(serde_json::from_str(&text)?)
}

fn list_path() -> PathBuf {
    paths::peers().join("peers.json")
}

impl Peer {
    /// One of which nothing was built so far.
    fn of(recipe: &Recipe) -> Self {
        Peer {
            name: recipe.name.into(),
            version: "-".into(),
            origin: "-".into(),
            library: None,
            reason: None,
            program: None,
            program_reason: None,
        }
    }
}

fn build_one(recipe: &Recipe, sources: &Sources) -> Peer {
    let mut peer = Peer::of(recipe);
    let library = paths::peers().join(format!("lib{}.so", recipe.name));
    let fresh = paths::peers().join(format!("build/lib{}.so", recipe.name));
    match (recipe.build)(sources, &fresh).and_then(|built| {
        verify(recipe.name, &fresh)?;
        fs::rename(&fresh, &library)?;
        Ok(built)
    }) {
        Ok(Built { version, origin }) => {
            (peer.version, peer.origin, peer.library) = (version, origin, Some(library));
        }
        Err(error) => peer.reason = Some(format!("{error:#}")),
    }
    link_one(recipe, &mut peer);
    peer
}

/// Builds the program with the allocator linked in, if there can be one.
fn link_one(recipe: &Recipe, peer: &mut Peer) {
    let program = paths::peers().join(format!("masu-work-{}", recipe.name));
    let fresh = paths::peers().join(format!("build/masu-work-{}", recipe.name));
    let linked = (recipe.link)(&fresh).and_then(|linked| {
        if linked.is_some() {
            linked::verify(&fresh)?;
            fs::rename(&fresh, &program)?;
        }
        Ok(linked)
    });
    (peer.program, peer.program_reason) = match linked {
        Ok(Some(Built { version, origin })) => {
            if peer.library.is_none() {
                (peer.version, peer.origin) = (version, origin);
            }
            (Some(program), None)
        }
        Ok(None) => (None, None),
        Err(error) => (None, Some(format!("{error:#}"))),
    };
}

/// Loads the object into the measured program and asks which object serves it there.
fn verify(name: &str, library: &std::path::Path) -> Result<()> {
    let arm = Arm::preloading(name, "", library.into());
    let mut command = Command::new(work::build()?);
    arm.apply(command.arg("probe"));
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "a program preloaded with it ends with {}", output.status);
    let line = |key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))
            .with_context(|| format!("the probe did not report `{key}`"))
    };
    arm.check(line("allocator")?)?;
    ensure!(line("mapped")? == "yes", "the kernel does not list {} as mapped", library.display());
    Ok(())
}
