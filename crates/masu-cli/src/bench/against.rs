//! The allocators of a race: masu, the system's, and those that `--against` names or the system
//! has.

use std::path::Path;

use masu_bench::arm::Arm;
use masu_bench::find;

use super::what::What;
use crate::cli::Bench;
use crate::failure::{Failure, USAGE};
use crate::library::{self, Library};

/// Returns the arms: masu, the system's own, then the others.
pub fn arms(order: &Bench, masu: &Library, what: &What) -> Result<Vec<Arm>, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let mut arms = vec![preloading("masu", version, &masu.path)?, system(what)];
    for name in order.against.iter().flatten() {
        match name.as_str() {
            "none" | "masu" | "system" | "glibc" => {}
            _ => arms.push(named(name)?),
        }
    }
    if order.against.is_none() {
        arms.extend(find::installed());
    }
    // One entry for each object, whatever its name, and no two with the same name.
    let mut kept: Vec<Arm> = Vec::new();
    for arm in arms {
        if kept.iter().any(|one| one.library == arm.library) {
            continue;
        }
        if kept.iter().any(|one| one.name == arm.name) {
            let problem = format!("--against names two allocators `{}`", arm.name);
            return Err(Failure::new(USAGE, problem).remedy("give one another name: NAME=PATH"));
        }
        kept.push(arm);
    }
    Ok(kept)
}

/// Returns the malloc of the program's own C library.
fn system(what: &What) -> Arm {
    let glibc = Arm::glibc();
    match what.musl {
        true => Arm { name: "musl".into(), version: "the system's".into(), ..glibc },
        false => glibc,
    }
}

/// Returns the arm for `NAME`, `PATH` or `NAME=PATH`.
fn named(text: &str) -> Result<Arm, Failure> {
    let (name, path) = match text.split_once('=') {
        Some((name, path)) if !name.contains('/') => (Some(name), path),
        _ => (None, text),
    };
    if name.is_none() && !path.contains('/') {
        return installed(path);
    }
    if path.is_empty() {
        return Err(Failure::new(USAGE, format!("--against: `{text}` names no file"))
            .remedy("as in: --against NAME=/path/to/lib.so"));
    }
    let path = Path::new(path);
    let found = library::at(path, "--against")?;
    let own = path.file_name().unwrap_or_default().to_string_lossy();
    let own = own.trim_start_matches("lib").split('.').next().unwrap_or(&own).to_owned();
    preloading(name.unwrap_or(&own), &find::version(path), &found.path)
}

fn installed(name: &str) -> Result<Arm, Failure> {
    let installed = find::installed();
    if let Some(arm) = installed.iter().find(|arm| arm.name == name) {
        return Ok(arm.clone());
    }
    let problem = format!("--against: no allocator called `{name}` is installed on this system");
    let found: Vec<String> = installed
        .iter()
        .filter_map(|arm| Some(format!("{} ({})", arm.name, arm.library.as_ref()?.display())))
        .collect();
    let found = match found.is_empty() {
        true => format!("none of {} is installed", find::known().collect::<Vec<_>>().join(", ")),
        false => format!("found: {}", found.join(", ")),
    };
    Err(Failure::new(USAGE, problem)
        .remedy(format!("{found}\nname one by its path: NAME=/path/to/lib.so")))
}

/// Returns an arm by the real path of its object, which the kernel also shows.
fn preloading(name: &str, version: &str, path: &Path) -> Result<Arm, Failure> {
    let real = path.canonicalize().map_err(|error| {
        Failure::new(USAGE, format!("`{}` cannot be opened: {error}", path.display()))
    })?;
    if real.to_string_lossy().contains([' ', ':']) {
        let problem = format!("`{}` cannot be preloaded", real.display());
        return Err(Failure::new(USAGE, problem)
            .remedy("LD_PRELOAD cannot hold a space or a colon; copy it to a path without them"));
    }
    Ok(Arm::preloading(name, version, real))
}
