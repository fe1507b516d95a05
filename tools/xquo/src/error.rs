//! What can go wrong in a run.

use std::{fmt, io};

/// Why a run ended early.
#[derive(Debug)]
pub enum Error {
    /// The input could not be read.
    Read(io::Error),
    /// The output could not be written.
    Write(io::Error),
    /// A thread could not be started.
    Thread(io::Error),
    /// A worker ended without handing on its work.
    WorkerDied,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Read(error) => write!(f, "cannot read the input: {error}"),
            Error::Write(error) => write!(f, "cannot write the output: {error}"),
            Error::Thread(error) => write!(f, "cannot start a thread: {error}"),
            Error::WorkerDied => write!(f, "a worker thread died"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Read(error) | Error::Write(error) | Error::Thread(error) => Some(error),
            Error::WorkerDied => None,
        }
    }
}
