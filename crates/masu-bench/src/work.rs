//! Where the measured program `masu-work` is: beside the program that runs it, or in an installation's
//! `lib/masu`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};

use crate::arm::Arm;

/// The measured program's sibling that writes down what it asks its allocator for.
pub fn tracer() -> Result<PathBuf> {
    Ok(binary()?.with_file_name("masu-trace"))
}

/// The measured program. It is built next to every runner (tests run one directory below).
pub fn binary() -> Result<PathBuf> {
    let me = me()?;
    let beside = me.ancestors().skip(1).take(2).map(Path::to_path_buf);
    let installed = me.ancestors().nth(2).map(|prefix| prefix.join("lib/masu"));
    let mut places = beside.chain(installed).map(|place| place.join("masu-work"));
    places.find(|work| work.is_file()).with_context(|| {
        format!(
            "masu-work is not beside {}: build it with `cargo build --release -p masu-workloads`",
            me.display()
        )
    })
}

/// A run of it that touches so much memory and ends. On a virtual machine the first touch of memory
/// that nobody had lately can be several times slower than any later one, whoever it is that touches
/// it; who is measured after such a run does not pay for that.
pub fn touch(mib: u64) -> Result<Command> {
    let mut command = Command::new(binary()?);
    command.args(["touch", &mib.to_string()]).stdin(Stdio::null());
    Arm::glibc().apply(&mut command);
    Ok(command)
}

/// Builds the measured program anew if its sources changed: for runners that live in the
/// workspace, where another program than the sources describe must not be measured.
pub fn build() -> Result<PathBuf> {
    static BUILT: Mutex<bool> = Mutex::new(false);
    let mut built = BUILT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !*built {
        let me = me()?;
        // TARGET/PROFILE/runner or TARGET/PROFILE/deps/test
        let above = if me.parent().is_some_and(|place| place.ends_with("deps")) { 3 } else { 2 };
        let target = me.ancestors().nth(above).context("this binary is in no target directory")?;
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["build", "--quiet", "--package", "masu-workloads", "--bins"]);
        cargo.arg("--target-dir").arg(target);
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let status = cargo.current_dir(here).status().context("cargo cannot be started")?;
        ensure!(status.success(), "masu-work cannot be built");
        *built = true;
    }
    binary()
}

fn me() -> Result<PathBuf> {
    env::current_exe().context("cannot find the path of this binary")
}
