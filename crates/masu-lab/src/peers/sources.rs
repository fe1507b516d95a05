//! The unpacked source trees of the packages named in `peers/sources/Cargo.toml`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::tools;
use crate::paths;

/// A source package: where cargo unpacked it, and its version.
#[derive(Debug, Clone)]
pub struct Package {
    /// Root of the unpacked package. Read-only: copy before building in it.
    pub root: PathBuf,
    /// The package's version, which is not always the allocator's.
    pub version: String,
}

/// All packages of the peers' own workspace, by name.
pub struct Sources(BTreeMap<String, Package>);

impl Sources {
    /// Lets cargo download and unpack the packages, pinned by the committed lock file.
    pub fn fetch() -> Result<Self> {
        let manifest = manifest();
        let host = "x86_64-unknown-linux-gnu";
        tools::run(
            "fetch",
            Command::new("cargo")
                .args(["fetch", "--locked", "--target", host, "--manifest-path"])
                .arg(&manifest),
        )?;
        let output = Command::new("cargo")
            .args(["metadata", "--locked", "--format-version", "1", "--filter-platform", host])
            .arg("--manifest-path")
            .arg(&manifest)
            .output()?;
        let metadata: Value = serde_json::from_slice(&output.stdout)
            .context("`cargo metadata` did not describe the peers' workspace")?;
        let packages = metadata["packages"].as_array().context("no packages in the metadata")?;
        Ok(Sources(packages.iter().filter_map(parse).collect()))
    }

    /// The package called `name`.
    pub fn package(&self, name: &str) -> Result<&Package> {
        self.0.get(name).with_context(|| format!("package {name} is not in the peers' workspace"))
    }
}

/// The manifest of the peers' own workspace.
pub fn manifest() -> PathBuf {
    paths::lab().join("peers/Cargo.toml")
}

fn parse(package: &Value) -> Option<(String, Package)> {
    let manifest = Path::new(package["manifest_path"].as_str()?);
    let root = manifest.parent()?.to_path_buf();
    let version = package["version"].as_str()?.to_string();
    Some((package["name"].as_str()?.to_string(), Package { root, version }))
}
