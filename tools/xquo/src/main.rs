//! The command `xquo`.

mod allocator;

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

use clap::Parser;
use xquo::{Arguments, Error, Finished, pipeline};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if !arguments.input_from_tty && io::stdin().is_terminal() {
        return say(xquo::EXAMPLES);
    }
    match run(&arguments) {
        Ok(finished) if arguments.stats => report(&arguments, &finished),
        Ok(_) => ExitCode::SUCCESS,
        // Whoever reads has what they wanted, like `head`: nobody is to be told.
        Err(Error::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        Err(error) => {
            // If standard error is closed too, the status has to do.
            let _ = writeln!(io::stderr(), "xquo: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs over the descriptors themselves: what a buffer of the standard library would still hold
/// at the end could be lost without a word.
fn run(arguments: &Arguments) -> Result<Finished, Error> {
    let input = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(Error::Read)?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned().map_err(Error::Write)?);
    pipeline::run(arguments, input, output)
}

fn say(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// What `--stats` asks for.
fn report(arguments: &Arguments, finished: &Finished) -> ExitCode {
    let lines = format!(
        "allocator {}\nworkers {}\nwritten {}\npeak_kib {}\n",
        allocator::NAME,
        arguments.workers(),
        finished.written,
        xquo::peak_kib().unwrap_or(0),
    );
    match io::stderr().write_all(lines.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
