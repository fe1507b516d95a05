//! The measured program: `masu-work probe`, `masu-work pairs …` or `masu-work WORKLOAD`.
//!
//! Arguments are positional, since only the runner writes them and every dependency
//! less keeps this process small.

use std::env;
use std::process::ExitCode;

use masu_lab::cost::Order;
use masu_lab::cost::driver::{self, Subject};
use masu_lab::probe::{self, Probe};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let probe = Probe::of_this_process();
    println!("allocator {probe}");
    match arguments.as_slice() {
        ["probe"] => {
            let mapped = probe.single().is_some_and(probe::is_mapped);
            println!("mapped {}", if mapped { "yes" } else { "no" });
            ExitCode::SUCCESS
        }
        ["pairs", subject, order, size, batches] => pairs(subject, order, size, batches),
        _ => usage(),
    }
}

fn pairs(subject: &str, order: &str, size: &str, batches: &str) -> ExitCode {
    let subject = match subject {
        "process" => Subject::Process,
        "null" => Subject::Null,
        _ => return usage(),
    };
    match (order.parse::<Order>(), size.parse(), batches.parse()) {
        (Ok(order), Ok(size), Ok(batches)) => {
            driver::run(subject, order, size, batches);
            ExitCode::SUCCESS
        }
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: masu-work probe | pairs process|null ORDER SIZE BATCHES");
    ExitCode::from(2)
}
