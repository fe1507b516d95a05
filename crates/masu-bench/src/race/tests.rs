//! What bounded time is spent on, with a clock that is set.

use super::*;
use crate::race::results::Role;

const HOUR: Duration = Duration::from_secs(3600);

/// A race of an hour with a twin and six copies of the system's allocator, which is the subject too.
fn plan() -> Plan {
    work::build().expect("cargo builds masu-work");
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
    race.tracks[1].alone = Duration::from_secs(1);
    assert!(race.has_room_for_copies());
    // Nine entries and two rounds of it: more than the hour.
    race.tracks[1].alone = Duration::from_secs(300);
    assert!(!race.has_room_for_copies());
    let copy = race.results.arms.iter().position(|arm| arm.role == Role::Copy).unwrap();
    race.with_copies = race.has_room_for_copies();
    assert!(!race.takes_part(0, copy) && race.takes_part(0, 0));
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
