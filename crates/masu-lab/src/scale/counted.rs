//! What the simulated engine counts of a workload, beside what masu itself does.
//!
//! The engine's statistics say how often bins were filled, and where the spans came from. These figures do not depend on how fast
//! anything is, and hardly on how many cores there are, so they tell whether the protocol is simulated as
//! the engine has it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use masu_bench::race::child::{self, Until};
use masu_bench::race::watch::Watch;
use masu_bench::scale::{Counted, Counts};
use masu_bench::work;

use super::SCALE;
use super::model::design::Design;
use super::model::machine::COSTS;
use super::model::replay;
use super::model::trace::{Op, Trace};
use crate::arm;

/// Replays a whole trace on two cores, and runs the workload that it was recorded of on masu.
pub fn compare(trace: &Trace) -> Result<Counted> {
    let run = replay(trace, Design::Masu, 2, COSTS);
    let each = |count: u64| count as f64 * 1e3 / run.operations as f64;
    let model = Counts {
        refills: each(run.tally.refills),
        fresh_spans: each(run.tally.fresh_spans),
        adopted: each(run.tally.adopted),
        claimed: each(run.tally.claimed),
    };
    Ok(Counted { workload: trace.workload.clone(), model, engine: engine(trace)? })
}

/// What masu counts.
fn engine(trace: &Trace) -> Result<Counts> {
    let file = tempfile::NamedTempFile::new()?;
    let mut command = std::process::Command::new(work::binary()?);
    arm::masu()?.apply(&mut command);
    command.args(["run", &trace.workload, "1", &SCALE.to_string()]);
    command.env("MASU_CONF", format!("show_stats:json,stats_file:{}", file.path().display()));
    let never = Default::default();
    let until = Until { limit: Duration::from_secs(120), stop: &never };
    let finished = child::run(command, &Watch::default(), until)
        .map_err(|failure| anyhow::anyhow!("counting {}: {failure}", trace.workload))?;
    ensure!(finished.status.success(), "counting {}: {}", trace.workload, finished.status);
    let text = std::fs::read_to_string(file.path())?;
    let said: serde_json::Value = serde_json::from_str(text.trim())
        .with_context(|| format!("masu's statistics of {}", trace.workload))?;
    let calls = trace.events.iter().filter(|event| event.op != Op::Replace).count() as f64;
    let each = |name: &str| {
        let count = said["statistics"][name].as_f64();
        count.map(|count| count * 1e3 / calls).with_context(|| format!("masu counts no {name}"))
    };
    Ok(Counts {
        refills: each("refills")?,
        fresh_spans: each("fresh_spans")?,
        adopted: each("spans_adopted")?,
        claimed: each("spans_claimed")?,
    })
}
