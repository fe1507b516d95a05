//! The profilers that are compared, each with its own allocator without it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;

use super::PYTHON;
use crate::arm::{self, Arm};
use crate::experiments::python;

/// A way to run a program.
pub struct Way {
    pub name: &'static str,
    /// The way that it is compared with; its own for those.
    pub base: &'static str,
    /// What runs the program: this, then the program.
    pub wrapper: Vec<String>,
    /// Its allocator.
    pub arm: Arm,
    pub environment: &'static [(&'static str, &'static str)],
    /// The only program that it can follow.
    pub only: Option<&'static str>,
    /// Most rounds: a profiler that follows every call takes ten times as long, and needs few to show it.
    pub rounds: usize,
}

impl Way {
    /// Whether it can follow a program.
    pub fn follows(&self, program: &str) -> bool {
        self.only.is_none_or(|only| only == program)
    }
}

/// An allocator with a profiler of its own, from where the distribution has it.
struct Peer {
    name: &'static str,
    package: &'static str,
    file: &'static str,
    /// Names of its ways, and the variables that switch them on.
    profilers: &'static [(&'static str, &'static [(&'static str, &'static str)])],
}

const PEERS: [Peer; 2] = [
    Peer {
        name: "jemalloc",
        package: "libjemalloc2",
        file: "libjemalloc.so.2",
        profilers: &[(
            "jemalloc, prof:true",
            &[("MALLOC_CONF", "prof:true,prof_active:true,lg_prof_sample:19")],
        )],
    },
    Peer {
        name: "tcmalloc",
        package: "libgoogle-perftools4",
        file: "libtcmalloc.so.4",
        profilers: &[
            ("tcmalloc, sampling", &[("TCMALLOC_SAMPLE_PARAMETER", "524288")]),
            (
                "tcmalloc, heap profiler",
                &[("HEAPPROFILE", "tcmalloc"), ("HEAP_PROFILE_ALLOCATION_INTERVAL", "0")],
            ),
        ],
    },
];
/// Where distributions have libraries.
const LIBRARIES: [&str; 4] =
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
/// Rounds of what follows every call.
const FEW: usize = 2;

/// The ways whose programs are here. `missing`: what is not, and how to get it.
pub fn all(missing: &mut Vec<String>) -> Result<Vec<Way>> {
    let way = |name, base, arm: &Arm, environment| Way {
        name,
        base,
        wrapper: Vec::new(),
        arm: arm.clone(),
        environment,
        only: None,
        rounds: usize::MAX,
    };
    let (masu, glibc) = (arm::masu()?, Arm::glibc());
    let sampling: &[_] = &[("MASU_PROF", "1"), ("MASU_PROF_RATE", "512KiB")];
    let mut ways = vec![
        way("masu", "masu", &masu, &[]),
        way("masu, sampling", "masu", &masu, sampling),
        way("masu, once more", "masu", &masu, &[]),
    ];
    for peer in &PEERS {
        match LIBRARIES.iter().map(|place| Path::new(place).join(peer.file)).find(|at| at.is_file())
        {
            Some(path) => {
                let arm = Arm::preloading(peer.name, "the distribution's", path);
                ways.push(way(peer.name, peer.name, &arm, &[]));
                let profilers = peer.profilers.iter();
                ways.extend(profilers.map(|(name, on)| way(name, peer.name, &arm, on)));
            }
            None => missing.push(format!("{} (apt-get install {})", peer.name, peer.package)),
        }
    }
    ways.push(way("glibc", "glibc", &glibc, &[]));
    if runs(Command::new("heaptrack").arg("--version")) {
        // Its file is read by others: only what the program waits for counts.
        let wrapper = ["heaptrack", "--raw", "-o", "heaptrack"].map(str::to_owned).to_vec();
        ways.push(Way { wrapper, rounds: FEW, ..way("heaptrack", "glibc", &glibc, &[]) });
    } else {
        missing.push("heaptrack (apt-get install heaptrack)".into());
    }
    match memray() {
        Ok(python) => {
            let words = ["-m", "memray", "run", "--native", "-q", "-f", "-o", "memray.bin"];
            let mut wrapper = vec![python.to_string_lossy().into_owned()];
            wrapper.extend(words.map(str::to_owned));
            let (only, rounds) = (Some(PYTHON), FEW);
            ways.push(Way { wrapper, only, rounds, ..way("memray", "glibc", &glibc, &[]) });
        }
        Err(error) => missing.push(format!("memray ({error:#})")),
    }
    Ok(ways)
}

/// A Python that has memray.
fn memray() -> Result<PathBuf> {
    python::environment("target/profilers/venv", &["memray"])
}

fn runs(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
