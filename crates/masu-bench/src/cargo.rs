//! Programs of this workspace, built anew where their sources changed: for runners that live in it.

use std::env;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Builds what `package` names (a package, and more arguments of Cargo's) into a target directory, without
/// a word unless it fails; then the error says that `what` cannot be built.
pub fn build(what: &str, package: &[&str], target: &Path, release: bool) -> Result<()> {
    build_with(what, package, target, release, &[])
}

/// The same with variables of the environment, such as the compiler's flags.
///
/// # Errors
/// As for [`build`].
pub fn build_with(
    what: &str,
    package: &[&str],
    target: &Path,
    release: bool,
    environment: &[(&str, &str)],
) -> Result<()> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(["build", "--quiet", "--package"]).args(package);
    cargo.arg("--target-dir").arg(target);
    if release {
        cargo.arg("--release");
    }
    cargo.envs(environment.iter().copied());
    let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status();
    ensure!(status.context("cargo cannot be started")?.success(), "{what} cannot be built");
    Ok(())
}
