//! The metrics: names, units and meanings. Names begin with `masu_`. The labels are a process's ID and name, or the name
//! alone where processes are summed by name.

use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Unit;

use super::fleet::{Process, Seen};
use super::groups::Group;

/// A figure of a process.
enum Figure {
    Whole(u64),
    Seconds(f64),
}

/// A metric of every process.
struct Family {
    name: &'static str,
    unit: Option<Unit>,
    is_counter: bool,
    help: &'static str,
    of: fn(&Process) -> Option<Figure>,
}

const fn gauge(
    name: &'static str,
    unit: Option<Unit>,
    help: &'static str,
    of: fn(&Process) -> Option<Figure>,
) -> Family {
    Family { name, unit, is_counter: false, help, of }
}

const fn counter(
    name: &'static str,
    unit: Option<Unit>,
    help: &'static str,
    of: fn(&Process) -> Option<Figure>,
) -> Family {
    Family { name, unit, is_counter: true, help, of }
}

/// A field of [`Process`].
macro_rules! field {
    ($field:ident) => {
        |process| Some(Figure::Whole(process.$field))
    };
}

const BYTES: Option<Unit> = Some(Unit::Bytes);
const SECONDS: Option<Unit> = Some(Unit::Seconds);

/// All of them.
const FAMILIES: [Family; 25] = [
    gauge(
        "process_resident",
        BYTES,
        "Resident memory of the whole process, as ps counts it",
        field!(rss),
    ),
    gauge(
        "allocated",
        BYTES,
        "Blocks that the program holds, rounded up to size classes",
        field!(allocated),
    ),
    gauge("active", BYTES, "Blocks in use, and free memory beside them", field!(active)),
    gauge(
        "resident",
        BYTES,
        "Memory of masu that may be resident: active, dirty and metadata",
        field!(resident),
    ),
    gauge("mapped", BYTES, "Address space of masu", field!(mapped)),
    gauge(
        "retained",
        BYTES,
        "Address space whose pages were returned to the system",
        field!(retained),
    ),
    gauge("metadata", BYTES, "Tables of masu", field!(metadata)),
    gauge("profile", BYTES, "The part of the tables that the heap profile uses", field!(profile)),
    gauge("dirty", BYTES, "Free memory not yet returned to the system", field!(dirty)),
    gauge("thread_cached", BYTES, "Free medium blocks that threads cache", field!(cached)),
    gauge("threads", None, "Threads that have a heap", field!(threads)),
    gauge(
        "decay",
        SECONDS,
        "Time that free memory is kept before it is returned; +Inf means forever",
        |process| {
            Some(Figure::Seconds(match process.decay {
                u64::MAX => f64::INFINITY,
                milliseconds => milliseconds as f64 / 1000.0,
            }))
        },
    ),
    gauge(
        "hard_limit",
        BYTES,
        "Hard limit: bytes in use above which malloc fails; absent if there is none",
        |process| process.hard_limit.map(Figure::Whole),
    ),
    gauge(
        "soft_limit",
        BYTES,
        "Soft limit: bytes in use above which free memory is returned at once; absent if there is none",
        |process| process.soft_limit.map(Figure::Whole),
    ),
    gauge(
        "container_limit",
        BYTES,
        "Memory limit of the control group; absent if there is none",
        |process| process.container.map(|(limit, _)| Figure::Whole(limit)),
    ),
    gauge(
        "container_used",
        BYTES,
        "Memory in use in the control group, not counting page cache that can be dropped",
        |process| process.container.map(|(_, used)| Figure::Whole(used)),
    ),
    gauge(
        "process_start_time",
        SECONDS,
        "When the process started, in seconds since 1970",
        // A group without processes has none.
        |process| (process.started != 0).then_some(Figure::Whole(process.started)),
    ),
    counter(
        "alloc",
        BYTES,
        "Bytes allocated, except those that a thread allocates between the last collection and its end",
        |process| process.alloc_bytes.map(Figure::Whole),
    ),
    counter("purged", BYTES, "Bytes returned to the system", field!(purged)),
    counter("purge_ticks", None, "Checks for memory that can be returned", field!(ticks)),
    counter("refills", None, "Batches of small blocks that threads took", field!(refills)),
    counter(
        "remote_frees",
        None,
        "Blocks freed by a thread other than their owner",
        field!(remote_frees),
    ),
    counter("medium_allocs", None, "Blocks of 16 KiB to 1 MiB allocated", field!(medium_allocs)),
    counter("huge_allocs", None, "Blocks above 1 MiB allocated", field!(huge_allocs)),
    counter("foreign_frees", None, "Freed pointers that were not masu's", field!(foreign_frees)),
];

/// The result of a measurement, and its cost.
#[derive(Debug)]
pub struct Figures {
    /// The processes.
    pub seen: Seen,
    /// Their sums by name, if these are shown in their place.
    pub groups: Option<Vec<Group>>,
    /// Whether the counters are shown.
    pub counters: bool,
    /// Seconds that the measurement took.
    pub took: f64,
    /// Measurements so far.
    pub looks: u64,
    /// Number of processes so far that ended while they were read, or could not be understood.
    pub failures: u64,
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), Error> {
        match &self.groups {
            None => {
                self.each(&mut encoder, &self.seen.processes, |process| {
                    vec![("pid", process.pid.to_string()), ("comm", process.comm.clone())]
                })?;
                self.info(&mut encoder)?;
            }
            Some(groups) => {
                let sums = groups.iter().map(|group| &group.sum);
                self.each(&mut encoder, sums, |sum| vec![("comm", sum.comm.clone())])?;
                of_groups(&mut encoder, groups)?;
            }
        }
        self.own(&mut encoder)
    }
}

impl Figures {
    /// Writes each family, with a sample of each process or sum.
    fn each<'a>(
        &self,
        encoder: &mut DescriptorEncoder,
        processes: impl IntoIterator<Item = &'a Process>,
        labels: fn(&Process) -> Vec<(&'static str, String)>,
    ) -> Result<(), Error> {
        let all: Vec<_> = processes.into_iter().map(|process| (process, labels(process))).collect();
        for family in FAMILIES.iter().filter(|family| self.counters || !family.is_counter) {
            let kind = if family.is_counter { MetricType::Counter } else { MetricType::Gauge };
            let mut metric =
                encoder.encode_descriptor(family.name, family.help, family.unit.as_ref(), kind)?;
            for (process, labels) in &all {
                let Some(figure) = (family.of)(process) else { continue };
                let mut sample = metric.encode_family(labels)?;
                match figure {
                    Figure::Whole(n) if family.is_counter => {
                        sample.encode_counter(&n, None::<&Exemplar<NoLabelSet, u64>>)?;
                    }
                    Figure::Whole(n) => sample.encode_gauge(&n)?,
                    Figure::Seconds(n) => sample.encode_gauge(&n)?,
                }
            }
        }
        Ok(())
    }

    /// Writes what is not a figure.
    fn info(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        let help = "The control group of a process, and the version of its masu";
        let mut info = encoder.encode_descriptor("process", help, None, MetricType::Info)?;
        for process in &self.seen.processes {
            info.encode_info(&[
                ("pid", &*process.pid.to_string()),
                ("comm", &process.comm),
                ("cgroup", &process.cgroup),
                ("version", &process.masu),
            ])?;
        }
        Ok(())
    }

    /// Writes the exporter's metrics about itself.
    fn own(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        let seen = &self.seen;
        for (name, help, n) in [
            ("processes", "Processes on masu that are shown here", seen.processes.len()),
            (
                "processes_left_out",
                "Processes on masu left out of the metrics because there are too many",
                seen.left_out,
            ),
            ("processes_refused", "Processes that may not be read, on masu or not", seen.refused),
            ("processes_late", "Processes that take too long to read, on masu or not", seen.late),
        ] {
            let n = u64::try_from(n).unwrap_or(u64::MAX);
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&n)?;
        }
        for (name, help, n) in [
            ("export_collections", "Collections of all processes' figures", self.looks),
            (
                "export_failures",
                "Processes that ended while they were read, or could not be understood",
                self.failures,
            ),
        ] {
            encoder
                .encode_descriptor(name, help, None, MetricType::Counter)?
                .encode_counter(&n, None::<&Exemplar<NoLabelSet, u64>>)?;
        }
        encoder
            .encode_descriptor(
                "export_collection_duration",
                "Processor time of the last collection",
                SECONDS.as_ref(),
                MetricType::Gauge,
            )?
            .encode_gauge(&self.took)?;
        encoder
            .encode_descriptor("export", "The exporter", None, MetricType::Info)?
            .encode_info(&[("version", env!("CARGO_PKG_VERSION"))])
    }
}

/// How much of a limit a group has in use, if it has one.
type Ratio = fn(&Group) -> Option<f64>;

/// Writes what only groups have.
fn of_groups(encoder: &mut DescriptorEncoder, groups: &[Group]) -> Result<(), Error> {
    let labels = |group: &Group| [("comm", group.sum.comm.clone())];
    let help = "Processes of this name on masu";
    let mut count = encoder.encode_descriptor("group_processes", help, None, MetricType::Gauge)?;
    for group in groups {
        let n = u64::try_from(group.processes).unwrap_or(u64::MAX);
        count.encode_family(&labels(group))?.encode_gauge(&n)?;
    }
    let ratios: [(&str, &str, Ratio); 2] = [
        (
            "group_hard_limit",
            "The part of its hard limit that the process nearest to it has in use",
            |group| group.hard_limit,
        ),
        (
            "group_container_limit",
            "The part of its limit that the fullest control group has in use",
            |group| group.container,
        ),
    ];
    let ratio = Unit::Other("ratio".to_owned());
    for (name, help, of) in ratios {
        let mut family = encoder.encode_descriptor(name, help, Some(&ratio), MetricType::Gauge)?;
        for group in groups {
            let Some(part) = of(group) else { continue };
            family.encode_family(&labels(group))?.encode_gauge(&part)?;
        }
    }
    Ok(())
}
