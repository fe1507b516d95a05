//! Heap profiles of single processes, for collectors that ask for them.

use super::http::Answer;

/// What a profile is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// All that was ever allocated, and what is in use.
    Allocs,
    /// What is in use, and all that was ever allocated.
    Heap,
    /// What was allocated within some seconds, and what is in use.
    DeltaHeap,
}

impl What {
    /// By its name in a path.
    pub fn named(name: &str) -> Option<What> {
        match name {
            "allocs" => Some(What::Allocs),
            "heap" => Some(What::Heap),
            "delta_heap" => Some(What::DeltaHeap),
            _ => None,
        }
    }
}

/// The profile of a process for pprof, compressed; or why there is none. `seconds` is how long to sample, if the
/// reader says so.
///
/// Whether the process is there, is on masu and may be read is said by masu-inspect.
pub fn profile_of(process: u32, _what: What, _seconds: Option<u64>) -> Result<Vec<u8>, Answer> {
    masu_inspect::engines(process).map_err(|error| {
        let status = if matches!(error, masu_inspect::Error::Refused(_)) { 403 } else { 404 };
        Answer::refusal(status, &format!("{error}: {}", error.remedy()))
    })?;
    Err(Answer::refusal(
        501,
        "this version of masu cannot profile a process that runs already: `masu prof -- COMMAND` profiles one from its start",
    ))
}
