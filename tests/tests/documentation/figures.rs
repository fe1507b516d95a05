//! What the documents say in figures and names is what was measured, or what the library prints.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use masu_tests::{cells, is_masu, library, words, workspace};

/// `statistics.md` has a row for each name that is printed, and for no other.
#[test]
fn every_statistic_is_explained() {
    if !is_masu() {
        println!("the statistics are masu's");
        return;
    }
    let mut program = Command::new("/bin/true");
    program.env("LD_PRELOAD", library().expect("masu is a library")).env("MASU_SHOW_STATS", "1");
    let said = String::from_utf8(program.output().expect("it runs").stderr).expect("text");
    let names = said.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1));
    let page = fs::read_to_string(workspace().join("docs/statistics.md")).expect("a page");
    let cells = page.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    let explained = cells.flat_map(|cell| cell.split(", ").map(|name| name.trim_matches('`')));
    let (printed, explained): (BTreeSet<_>, BTreeSet<_>) = (names.collect(), explained.collect());
    assert!(printed.len() > 20, "{said}");
    assert_eq!(printed, explained);
}

/// What the crate's page says it adds to a program is what was measured, to the kilobyte.
#[test]
fn the_crates_cost_is_the_measured_one() {
    let read = |path: &str| fs::read_to_string(workspace().join(path)).expect(path);
    let (measured, page) = (read("docs/benchmarks/build-cost.md"), read("crates/masu/README.md"));
    for (row, before) in [("| masu |", ""), ("| masu, for size", "make it ")] {
        let line = measured.lines().find(|line| line.starts_with(row)).expect(row);
        let bytes = line.rsplit('+').next().and_then(|cell| cell.split_whitespace().next());
        let bytes: f64 = bytes.and_then(|bytes| bytes.parse().ok()).expect("a number of bytes");
        let said = format!("{before}{:.0} KB", bytes / 1000.0);
        assert!(page.contains(&said), "the page does not say {said}");
    }
}

/// The rows of a page's table whose head begins so, and the page.
fn table(page: &str, first: &str) -> (Vec<Vec<String>>, String) {
    let text = fs::read_to_string(workspace().join(page)).expect(page);
    let all = text.lines().skip_while(|line| !line.starts_with(first));
    let figures = |line| cells(line).iter().map(|cell| cell.replace([' ', '~'], "")).collect();
    (all.take_while(|line| line.starts_with('|')).map(figures).collect(), text)
}

/// The README's table of the full race equals that of the race's document.
#[test]
fn the_readmes_figures_are_the_races() {
    let (page, _) = table("README.md", "| geometric means over");
    let (race, _) = table("docs/benchmarks/full.md", "| ratio to the best of each row");
    let column = |name: &str| race[0].iter().position(|cell| cell == name).expect("a figure");
    for (row, figure) in page[2..].iter().zip(["time", "cpu", "peakmemory"]) {
        for (name, ratio) in page[0].iter().zip(row).skip(1) {
            let of = race.iter().find(|cells| cells[0] == *name).expect("an allocator");
            assert_eq!(*ratio, of[column(figure)], "{figure} of {name}");
        }
    }
    assert_eq!(page.len(), 5);
}

/// So do the results in short: masu's figure, the best of the others with its name, and how far they reach.
#[test]
fn the_results_in_short_are_the_races() {
    let (short, text) = table("docs/benchmarks/README.md", "| ratio to the best of each row");
    let (race, whole) = table("docs/benchmarks/full.md", "| ratio to the best of each row");
    let of = |row: &[String], column: usize| row[column].parse::<f64>().expect("a ratio");
    for (row, figure) in short[2..].iter().zip(["cpu", "peakmemory", "settledmemory"]) {
        let column = race[0].iter().position(|cell| cell == figure).expect("a figure");
        let masu = race.iter().find(|row| row[0] == "masu").expect("a row");
        let after = race.iter().skip_while(|row| row[0] != "masu").skip(1);
        let mut others: Vec<_> = after.take(8).collect();
        others.sort_by(|a, b| of(a, column).total_cmp(&of(b, column)));
        let (least, most) = (&others[0], &others[7][column]);
        let best = &least[column];
        let said =
            [masu[column].clone(), format!("{best}({})", least[0]), format!("{best}to{most}")];
        assert_eq!(row[1..], said, "{figure}");
    }
    assert_eq!(short.len(), 5);
    let score = whole.split_once("Rows of processor time: ").expect("a score").1;
    let score = score.split('.').next().expect("a sentence");
    assert!(words(&text).contains(score), "the page does not say: {score}");
}

/// The rows of a table of mistakes, its head first, and the words of `hardened.md`, which quotes it.
fn mistakes_and_page(table: &str) -> (Vec<Vec<String>>, String) {
    let read = |path: &str| fs::read_to_string(workspace().join(path)).expect(path);
    let (table, page) = (read(table), read("docs/hardened.md"));
    (table.lines().filter(|line| line.starts_with('|')).map(cells).collect(), words(&page))
}

/// What `hardened.md` says of the programs in `security.c` is what their table counts; hardened and debug, chance has a
/// part in it.
#[test]
fn the_security_programs_are_counted_right() {
    let (rows, page) = mistakes_and_page("tests/mistakes/security.md");
    let (names, sums) = (&rows[0], rows.last().expect("a row of sums"));
    let of = |name: &str| {
        let column = names.iter().position(|cell| cell == name).expect(name);
        let number = |cell: &str| cell.trim_matches('*').parse::<u32>().expect("a number");
        let all = rows.iter().filter(|row| row[0].starts_with('`'));
        let sum: u32 = all.map(|row| number(&row[column])).sum();
        assert_eq!(number(&sums[column]), sum, "{name}");
        sum
    };
    assert!((102..=103).contains(&of("hardened")) && (109..=111).contains(&of("debug")));
    for said in [
        format!("Of the {} programs in [mimalloc-bench]", of("programs")),
        format!("the default stops {}, this policy 102 or 103, `debug` 109 to 111,", of("masu")),
        format!("and glibc 2.36 {}; hardened_malloc stops {},", of("glibc"), of("hardened_malloc")),
        format!(
            "configuration {}, and scudo {} ([table]",
            of("hardened_malloc-light"),
            of("scudo")
        ),
    ] {
        assert!(page.contains(&said), "the page does not say: {said}");
    }
}

/// What `hardened.md` says of the programs in `outcomes.c` is what their table counts, which another test compares with
/// their ends.
#[test]
fn the_outcomes_of_mistakes_are_counted_right() {
    let (rows, page) = mistakes_and_page("tests/mistakes/outcomes.md");
    let (names, sums) = (&rows[0], rows.last().expect("a row of sums"));
    let programs: Vec<_> = rows.iter().filter(|row| row[0].starts_with('`')).collect();
    assert_eq!(programs.len() + 3, rows.len(), "except the head, a line and the sums");
    let ends = |column: usize, end: &str| programs.iter().filter(|row| row[column] == end).count();
    let right = |name: &str| {
        let column = names.iter().position(|cell| cell == name).expect(name);
        let sum = ends(column, ".");
        assert_eq!(sums[column], format!("**{sum}**"), "{name}");
        sum
    };
    assert_eq!(right("hardened"), programs.len());
    assert_eq!(right("hardened_malloc"), programs.len());
    for said in [
        format!("The {} programs in `tests/mistakes/outcomes.c`", programs.len()),
        format!("{} under hardened_malloc's light", right("hardened_malloc-light")),
        format!("{} under scudo, {} under the default", right("scudo"), right("masu")),
        format!("{} are mistakes that must be stopped", ends(1, "abort")),
        format!("{} are accesses that must fault", ends(1, "fault")),
    ] {
        assert!(page.contains(&said), "the page does not say: {said}");
    }
}
