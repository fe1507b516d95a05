//! `masu prof --retained` where no span is concerned: medium blocks keep no free memory, and huge ones what lies past
//! their ends.

use std::fs;
use std::process::Command;

use masu_profile::Profile;
use masu_profile::view::bytes as told;
use masu_tests::running::{Running, masu};
use masu_tests::{Compile, is_masu, scratch};

/// Ten blocks of the program leave 1 MiB less 4 KiB each, and 512 medium ones survive among freed ones.
#[test]
fn huge_blocks_keep_what_is_past_their_ends_and_medium_blocks_nothing() {
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    let (place, program) = (scratch(), Compile::c("c/retained.c").flags(["-O2", "-g"]).build());
    let mut command = Command::new(program.path());
    command.env("MASU_CONF", "prof:1,prof_rate:16KiB");
    let mut running = Running::start(&mut command);
    running.says("ready");
    let (id, file) = (running.id().to_string(), place.path().join("a.prof"));
    let raw = file.to_string_lossy();
    let output =
        masu(&["prof", "--retained", "-p", &id, "--for", "300ms", "--raw", &raw, "--text"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let truth = 10.0 * f64::from((1 << 20) - 4096);
    let profile = Profile::parse(&fs::read_to_string(&file).expect("written")).expect("a profile");
    let near = |bytes: f64| (bytes / truth - 1.0).abs() < 0.02;
    let kept = |size: u64| -> f64 {
        let places = profile.places.iter().filter(|place| place.size == size);
        places.map(|place| place.retained.bytes).sum()
    };
    // Of large blocks a profile knows the power of two below.
    assert!(near(kept(2 << 20)), "{} of {truth}\n{said}", kept(2 << 20));
    assert_eq!((kept(4 << 20), kept(16 << 10)), (0.0, 0.0), "{said}");
    let live = |size: u64| profile.places.iter().any(|it| it.size == size && it.live.bytes > 1e6);
    assert!(live(4 << 20) && live(16 << 10), "{said}");
    let line = said.lines().find(|line| line.contains("kept by 10 blocks")).expect("a line");
    assert!(line.contains(&told(kept(2 << 20))), "{said}");
    assert!(said.contains("         past  ") && !said.contains("         medium  "), "{said}");
    // The survivors' freed neighbours have gone back, although the heap had huge pages.
    let output = masu(&["explain", "--json", &id]);
    let account: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let parts = account["parts"].as_array().expect("parts").iter();
    let free =
        parts.filter(|it| ["dirty_pages", "huge_pages"].iter().any(|kind| it["kind"] == **kind));
    let free: i64 = free.map(|part| part["bytes"].as_i64().expect("bytes")).sum();
    assert!(free < 1 << 20, "{account:#}");
    assert!((500..530).contains(&account["medium_blocks"].as_i64().expect("a number")));
}
