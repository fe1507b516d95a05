//! Where things are: the workspace, its target directory, the library under test.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::Result;
use masu_bench::cargo;

/// The root of the workspace this binary was built from.
pub fn workspace() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).expect("the lab lives two levels below the workspace root")
}

/// The lab's own manifest directory.
pub fn lab() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where built peers and their list are kept.
pub fn peers() -> PathBuf {
    workspace().join("target/peers")
}

/// The library under test: `MASU_LIB`, or the release build of this workspace.
pub fn masu_library() -> PathBuf {
    match env::var_os("MASU_LIB") {
        Some(path) => PathBuf::from(path),
        None => workspace().join("target/release/libmasu.so"),
    }
}

/// Builds the library under test anew if its sources changed, unless `MASU_LIB` names one: another
/// library than the sources describe must not be measured under their commit.
pub fn build_masu_library() -> Result<()> {
    static BUILT: Mutex<bool> = Mutex::new(false);
    let mut built = BUILT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !*built && env::var_os("MASU_LIB").is_none() {
        cargo::build("libmasu.so", &["libmasu"], &workspace().join("target"), true)?;
        *built = true;
    }
    Ok(())
}
