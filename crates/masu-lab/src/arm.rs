//! The arms of the lab: masu as it was built here, glibc, and the peers.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
pub use masu_bench::arm::Arm;

use crate::{paths, peers};

/// The library under test, as its sources are now ([`paths::build_masu_library`]).
pub fn masu() -> Result<Arm> {
    paths::build_masu_library()?;
    let path = paths::masu_library();
    let library = path.canonicalize().with_context(|| {
        format!("{} is missing: run `cargo build --release` or set MASU_LIB", path.display())
    })?;
    Ok(Arm::preloading("masu", &masu_version(&library), library))
}

/// jemalloc with its allocator of huge pages.
pub const HPA: &str = "jemalloc-hpa";

/// Allocators with a setting: what tables call them, whose library it is, the variable and its value.
const SET: [(&str, &str, [&str; 2]); 3] = [
    ("masu-hardened", "masu", ["MASU_CONF", "policy:hardened"]),
    ("masu-throughput", "masu", ["MASU_CONF", "policy:throughput"]),
    (HPA, "jemalloc", ["MALLOC_CONF", "hpa:true,background_thread:true"]),
];

/// The peers that could be built, in the order of the list, except the hardened ones.
pub fn built_peers() -> Result<Vec<Arm>> {
    let list = preloaded()?;
    Ok(list.into_iter().filter(|arm| !peers::hardened::is_one(&arm.name)).collect())
}

/// All peers that could be built.
fn preloaded() -> Result<Vec<Arm>> {
    let list = peers::list()?;
    let arm = |peer: peers::Peer| {
        let settings = settings(&peer.name);
        Some(Arm { settings, ..Arm::preloading(&peer.name, &peer.version, peer.library?) })
    };
    Ok(list.into_iter().filter_map(arm).collect())
}

/// The programs that could be built with an allocator linked in, named `linked:` and its name.
pub fn linked() -> Result<Vec<Arm>> {
    let list = peers::list()?;
    let arm = |peer: peers::Peer| {
        let name = format!("linked:{}", peer.name);
        let settings = settings(&peer.name);
        Some(Arm { settings, ..Arm::linked(&name, &peer.version, peer.program?) })
    };
    Ok(list.into_iter().filter_map(arm).collect())
}

/// What a peer's authors tell its users to set: google/tcmalloc has caches for each processor only if glibc leaves
/// restartable sequences to it.
fn settings(peer: &str) -> Option<[&'static str; 2]> {
    (peer == "tcmalloc").then_some(["GLIBC_TUNABLES", "glibc.pthread.rseq=0"])
}

/// The arm called `name`.
pub fn named(name: &str) -> Result<Arm> {
    match name {
        "glibc" => Ok(Arm::glibc()),
        "masu" => masu(),
        _ => {
            if let Some(&(_, whose, setting)) = SET.iter().find(|it| it.0 == name) {
                return Ok(Arm { name: name.into(), settings: Some(setting), ..named(whose)? });
            }
            let mut built = preloaded()?;
            built.extend(linked()?);
            let known: Vec<_> = built.iter().map(|arm| arm.name.clone()).collect();
            match built.into_iter().find(|arm| arm.name == name) {
                Some(arm) => Ok(arm),
                None => bail!(
                    "no allocator called `{name}`; known: masu, glibc, {}, {}. `masu-lab peers` builds the peers",
                    known.join(", "),
                    SET.map(|it| it.0).join(", ")
                ),
            }
        }
    }
}

/// The workspace's version and, where git can tell, the commit.
fn masu_version(library: &Path) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let inside = library.starts_with(paths::workspace());
    let commit = Command::new("git")
        .args(["rev-parse", "--short", "HEAD"])
        .current_dir(paths::workspace())
        .output()
        .ok()
        .filter(|output| output.status.success() && inside)
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string());
    match commit {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_string(),
    }
}
