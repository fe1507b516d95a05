//! The measured program, as a function: `masu-work`, and every program that is `masu-work` with
//! an allocator linked in.
//!
//! Arguments are positional, since only the runner writes them and every dependency
//! less keeps this process small.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::process::ExitCode;

use crate::aging;
use crate::latency;
use crate::launch::{self, die_with_parent};
use crate::pairs::Shape;
use crate::pairs::driver::{self, Subject};
use crate::probe::{self, Probe};
use crate::{ALL, Input, Memory, Variation, keys, named};

/// Does what the command line says; the exit code.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    if let [verb, report, preload, program, rest @ ..] = arguments.as_slice()
        && verb == "launch"
    {
        return launch::launch(report, preload, program, rest);
    }
    if let [help] = arguments.as_slice()
        && (help == "--help" || help == "-h")
    {
        print!("{Usage}");
        return ExitCode::SUCCESS;
    }
    let arguments: Vec<&str> = arguments.iter().map(|word| word.to_str().unwrap_or("?")).collect();
    let probe = Probe::of_this_process();
    println!("allocator {probe}");
    match arguments.as_slice() {
        ["probe"] => {
            say_mapped(&probe);
            ExitCode::SUCCESS
        }
        ["pairs", subject, shape, size, batches] => pairs(subject, shape, size, batches),
        ["touch", mib] => touch(mib),
        ["age", mib, cycles, rest] => age(mib, cycles, rest),
        ["run", name] => run(&probe, name, "1", "1", &[]),
        ["run", name, seed, scale, variation @ ..] => run(&probe, name, seed, scale, variation),
        _ => usage(),
    }
}

/// Says whether the kernel, too, lists the object that serves the allocation functions.
fn say_mapped(probe: &Probe) {
    let mapped = probe.single().is_some_and(probe::is_mapped);
    println!("mapped {}", if mapped { "yes" } else { "no" });
}

/// Writes to every page of so much memory, once; then again in huge pages, for which the kernel has
/// other memory at hand.
fn touch(mib: &str) -> ExitCode {
    let Ok(mib) = mib.parse::<usize>() else { return usage() };
    for huge in [false, true] {
        let mut memory = vec![0u8; mib << 20];
        if huge {
            let start = memory.as_mut_ptr().map_addr(|address| address.next_multiple_of(4096));
            let len = (mib << 20).saturating_sub(4096);
            // SAFETY: advice on whole pages of our own memory, which changes none of its bytes. If it is
            // refused, small pages are touched once more.
            unsafe { libc::madvise(start.cast(), len, libc::MADV_HUGEPAGE) };
        }
        memory.chunks_mut(4096).for_each(|page| page[0] = 1);
        std::hint::black_box(&memory);
    }
    ExitCode::SUCCESS
}

fn age(mib: &str, cycles: &str, rest: &str) -> ExitCode {
    let (Ok(mib), Ok(cycles), Ok(rest)) = (mib.parse(), cycles.parse(), rest.parse()) else {
        return usage();
    };
    die_with_parent();
    aging::age(mib, cycles, rest);
    ExitCode::SUCCESS
}

fn run(probe: &Probe, name: &str, seed: &str, scale: &str, variation: &[&str]) -> ExitCode {
    let (Some(workload), Ok(seed), Ok(scale)) = (named(name), seed.parse(), scale.parse()) else {
        return usage();
    };
    let variation = match Variation::of(variation, keys(name)) {
        Ok(variation) => variation,
        Err(mistake) => {
            eprintln!("masu-work: {name}: {mistake}");
            return ExitCode::from(2);
        }
    };
    die_with_parent();
    let outcome = (workload.run)(&Input { seed, scale, variation });
    println!("checksum {:016x}", outcome.checksum);
    if let Some(settled) = outcome.settled_kib {
        println!("settled_kib {settled}");
    }
    println!("peak_kib {}", Memory::now().peak_kib);
    // After the measurement: reading the mappings takes memory.
    say_mapped(probe);
    match latency::hand_over() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("masu-work: cannot write the latencies: {error}");
            ExitCode::FAILURE
        }
    }
}

fn pairs(subject: &str, shape: &str, size: &str, batches: &str) -> ExitCode {
    let subject = match subject {
        "process" => Subject::Process,
        "null" => Subject::Null,
        _ => return usage(),
    };
    match (shape.parse::<Shape>(), size.parse(), batches.parse()) {
        (Ok(shape), Ok(size), Ok(batches)) => {
            driver::run(subject, shape, size, batches);
            ExitCode::SUCCESS
        }
        _ => usage(),
    }
}

/// What the command line may say.
struct Usage;

impl fmt::Display for Usage {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "usage: masu-work probe | touch MIB | pairs process|null SHAPE SIZE BATCHES")?;
        writeln!(to, "       masu-work age MIB CYCLES SECONDS")?;
        writeln!(to, "       masu-work run WORKLOAD [SEED SCALE [threads=N] [sizes=F] [live=F]]")?;
        writeln!(to, "       masu-work launch REPORT LIBRARY PROGRAM NAME ARGUMENTS…")?;
        ALL.iter()
            .try_for_each(|workload| writeln!(to, "  {:<12} {}", workload.name, workload.about))
    }
}

fn usage() -> ExitCode {
    eprint!("{Usage}");
    ExitCode::from(2)
}
