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
    /// Its allocator, without which it is compared.
    pub arm: Arm,
    /// What runs the program: this, then the program.
    pub wrapper: Vec<String>,
    pub environment: Variables,
    /// The only program that it can follow.
    pub only: Option<&'static str>,
    /// Most rounds, and the share of the work that is done: a profiler that follows every call takes ten or a hundred
    /// times as long, and needs little to show it. More work shows what remains of a cost once the program is warm.
    pub rounds: usize,
    pub share: f64,
}

impl Way {
    /// Whether it can follow a program. The one in Python has no more work than it does.
    pub fn follows(&self, program: &str) -> bool {
        self.only.map_or(self.share <= 1.0 || program != PYTHON, |only| only == program)
    }
}

type Variables = &'static [(&'static str, &'static str)];

/// An allocator with a profiler of its own, from where the distribution has it.
struct Peer {
    name: &'static str,
    package: &'static str,
    file: &'static str,
    profilers: &'static [Profiler],
}

/// A profiler that variables switch on.
struct Profiler {
    name: &'static str,
    variables: Variables,
    /// The share of the work, if it follows every call.
    every: Option<f64>,
}

const PEERS: [Peer; 2] = [
    Peer {
        name: "jemalloc",
        package: "libjemalloc2",
        file: "libjemalloc.so.2",
        profilers: &[Profiler {
            name: "jemalloc, prof:true",
            variables: &[("MALLOC_CONF", "prof:true,prof_active:true,lg_prof_sample:19")],
            every: None,
        }],
    },
    Peer {
        name: "tcmalloc",
        package: "libgoogle-perftools4",
        file: "libtcmalloc.so.4",
        profilers: &[
            Profiler {
                name: "tcmalloc, sampling",
                variables: &[("TCMALLOC_SAMPLE_PARAMETER", "524288")],
                every: None,
            },
            Profiler {
                name: "tcmalloc, heap profiler",
                variables: &[
                    ("HEAPPROFILE", "tcmalloc"),
                    ("HEAP_PROFILE_ALLOCATION_INTERVAL", "0"),
                    ("HEAP_PROFILE_INUSE_INTERVAL", "0"),
                ],
                every: Some(0.02),
            },
        ],
    },
];
/// Where distributions have libraries.
const LIBRARIES: [&str; 4] =
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
/// Rounds of what follows every call.
const FEW: usize = 2;
/// Rounds and work of programs that run longer.
const LONGER: (usize, f64) = (6, 6.0);

/// The ways whose programs are here. `missing`: what is not, and how to get it.
pub fn all(missing: &mut Vec<String>) -> Result<Vec<Way>> {
    let way = |name, arm: &Arm, environment| Way {
        name,
        arm: arm.clone(),
        wrapper: Vec::new(),
        environment,
        only: None,
        rounds: usize::MAX,
        share: 1.0,
    };
    let (masu, glibc) = (arm::masu()?, Arm::glibc());
    let sampling = &[("MASU_PROF", "1"), ("MASU_PROF_RATE", "512KiB")];
    let longer = |name, environment| {
        let (rounds, share) = LONGER;
        Way { rounds, share, ..way(name, &masu, environment) }
    };
    let mut ways = vec![
        way("masu, sampling", &masu, sampling),
        way("masu, no profile", &masu, &[]),
        longer("masu, sampling, longer", sampling),
        longer("masu, no profile, longer", &[]),
    ];
    for peer in &PEERS {
        let places = LIBRARIES.iter().map(|place| Path::new(place).join(peer.file));
        let Some(path) = places.into_iter().find(|at| at.is_file()) else {
            missing.push(format!("{} (apt-get install {})", peer.name, peer.package));
            continue;
        };
        let arm = Arm::preloading(peer.name, "the distribution's", path.canonicalize()?);
        ways.extend(peer.profilers.iter().map(|profiler| {
            let way = way(profiler.name, &arm, profiler.variables);
            match profiler.every {
                Some(share) => Way { rounds: FEW, share, ..way },
                None => way,
            }
        }));
    }
    if runs(Command::new("heaptrack").arg("--version")) {
        // What it records is made readable by another program, later.
        let wrapper = ["heaptrack", "--raw", "-o", "heaptrack"].map(str::to_owned).to_vec();
        ways.push(Way { wrapper, rounds: FEW, share: 0.2, ..way("heaptrack", &glibc, &[]) });
    } else {
        missing.push("heaptrack (apt-get install heaptrack)".into());
    }
    match memray() {
        Ok(python) => {
            let words = ["-m", "memray", "run", "--native", "-q", "-f", "-o", "memray.bin"];
            let mut wrapper = vec![python.to_string_lossy().into_owned()];
            wrapper.extend(words.map(str::to_owned));
            let only = Some(PYTHON);
            ways.push(Way { wrapper, only, rounds: FEW, ..way("memray", &glibc, &[]) });
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
