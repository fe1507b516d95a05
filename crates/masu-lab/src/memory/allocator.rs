//! The allocators of the suite: the race's arms, glibc with the setting that guides recommend, and masu
//! under each of its policies.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use masu_watch::process::mapped;

use crate::arm::{self, Arm};

/// What is compared unless somebody asks for others.
pub const DEFAULT: &str = "masu,glibc,glibc-arenas2,jemalloc,mimalloc3,mimalloc2,tcmalloc";

/// masu's policies; `masu:NAME` is masu under one of them.
pub const POLICIES: [&str; 5] = ["default", "low-memory", "throughput", "container", "realtime"];

/// An allocator and how a program comes to use it.
#[derive(Clone)]
pub struct Allocator {
    /// What tables call it.
    pub name: String,
    /// Its version, as far as known.
    pub version: String,
    arm: Arm,
    variable: Option<(&'static str, &'static str)>,
    others: Vec<PathBuf>,
}

impl Allocator {
    /// The allocators of these names. Each must know the others, to prove their absence.
    pub fn all(names: &[String]) -> Result<Vec<Self>> {
        let one = |name: &String| {
            let (known, variable) = variant(name)?;
            let arm = arm::named(known)?;
            ensure!(!arm.linked, "{name} cannot be preloaded");
            let version = arm.version.clone();
            Ok(Allocator { name: name.clone(), version, arm, variable, others: Vec::new() })
        };
        let mut all = names.iter().map(one).collect::<Result<Vec<_>>>()?;
        let libraries: Vec<_> = all.iter().filter_map(|one| one.arm.library.clone()).collect();
        for one in &mut all {
            let foreign = |library: &&PathBuf| Some(*library) != one.arm.library.as_ref();
            one.others = libraries.iter().filter(foreign).cloned().collect();
        }
        Ok(all)
    }

    /// Makes `command` use this allocator, whatever the surroundings say.
    pub fn apply(&self, command: &mut Command) {
        self.arm.apply(command);
        // Not masu's own options either.
        for (key, _) in std::env::vars_os() {
            if key.as_encoded_bytes().starts_with(b"MASU_") {
                command.env_remove(&key);
            }
        }
        command.envs(self.variable);
    }

    /// The same for a program that is linked with an allocator of its own by its shared object:
    /// there the system's malloc has to be preloaded as well to come first.
    pub fn apply_first(&self, command: &mut Command) {
        self.apply(command);
        if self.arm.library.is_none()
            && let Some(c_library) =
                mapped(std::process::id()).into_iter().find(|file| is_libc(file))
        {
            command.env("LD_PRELOAD", c_library);
        }
    }

    /// Refuses a process that has not loaded this allocator, or another one of the suite.
    pub fn prove(&self, process: u32) -> Result<()> {
        let mapped = mapped(process);
        ensure!(mapped.iter().any(|file| is_libc(file)), "process {process} has no C library");
        if let Some(library) = &self.arm.library {
            ensure!(mapped.contains(library), "process {process} has not mapped {}", self.name);
        }
        let wrong = self.others.iter().find(|other| mapped.contains(other));
        ensure!(wrong.is_none(), "process {process} of {} has mapped {wrong:?}", self.name);
        Ok(())
    }
}

/// The allocator that a name stands for, and the variable that makes it what the name says.
fn variant(name: &str) -> Result<(&str, Option<(&'static str, &'static str)>)> {
    if name == "glibc-arenas2" {
        return Ok(("glibc", Some(("MALLOC_ARENA_MAX", "2"))));
    }
    let Some(policy) = name.strip_prefix("masu:") else { return Ok((name, None)) };
    let known = POLICIES.into_iter().find(|known| *known == policy);
    let policy = known.with_context(|| format!("no policy `{policy}`: {}", POLICIES.join(", ")))?;
    Ok(("masu", Some(("MASU_POLICY", policy))))
}

fn is_libc(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libc.so"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocator(library: Option<&str>, others: &[PathBuf]) -> Allocator {
        let arm = match library {
            Some(path) => Arm::preloading("x", "", path.into()),
            None => Arm::glibc(),
        };
        let (name, version, others) = ("x".into(), String::new(), others.to_vec());
        Allocator { name, version, arm, variable: None, others }
    }

    #[test]
    fn a_process_without_the_library_or_with_another_one_is_refused() {
        let me = std::process::id();
        allocator(None, &[]).prove(me).unwrap();
        assert!(allocator(Some("/nonexistent/libx.so"), &[]).prove(me).is_err());
        let mine = mapped(me).into_iter().find(|file| is_libc(file)).unwrap();
        allocator(Some(&mine.to_string_lossy()), &[]).prove(me).unwrap();
        assert!(allocator(None, &[mine]).prove(me).is_err());
        assert!(allocator(None, &[]).prove(u32::MAX).is_err());
    }

    #[test]
    fn names_stand_for_an_allocator_and_a_variable() {
        assert_eq!(variant("jemalloc").unwrap(), ("jemalloc", None));
        let arenas = Some(("MALLOC_ARENA_MAX", "2"));
        assert_eq!(variant("glibc-arenas2").unwrap(), ("glibc", arenas));
        let policy = variant("masu:low-memory").unwrap();
        assert_eq!(policy, ("masu", Some(("MASU_POLICY", "low-memory"))));
        assert!(variant("masu:lowmemory").is_err());
        let mut command = Command::new("true");
        Allocator { variable: policy.1, ..allocator(None, &[]) }.apply(&mut command);
        let set = command.get_envs().find(|(key, _)| *key == "MASU_POLICY");
        assert_eq!(set.unwrap().1.unwrap(), "low-memory");
    }

    #[test]
    fn the_systems_malloc_comes_first_where_it_must() {
        let mut command = Command::new("true");
        allocator(None, &[]).apply_first(&mut command);
        let preload = command.get_envs().find(|(key, _)| *key == "LD_PRELOAD");
        assert!(is_libc(Path::new(preload.unwrap().1.unwrap())));
    }
}
