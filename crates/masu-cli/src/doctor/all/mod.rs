//! `--all`: which allocator every process of the machine runs on.
//!
//! Processes are read one by one while others come and go: one that has ended meanwhile is left
//! out. Other users' processes are listed apart from those that could be read, without any
//! statement about them.

mod table;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use procfs_core::process::Status;
use serde::Serialize;

use super::mapped::Environment;
use super::process::{self, Memory};
use super::root::Root;
use super::serving::Serving;
use crate::allocators::{MASU, file_name, known_library};
use crate::failure::{Failure, REFUSED};
use crate::preload;
use crate::printable::{self, printable};

pub use table::render;

/// The name of the format.
const SCHEMA: &str = "masu-doctor-all";
/// The version of the format. It grows whenever a field changes its meaning.
const VERSION: u32 = 1;

/// The answer of `masu doctor --all`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct All {
    /// The name of the format: `masu-doctor-all`.
    schema: &'static str,
    /// The version of the format. It grows whenever a field changes its meaning.
    version: u32,
    /// The processes that could be read, in the order of their IDs.
    processes: Vec<Entry>,
    /// The processes that could not be read.
    unread: Vec<Unread>,
}

/// A process.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Entry {
    /// The process ID.
    id: u32,
    /// Its name, as `ps -o comm` shows it; whole, if its executable file has the same one.
    name: String,
    /// Its executable file.
    #[serde(serialize_with = "printable::path_if_any")]
    binary: Option<PathBuf>,
    /// The user it runs as.
    user: String,
    /// The allocator that serves its `malloc`; null if it is not known.
    malloc: Option<Serving>,
    /// Whether masu is the global allocator of a Rust program.
    rust: bool,
    /// Files that contain another allocator, each with the allocator's name.
    #[serde(serialize_with = "printable::paths")]
    others: Vec<(PathBuf, String)>,
    /// Whether masu serves its `malloc` or its Rust allocations.
    masu: bool,
    /// Whether its LD_PRELOAD names masu.
    asked: bool,
    /// Its memory.
    memory: Option<Memory>,
    /// The systemd unit that it belongs to.
    unit: Option<String>,
}

/// A process that could not be read.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Unread {
    /// The process ID.
    id: u32,
    /// Its name, as `ps -o comm` shows it.
    name: String,
    /// The user it runs as.
    user: String,
}

impl All {
    /// Reads the processes under `directory`.
    pub fn read(directory: Option<&Path>) -> Result<Self, Failure> {
        let machine = Root::new(directory, None);
        let proc = machine.at("/proc");
        let entries = fs::read_dir(&proc).map_err(|error| {
            Failure::new(REFUSED, format!("cannot read `{}`: {error}", proc.display()))
        })?;
        let id = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
        let mut ids: Vec<u32> = entries.flatten().filter_map(id).collect();
        ids.sort_unstable();
        let users = users(&machine);
        let mut all =
            Self { schema: SCHEMA, version: VERSION, processes: Vec::new(), unread: Vec::new() };
        for id in ids.into_iter().filter(|&id| !machine.is_live() || id != std::process::id()) {
            all.add(id, &Root::new(directory, Some(id)), &users);
        }
        Ok(all)
    }

    fn add(&mut self, id: u32, root: &Root, users: &BTreeMap<u32, String>) {
        // Kernel threads have no memory, nor do processes that have ended.
        let status: Option<Status> = root.process("status");
        let Some(status) = status.filter(|status| status.vmsize.is_some()) else { return };
        let user = users.get(&status.euid).cloned().unwrap_or_else(|| status.euid.to_string());
        let maps = match process::mappings_of(root) {
            Ok(maps) => maps,
            Err(error) => {
                let ended = error.raw_os_error() == Some(libc::ESRCH);
                if !ended && error.kind() != io::ErrorKind::NotFound {
                    self.unread.push(Unread { id, name: status.name, user });
                }
                return;
            }
        };
        if maps.0.is_empty() {
            return;
        }
        let environment = Environment::of(root);
        let (process, _) = process::facts(id, &maps, &environment, root);
        let named = environment.value("LD_PRELOAD").unwrap_or_default();
        let asked = preload::entries(named)
            .any(|entry| known_library(&file_name(Path::new(entry))) == Some(MASU));
        self.processes.push(Entry {
            id,
            name: own_name(&process),
            user,
            masu: process.runs_on_masu(),
            asked,
            binary: process.binary,
            malloc: process.malloc,
            rust: process.rust,
            others: process.others,
            memory: process.memory,
            unit: process.unit,
        });
    }

    /// Whether a process should run on masu and does not.
    pub fn is_a_problem(&self) -> bool {
        self.processes.iter().any(|process| process.asked && !process.masu)
    }

    /// Returns the JSON, with a newline at its end.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data") + "\n"
    }
}

/// The kernel cuts names to this many bytes.
const CUT: usize = 15;

/// Returns the name that a process has given itself: its file may have several. If the kernel has cut it, the file's name
/// goes on with the rest.
fn own_name(process: &process::Process) -> String {
    let name = &process.name;
    let file = process.binary.as_deref().map(file_name);
    let whole = file.filter(|file| matches!(name.len(), 0 | CUT) && file.starts_with(name));
    printable(whole.as_ref().unwrap_or(name))
}

/// Returns the users of the machine.
fn users(machine: &Root) -> BTreeMap<u32, String> {
    let list = machine.text("/etc/passwd").unwrap_or_default();
    let user = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        Some((fields.nth(1)?.parse().ok()?, name))
    };
    list.lines().filter_map(user).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_committed_schema_is_that_of_the_type() {
        crate::schemas::check::<super::All>("doctor-all", crate::schemas::DOCTOR_ALL);
    }
}
