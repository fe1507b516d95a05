//! Tables of polars. Its packages for Python have an allocator of their own linked in, so the crate is
//! built into a program here: on the C library's functions, with each allocator loaded before it, and
//! with masu as Rust's global allocator.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Options;
use super::contest::{Contest, Contestant};
use crate::arm::{self, Arm};
use crate::paths;

/// The program, with masu linked in or without, built if need be: that takes some minutes the first time.
fn program(linked: bool) -> Result<PathBuf> {
    let target = paths::workspace().join("target/growth/polars");
    let manifest = paths::lab().join("polars-work/Cargo.toml");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(["build", "--quiet", "--release", "--manifest-path"]).arg(manifest);
    cargo.arg("--target-dir").arg(&target);
    if linked {
        cargo.args(["--features", "masu"]);
    }
    let status = cargo.status().context("cannot start cargo")?;
    ensure!(status.success(), "polars-work could not be built");
    // The other build takes the program's place.
    let kept = target.join(if linked { "linked" } else { "plain" });
    std::fs::copy(target.join("release/polars-work"), &kept).context("cannot keep the program")?;
    Ok(kept)
}

/// polars on each allocator.
pub fn polars(options: &Options) -> Result<Contest> {
    eprintln!("building polars-work");
    let (plain, linked) = (program(false)?, program(true)?);
    let on = |label: &str, arm: &Arm, program: &PathBuf| {
        Contestant::program(label, arm, program, vec![options.scale().to_owned()], &[])
    };
    let mut contestants: Vec<_> =
        options.arms()?.iter().map(|arm| on(&arm.name, arm, &plain)).collect();
    let masu = Arm { library: None, ..arm::masu()? };
    contestants.push(on("masu, linked in", &masu, &linked));
    Ok(Contest {
        name: "polars".to_owned(),
        title: "Tables of polars".to_owned(),
        about: format!(
            "Milliseconds for each kind of work, on {}, with the columns of the experiment on \
             Arrow's Python package. The buffers of polars are `Vec`s, which grow by `realloc`; \
             `builders` appends to columns value by value. `linked in`: masu is Rust's global \
             allocator instead of being preloaded.",
            options.amount()
        ),
        plotted: ["builders ms", "total ms", "peak MiB"].map(str::to_owned).to_vec(),
        contestants,
    })
}
