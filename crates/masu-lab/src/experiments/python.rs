//! A Python with packages, in an environment of its own below `target`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::paths;

/// The interpreter of the environment at `place` in the workspace, which has the packages. It is made if need be.
///
/// # Errors
/// It cannot be made, or pip cannot get the packages.
pub fn environment(place: &str, packages: &[&str]) -> Result<PathBuf> {
    let place = paths::workspace().join(place);
    let python = place.join("bin/python");
    let succeeds = |program: &Path, arguments: &[&str]| -> Result<bool> {
        let output = Command::new(program).args(arguments).output();
        Ok(output.with_context(|| program.display().to_string())?.status.success())
    };
    let imports = format!("import {}", packages.join(", "));
    if python.is_file() && succeeds(&python, &["-c", &imports])? {
        return Ok(python);
    }
    let made = succeeds(Path::new("python3"), &["-m", "venv", &place.display().to_string()])?;
    ensure!(made, "cannot make a Python environment at {}", place.display());
    let mut install = vec!["-m", "pip", "install", "--quiet"];
    install.extend(packages);
    ensure!(succeeds(&python, &install)?, "pip could not install {}", packages.join(", "));
    Ok(python)
}
