//! `masu translate`: what another allocator's options mean in masu.
//!
//! - `variables`: the options in an environment variable.
//! - `table`: every known option, and its equivalent in masu.
//!
//! The tests check every resulting setting with the engine's own parser: no row can name a key that
//! does not exist.

mod table;
mod variables;

use std::ffi::OsString;

use clap::Args;

use self::table::Meaning;
use self::variables::Variable;
use crate::columns::fit;
use crate::failure::{Failure, USAGE, warn};
use crate::standard::print;

/// Translate another allocator's options into masu's.
///
/// Translates the environment variables of jemalloc (MALLOC_CONF), mimalloc (MIMALLOC_…), tcmalloc (TCMALLOC_…) and
/// glibc (MALLOC_…, GLIBC_TUNABLES), and LD_PRELOAD. Without arguments, translates the variables that are set.
#[derive(Args)]
#[command(after_help = "\
Examples:
  masu translate MALLOC_CONF=dirty_decay_ms:2000,narenas:2
  masu translate MIMALLOC_PURGE_DELAY=100 MIMALLOC_SHOW_STATS=1
  masu translate GLIBC_TUNABLES=glibc.malloc.arena_max=2
  masu translate                               the variables that are set here
  env $(masu translate --bare MALLOC_CONF=dirty_decay_ms:0) masu run -- ./server

Exit codes:
  0 every option is known    1 an option is unknown; the nearest known one is named
  2 wrong command line, or a variable of no known allocator    125 the output could not be written")]
pub struct Translate {
    /// Print only the variables to set for `masu run`, one NAME=VALUE per line
    #[arg(long)]
    pub bare: bool,

    /// The variables to translate, written as in a shell
    #[arg(value_name = "NAME=VALUE")]
    pub variables: Vec<String>,
}

const PRELOAD: &str = "LD_PRELOAD";

/// Prints the translation; the exit code.
pub fn run(order: &Translate) -> Result<u8, Failure> {
    let given = match &order.variables[..] {
        [] => of_environment(std::env::vars_os()),
        words => words.iter().flat_map(|word| assignments(word)).collect::<Result<_, _>>()?,
    };
    let translated: Vec<_> = given.iter().map(|(name, value)| one(name, value)).collect();
    let translated = translated.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut out = String::new();
    if !order.bare {
        for (variable, (name, value)) in translated.iter().zip(&given) {
            describe(variable, name, value, &mut out);
        }
        if given.is_empty() {
            out.push_str("No variable here sets an option of another allocator.\n");
        }
    }
    let mut settings = settings(&translated);
    if order.bare {
        settings.iter_mut().for_each(behind_masu_run);
        settings.retain(|(name, value)| name != PRELOAD || !value.is_empty());
    }
    let all = translated.iter().flat_map(|variable| &variable.options);
    let mistakes: Vec<_> = all.filter(|(_, meaning)| meaning.is_mistake()).collect();
    if !order.bare && !settings.is_empty() {
        out.push_str("\nSet in their place:\n");
    } else if !order.bare && !given.is_empty() && mistakes.is_empty() {
        out.push_str("\nNothing is left to set.\n");
    }
    for (name, value) in &settings {
        let indent = if order.bare { "" } else { "  " };
        out.push_str(&format!("{indent}{name}={value}\n"));
    }
    if order.bare {
        mistakes
            .iter()
            .for_each(|(option, meaning)| warn(&format!("`{option}`: {}", meaning.words())));
    } else if !mistakes.is_empty() {
        let options = if mistakes.len() == 1 { "option was" } else { "options were" };
        out.push_str(&format!("\n{} {options} not understood.\n", mistakes.len()));
    }
    print(&if order.bare { out } else { fit(&out) })?;
    Ok(u8::from(!mistakes.is_empty()))
}

/// Takes masu out of LD_PRELOAD: `masu run` knows where the library is.
fn behind_masu_run((name, value): &mut (String, String)) {
    if name == PRELOAD {
        let others = value.split(':').filter(|file| *file != variables::LIBRARY);
        *value = others.collect::<Vec<_>>().join(":");
    }
}

/// Returns the variables of other allocators in the environment.
fn of_environment(all: impl Iterator<Item = (OsString, OsString)>) -> Vec<(String, String)> {
    let mut known: Vec<_> = all
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, value)| Variable::read(name, value).is_some_and(|v| !v.options.is_empty()))
        .collect();
    known.sort();
    known
}

/// Parses `NAME=VALUE`, or several separated by blanks, as copied from a command line.
fn assignments(word: &str) -> Vec<Result<(String, String), Failure>> {
    let named = |word: &str| word.split_once('=').is_some_and(|(name, _)| variables::is_name(name));
    let words: Vec<_> = word.split_whitespace().collect();
    let parts = if words.iter().all(|word| named(word)) { words } else { vec![word] };
    let pair = |part: &str| match part.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim_matches(['"', '\'']).into()))
        }
        _ => Err(Failure::new(USAGE, format!("`{part}` is not NAME=VALUE"))
            .remedy("as in: masu translate MALLOC_CONF=dirty_decay_ms:2000")),
    };
    parts.into_iter().map(pair).collect()
}

fn one(name: &str, value: &str) -> Result<Variable, Failure> {
    Variable::read(name, value).ok_or_else(|| {
        let failure =
            Failure::new(USAGE, format!("{name} is not a variable of any known allocator"));
        failure.remedy(match variables::near(name) {
            Some(meant) => format!("did you mean {meant}?"),
            None if name.starts_with("MASU_") => "it is masu's own: `masu run --help`".to_owned(),
            None => format!("there are {}", variables::FORMS),
        })
    })
}

/// Returns the settings, each name once; later ones override earlier ones, as in a list of options. `MALLOC_CONF` is
/// itself such a list.
fn settings(translated: &[Variable]) -> Vec<(String, String)> {
    let mut settings: Vec<(String, String)> = Vec::new();
    let all = translated.iter().flat_map(|variable| &variable.options);
    for (_, meaning) in all {
        for (name, value) in meaning.settings() {
            match settings.iter_mut().find(|(other, _)| *other == name) {
                Some((_, old)) if name == "MALLOC_CONF" => {
                    old.push(',');
                    old.push_str(&value);
                }
                Some((_, old)) => *old = value,
                None => settings.push((name, value)),
            }
        }
    }
    settings
}

fn describe(variable: &Variable, name: &str, value: &str, out: &mut String) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(&format!("{name}={value} ({})\n", variable.of));
    let longest = variable.options.iter().map(|(option, _)| option.chars().count()).max();
    let width = longest.unwrap_or(0).min(40);
    for (option, meaning) in &variable.options {
        out.push_str(&format!("  {option:width$}  {}\n", meaning.words()));
    }
}

impl Meaning {
    /// Formats it in words, for one line.
    fn words(&self) -> String {
        match self {
            Meaning::Set(settings, note) => {
                let list: Vec<_> = settings.iter().map(|(k, v)| format!("{k}={v}")).collect();
                match *note {
                    "" => list.join(" "),
                    note => format!("{}: {note}", list.join(" ")),
                }
            }
            Meaning::Nothing(why) => format!("nothing to set: {why}"),
            Meaning::Missing(what) => format!("no counterpart: {what}"),
            Meaning::BadValue(form) => format!("not understood: it takes {form}"),
            Meaning::Unknown(Some(near)) => format!("not known; did you mean {near}?"),
            Meaning::Unknown(None) => "not known".to_owned(),
        }
    }

    fn settings(&self) -> Vec<(String, String)> {
        match self {
            Meaning::Set(settings, _) => settings.clone(),
            _ => Vec::new(),
        }
    }

    fn is_mistake(&self) -> bool {
        matches!(self, Meaning::BadValue(_) | Meaning::Unknown(_))
    }
}
