//! `--conf` and the options for single keys. The engine's own parser judges them, so that the two
//! can never disagree, but strictly: in the environment of a server a mistake is a warning; on a
//! command line it is an error.

use std::env;
use std::ffi::{CString, OsString};
use std::ptr;

use masu_core::config::{Config, LimitOrAuto};

use crate::cli::Run;
use crate::failure::{Failure, USAGE, warn};
use crate::near;

/// An environment variable.
type Variable = (OsString, OsString);

/// Returns the variables that express the command line, one for each key, because those override
/// any value already in the environment; the options for single keys override `--conf`.
pub fn of(order: &Run) -> Result<Vec<Variable>, Failure> {
    let mut variables = settings(&order.conf)?;
    for (option, key, value) in [
        ("--policy", "policy", &order.policy),
        ("--soft-limit", "limit_soft", &order.soft_limit),
        ("--limit", "limit_hard", &order.limit),
    ] {
        if let Some(value) = value {
            variables.push(single(option, key, value)?);
        }
    }
    if let (Some(soft), Some(hard)) = (&order.soft_limit, &order.limit) {
        in_order(soft, hard)?;
    }
    if let Some(limit) = &order.limit {
        enough(limit)?;
    }
    Ok(variables)
}

/// Returns the variable by which the engine tells these variables from those that the user has set: a list of them, behind
/// that of a command that has started this one.
pub fn told(variables: &[Variable]) -> Option<Variable> {
    const NAME: &str = "MASU_CONF_COMMAND";
    if variables.is_empty() {
        return None;
    }
    let mut list = env::var_os(NAME).unwrap_or_default();
    for (name, value) in variables {
        if !list.is_empty() {
            list.push(",");
        }
        let name = name.to_string_lossy();
        list.push(format!("{}:", name.strip_prefix("MASU_").unwrap_or(&name)));
        list.push(value);
    }
    Some((NAME.into(), list))
}

/// As [`of`], for a service: the variables that its drop-in sets.
pub fn of_unit(lists: &[String], policy: Option<&str>) -> Result<Vec<(String, String)>, Failure> {
    let mut variables = settings(lists)?;
    if let Some(policy) = policy {
        variables.push(single("--policy", "policy", policy)?);
    }
    let text = |word: OsString| word.to_string_lossy().into_owned();
    Ok(variables.into_iter().map(|(name, value)| (text(name), text(value))).collect())
}

/// Returns the variable for `option`'s value of `key`.
fn single(option: &str, key: &str, value: &str) -> Result<Variable, Failure> {
    let reject = |why: &str| Failure::new(USAGE, format!("{option}: {why}"));
    // A list of options in place of a value is a mistake, whatever it contains.
    let item = format!("{key}:{}", value.replace(',', ";"));
    let value = value.trim();
    match mistakes(&item)?.first() {
        Some(mistake) => Err(reject(mistake.trim_start_matches(&format!("{key}: ")))),
        None if value.is_empty() => Err(reject("the value is empty")),
        None if key.starts_with("limit") && is_zero(value) => {
            Err(reject(&format!("{value} sets no limit")).remedy(format!(
                "leave {option} out; `{option} off` removes one that the environment sets"
            )))
        }
        None => Ok((variable(key), value.into())),
    }
}

/// Returns the variable for `--rate`.
pub fn rate(rate: Option<&str>) -> Result<Option<Variable>, Failure> {
    rate_in_bytes(rate)?;
    rate.map(|rate| single("--rate", "prof_rate", rate)).transpose()
}

/// The same in bytes; the engine's default without the option.
pub fn rate_in_bytes(rate: Option<&str>) -> Result<u64, Failure> {
    let Some(rate) = rate else { return Ok(usual_rate()) };
    if is_zero(rate) {
        return Err(Failure::new(
            USAGE,
            format!("--rate: {rate} is not a number of bytes between two samples"),
        )
        .remedy("--rate 1 samples every block; without --rate, masu samples once in 512 KiB"));
    }
    Ok(value("--rate", "prof_rate", rate)?.prof_rate as u64)
}

/// Returns the bytes that `--most` of `masu prof` means.
pub fn most_in_bytes(most: &str) -> Result<u64, Failure> {
    Ok(value("--most", "budget", most)?.budget as u64)
}

/// Returns a configuration in which a key has an option's value, which must be valid for it.
fn value(option: &str, key: &str, value: &str) -> Result<Config, Failure> {
    single(option, key, value)?;
    parse(&format!("{key}:{value}"), &mut |_| {})
}

/// Returns the engine's default rate.
pub fn usual_rate() -> u64 {
    Config::DEFAULT.prof_rate as u64
}

/// Whether `size` is zero, in any unit.
fn is_zero(size: &str) -> bool {
    let digits = size.trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim_end();
    !digits.is_empty() && digits.bytes().all(|digit| digit == b'0')
}

/// What the smallest programs need, and what others were seen to need.
const LEAST: usize = 2 << 20;

/// Warns of a limit under which hardly any program starts. It applies nonetheless: tests of how a
/// program fails need it.
fn enough(limit: &str) -> Result<(), Failure> {
    let hard = parse(&format!("limit_hard:{limit}"), &mut |_| {})?.limit_hard;
    if hard == 0 || hard >= LEAST {
        return Ok(());
    }
    let unit = match limit.trim().bytes().all(|byte| byte.is_ascii_digit()) {
        true => {
            let bytes = if hard == 1 { "byte" } else { "bytes" };
            format!(" ({limit} {bytes}; did you mean {limit}MiB?)")
        }
        false => String::new(),
    };
    warn(&format!(
        "--limit {limit}{unit} is less than programs need (a shell 2 MiB, Python 4, Ruby 8): malloc will fail from \
         the start"
    ));
    Ok(())
}

/// The soft limit must be reachable before the hard one.
fn in_order(soft: &str, hard: &str) -> Result<(), Failure> {
    let config = parse(&format!("limit_soft:{soft},limit_hard:{hard}"), &mut |_| {})?;
    let limited = config.limit_soft != LimitOrAuto::AUTO && config.limit_hard != 0;
    if limited && config.limit_soft > config.limit_hard {
        let problem =
            format!("--soft-limit {soft} is above --limit {hard}, which takes effect first");
        return Err(
            Failure::new(USAGE, problem).remedy("make the soft limit smaller than the hard limit")
        );
    }
    Ok(())
}

/// Returns the variables for the `lists` of `key:value,…`.
fn settings(lists: &[String]) -> Result<Vec<Variable>, Failure> {
    let list = lists.join(",");
    let mistakes = mistakes(&list)?;
    if !mistakes.is_empty() {
        return Err(Failure::new(USAGE, format!("--conf: {}", mistakes.join("\nmasu: --conf: ")))
            .remedy("`masu run --help` lists the keys"));
    }
    let items = list.split(',').filter_map(|item| item.split_once([':', '=']));
    Ok(items.map(|(key, value)| (variable(key), value.trim().into())).collect())
}

/// Returns the variable for a key in any of its spellings.
fn variable(key: &str) -> OsString {
    format!("MASU_{}", key.trim().to_ascii_uppercase().replace(['.', '-'], "_")).into()
}

/// The engine's reading of `list`; its messages go to `sink`.
fn parse(list: &str, sink: &mut dyn FnMut(&[u8])) -> Result<Config, Failure> {
    let list = CString::new(format!("MASU_CONF={list}"))
        .map_err(|_| Failure::new(USAGE, "--conf: holds a NUL byte"))?;
    // Whatever the list says about messages, they are on while it is judged.
    let environment =
        [list.as_ptr(), c"MASU_SHOW_ERRORS=1".as_ptr(), c"MASU_VERBOSE=0".as_ptr(), ptr::null()];
    // SAFETY: the array ends in null, and its strings live past the call.
    Ok(unsafe { Config::parse(environment.as_ptr(), false, sink) })
}

/// Returns the engine's complaints about `list`, line by line.
pub fn mistakes(list: &str) -> Result<Vec<String>, Failure> {
    let mut said = Vec::new();
    parse(list, &mut |bytes| said.extend_from_slice(bytes))?;
    let said = String::from_utf8_lossy(&said);
    let brief = |line: &str| {
        let line = line.trim_start_matches("masu: warning: ");
        let line = line.trim_start_matches("MASU_CONF: ");
        let line = line.trim_end_matches("; MASU_VERBOSE=1 lists the keys");
        match policy_meant(line) {
            Some(policy) => format!("{line}; did you mean {policy}?"),
            None => line.to_owned(),
        }
    };
    Ok(said.lines().map(brief).collect())
}

/// Returns the policy that was probably meant, if `line` is about one: `policy: "fast" is not
/// default, …`.
fn policy_meant(line: &str) -> Option<&str> {
    let (written, names) = line.strip_prefix("policy: \"")?.split_once("\" is not ")?;
    near::to(written, names.split(", ").flat_map(|names| names.split(" or ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &str) -> Vec<(String, String)> {
        let settings = settings(&[list.to_owned()]).expect("correct");
        let text = |s: OsString| s.into_string().unwrap();
        settings.into_iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    #[test]
    fn every_spelling_becomes_the_variable() {
        let one = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(pairs(""), []);
        assert_eq!(pairs("decay:2s,"), [one("MASU_DECAY", "2s")]);
        assert_eq!(
            pairs("Run.Cache = 1MiB, background-thread:off"),
            [one("MASU_RUN_CACHE", "1MiB"), one("MASU_BACKGROUND_THREAD", "off")]
        );
    }

    #[test]
    fn messages_cannot_be_switched_off_while_the_list_is_judged() {
        assert!(settings(&["show_errors:0,decy:1s".into()]).is_err());
        assert!(settings(&["verbose:1".into()]).is_ok());
    }

    /// Returns the keys with their defaults, both as the engine shows them and in a user's
    /// spelling.
    fn defaults() -> Vec<(String, String)> {
        let mut shown = Vec::new();
        let mut sink = |bytes: &[u8]| shown.extend_from_slice(bytes);
        Config::DEFAULT.show(&mut masu_core::text::Text::new(&mut sink));
        let shown = String::from_utf8(shown).unwrap();
        let words = shown.lines().skip(1).map(|line| line.split_whitespace().skip(1));
        let written = |key: &str, value: &str| match (key, value) {
            // A share of the blocks, which may be zero.
            ("guard", _) => value.to_owned(),
            (_, "on") => "1".to_owned(),
            (_, "off") => "0".to_owned(),
            (_, other) => other.to_owned(),
        };
        words
            .map(|mut words| {
                let key = words.next().unwrap();
                (key.into(), written(key, words.next().unwrap()))
            })
            .collect()
    }

    #[test]
    fn help_and_documentation_list_every_key_with_its_default() {
        use clap::CommandFactory;
        let mut command = crate::cli::Cli::command();
        let help = command.find_subcommand_mut("run").unwrap().render_long_help().to_string();
        assert!(defaults().len() > 5);
        for (key, value) in defaults() {
            assert!(help.contains(&format!("  {key}:{value} ")), "help lacks {key}:{value}");
            let row = crate::man::row(&key);
            let [_, default, _] = row.unwrap_or_else(|| panic!("the documentation lacks {key}"));
            assert_eq!(default, format!("`{value}`"), "{key}");
        }
    }
}
