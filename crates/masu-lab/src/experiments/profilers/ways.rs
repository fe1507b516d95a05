//! The profilers that are compared, each with its own allocator without it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;

use super::programs::PYTHON;
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
    /// Who says how many samples it took.
    pub counts: Counts,
}

/// Who says how many samples a way took.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// masu's profile, which is asked for with this mean distance.
    Masu(u64),
    /// jemalloc's.
    Jemalloc,
    /// Nobody, or there are none.
    Nobody,
}

impl Way {
    /// Whether it can follow a program. The one in Python has no more work than it does.
    pub fn follows(&self, program: &str) -> bool {
        self.only.map_or(self.share <= 1.0 || program != PYTHON, |only| only == program)
    }
}

/// The ways that the page is about: masu with a profile, and against itself.
pub const SAMPLING: &str = "masu, sampling";
pub const NOISE: &str = "masu, no profile";

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
    counts: Counts,
}

const PEERS: [Peer; 2] = [
    Peer {
        name: "jemalloc",
        package: "libjemalloc2",
        file: "libjemalloc.so.2",
        profilers: &[Profiler {
            name: "jemalloc, prof:true",
            variables: &[(MALLOC_CONF, "prof:true,prof_active:true,lg_prof_sample:19")],
            every: None,
            counts: Counts::Jemalloc,
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
                counts: Counts::Nobody,
            },
            Profiler {
                name: "tcmalloc, heap profiler",
                variables: &[
                    ("HEAPPROFILE", "tcmalloc"),
                    ("HEAP_PROFILE_ALLOCATION_INTERVAL", "0"),
                    ("HEAP_PROFILE_INUSE_INTERVAL", "0"),
                ],
                every: Some(0.02),
                counts: Counts::Nobody,
            },
        ],
    },
];
/// Where distributions have libraries.
const LIBRARIES: [&str; 4] =
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
/// Where jemalloc's options are.
pub const MALLOC_CONF: &str = "MALLOC_CONF";
/// The mean distance between samples that is asked for, in bytes, and as masu is told it.
pub const USUAL: (u64, &str) = (512 << 10, "512KiB");
/// The longest whole number of KiB at which masu takes every sample, whatever it costs.
const UNPACED: (u64, &str) = (63 << 10, "63KiB");
/// Rounds of the other profilers that sample, and of masu without a pace.
const SOME: usize = 6;
/// Rounds of what follows every call.
const FEW: usize = 2;
/// Rounds and work of programs that run longer.
const LONGER: (usize, f64) = (4, 6.0);

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
        counts: Counts::Nobody,
    };
    let (masu, glibc) = (arm::masu()?, Arm::glibc());
    let usual = &[("MASU_PROF", "1"), ("MASU_PROF_RATE", USUAL.1)];
    let unpaced = &[("MASU_PROF", "1"), ("MASU_PROF_RATE", UNPACED.1)];
    let sampling = |name, environment, rate| Way {
        counts: Counts::Masu(rate),
        ..way(name, &masu, environment)
    };
    let longer = |way| {
        let (rounds, share) = LONGER;
        Way { rounds, share, ..way }
    };
    let mut ways = vec![
        sampling(SAMPLING, usual, USUAL.0),
        way(NOISE, &masu, &[]),
        Way { rounds: SOME, ..sampling("masu, a sample in 63 KiB", unpaced, UNPACED.0) },
        longer(sampling("masu, sampling, longer", usual, USUAL.0)),
        longer(way("masu, no profile, longer", &masu, &[])),
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
            let (rounds, share) = profiler.every.map_or((SOME, 1.0), |share| (FEW, share));
            Way { rounds, share, counts: profiler.counts, ..way }
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

/// Whether a command succeeds.
pub fn runs(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
