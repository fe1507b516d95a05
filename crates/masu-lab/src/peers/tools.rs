//! Running compilers and build systems: quiet when they work, their last words when not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::paths;

/// Runs `command`; on failure the error carries what it printed from its first error on, or the end of it.
/// Everything it printed is kept in `build/<log>.log`.
pub fn run(log: &str, command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot start {program}"))?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text += &String::from_utf8_lossy(&output.stderr);
    fs::write(paths::peers().join(format!("build/{log}.log")), &text)?;
    if output.status.success() {
        return Ok(());
    }
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let first = lines.iter().position(|line| line.starts_with("error"));
    let first = first.unwrap_or(lines.len().saturating_sub(5));
    let said: Vec<_> = lines.iter().skip(first).take(5).copied().collect();
    bail!("{program} failed ({}): {}", output.status, said.join(" | "))
}

/// A writable copy of a package's directory in the build area, replacing an older one.
pub fn copy_tree(from: &Path, name: &str) -> Result<PathBuf> {
    let to = paths::peers().join("build").join(name);
    if to.exists() {
        fs::remove_dir_all(&to)?;
    }
    run(&format!("{name}-copy"), Command::new("cp").arg("-r").arg(from).arg(&to))?;
    run(&format!("{name}-chmod"), Command::new("chmod").args(["-R", "u+w"]).arg(&to))?;
    Ok(to)
}

/// How many jobs a build may run at once.
pub fn jobs() -> String {
    std::thread::available_parallelism().map_or(1, usize::from).to_string()
}
