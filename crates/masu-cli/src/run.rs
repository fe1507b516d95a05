//! `masu run`, step by step. Anything that would make the run differ from the request stops it,
//! with the reason and the remedy; things merely worth knowing are warnings.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process;

use crate::allocators::{MASU, file_name, whose};
use crate::cli::Run;
use crate::failure::{Failure, NOT_EXECUTABLE, NOT_FOUND, REFUSED, USAGE, warn};
use crate::library::{self, Library};
use crate::obstacle::{self, Obstacle, Weight};
use crate::{conf, exec, launcher, preload, program};

/// Executes the program that `order` names, with masu preloaded. Returns only on failure.
pub fn run(order: &Run) -> Failure {
    prepare_and_exec(order).unwrap_or_else(|failure| failure)
}

fn prepare_and_exec(order: &Run) -> Result<Failure, Failure> {
    let mut settings = conf::of(order)?;
    let library = library::find(order.lib.as_deref())?;
    // clap requires the command, so there is a first word.
    let path = program::find(&order.command[0])?;
    let binary = program::interpreter(&path)?;
    check(&binary, &library)?;
    warn_of_launched(order, &library);

    let mut environment: BTreeMap<OsString, OsString> = env::vars_os().collect();
    let existing = environment.remove(OsStr::new("LD_PRELOAD"));
    warn_of_rivals(existing.as_ref());
    let value = preload::in_front(&library.path, existing.as_deref());
    environment.insert("LD_PRELOAD".into(), value);
    // Options for single keys override --conf.
    settings.extend(statistics(order)?);
    environment.extend(conf::told(&settings));
    environment.extend(settings);

    let error = exec::exec(&path, &order.command, environment.into_iter());
    let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
    Ok(Failure::new(code, format!("`{}` cannot be executed: {error}", path.display())))
}

/// Returns the variables for `--stats` and `--json`. Creates the file empty, so that an unwritable
/// name is reported now.
fn statistics(order: &Run) -> Result<Vec<(OsString, OsString)>, Failure> {
    let Some(file) = &order.stats else { return Ok(Vec::new()) };
    let form = if order.json { "json" } else { "text" };
    let mut variables = vec![("MASU_SHOW_STATS".into(), form.into())];
    // This process becomes the program, so its ID is the program's.
    let Some(file) = file else {
        variables.push(("MASU_STATS_FILE".into(), "stderr".into()));
        return Ok(variables);
    };
    let name = file.as_os_str().as_bytes();
    // A process ID is at most five times as long as `%p`.
    let mut expanded = vec![0; 5 * name.len()];
    let length = masu_core::stats_path(name, process::id(), &mut expanded);
    File::create(OsStr::from_bytes(&expanded[..length])).map_err(|error| {
        let problem = format!("--stats: `{}` cannot be written: {error}", file.display());
        Failure::new(USAGE, problem).remedy(
            "--stats=FILE takes a file in a directory that exists and is writable; --stats alone is stderr",
        )
    })?;
    let path = if name == b"stderr" { Path::new("./stderr") } else { file };
    variables.push(("MASU_STATS_FILE".into(), path.into()));
    Ok(variables)
}

/// Refuses the program in the file `binary` if the library cannot be loaded into it, and warns if
/// it will not serve all of it.
pub fn check(binary: &Path, library: &Library) -> Result<(), Failure> {
    for Obstacle { weight, what, remedy, .. } in obstacle::between(binary, library) {
        let problem = format!("`{}` {what}", binary.display());
        if weight == Weight::Stops {
            let failure = Failure::new(REFUSED, problem);
            return Err(remedy.into_iter().fold(failure, Failure::remedy));
        }
        warn(&problem);
    }
    Ok(())
}

/// Says what keeps masu from the program that the command starts in the end, if that is another
/// one.
fn warn_of_launched(order: &Run, library: &Library) {
    let launched = launcher::look_through(&order.command);
    if launched.by_masu || launched.command.len() == order.command.len() {
        return;
    }
    let shown = launched.command[0].to_string_lossy();
    if let Some(words) = launched.kept_by {
        let words = words.join(" ");
        warn(&format!(
            "`{words}` gives `{shown}` an environment of its own, without masu; instead: {words} {} run -- …",
            program::this()
        ));
    } else if let Ok(binary) =
        program::find(&launched.command[0]).and_then(|p| program::interpreter(&p))
    {
        for Obstacle { what, .. } in obstacle::between(&binary, library) {
            warn(&format!("`{shown}` {what}"));
        }
    }
}

/// Says which other allocator `LD_PRELOAD` names: it will be loaded and serve nothing.
fn warn_of_rivals(existing: Option<&OsString>) {
    for entry in existing.iter().flat_map(|value| preload::entries(value)) {
        let path = Path::new(entry);
        if whose(path).is_some_and(|allocator| allocator != MASU) {
            let name = file_name(path);
            warn(&format!("LD_PRELOAD names {name} too; masu comes first and serves malloc"));
        }
    }
}
