//! What bounded time is spent on, with a clock that the tests set.

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

/// A race of an hour with a twin and six copies of the system's allocator, which is the subject too.
fn plan() -> Plan {
    work::ready().expect("cargo builds masu-work");
    let nothing = |name| {
        let (program, arguments) = ("/bin/true".into(), vec!["true".into()]);
        Task::command(name, Foreign { program, arguments, input: None, any_status: false })
    };
    let churn = Task::workload(masu_workloads::named("churn").unwrap(), 1, 0.001);
    let arms = vec![Arm { name: "another".into(), ..Arm::glibc() }, Arm::glibc()];
    let tasks = vec![churn, nothing("true")];
    Plan { time: Some(HOUR), rounds: 2, copies: 6, ..Plan::new(arms, tasks) }
}

#[test]
fn no_row_is_lost_for_the_copies() {
    let plan = plan();
    let mut race = Race::new(&plan, |_| ());
    let last = plan.entrants().len() - 1;
    let copies = |results: &Results| results.workloads[0].samples(last).count();
    // Ten entries in two rounds need more than the hour.
    race.tracks[0].alone = Duration::from_secs(300);
    race.rounds(Duration::ZERO);
    assert_eq!((race.tracks[0].rounds, copies(&race.results)), (2, 0));
    // The allocators themselves are known to be quicker.
    let mut race = Race::new(&plan, |_| ());
    race.tracks[0].alone = Duration::from_secs(300);
    race.tracks[0].first = vec![Some(Duration::from_secs(1)); 2];
    race.rounds(Duration::ZERO);
    assert_eq!((race.tracks[0].rounds, copies(&race.results)), (2, 2));
    // More rounds are for uncertain rows, and those compare the others.
    assert!(race.takes_part(0, last, 3) && !race.takes_part(0, last, 4));
    assert!(race.takes_part(0, 0, 4));
}

#[test]
fn who_sleeps_is_watched_in_the_first_round() {
    let frag = Task::workload(masu_workloads::named("frag").unwrap(), 1, 0.001);
    let plan = Plan { tasks: vec![frag], copies: 0, rounds: 1, ..plan() };
    let mut race = Race::new(&plan, |_| ());
    race.first_runs().unwrap();
    let arms = |race: &Results| {
        let mut arms: Vec<usize> = race.workloads[0].curves.iter().map(|one| one.arm).collect();
        arms.sort_unstable();
        arms
    };
    assert_eq!((race.done, arms(&race.results)), (1, vec![0]), "the system's alone");
    race.rounds(Duration::ZERO);
    assert_eq!(arms(&race.results), [0, 1], "each once");
    let finished = race.finish();
    assert_eq!(finished.workloads[0].samples(0).count(), 1);
}

#[test]
fn no_row_is_lost_for_curves() {
    let plan = plan();
    let mut race = Race::new(&plan, |_| ());
    race.clock = race.clock.started_before(HOUR.mul_f64(WATCHED));
    race.first_runs().unwrap();
    assert!(!race.results.out_of_time);
    assert!(race.tracks.iter().all(|track| track.expected.is_some()), "each ran on the system's");
    assert_eq!(race.done, 2, "and on nothing else");
    race.rounds(Duration::ZERO);
    assert!(race.tracks.iter().all(|track| track.rounds == 2), "with all its rounds");
}

#[test]
fn who_has_fewest_rounds_is_the_next_before_all_have_enough() {
    let plan = Plan { rounds: 4, ..plan() };
    let mut race = Race::new(&plan, |_| ());
    race.tracks[0].rounds = 1;
    race.tracks[1].rounds = 2;
    assert_eq!(race.least_certain(HOUR), Some(0));
    race.tracks[0].rounds = 3;
    assert_eq!(race.least_certain(HOUR), Some(1));
    race.tracks[1].cost = HOUR;
    assert_eq!(race.least_certain(HOUR), Some(0), "there is no room for the other");
}

/// A task that switches threads all the time is not counted while it is timed.
#[test]
fn counters_keep_away_from_times_that_they_would_change() {
    let churn = Task::workload(masu_workloads::named("churn").unwrap(), 1, 0.001);
    let plan = Plan { tasks: vec![churn], rounds: 3, ..plan() };
    let mut counted = 0;
    let mut race = Race::new(&plan, |step| counted += usize::from(step.phase == "counting"));
    assert!(!race.counters_count(0, 0), "nobody knows yet how often it switches");
    assert!(race.counters_count(0, 1), "it hardly does");
    race.tracks[0].restless = true;
    assert!(!race.counters_count(0, 1));
    race.first_runs().unwrap();
    race.rounds(Duration::ZERO);
    let has_counts = |round: usize| {
        let mut samples = race.results.workloads[0].samples(0);
        samples.find(|(of, _)| *of == round).unwrap().1.user_instructions.is_some()
    };
    // If the machine can count.
    let can = has_counts(0);
    assert_eq!([1, 2].map(has_counts), [can, false]);
    let once = plan.entrants().len() - plan.copies;
    assert_eq!(counted, 2 * once, "two rounds of all but the copies");
}

/// As if the system's allocator had failed.
#[test]
fn without_a_first_run_the_first_good_output_is_expected() {
    let plan = Plan { copies: 0, rounds: 1, ..plan() };
    let mut race = Race::new(&plan, |_| ());
    race.rounds(Duration::ZERO);
    assert!(race.tracks.iter().all(|track| track.expected.is_some()));
}

/// As masu and masu-hardened, of which one may fail.
#[test]
fn who_failed_does_not_take_another_setting_of_its_library_out() {
    let plan = Plan { copies: 1, ..plan() };
    let mut race = Race::new(&plan, |_| ());
    let outcome = Err(Failure::Timeout { seconds: 1.0 }).into();
    race.results.workloads[0].runs.push(Run { arm: 0, round: 0, outcome });
    // Both are the system's library: the first, its twin and its copy are called `another`.
    let out: Vec<bool> = (0..4).map(|entrant| race.is_out(0, entrant)).collect();
    assert_eq!(out, [true, false, true, true]);
    assert!(!race.is_out(1, 0), "in that task alone");
}

#[test]
fn a_few_rounds_are_counted_apart() {
    let churn = Task::workload(masu_workloads::named("churn").unwrap(), 1, 0.001);
    let plan = Plan { tasks: vec![churn], rounds: 1, copies: 0, ..plan() };
    let mut counted = 0;
    let mut race = Race::new(&plan, |step| counted += usize::from(step.phase == "counting"));
    assert!(!race.counters_count(0, 0));
    race.rounds(Duration::ZERO);
    assert_eq!(counted, plan.entrants().len());
}
