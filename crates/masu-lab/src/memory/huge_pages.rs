//! Runs with huge pages for everybody, on request, or for nobody.
//!
//! Where the kernel can refuse them to a single process (`PR_SET_THP_DISABLE`), that is done. Only the
//! setting for everybody has to be made for the whole machine; a shell that outlives this process
//! puts it back, however this process ends.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::stage::Stage;

const SETTING: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Every mapping may be of huge pages.
pub fn always(stage: &mut Stage, command: Command) -> Result<()> {
    let _setting = Setting::set("always")?;
    stage.program(command)
}

/// Mappings for which the program asks.
pub fn on_advice(stage: &mut Stage, command: Command) -> Result<()> {
    let _setting = Setting::set("madvise")?;
    stage.program(command)
}

/// None, whatever the program asks for.
pub fn never(stage: &mut Stage, mut command: Command) -> Result<()> {
    let refuse = || {
        // SAFETY: a system call without pointers.
        let result = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
        if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: between fork and exec it makes one system call.
    unsafe { command.pre_exec(refuse) };
    stage.program(command)
}

/// The machine's setting, changed for as long as this lives.
struct Setting {
    keeper: Option<Child>,
}

impl Setting {
    fn set(wanted: &str) -> Result<Self> {
        let text = fs::read_to_string(SETTING).context("this kernel has no huge pages")?;
        let inside = text.split('[').nth(1).and_then(|rest| rest.split(']').next());
        let before = inside.context("the setting is not understood")?;
        if before == wanted {
            return Ok(Setting { keeper: None });
        }
        let script = format!("trap '' INT TERM HUP; read -r line; echo {before} >{SETTING}");
        let keeper = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let setting = Setting { keeper: Some(keeper) };
        fs::write(SETTING, wanted).context("the setting may not be changed here")?;
        ensure!(fs::read_to_string(SETTING)?.contains(&format!("[{wanted}]")), "not accepted");
        Ok(setting)
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            if let Some(mut line) = keeper.stdin.take() {
                let _ = line.write_all(b"\n");
            }
            let _ = keeper.wait();
        }
    }
}
