//! The measured program: `masu-work probe` or `masu-work WORKLOAD`.

use masu_lab::probe::{self, Probe};

fn main() {
    let probe = Probe::of_this_process();
    println!("allocator {probe}");
    let mapped = probe.single().is_some_and(probe::is_mapped);
    println!("mapped {}", if mapped { "yes" } else { "no" });
}
