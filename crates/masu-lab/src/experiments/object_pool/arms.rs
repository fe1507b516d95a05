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
    /// The version of the pool, or of the allocator if there is none.
    pub version: String,
}

/// An entrant's program, the allocator that serves it, and the pool's version if there is one.
type Made = (PathBuf, Arm, Option<String>);

/// Builds an entrant's program.
type Maker = fn() -> Result<Made>;

/// Every entrant that can be made, masu's first; and why others cannot.
pub fn all() -> (Vec<Entrant>, Vec<(&'static str, String)>) {
    let makers: [(&'static str, Maker); 6] = [
        ("masu", || Ok((objects("objects", &[])?, arm::masu()?, None))),
        ("masu::object_pool", || Ok((with_masu_pool()?, Arm::glibc(), Some(arm::masu()?.version)))),
        ("glibc", || Ok((objects("objects", &[])?, Arm::glibc(), None))),
        ("dlmalloc", || Ok((objects("objects", &[])?, dlmalloc(0)?, None))),
        ("dlmalloc, locks", || Ok((objects("objects", &[])?, dlmalloc(1)?, None))),
        ("boost::object_pool", || {
            let header = std::fs::read_to_string("/usr/include/boost/version.hpp");
            let version = boost_version(&header.context("libboost-dev is needed")?);
            Ok((objects("objects-boost", &["-DPOOL_BOOST"])?, Arm::glibc(), Some(version)))
        }),
    ];
    let mut entrants = Vec::new();
    let mut missing = Vec::new();
    for (name, make) in makers {
        eprintln!("making {name}");
        match make() {
            Ok((program, arm, pool)) => {
                let version = pool.unwrap_or_else(|| arm.version.clone());
                entrants.push(Entrant { name, program, arm, version });
            }
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

/// What Boost's header says of its version.
fn boost_version(header: &str) -> String {
    let version = header.lines().find_map(|line| line.strip_prefix("#define BOOST_LIB_VERSION "));
    version.unwrap_or_default().trim().trim_matches('"').replace('_', ".")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_has_its_own_version() {
        let header = "#define BOOST_VERSION 107400\n\n#define BOOST_LIB_VERSION \"1_74\"\n";
        assert_eq!(boost_version(header), "1.74");
        assert_eq!(boost_version(""), "");
    }
}
