//! A forked child has its parent's samples as its own: what it frees, its parent still has.

use std::fs;

use masu_profile::{Place, Profile};
use masu_tests::{Run, is_masu, scratch};

use super::compiled;

/// The parent goes on once the child has ended. Every second block of the parent is small.
const FORKS: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
enum { SMALL = 600, LARGE = 20000, OF_CHILD = 2000, LATER = 5000 };
static void *volatile kept[4000], *volatile more[400];
static void free_from_to(int from, int to) {
    for (int i = from; i < to; i++) free(kept[i]);
}
static void *in_a_thread(void *nothing) {
    free_from_to(1000, 1600);
    return nothing;
}
int main(void) {
    for (int i = 0; i < 4000; i++) kept[i] = malloc(i % 2 ? SMALL : LARGE);
    int child = fork(), status;
    if (child == 0) {
        pthread_t thread;
        free_from_to(0, 1000);
        pthread_create(&thread, 0, in_a_thread, 0);
        pthread_join(thread, 0);
        for (int i = 1600; i < 1800; i += 2) kept[i] = realloc(kept[i], 2 * LARGE);
        for (int i = 0; i < 200; i++) more[i] = malloc(OF_CHILD);
        return 0;
    }
    if (waitpid(child, &status, 0) != child) return 1;
    free_from_to(3600, 4000);
    for (int i = 0; i < 400; i++) more[i] = malloc(LATER);
    return status != 0;
}
"#;

/// What a process has of the blocks of this many bytes: how many it allocated, its parent's included, and how many are in
/// use at its end.
struct Truth {
    size: f64,
    allocated: f64,
    live: f64,
}

const fn truth(size: f64, allocated: f64, live: f64) -> Truth {
    Truth { size, allocated, live }
}

const PARENT: [Truth; 3] =
    [truth(600.0, 2000.0, 1800.0), truth(20e3, 2000.0, 1800.0), truth(5000.0, 400.0, 400.0)];
const CHILD: [Truth; 4] = [
    truth(600.0, 2000.0, 1200.0),
    truth(20e3, 2000.0, 1100.0),
    truth(2000.0, 200.0, 200.0),
    truth(40e3, 100.0, 100.0),
];

#[test]
fn a_child_frees_its_parents_samples_and_the_parent_keeps_them() {
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    let program = compiled(FORKS);
    for rate in [1, 512, 4096] {
        let place = scratch();
        let file = place.path().join("%p");
        let run = Run::program(&program).env("MASU_PROF_RATE", rate.to_string());
        run.env("MASU_PROF_FILE", file).run().success();
        let files = fs::read_dir(place.path()).expect("a directory");
        let mut profiles: Vec<Profile> = files
            .map(|file| fs::read_to_string(file.expect("a file").path()).expect("text"))
            .map(|text| Profile::parse(&text).expect("a profile"))
            .collect();
        assert_eq!(profiles.len(), 2);
        // Only the child allocates blocks of 2,000 bytes.
        profiles.sort_by_key(|profile| profile.places.iter().any(|place| place.size == 2048));
        let [parent, child] = [(0, &PARENT[..]), (1, &CHILD)].map(|(i, truths)| {
            truths.iter().map(|truth| checked(&profiles[i], truth, rate)).collect::<Vec<_>>()
        });
        // What was drawn before the fork is the same in both.
        assert_eq!(parent[..2], child[..2]);
    }
}

/// The estimate of how many blocks of a size a process has allocated, after checking it and how many are in use.
#[track_caller]
fn checked(profile: &Profile, truth: &Truth, rate: u64) -> f64 {
    let size = |place: &&Place| place.allocated.bytes / place.allocated.objects;
    let is_one = |place: &&Place| (size(place) / truth.size - 1.0).abs() < 0.01;
    let mut places = profile.places.iter().filter(is_one).peekable();
    assert!(places.peek().is_some(), "no block of {} bytes at {rate}", truth.size);
    let (allocated, live) = places.fold((0.0, 0.0), |(allocated, live), place| {
        (allocated + place.allocated.objects, live + place.live.objects)
    });
    let chance = -f64::exp_m1(-truth.size / rate as f64);
    for (found, truth) in [(allocated, truth.allocated), (live, truth.live)] {
        // Five standard deviations, and two blocks where few may be missed. At a rate of one byte none is.
        let most = 5.0 * (truth * (1.0 - chance) / chance).sqrt() + 2.0;
        let most = if rate == 1 { 0.001 } else { most };
        assert!((found - truth).abs() <= most, "{found} of {truth} at {rate}");
    }
    allocated
}
