//! The measured programs, built by cargo or by the C and C++ compilers.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::paths;

/// What cargo is to build.
#[derive(Debug, Clone, Default)]
pub struct Package<'p> {
    /// The package.
    pub name: &'p str,
    /// The binary in it.
    pub binary: &'p str,
    /// The features, instead of the default ones; none means the default ones.
    pub features: Option<&'p str>,
    /// Another target than the machine's own.
    pub target: Option<&'p str>,
    /// The target directory, instead of the one for experiments.
    pub directory: Option<&'p Path>,
}

/// Builds a binary for release and returns its path. Builds of different features share what they
/// have in common, so whoever wants to keep a binary copies it.
pub fn cargo(package: &Package) -> Result<PathBuf> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(["build", "--release", "--locked", "--message-format=json"]);
    cargo.args(["--package", package.name, "--bin", package.binary, "--target-dir"]);
    match package.directory {
        Some(directory) => cargo.arg(directory),
        None => cargo.arg(directory()),
    };
    if let Some(features) = package.features {
        cargo.args(["--no-default-features", "--features", features]);
    }
    if let Some(target) = package.target {
        cargo.args(["--target", target]);
    }
    let output = cargo.current_dir(paths::workspace()).output().context("cannot start cargo")?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let mut lines = text.lines().filter(|line| line.trim_start().starts_with("error"));
        bail!("{} cannot be built: {}", package.name, lines.next().unwrap_or("cargo failed"));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .context("cargo built no program")
}

/// Builds a binary of a workspace of its own, in a directory of its own, and returns its path.
pub fn cargo_at(manifest: &Path, binary: &str) -> Result<PathBuf> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    let target = directory().join(binary);
    cargo.args(["build", "--quiet", "--release", "--locked", "--bin", binary, "--manifest-path"]);
    let output = cargo.arg(manifest).arg("--target-dir").arg(&target).output();
    let output = output.context("cannot start cargo")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let first = text.lines().find(|line| line.trim_start().starts_with("error"));
    ensure!(output.status.success(), "{binary}: {}", first.unwrap_or("cargo failed"));
    Ok(target.join("release").join(binary))
}

/// Compiles one C or C++ file of `programs/` into `name` in the experiments' directory.
pub fn compile(compiler: &str, source: &str, name: &str, flags: &[&str]) -> Result<PathBuf> {
    let path = directory().join(name);
    std::fs::create_dir_all(directory())?;
    let output = Command::new(compiler)
        .arg(paths::lab().join("programs").join(source))
        .args(flags)
        .arg("-o")
        .arg(&path)
        .output()
        .with_context(|| format!("cannot start {compiler}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let first = text.lines().find(|line| line.contains("error")).unwrap_or("no reason given");
    ensure!(output.status.success(), "{source} cannot be compiled: {first}");
    Ok(path)
}

/// Where the programs of experiments are built.
pub fn directory() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| paths::workspace().join("target")).join("experiments")
}
