//! Likely slips on the command line that still parse: one of our options after the program's name,
//! a program in place of a verb, and a process in place of a program.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};

use crate::cli::{Cli, Verb};
use crate::failure::{Failure, USAGE, warn};
use crate::{program, see};

/// Warns if `arguments`, which were read as `verb`, have one of our options after the program's
/// name: the program gets it. A `--` before the program suppresses the warning.
pub fn warn_of_misplaced(arguments: &[OsString], verb: &Verb) {
    let (name, command) = match verb {
        Verb::Run(order) => ("run", &order.command),
        #[cfg(feature = "bench")]
        Verb::Bench(order) => ("bench", &order.command),
        _ => return,
    };
    let before = arguments.len().checked_sub(command.len() + 1).map(|at| &arguments[at]);
    let Some((program, rest)) = command.split_first() else { return };
    if before.is_some_and(|word| word == "--") {
        return;
    }
    // After a `--` of the program's own everything is an operand.
    let options = rest.iter().take_while(|word| *word != "--");
    let Some(option) = options.map(|word| word.to_string_lossy()).find(|word| is_ours(name, word))
    else {
        return;
    };
    let program = program.to_string_lossy();
    warn(&format!(
        "`{option}` comes after `{program}`, so it goes to {program}\n  \
         for masu:        masu {name} {option} … -- {program} …\n  \
         for {program}, without this warning: masu {name} -- {program} … {option}"
    ));
}

/// Whether `word` is a long option of the verb `name`.
fn is_ours(name: &str, word: &str) -> bool {
    let command: Command = Cli::command();
    let Some(verb) = command.find_subcommand(name) else { return false };
    let Some(long) = word.strip_prefix("--") else { return false };
    let long = long.split_once('=').map_or(long, |(long, _)| long);
    verb.get_arguments().filter_map(|argument| argument.get_long()).any(|ours| ours == long)
}

/// Returns the message for a program in place of a verb, as in `masu ruby app.rb`; `None` if
/// `error` is about something else, or about a mistyped verb.
pub fn program_for_verb(arguments: &[OsString], error: &clap::Error) -> Option<Failure> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    program::find(OsStr::new(word)).ok()?;
    let at = arguments.iter().position(|one| one == OsStr::new(word))?;
    let line: Vec<_> = arguments[at..].iter().map(|one| one.to_string_lossy()).collect();
    let line = line.join(" ");
    Some(Failure::new(USAGE, format!("`{word}` is a program, not a command of masu")).remedy(
        format!("to run it on masu:  masu run -- {line}\nto compare:         masu bench -- {line}"),
    ))
}

/// Returns the message for no process, or several, where a command takes one, as in `masu explain $(pidof ruby)`; `None`
/// if `error` is about something else.
pub fn one_process(arguments: &[OsString], error: &clap::Error) -> Option<Failure> {
    let verb = arguments.get(1)?.to_str()?;
    let is_number = |word: &OsString| word.to_str().is_some_and(|it| see::process(it).is_ok());
    let several = arguments.windows(2).find(|words| words.iter().all(is_number));
    let valued = error.get(ContextKind::InvalidValue);
    let is_empty = matches!(valued, Some(ContextValue::String(value)) if value.is_empty());
    let problem = match (error.kind(), several) {
        (ErrorKind::UnknownArgument | ErrorKind::ArgumentConflict, Some(words)) => {
            let [one, two] = [0, 1].map(|at| words[at].to_string_lossy());
            format!("`masu {verb}` takes one process, not both {one} and {two}")
        }
        // `prof` requires other things.
        (ErrorKind::MissingRequiredArgument, _) if verb != "prof" => "no process is named".into(),
        (ErrorKind::InvalidValue, _) if is_empty && arguments.last()? == "-p" => {
            "-p needs the id of a process".into()
        }
        _ => return None,
    };
    let way = match verb {
        "explain" => "masu explain PID\nmasu explain --core FILE".into(),
        "stats" | "purge" => format!("masu {verb} PID"),
        "watch" | "prof" => format!("masu {verb} -p PID"),
        _ => return None,
    };
    Some(
        Failure::new(USAGE, problem).remedy(format!(
            "{way}\n`pgrep -a NAME` finds processes; `masu top` lists those on masu"
        )),
    )
}

/// Returns the message for a process's number in place of a program or a profile, as in `masu watch 4711`; `None` if
/// there is such a program or file.
pub fn process_for_program(verb: &Verb) -> Option<Failure> {
    let (name, what, words): (_, _, Vec<&OsStr>) = match verb {
        Verb::Watch(order) => ("watch", "watch", order.command.iter().map(|it| &**it).collect()),
        Verb::Doctor(order) => ("doctor", "check", order.command.iter().map(|it| &**it).collect()),
        Verb::Prof(order) => {
            let files = order.file.iter().map(|file| file.as_os_str());
            ("prof", "profile", files.chain(order.command.iter().map(|it| &**it)).collect())
        }
        _ => return None,
    };
    let &[word] = &*words else { return None };
    let process = see::process(word.to_str()?).ok()?;
    if Path::new(word).exists() || program::find(word).is_ok() {
        return None;
    }
    Some(
        Failure::new(USAGE, format!("`{process}`: no such program"))
            .remedy(format!("to {what} process {process}: masu {name} -p {process}")),
    )
}
