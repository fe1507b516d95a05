//! Profiles of real programs, compared with what the engine counts exactly.

use std::process::Command;

use masu_profile::view::{margin, variance};
use masu_profile::{Amount, Place};
use masu_tests::is_masu;
use masu_tests::running::Running;

/// The same in a real program: the engine's own tables know how much it holds.
#[test]
fn margins_hold_the_truth_of_a_real_program() {
    const RUNS: usize = 40;
    const SCRIPT: &str = "import json\n\
        text = json.dumps({str(i): [i, str(i) * 9] for i in range(200)})\n\
        kept = [json.loads(text) for _ in range(300)]\n\
        print('ready', flush=True); input()\n";
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    let mut held = 0;
    for _ in 0..RUNS {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", SCRIPT]).env("PYTHONMALLOC", "malloc").env("MASU_PROF", "1");
        let mut running = Running::start(&mut command);
        running.says("ready");
        let seen = masu_inspect::statistics::read(running.id()).expect("readable");
        let allocated = seen.copies[0].iter().find(|(name, _)| *name == "allocated");
        let truth = allocated.expect("a figure").1 as f64;
        let (memory, engines) = masu_inspect::engines(running.id()).expect("it runs on masu");
        let samples = engines[0].samples(&memory).expect("readable");
        let (mut sum, mut variances) = (0.0, 0.0);
        for site in &samples.sites {
            let blocks = |n: u64| n as f64 / 65536.0;
            // The tables count small blocks by the sizes of their classes.
            let bytes = match site.class {
                Some(_) => blocks(site.live.objects) * site.size as f64,
                None => site.live.bytes as f64,
            };
            let (objects, size) = (blocks(site.allocated.objects), site.size as f64);
            let all = site.class.map_or(site.allocated.bytes as f64, |_| objects * size);
            let (allocated, squares) = (Amount { objects, bytes: all }, site.squares);
            sum += bytes;
            variances += variance(bytes, &Place { squares, allocated, ..Place::default() });
        }
        held += usize::from((sum - truth).abs() <= margin(variances, sum));
    }
    // 38 are expected; the standard deviation is 1.4.
    assert!(held >= 33, "{held} of {RUNS}");
}
