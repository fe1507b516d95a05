//! The programs on one allocator: built, and proven to have it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::{Arm, PROGRAMS};
use crate::experiments::programs::directory;
use crate::paths;

/// The allocators: the crate, and a part of a symbol that only a program with it has.
const ALLOCATORS: [(&str, &str, Option<&str>); 5] = [
    ("masu", "masu", Some("masu_core")),
    ("system", "", None),
    ("jemalloc", "tikv-jemallocator", Some("_rjem_je_")),
    ("mimalloc", "mimalloc", Some("mi_stat_increase")),
    ("snmalloc", "snmalloc-rs", Some("sn_rust_alloc")),
];

/// Builds all programs on an allocator and keeps them in a directory of their own.
pub fn build(allocator: &str) -> Result<Arm> {
    let known = ALLOCATORS.iter().find(|(name, ..)| *name == allocator);
    let Some((_, package, _)) = known else { bail!("no allocator called `{allocator}`") };
    let manifest = paths::lab().join("rust-programs/Cargo.toml");
    let built = directory().join("rust-programs");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(["build", "--quiet", "--release", "--manifest-path"]).arg(&manifest);
    cargo.arg("--target-dir").arg(&built);
    if allocator != "system" {
        cargo.args(["--features", allocator]);
    }
    let output = cargo.output().context("cannot start cargo")?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let mut lines = text.lines().filter(|line| line.trim_start().starts_with("error"));
        bail!("{}", lines.next().unwrap_or("cargo failed"));
    }
    let place = directory().join(format!("rust-programs-{allocator}"));
    std::fs::create_dir_all(&place)?;
    for (program, _) in PROGRAMS {
        let kept = place.join(program);
        std::fs::copy(built.join("release").join(program), &kept).context("cannot keep it")?;
        prove(&kept, allocator)?;
    }
    let proof = match known {
        Some((.., Some(symbol))) => format!("linked with {symbol}…"),
        _ => "linked with none of the others".into(),
    };
    let version = match *package {
        "" => crate::arm::Arm::glibc().version,
        package => version(&manifest, package)?,
    };
    Ok(Arm { allocator: allocator.into(), version, proof, place })
}

/// The program holds this allocator and no other.
fn prove(program: &Path, allocator: &str) -> Result<()> {
    let output = Command::new("nm").arg(program).output().context("nm is needed")?;
    let names = String::from_utf8_lossy(&output.stdout);
    ensure!(names.contains("main"), "nm shows no symbols of {}", program.display());
    for (name, _, symbol) in ALLOCATORS {
        let Some(symbol) = symbol else { continue };
        let present = names.contains(symbol);
        ensure!(present == (name == allocator), "{}: {symbol}: {present}", program.display());
    }
    Ok(())
}

/// The version of a package that the lock file chose.
fn version(manifest: &Path, package: &str) -> Result<String> {
    let lock = std::fs::read_to_string(manifest.with_file_name("Cargo.lock"))?;
    let mut lines = lock.lines().skip_while(|line| *line != format!("name = \"{package}\""));
    let version = lines.nth(1).and_then(|line| line.split('"').nth(1));
    Ok(version.with_context(|| format!("{package} is not locked"))?.to_owned())
}
