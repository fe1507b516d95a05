//! Programs with an allocator linked in: `masu-work` for the rivals that are Rust's global
//! allocator, and a static one for musl's own malloc.
//!
//! Linked in, an allocator is told the size of what it gets back, and calls may be inlined; some can
//! be had only so. The workloads' blocks come from the global allocator, so they reach it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::tools::run;
use crate::paths;

/// The program it builds.
const PROGRAM: &str = "masu-work-linked";
/// What static programs on musl are built for.
const MUSL: &str = "x86_64-unknown-linux-musl";

/// Builds `masu-work` with the allocator `name` linked in, into `to`.
pub fn build(name: &str, to: &Path) -> Result<()> {
    let target = paths::peers().join("build/linked");
    run(
        &format!("linked-{name}"),
        Command::new("cargo")
            .args(["build", "--release", "--features", name, "--manifest-path"])
            .arg(paths::lab().join("peers/linked/Cargo.toml"))
            .arg("--target-dir")
            .arg(&target),
    )?;
    fs::copy(target.join("release").join(PROGRAM), to)?;
    Ok(())
}

/// Builds a static `masu-work` on musl, whose allocator is musl's malloc; musl's version.
///
/// The standard library for that target is built from its sources, which a nightly toolchain
/// can do without anything that is not part of the toolchain or of Debian's musl-tools.
pub fn musl(to: &Path) -> Result<String> {
    let build = paths::peers().join("build/musl");
    fs::create_dir_all(&build)?;
    let object = build.join("unwind.o");
    let source = paths::lab().join("peers/musl/unwind.c");
    run(
        "musl-unwind",
        Command::new("musl-gcc").args(["-O2", "-fPIC", "-c"]).arg(source).arg("-o").arg(&object),
    )
    .context("musl-gcc is needed (Debian: musl-tools)")?;
    run("musl-archive", Command::new("ar").arg("rcs").arg(build.join("libunwind.a")).arg(&object))?;
    let flags = format!(
        "-C link-self-contained=no -C target-feature=+crt-static -L native={}",
        build.display()
    );
    run(
        "musl",
        Command::new("cargo")
            .args(["+nightly", "build", "--release", "-Zbuild-std=std,panic_abort"])
            .args(["--target", MUSL, "-p", "masu-workloads", "--bin", "masu-work"])
            .arg("--target-dir")
            .arg(build.join("cargo"))
            .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER", "musl-gcc")
            .env("RUSTFLAGS", flags)
            .current_dir(paths::workspace()),
    )
    .context("a nightly toolchain with the component rust-src is needed")?;
    fs::copy(build.join("cargo").join(MUSL).join("release/masu-work"), to)?;
    let package = Command::new("dpkg-query").args(["-W", "-f", "${Version}", "musl-dev"]).output();
    let version = package.ok().filter(|output| output.status.success());
    Ok(version.map_or("-".into(), |output| String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// Sees that the program does its work, and the same work as the program with nothing linked in.
pub fn verify(program: &Path) -> Result<()> {
    let checksum = |program: &Path| {
        let mut command = Command::new(program);
        let output =
            command.args(["run", "churn", "7", "0.01"]).env_remove("LD_PRELOAD").output()?;
        let ended = output.status;
        ensure!(ended.success(), "{} ends with {ended}", program.display());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix("checksum "));
        line.map(str::to_string).with_context(|| format!("{} has no result", program.display()))
    };
    let plain: PathBuf = masu_bench::work::binary()?;
    ensure!(checksum(program)? == checksum(&plain)?, "it computes something else than masu-work");
    Ok(())
}
