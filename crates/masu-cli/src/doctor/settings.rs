//! The options in force, as the engine itself reads an environment.

use std::ffi::CString;
use std::ptr;

use masu_core::config::Config;
use masu_core::text::Text;
use serde::Serialize;

use super::finding::Finding;
use crate::bytes::Bytes;

/// One option.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Setting {
    /// Its key.
    pub key: String,
    /// Its value, with a unit.
    pub value: String,
    /// Where the value comes from: `built-in`, `policy`, the name of an environment variable, or `masu's command line`.
    pub origin: String,
}

/// Returns the engine's reading of `variables`, each `NAME=value`, in a process that is `secure` or
/// not.
pub fn of(variables: &[CString], secure: bool) -> Vec<Setting> {
    let config = parse(variables, secure, &mut |_| {});
    let mut shown = Vec::new();
    let mut sink = |bytes: &[u8]| shown.extend_from_slice(bytes);
    config.show(&mut Text::new(&mut sink));
    let shown = String::from_utf8_lossy(&shown);
    let rows = shown.lines().skip(1).map(|line| line.split_whitespace().skip(1));
    let setting = |mut row: std::iter::Skip<std::str::SplitWhitespace>| {
        let (key, value) = (row.next()?.to_owned(), row.next()?.to_owned());
        Some(Setting { key, value, origin: row.collect::<Vec<_>>().join(" ") })
    };
    rows.filter_map(setting).collect()
}

/// The options that masu's tables in the process `id` show, if they can be read.
pub fn seen(id: u32) -> Option<String> {
    let (_, engines) = masu_inspect::engines(id).ok()?;
    // A copy that has allocated is one that serves.
    let engine = engines.into_iter().find(|engine| engine.base != 0)?;
    let (decay, hard) = (engine.figures.decay, engine.figures.hard_limit);
    let decay = if decay == u64::MAX { "never".to_owned() } else { format!("{decay}ms") };
    let hard = hard.map_or_else(|| "0".to_owned(), |bytes| Bytes(bytes).to_string());
    Some(format!("decay {decay} and limit_hard {hard}"))
}

/// The mistakes in them, and options of other allocators.
pub fn mistakes(variables: &[CString]) -> Vec<Finding> {
    // Whatever they say about messages, messages are on while they are judged.
    let mut judged = variables.to_vec();
    judged.extend([c"MASU_SHOW_ERRORS=1".to_owned(), c"MASU_VERBOSE=0".to_owned()]);
    let mut said = Vec::new();
    parse(&judged, false, &mut |bytes| said.extend_from_slice(bytes));
    let said = String::from_utf8_lossy(&said);
    let mistakes = said.lines().map(|line| {
        let line = line.trim_start_matches("masu: warning: ");
        let line = line.replacen("unknown", "Unknown", usize::from(line.starts_with("unknown")));
        let end = if line.ends_with('?') { "" } else { "." };
        Finding::warning("environment.options", format!("{line}{end} The default applies."))
            .fix("masu-conf(7) and `masu run --help` list the keys and their forms")
    });
    mistakes.chain(others(variables)).collect()
}

/// Options of other allocators, set in vain.
fn others(variables: &[CString]) -> impl Iterator<Item = Finding> {
    const ID: &str = "environment.others";
    variables.iter().filter_map(|variable| {
        let (name, value) = variable.to_str().ok()?.split_once('=')?;
        let glibc = name.starts_with("MALLOC_")
            && [
                "ARENA_MAX",
                "ARENA_TEST",
                "TRIM_THRESHOLD_",
                "TOP_PAD_",
                "MMAP_",
                "CHECK_",
                "PERTURB_",
            ]
            .iter()
            .any(|option| name["MALLOC_".len()..].starts_with(option));
        if glibc || (name == "GLIBC_TUNABLES" && value.contains("glibc.malloc")) {
            let sentence = format!("{name} is glibc's and has no effect on masu.");
            Some(Finding::note(ID, sentence).fix(format!("unset {name}")))
        } else if name == "MALLOC_CONF" {
            let sentence = "MALLOC_CONF is jemalloc's: masu follows some of its options.";
            Some(Finding::note(ID, sentence).fix("masu translate shows what each one is on masu"))
        } else {
            None
        }
    })
}

fn parse(variables: &[CString], secure: bool, sink: &mut dyn FnMut(&[u8])) -> Config {
    let pointers: Vec<_> =
        variables.iter().map(|variable| variable.as_ptr()).chain([ptr::null()]).collect();
    // SAFETY: the array ends in null, and its strings live past the call.
    unsafe { Config::parse(pointers.as_ptr(), secure, sink) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[&str]) -> Vec<CString> {
        variables.iter().map(|variable| CString::new(*variable).unwrap()).collect()
    }

    #[test]
    fn the_engines_reading() {
        let environment = environment(&["HOME=/", "MASU_CONF=decay:2s", "MASU_BUDGET=16MiB"]);
        let settings = of(&environment, false);
        let of_key = |key: &str| {
            let setting = settings.iter().find(|setting| setting.key == key).unwrap();
            (setting.value.as_str(), setting.origin.as_str())
        };
        assert_eq!(of_key("decay"), ("2s", "MASU_CONF"));
        assert_eq!(of_key("budget"), ("16MiB", "MASU_BUDGET"));
        assert_eq!(of_key("run_cache").1, "built-in");
        let secure = of(&super::tests::environment(&["MASU_DECAY=2s"]), true);
        assert!(secure.iter().any(|setting| setting.key == "decay"), "{secure:?}");
        assert!(secure.iter().all(|setting| setting.origin == "built-in"), "{secure:?}");
    }

    #[test]
    fn mistakes_and_options_of_others() {
        let said = |variables: &[&str]| -> Vec<String> {
            let findings = mistakes(&environment(variables));
            findings.into_iter().map(|finding| finding.sentence).collect()
        };
        let dekay = "Unknown key MASU_DEKAY; did you mean MASU_DECAY? The default applies.";
        assert_eq!(said(&["MASU_DEKAY=1s", "MASU_SHOW_ERRORS=0"]), [dekay]);
        assert_eq!(said(&["MASU_DECAY=1s", "MALLOC=1"]), [""; 0]);
        let arenas = "MALLOC_ARENA_MAX is glibc's and has no effect on masu.";
        assert_eq!(said(&["MALLOC_ARENA_MAX=2"]), [arenas]);
        assert!(said(&["MALLOC_CONF=narenas:1"])[0].starts_with("MALLOC_CONF is jemalloc's"));
        let tunables = "GLIBC_TUNABLES=glibc.malloc.arena_max=1";
        assert!(said(&[tunables])[0].starts_with("GLIBC_TUNABLES is glibc's"));
        assert_eq!(said(&["GLIBC_TUNABLES=glibc.rtld.optional_static_tls=1"]), [""; 0]);
    }
}
