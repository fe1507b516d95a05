use clap::Parser;

use super::*;
use crate::experiments::programs::directory;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

#[test]
fn mistakes_name_what_there_is() {
    for (arguments, expected) in [
        (&["servers", "--only", "apache"][..], "services: rack-1"),
        (&["servers", "--levels", "0"], "--levels"),
        (&["servers", "--rounds", "0"], "--rounds"),
        (&["servers", "--time", "soon"], "--time"),
    ] {
        let Err(error) = Cli::try_parse_from(arguments) else { panic!("{arguments:?}") };
        assert!(error.to_string().contains(expected), "{arguments:?}: {error}");
    }
}

#[test]
fn services_have_names_of_their_own_and_neighbours_are_different_programs() {
    let names: std::collections::BTreeSet<_> = services::ALL.iter().map(|one| one.name).collect();
    assert_eq!(names.len(), services::ALL.len());
    for neighbours in services::ALL.chunks(2) {
        assert!(neighbours.iter().skip(1).all(|one| one.program != neighbours[0].program));
    }
}

#[test]
fn a_part_joins_what_was_measured_and_missed_before() {
    let allocators = Allocator::all(&["glibc".into()]).unwrap();
    let results = |services: [&str; 2], missing: &[&str]| {
        let mut results = Results::begun(&allocators);
        let ran = When::now("");
        let of = |name: &str| Measured {
            name: name.into(),
            about: String::new(),
            ran: ran.clone(),
            connections: 1,
            capacity: 1.0,
            seconds: missing.len() as f64,
            runs: Vec::new(),
        };
        results.services = services.map(of).to_vec();
        results.missing = missing.iter().map(|&what| (what.into(), "why".into())).collect();
        results
    };
    let earlier = results(["redis", "cxx"], &["nginx", "mariadb", "redis on glibc"]);
    assert!(earlier.are_of(&allocators) && !earlier.are_of(&[]));
    let mut now = results(["redis", "nginx"], &["tokio"]);
    now.keep(earlier);
    let services: Vec<_> =
        now.services.iter().map(|one| (one.name.as_str(), one.seconds)).collect();
    assert_eq!(services, [("redis", 1.0), ("nginx", 1.0), ("cxx", 3.0)]);
    let missing: Vec<_> = now.missing.iter().map(|(what, _)| what.as_str()).collect();
    assert_eq!(missing, ["tokio", "mariadb"], "what was measured now is not missing");
}

/// By then the services before it have kept all processors busy.
#[test]
fn a_service_is_not_busy_with_what_the_suite_did_before() {
    let allocators = Allocator::all(&["glibc".into()]).unwrap();
    let mut results = Results::begun(&allocators);
    results.machine.load = "0.07, before".into();
    let plan = Plan { levels: vec![60], rounds: 1, seconds: 1.0 };
    let suite = Suite { plan, allocators: &allocators, results, deadline: None };
    assert_eq!(suite.ran().load, "0.07, before");
}

/// The C++ service, which needs only a compiler: capacity, levels, rest, and the proof that it used glibc.
#[test]
fn a_service_is_measured_from_start_to_rest() {
    let allocators = Allocator::all(&["glibc".into()]).unwrap();
    let service = services::ALL.iter().find(|service| service.name == "cxx").unwrap();
    let prepared = prepare(service).unwrap();
    assert!(directory().join("cxx-service").is_file());
    let mut server = Server::start(service, &allocators[0], prepared.path()).unwrap();
    let capacity = server.capacity(Duration::from_millis(200)).unwrap();
    assert!(capacity > 100.0, "{capacity}");
    let level = server.level(50, capacity / 2.0, Duration::from_millis(400), 1).unwrap();
    assert_eq!((level.errors, level.unsent), (0, 0));
    let planned = capacity * 0.2;
    assert!((planned * 0.7..planned * 1.3).contains(&(level.requests as f64)), "{level:?}");
    assert!(level.p50_us > 0.0 && level.p50_us <= level.p99_us && level.p99_us <= level.p999_us);
    assert!(level.mean_kib > 1_000.0, "{level:?}");
    let ran = server.ran(0, 0, vec![level]);
    assert!(ran.peak_kib as f64 >= ran.levels[0].mean_kib);
    // It is read at the end of the rest, not when somebody asks.
    let rested = server.rest(Duration::from_millis(100));
    std::thread::sleep(Duration::from_secs(1));
    drop(server);
    assert!(rested.join().unwrap().unwrap() > 1_000);
}
