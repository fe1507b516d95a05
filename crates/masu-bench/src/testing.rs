//! Results made up for tests.

use crate::race::machine::Machine;
use crate::race::results::{Entrant, Measured, Outcome, Results, Role, Run, SCHEMA, VERSION};
use crate::race::{Failure, Sample};

/// A run that took so long; its memory follows from that.
pub fn sample(wall_s: f64) -> Sample {
    Sample {
        wall_s,
        user_s: wall_s,
        peak_kib: (wall_s * 100_000.0) as u64,
        minor_faults: 10,
        proven: true,
        ..Sample::default()
    }
}

/// What came of a run that took so long; one that is no number took too long.
pub fn outcome(wall_s: f64) -> Outcome {
    match wall_s.is_nan() {
        true => Err(Failure::Timeout { seconds: 1.0 }).into(),
        false => Ok(sample(wall_s)).into(),
    }
}

/// An entrant of that name; the system's is called glibc.
pub fn entrant(name: &str, role: Role) -> Entrant {
    let library = (name != "glibc").then(|| format!("/lib/lib{name}.so"));
    Entrant { name: name.into(), version: "1".into(), library, role }
}

/// One workload, with the wall times of each entrant by round.
pub fn results(entrants: &[(&str, Role, &[f64])]) -> Results {
    let runs = entrants.iter().enumerate().flat_map(|(arm, (_, _, walls))| {
        let run = move |(round, &wall)| Run { arm, round, outcome: outcome(wall) };
        walls.iter().enumerate().map(run)
    });
    Results {
        schema: SCHEMA.into(),
        version: VERSION,
        date: "2026-01-01T00:00:00Z".into(),
        seconds: 1.0,
        complete: true,
        out_of_time: false,
        machine: Machine::here(),
        arms: entrants.iter().map(|(name, role, _)| entrant(name, *role)).collect(),
        rounds: entrants[0].2.len(),
        settings: Vec::new(),
        workloads: vec![Measured {
            name: "churn".into(),
            about: "made up".into(),
            sleeps: false,
            varies: false,
            work: None,
            runs: runs.collect(),
            curves: Vec::new(),
            latencies: Vec::new(),
            instructions: Vec::new(),
        }],
        absent: Vec::new(),
        scale: Vec::new(),
        scale_check: None,
    }
}
