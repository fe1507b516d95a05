//! Programs in Python: Arrow by its own package, arrays and frames.

use std::path::PathBuf;

use anyhow::Result;

use super::Options;
use super::contest::{Contest, Contestant};
use crate::arm::{self, Arm};
use crate::experiments::python;
use crate::paths;

/// The packages that the scripts import.
const PACKAGES: [&str; 3] = ["pyarrow", "numpy", "pandas"];

/// The Python that has them.
fn interpreter() -> Result<PathBuf> {
    python::environment("target/growth/venv", &PACKAGES)
}

/// The path of a script beside this file.
fn script(name: &str) -> String {
    paths::lab().join("src/experiments/growth").join(name).display().to_string()
}

/// Arrow's bundled pools, and its system pool with each allocator below it.
pub fn pyarrow(options: &Options) -> Result<Contest> {
    let python = interpreter()?;
    let arguments = vec![script("arrow.py"), options.scale().to_owned()];
    let on = |label: &str, arm: &Arm, pool: &str| {
        let pool = [("ARROW_DEFAULT_MEMORY_POOL", pool)];
        Contestant::program(label, arm, &python, arguments.clone(), &pool)
    };
    let mut contestants = vec![on("masu, system pool", &arm::masu()?, "system")];
    contestants.push(on("bundled mimalloc pool", &Arm::glibc(), "mimalloc"));
    contestants.push(on("bundled jemalloc pool", &Arm::glibc(), "jemalloc"));
    contestants.push(on("glibc, system pool", &Arm::glibc(), "system"));
    contestants.push(on("masu, bundled mimalloc pool", &arm::masu()?, "mimalloc"));
    Ok(Contest {
        name: "pyarrow".to_owned(),
        title: "Arrow, by its Python package".to_owned(),
        about: format!(
            "Milliseconds for each kind of work, on {}; `builders` appends to growing \
             buffers. Arrow's system pool grows a buffer by `posix_memalign`, `memcpy` and `free`, so \
             that no allocator can save it the copy.",
            options.amount()
        ),
        plotted: ["builders ms", "total ms", "peak MiB"].map(str::to_owned).to_vec(),
        contestants,
    })
}

/// numpy and pandas with each allocator.
pub fn frames(options: &Options) -> Result<Contest> {
    let python = interpreter()?;
    let arguments = vec![script("frames.py"), options.scale().to_owned()];
    let on = |arm: &Arm| {
        let pool = [("ARROW_DEFAULT_MEMORY_POOL", "system")];
        Contestant::program(&arm.name, arm, &python, arguments.clone(), &pool)
    };
    Ok(Contest {
        name: "frames".to_owned(),
        title: "numpy and pandas: growth and concatenation".to_owned(),
        about: "Milliseconds for each kind of work.".to_owned(),
        plotted: ["resize ms", "append ms", "frames ms", "peak MiB"].map(str::to_owned).to_vec(),
        contestants: options.arms()?.iter().map(on).collect(),
    })
}
