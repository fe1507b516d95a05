//! The program on each allocator and pool.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::arm::{self, Arm};
use crate::experiments::programs;
use crate::paths;

/// A program and the allocator below it.
pub struct Entrant {
    /// What tables call it.
    pub name: &'static str,
    /// The program.
    pub program: PathBuf,
    /// The allocator that serves `new` in it, or the pool's chunks.
    pub arm: Arm,
}

/// Builds an entrant's program and names the allocator that serves it.
type Maker = fn() -> Result<(PathBuf, Arm)>;

/// Every entrant that can be made, masu's first; and why others cannot.
pub fn all() -> (Vec<Entrant>, Vec<(&'static str, String)>) {
    let makers: [(&'static str, Maker); 6] = [
        ("masu", || Ok((objects("objects", &[])?, arm::masu()?))),
        ("masu::object_pool", || Ok((with_masu_pool()?, Arm::glibc()))),
        ("glibc", || Ok((objects("objects", &[])?, Arm::glibc()))),
        ("dlmalloc", || Ok((objects("objects", &[])?, dlmalloc(0)?))),
        ("dlmalloc, locks", || Ok((objects("objects", &[])?, dlmalloc(1)?))),
        ("boost::object_pool", || {
            let program = objects("objects-boost", &["-DPOOL_BOOST"]);
            Ok((program.context("libboost-dev is needed")?, Arm::glibc()))
        }),
    ];
    let mut entrants = Vec::new();
    let mut missing = Vec::new();
    for (name, make) in makers {
        eprintln!("making {name}");
        match make() {
            Ok((program, arm)) => entrants.push(Entrant { name, program, arm }),
            Err(error) => missing.push((name, format!("{error:#}"))),
        }
    }
    (entrants, missing)
}

fn objects(name: &str, flags: &[&str]) -> Result<PathBuf> {
    let flags = [&["-O2", "-std=c++17", "-pthread"], flags, &["-ldl"]].concat();
    programs::compile("c++", "objects.cpp", name, &flags)
}

fn with_masu_pool() -> Result<PathBuf> {
    let include = paths::workspace().join("crates/libmasu/include");
    let include = format!("-I{}", include.display());
    objects("objects-masu", &["-DPOOL_MASU", &include])
}

/// Doug Lea's own C, with a lock around everything or without.
fn dlmalloc(locks: u8) -> Result<Arm> {
    let manifest = paths::lab().join("programs/dlmalloc/Cargo.toml");
    let output = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(["metadata", "--locked", "--format-version", "1", "--manifest-path"])
        .arg(manifest)
        .output()
        .context("cannot start cargo")?;
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .context("cargo does not know where dlmalloc's source is")?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let place = packages
        .filter(|package| package["name"] == "dlmalloc")
        .find_map(|package| package["manifest_path"].as_str())
        .context("there is no package with dlmalloc's source")?;
    let source = PathBuf::from(place).with_file_name("src").join("dlmalloc.c");
    ensure!(source.is_file(), "the package has no dlmalloc.c");
    let version = std::fs::read_to_string(&source)?
        .lines()
        .find_map(|line| Some(line.split("Version ").nth(1)?.split(' ').next()?.to_string()))
        .unwrap_or_default();
    let name = format!("libdlmalloc-{locks}.so");
    let locks = format!("-DUSE_LOCKS={locks}");
    let source = source.to_string_lossy();
    // Without built-ins: the compiler would make calloc out of its own malloc and memset, for ever.
    let flags = ["-shared", "-fPIC", "-O2", "-fno-builtin", &locks, "-w", "-pthread"];
    let library = programs::compile("cc", &source, &name, &flags)?;
    Ok(Arm::preloading("dlmalloc", &version, library.canonicalize()?))
}
