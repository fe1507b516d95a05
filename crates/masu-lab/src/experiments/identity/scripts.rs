//! Programs that say their moments themselves: `crates/masu-lab/programs/identity`.

use std::process::Command;

use anyhow::Result;

use super::running::Running;
use super::{LOAD, Moments, REST, START, on_masu};
use crate::memory::services::quietly;
use crate::paths;

/// Where they are.
fn script(name: &str) -> std::path::PathBuf {
    paths::lab().join("programs/identity").join(name)
}

/// Brings a program to its three moments.
fn speaking(moments: &mut Moments, command: &mut Command) -> Result<()> {
    let mut running = Running::start(command)?;
    for moment in [START, LOAD, REST] {
        running.says(moment)?;
        moments.read(moment, running.id())?;
        running.tell("\n")?;
    }
    Ok(())
}

/// Documents that four threads read and write.
pub fn ruby(moments: &mut Moments) -> Result<()> {
    speaking(moments, on_masu("ruby").arg(script("work.rb")))
}

/// The same.
pub fn python(moments: &mut Moments) -> Result<()> {
    speaking(moments, on_masu("python3").arg(script("work.py")))
}

/// Buffers, compressed.
pub fn node(moments: &mut Moments) -> Result<()> {
    speaking(moments, on_masu("node").arg("--expose-gc").arg(script("work.js")))
}

/// Compressors and buffers outside of the collected heap.
pub fn java(moments: &mut Moments) -> Result<()> {
    speaking(moments, on_masu("java").arg("-Xmx256m").arg(script("Work.java")))
}

/// Workers, clients and sessions.
pub fn rust(moments: &mut Moments) -> Result<()> {
    let program = moments.place().join("service");
    let mut rustc = Command::new("rustc");
    quietly(
        rustc.args(["-O", "--edition=2024"]).arg(script("service.rs")).arg("-o").arg(&program),
    )?;
    speaking(moments, &mut on_masu(program))
}

/// The same.
pub fn cxx(moments: &mut Moments) -> Result<()> {
    let program = moments.place().join("service");
    let mut cxx = Command::new("c++");
    quietly(
        cxx.args(["-std=c++20", "-O2", "-pthread"])
            .arg(script("service.cc"))
            .arg("-o")
            .arg(&program),
    )?;
    speaking(moments, &mut on_masu(program))
}
