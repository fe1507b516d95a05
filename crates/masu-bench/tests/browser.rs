//! The HTML page in a real browser: it draws everything, in both themes, and its controls work.

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{fake_allocator, script};
use masu_bench::arm::Arm;
use masu_bench::race::latency::Latency;
use masu_bench::race::results::Results;
use masu_bench::race::{self, Plan, Task};
use masu_bench::report::html;
use masu_bench::scale;
use masu_bench::work;

/// The browser; nothing less can test the page. Without one the tests say so, and fail only if `MASU_TEST_ALL` is set.
fn browser() -> Option<PathBuf> {
    let named = std::env::var_os("MASU_TEST_BROWSER").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let places = std::env::split_paths(&path).flat_map(|place| names.map(|name| place.join(name)));
    let found = named.into_iter().chain(places).find(|file| file.is_file());
    if found.is_none() {
        let line = "left out: the page of results, because a browser is missing: apt-get install chromium, or name one in \
                    MASU_TEST_BROWSER\n";
        print!("{line}");
        // ./check lists what was left out.
        if let Some(file) = std::env::var_os("MASU_TEST_LEFT_OUT") {
            let file = std::fs::OpenOptions::new().append(true).create(true).open(file);
            file.and_then(|mut file| file.write_all(line.as_bytes())).expect("written");
        }
        assert!(std::env::var_os("MASU_TEST_ALL").is_none(), "everything is to be tested");
    }
    found
}

/// The page after its script has run.
fn opened(page: &Path, choice: &str) -> String {
    opened_at(1400, page, choice)
}

/// The same in a window of this many pixels.
fn opened_at(width: u32, page: &Path, choice: &str) -> String {
    let profile = tempfile::tempdir().unwrap();
    let mut command = Command::new(browser().expect("looked for before"));
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=4000"]);
    command.arg(format!("--window-size={width},900"));
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.arg("--dump-dom").arg(format!("file://{}#{choice}", page.display()));
    let output = command.output().expect("the browser starts");
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!dom.contains("data-error="), "the script failed: {}", around(&dom, "data-error="));
    assert!(dom.contains("data-ready=\"1\""), "the script did not end: {dom}");
    // The drawn part, without the data and the script.
    dom[..dom.find("<noscript").expect("it follows what is drawn")].to_owned()
}

fn around<'t>(text: &'t str, what: &str) -> &'t str {
    let at = text.find(what).unwrap_or(0);
    &text[at..text.len().min(at + 200)]
}

fn count(text: &str, what: &str) -> usize {
    text.matches(what).count()
}

/// A suite of two workloads and a command that fails on one allocator, with everything that a page shows.
fn suite() -> Results {
    work::ready().expect("cargo builds masu-work");
    let fake = fake_allocator();
    let named = |name| Task::workload(masu_workloads::named(name).unwrap(), 1, 0.01);
    let tasks =
        vec![named("churn"), script("case $LD_PRELOAD in *fake*) exit 3;; esac; sleep 0.1")];
    let arms = vec![fake.arm("fake"), Arm::glibc()];
    let plan = Plan { rounds: 2, warm_mib: 8, ..Plan::new(arms, tasks) };
    let mut results = race::run(&plan, |_| ()).unwrap();
    let quantiles = vec![(0.5, 100), (0.9, 900), (0.99, 20_000), (1.0, 3_000_000)];
    results.workloads[0].latencies = vec![Latency { arm: 1, count: 9, mean_ns: 200.0, quantiles }];
    let point = |cores: u32| scale::Point {
        cores,
        transfers: 0.5,
        written: 0.4,
        locks: 0.2,
        hand_overs: 0.1,
        atomics: 0.6,
        remote_frees: 0.2,
        discards: 0.0,
        stale: 0.0,
        busiest: "a lock".into(),
        demand: 0.1,
        throughput: 1e7 * f64::from(cores),
        speedup: f64::from(cores),
    };
    results.scale = vec![scale::Curve {
        workload: "churn".into(),
        design: "masu".into(),
        points: vec![point(1), point(256)],
    }];
    results
}

fn written(results: &Results) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("report.html");
    std::fs::write(&page, html::page(results)).unwrap();
    (directory, page)
}

#[test]
fn everything_is_drawn_and_can_be_chosen() {
    if browser().is_none() {
        return;
    }
    let (_directory, page) = written(&suite());

    let dom = opened(&page, "theme=light");
    assert!(dom.contains("data-theme=\"light\""));
    assert_eq!(count(&dom, "class=\"card\" data-name="), 2);
    for text in [
        "Time against memory",
        "virtual best",
        "Resident memory over time",
        "Latency of one operation",
        "99.9 %",
        "Beyond this machine",
        "Cache lines moved between cores, per operation",
        "Locks handed over to another core, per operation",
        "20 % of the calls free what another core allocated",
        "fake: exit status 3",
        "kernel's mappings showed",
    ] {
        assert!(dom.contains(text), "{text} is missing");
    }
    assert!(count(&dom, "<circle") >= 3 && count(&dom, "<rect") >= 2 && count(&dom, "<path") >= 3);
    assert_eq!(count(&dom, "NaN"), 0, "{}", around(&dom, "NaN"));
    assert_eq!(count(&dom, "Infinity"), 0);

    assert!(opened(&page, "theme=dark").contains("data-theme=\"dark\""));

    // In a narrow window the drawing is narrower, but its letters are no smaller.
    let scatter = |dom: &str| {
        let drawn = &dom[dom.find("id=\"scatter\"").unwrap()..];
        let shape = drawn.split("viewBox=\"0 0 ").nth(1).unwrap().split([' ', '"']);
        shape.take(2).map(|number| number.parse().unwrap()).collect::<Vec<u32>>()
    };
    let (wide, narrow) = (scatter(&dom), scatter(&opened_at(500, &page, "")));
    assert!(narrow[0] < 500 && narrow[0] + 100 < wide[0], "{narrow:?} of {wide:?}");

    let dom = opened(&page, "filter=churn");
    assert_eq!(count(&dom, "class=\"card\" data-name="), 1);
    let dom = opened(&page, "filter=nothing-like-that");
    assert_eq!(count(&dom, "class=\"card\" data-name="), 0);

    let place = |dom: &str, name: &str| dom.find(&format!("data-name=\"{name}")).unwrap();
    let dom = opened(&page, "sort=name");
    assert!(place(&dom, "case") < place(&dom, "churn"));
    let dom = opened(&page, "sort=given&metric=peak");
    assert!(place(&dom, "churn") < place(&dom, "case"));
    assert!(dom.contains("<h4>Peak resident memory</h4>"));

    let dom = opened(&page, "hide=fake");
    assert!(dom.contains("aria-pressed=\"false\""));
    assert_eq!(count(&dom, "<tr class=\"subject\">"), 0);
}

#[test]
fn a_single_command_has_its_sentence() {
    if browser().is_none() {
        return;
    }
    work::ready().unwrap();
    let plan = Plan {
        rounds: 2,
        warm_mib: 8,
        ..Plan::new(vec![Arm::glibc()], vec![script("sleep 0.05")])
    };
    let results = race::run(&plan, |_| ()).unwrap();
    let (_directory, page) = written(&results);
    let dom = opened(&page, "");
    assert!(dom.contains("faster and smaller"), "nobody is in that corner");
    assert!(dom.contains("Nobody wins yet: only glibc has run it"), "{}", around(&dom, "sentence"));
    assert!(dom.contains("All figures") && dom.contains("Peak resident memory"));
    assert_eq!(count(&dom, "NaN"), 0, "{}", around(&dom, "NaN"));
}

/// A race of seven allocators over fifteen workloads, without its curves.
fn committed() -> Results {
    Results::parse(include_str!("data/race.json")).unwrap()
}

/// The scatter plot in an opened page.
fn scatter(dom: &str) -> &str {
    let drawn = &dom[dom.find("id=\"scatter\"").unwrap()..];
    &drawn[..drawn.find("</svg>").unwrap()]
}

/// The numbers of an attribute in the elements that begin with `begin`.
fn numbers(drawn: &str, begin: &str, attribute: &str) -> Vec<f64> {
    let elements = drawn.split('<').filter(|element| element.starts_with(begin));
    let value = |element: &str| {
        let value = element.split_once(&format!(" {attribute}=\""))?.1;
        value[..value.find('"')?].parse().ok()
    };
    elements.filter_map(value).collect()
}

#[test]
fn over_many_rows_nobody_stands_before_the_virtual_best_and_ties_are_marked() {
    if browser().is_none() {
        return;
    }
    let suite = committed();
    let mut single = committed();
    single.workloads.retain(|one| one.name == "churn");
    single.workloads[0].work = None;
    for (results, tied) in [(&suite, false), (&single, true)] {
        let (_directory, page) = written(results);
        let dom = opened(&page, "theme=light");
        let drawn = scatter(&dom);
        let best = numbers(drawn, "line class=\"guide\"", "x1")[0];
        let dots = numbers(drawn, "circle", "cx");
        assert_eq!(dots.len(), 7);
        // In a single row, halves of the rounds may contradict each other.
        assert!(tied || dots.iter().all(|dot| *dot > best - 0.01), "{best}: {dots:?}");
        assert_eq!(drawn.contains("class=\"tied\"") && drawn.contains("~ time"), tied, "{drawn}");
        // The table says the same.
        let table = &dom[dom.find("id=\"summary\"").unwrap()..];
        assert_eq!(table[..table.find("</table>").unwrap()].contains(">~"), tied);
    }
}

/// A page that shows the one at `page` in a frame of this width, since a window cannot be as narrow as a phone, and
/// then replaces itself by the frame's contents.
fn framed(width: u32, page: &Path) -> String {
    let inner = serde_json::to_string(&std::fs::read_to_string(page).unwrap()).unwrap();
    let inner = inner.replace('<', "\\u003c");
    format!(
        "<!DOCTYPE html><body><iframe id=\"frame\" width=\"{width}\" height=\"900\" frameborder=\"0\"></iframe>
        <script>
        frame.onload = () => setTimeout(() => {{
          const inside = frame.contentDocument.documentElement;
          inside.querySelector('body').dataset.wide = inside.scrollWidth;
          document.documentElement.replaceWith(document.importNode(inside, true));
        }}, 500);
        frame.srcdoc = {inner};
        </script>"
    )
}

#[test]
fn on_a_phone_what_goes_on_beside_the_edge_is_seen_to() {
    if browser().is_none() {
        return;
    }
    let (directory, page) = written(&committed());
    let phone = directory.path().join("phone.html");
    std::fs::write(&phone, framed(360, &page)).unwrap();
    let element = |dom: &str, id: &str| {
        let at = dom.find(&format!("id=\"{id}\"")).unwrap();
        dom[at..at + dom[at..].find('>').unwrap()].to_owned()
    };
    let dom = opened(&phone, "");
    for id in ["legend", "summary", "map"] {
        let element = element(&dom, id);
        assert!(element.contains("data-more=\"right\""), "{element}");
    }
    assert!(numbers(&dom, "body", "data-wide")[0] <= 360.0, "the page itself is not scrolled");
    let dom = opened(&page, "");
    assert!(!element(&dom, "legend").contains("data-more"), "where there is room, nothing fades");
}

#[test]
fn partial_results_are_said_on_top() {
    if browser().is_none() {
        return;
    }
    let mut results = committed();
    let top = |results: &Results| {
        let (_directory, page) = written(results);
        let dom = opened(&page, "");
        dom[..dom.find("id=\"legend\"").unwrap()].to_owned()
    };
    assert!(top(&results).contains("role=\"status\" hidden"));
    results.complete = false;
    let said = top(&results);
    assert!(said.contains("role=\"status\">Interrupted: these are partial results.<"), "{said}");
}
