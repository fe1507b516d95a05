//! masu's environment: the kernel, its settings, the limits, the container. It is read first and
//! judged afterwards, so that the judgement can be tested with the files of any machine.
//!
//! - `kernel`: version, seccomp, rights.
//! - `calls`: which of masu's system calls are refused, determined by making them.
//! - `memory`: page size, huge pages, overcommit, mappings.
//! - `limits`: `ulimit`.
//! - `container`: the control group's memory and processors.

mod calls;
mod container;
mod kernel;
mod limits;
mod memory;

use serde::Serialize;

use super::finding::Finding;
use super::root::Root;

/// The machine and the container. What could not be read is null.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ground {
    kernel: kernel::Kernel,
    memory: memory::Memory,
    limits: limits::Limits,
    container: container::Container,
}

impl Ground {
    /// Reads the facts.
    pub fn read(root: &Root) -> Self {
        Self {
            kernel: kernel::Kernel::read(root),
            memory: memory::Memory::read(root),
            limits: limits::Limits::read(root),
            container: container::Container::read(root),
        }
    }

    /// Returns how many mappings a process may have.
    pub fn mappings(&self) -> Option<u64> {
        self.memory.max_map_count
    }

    /// Judges the facts. `here` means that programs started by this process have the same
    /// environment.
    pub fn findings(&self, here: bool) -> Vec<Finding> {
        let mut findings = self.kernel.findings();
        if here {
            findings.extend(calls::findings(self.kernel.seccomp.unwrap_or(0) > 0));
        }
        findings.extend(self.memory.findings());
        findings.extend(self.limits.findings());
        findings.extend(self.container.findings(&self.memory));
        findings
    }
}
