//! Whether masu would take effect in a program: what its file says, then what its loader says.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use super::finding::Finding;
use super::loader::{self, Trace};
use super::masu::{Masu, file_name};
use crate::allocators::{Brings, brought_by, known_library};
use crate::elf::Elf;
use crate::failure::{Failure, USAGE};
use crate::library::Library;
use crate::obstacle::{self, Obstacle, Weight};
use crate::{preload, program};

/// The facts about the program.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Program {
    /// As it was typed.
    pub name: String,
    /// The file that is executed.
    pub path: PathBuf,
    /// The file that runs in the end: the interpreter, if it is a script.
    pub binary: PathBuf,
    /// Whether LD_PRELOAD names libmasu.so already; else `masu run` would put it there.
    pub preloaded: bool,
    /// The libraries it starts with, in the order in which symbols are looked for.
    pub libraries: Vec<String>,
    /// Files that use malloc and get masu's.
    pub served: Vec<String>,
    /// Files that use malloc and get another one, and whose.
    pub elsewhere: Vec<(String, String)>,
}

/// Looks at the program that `name` stands for.
pub fn look(name: &OsStr, library: &Library) -> Result<(Program, Vec<Finding>), Failure> {
    let path = program::find(name).map_err(|failure| failure.with_code(USAGE))?;
    let masu = Masu::new(Some(&library.path));
    let existing = env::var_os("LD_PRELOAD");
    let preloaded = masu.is_in(existing.as_deref());
    let interpreter = program::interpreter(&path);
    let mut findings = Vec::new();
    let binary = match interpreter {
        Ok(binary) => binary,
        Err(failure) => {
            findings.push(Finding::failure("program.interpreter", failure));
            path.clone()
        }
    };
    let stuck = !findings.is_empty();
    let mut program = Program {
        name: name.to_string_lossy().into_owned(),
        path,
        binary,
        preloaded,
        libraries: Vec::new(),
        served: Vec::new(),
        elsewhere: Vec::new(),
    };

    let obstacles = obstacle::between(&program.binary, library);
    let shown = file_name(&program.binary).to_owned();
    findings.extend(obstacles.iter().map(|obstacle| judge(&shown, obstacle)));
    // What cannot be loaded need not be asked about.
    if stuck || obstacles.iter().any(|obstacle| obstacle.weight == Weight::Stops) {
        return Ok((program, findings));
    }
    findings.push(kind(&program, &shown));
    findings.extend(rivals(existing.as_deref().unwrap_or_default(), preloaded, &masu));
    if !preloaded {
        findings.push(not_by_itself(&program, library));
    }
    let value = match existing {
        Some(value) if preloaded => value,
        existing => preload::in_front(&library.path, existing.as_deref()),
    };
    findings.extend(ask_loader(&mut program, &shown, &value, &masu));
    Ok((program, findings))
}

/// An obstacle as a finding about the program that is `shown` so.
pub fn judge(shown: &str, obstacle: &Obstacle) -> Finding {
    let sentence = format!("`{shown}` {}.", obstacle.what);
    let finding = match obstacle.weight {
        Weight::Stops | Weight::Useless => Finding::problem(obstacle.id, sentence),
        Weight::Partial => Finding::warning(obstacle.id, sentence),
        Weight::Unknown => Finding::note(obstacle.id, sentence),
    };
    match (obstacle.remedy, obstacle.weight) {
        (Some(remedy), _) => finding.fix(remedy.replace('\n', " ")),
        (None, Weight::Useless | Weight::Partial) => {
            finding.fix("build it without that allocator; most programs have an option for it")
        }
        (None, _) => finding,
    }
}

/// What kind of program it is.
fn kind(program: &Program, shown: &str) -> Finding {
    const ID: &str = "program.linkage";
    let by = if program.binary == program.path {
        String::new()
    } else {
        format!(", which runs `{}`", program.name)
    };
    let binary = program.binary.display();
    match Elf::read(&program.binary) {
        Ok(elf) => {
            let libc = if elf.is_musl() { "musl" } else { "glibc" };
            let machine = elf.machine;
            Finding::ok(ID, format!("{binary}{by}: {machine}, linked dynamically, for {libc}."))
        }
        Err(_) => Finding::note(ID, format!("`{shown}` is no ELF file; /bin/sh will read it."))
            .fix("a first line such as #!/bin/sh"),
    }
}

/// Other allocators in `LD_PRELOAD`, and entries that are not there.
fn rivals(existing: &OsStr, preloaded: bool, masu: &Masu) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut masu_seen = !preloaded;
    for entry in preload::entries(existing) {
        let path = Path::new(entry);
        let name = file_name(path);
        masu_seen |= masu.is(path);
        let Some(rival) = known_library(name) else { continue };
        findings.push(if masu_seen {
            Finding::warning(
                "environment.rival",
                format!("LD_PRELOAD names {rival} too, behind masu, which serves malloc."),
            )
            .fix(format!("take {} out of LD_PRELOAD", path.display()))
        } else {
            Finding::problem(
                "environment.rival",
                format!("LD_PRELOAD names {rival} before masu, so {rival} serves malloc."),
            )
            .fix(format!("take {} out of LD_PRELOAD, or: masu run", path.display()))
        });
    }
    findings
}

fn not_by_itself(program: &Program, library: &Library) -> Finding {
    let name = &program.name;
    Finding::note(
        "environment.preload",
        format!("Only `masu run` puts masu there: started by itself, `{name}` runs without."),
    )
    .fix(format!("masu run -- {name}   or   export LD_PRELOAD={}", library.path.display()))
}

fn ask_loader(program: &mut Program, shown: &str, value: &OsString, masu: &Masu) -> Vec<Finding> {
    const ID: &str = "program.malloc";
    let interpreter = Elf::read(&program.binary).ok().and_then(|elf| elf.interpreter);
    let Some(interpreter) = interpreter else { return Vec::new() };
    let Some(trace) = loader::ask(Path::new(&interpreter), &program.binary, value) else {
        let sentence = format!("The loader {interpreter} was not asked: it is no known one.");
        return vec![Finding::note(ID, sentence).fix("masu doctor --run starts the program")];
    };
    let mut findings = troubles(&trace, shown, masu);
    findings.extend(brought_along(&trace, masu));
    sort_bindings(program, &trace, masu);
    program.libraries = trace.libraries.clone();

    let served = program.served.len();
    let loaded = trace.libraries.iter().any(|library| masu.is(Path::new(library)));
    findings.push(if !loaded {
        Finding::problem(ID, format!("The loader does not load masu into `{shown}`."))
            .fix("masu run --lib /path/to/libmasu.so")
    } else if let Some((user, provider)) = program.elsewhere.first() {
        let sentence = format!("`malloc` in {user} is bound to {provider}, not to masu.");
        if served == 0 { Finding::problem(ID, sentence) } else { Finding::warning(ID, sentence) }
            .fix(format!("build {provider} without its own malloc"))
    } else if served == 0 {
        // musl's loader does not say; the first library with a malloc serves.
        Finding::ok(ID, format!("masu is the first library that `{shown}` loads."))
    } else {
        let files = if served == 1 { "file" } else { "files" };
        let sentence = format!("`malloc` is bound to masu in all {served} {files} that use it.");
        Finding::ok(ID, sentence.replace("all 1 file that uses", "the 1 file that uses"))
    });
    findings
}

fn troubles(trace: &Trace, shown: &str, masu: &Masu) -> Vec<Finding> {
    let missing = trace.missing.iter().map(|library| {
        let sentence = format!("`{shown}` needs {library}, which is not there.");
        Finding::problem("program.libraries", sentence)
            .fix(format!("install {library}, or name its directory in LD_LIBRARY_PATH"))
    });
    let ignored = trace.ignored.iter().map(|(object, reason)| {
        let sentence = format!("The loader cannot preload {object}: {reason}.");
        let finding = if masu.is(Path::new(object)) {
            Finding::problem("environment.preload", sentence)
        } else {
            Finding::warning("environment.preload", sentence)
        };
        finding.fix("correct the path in LD_PRELOAD")
    });
    missing.chain(ignored).collect()
}

/// Libraries with an allocator inside.
fn brought_along(trace: &Trace, masu: &Masu) -> Vec<Finding> {
    let others = trace.libraries.iter().filter(|library| !masu.is(Path::new(library)));
    others
        .filter_map(|library| Some((library, inside(Path::new(library))?)))
        .map(|(library, name)| {
            let sentence = format!("{library} has {name} inside, for its own use.");
            Finding::note("program.libraries", sentence)
        })
        .collect()
}

/// The allocator that is inside the library in the file `path`, if that is not what the library is.
pub fn inside(path: &Path) -> Option<&'static str> {
    if known_library(file_name(path)).is_some() {
        return None;
    }
    match brought_by(&Elf::read(path).ok()?) {
        Brings::Inside(name) => Some(name),
        _ => None,
    }
}

/// Sorts the users of `malloc` by whose they get.
fn sort_bindings(program: &mut Program, trace: &Trace, masu: &Masu) {
    let own = program.binary.display().to_string();
    for (user, provider) in &trace.malloc {
        // An executable at a fixed address stands for a function whose address it takes: a library
        // is bound to the executable then, and gets whose `malloc` the executable gets.
        let provider = match trace.malloc.get(provider) {
            Some(further) if same_file(provider, &own) => further,
            _ => provider,
        };
        if masu.is(Path::new(provider)) {
            program.served.push(user.clone());
        } else {
            program.elsewhere.push((user.clone(), provider.clone()));
        }
    }
}

fn same_file(a: &str, b: &str) -> bool {
    a == b || Path::new(a).canonicalize().ok() == Path::new(b).canonicalize().ok()
}
