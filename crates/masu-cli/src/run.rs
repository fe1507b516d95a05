//! `masu run`, step by step. Whatever would make the run a different one than the user asked for
//! stops it with the reason and the way out; what is only worth knowing is a warning.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use crate::allocators::{Brings, brought_by};
use crate::cli::Run;
use crate::elf::{Elf, Unreadable};
use crate::failure::{Failure, NOT_EXECUTABLE, NOT_FOUND, REFUSED, warn};
use crate::library::{self, Library};
use crate::privilege::{Gain, gained_by};
use crate::{conf, exec, preload, program};

/// Becomes the program `order` names, with masu preloaded. Returns only if that cannot be.
pub fn run(order: &Run) -> Failure {
    prepare_and_exec(order).unwrap_or_else(|failure| failure)
}

fn prepare_and_exec(order: &Run) -> Result<Failure, Failure> {
    let settings = conf::settings(&order.conf)?;
    let library = library::find(order.lib.as_deref())?;
    // clap requires the command, so there is a first word.
    let path = program::find(&order.command[0])?;
    let binary = program::interpreter(&path)?;
    check(&binary, &library)?;

    let mut environment: BTreeMap<OsString, OsString> = env::vars_os().collect();
    let existing = environment.remove(OsStr::new("LD_PRELOAD"));
    warn_of_rivals(existing.as_ref());
    let value = preload::in_front(&library.path, existing.as_deref());
    environment.insert("LD_PRELOAD".into(), value);
    if order.stats {
        environment.insert("MASU_SHOW_STATS".into(), "1".into());
    }
    environment.extend(settings);

    let error = exec::exec(&path, &order.command, environment.into_iter());
    let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
    Ok(Failure::new(code, format!("`{}` cannot be executed: {error}", path.display())))
}

/// Whether the library will be loaded into the program in the file `binary`, and what it will find.
pub fn check(binary: &Path, library: &Library) -> Result<(), Failure> {
    let shown = binary.display();
    let refuse = |why: String| Failure::new(REFUSED, format!("`{shown}` {why}"));

    if let Some(gain) = gained_by(binary) {
        let how = match gain {
            Gain::User => "runs as another user (set-user-ID)",
            Gain::Group => "runs as another group (set-group-ID)",
            Gain::Capabilities => "has file capabilities",
            Gain::Inherited => "would inherit the rights this process was given",
        };
        return Err(refuse(format!("{how}, so the dynamic loader ignores LD_PRELOAD")).remedy(
            "run it as the user it changes to, or let the administrator name libmasu.so in\n\
             /etc/ld.so.preload, which holds for every program of the system",
        ));
    }

    let elf = match Elf::read(binary) {
        Ok(elf) => elf,
        // A shell script without a #! line, or something for the kernel to judge.
        Err(Unreadable::NotElf) => return Ok(()),
        Err(Unreadable::Closed(error)) => {
            warn(&format!("`{shown}` cannot be read ({error}), so nothing about it was checked"));
            return Ok(());
        }
        Err(Unreadable::Damaged(error)) => {
            return Err(refuse(format!("is damaged: {error}")));
        }
    };
    if elf.machine != library.elf.machine {
        let (program, library) = (elf.machine, library.elf.machine);
        return Err(refuse(format!("is a {program} program, and this masu is {library}"))
            .remedy("use a masu built for that machine"));
    }
    if elf.interpreter.is_none() {
        return Err(refuse("is statically linked, so no library can be preloaded into it".into())
            .remedy("link libmasu.a into it, or build it dynamically linked"));
    }
    if elf.is_musl() && library.elf.is_glibc() {
        let library = library.path.display();
        return Err(refuse(format!("runs on musl, and `{library}` needs glibc")).remedy(
            "preload a library built for musl, or one that needs no libc, like libmasu.so",
        ));
    }

    match brought_by(&elf) {
        Brings::Nothing => {}
        Brings::SanitizerLinked(name) => {
            return Err(refuse(format!("is built with {name}, which has to be its malloc"))
                .remedy("run it without masu, or build it without the sanitizer"));
        }
        Brings::SanitizerInside(name) => warn(&format!(
            "`{shown}` is built with {name}, whose malloc wins: masu will serve nothing"
        )),
        Brings::Malloc => warn(&format!(
            "`{shown}` defines malloc itself, and that one wins: masu will serve nothing"
        )),
        Brings::Inside(name) => {
            warn(&format!("`{shown}` has {name} built in: masu serves only what does not go there"))
        }
        Brings::Linked(name) => warn(&format!(
            "`{shown}` is linked with {name}: masu takes over malloc, and {name}'s own functions \
             stay where they are"
        )),
    }
    Ok(())
}

/// Says which other allocator `LD_PRELOAD` names: it will be loaded and serve nothing.
fn warn_of_rivals(existing: Option<&OsString>) {
    const RIVALS: [&str; 5] =
        ["libjemalloc", "libmimalloc", "libtcmalloc", "libsnmalloc", "libhardened_malloc"];
    for entry in existing.iter().flat_map(|value| preload::entries(value)) {
        let name = Path::new(entry).file_name().unwrap_or_default().to_string_lossy();
        if RIVALS.iter().any(|rival| name.starts_with(rival)) {
            warn(&format!("LD_PRELOAD names {name} too; masu comes first and serves malloc"));
        }
    }
}
