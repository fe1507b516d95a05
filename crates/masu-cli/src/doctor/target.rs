//! Whether masu would take effect in a program: first from its file, then from its loader.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::finding::Finding;
use super::loader::{self, Trace};
use super::masu::Masu;
use super::serving::{self, How, Loaded, Serving};
use crate::allocators::{Contents, file_name, whose};
use crate::elf::Elf;
use crate::failure::{Failure, USAGE};
use crate::launcher::{self, Launched};
use crate::library::Library;
use crate::obstacle::{self, Obstacle, Weight};
use crate::{preload, printable, program};

/// A program.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Program {
    /// The name as it was typed. For `sudo`, `nice` and similar commands, the program that they start.
    pub name: String,
    /// The file that is executed.
    #[serde(serialize_with = "printable::path")]
    pub path: PathBuf,
    /// The file that is executed in the end: for a script, its interpreter.
    #[serde(serialize_with = "printable::path")]
    pub binary: PathBuf,
    /// Whether LD_PRELOAD already names libmasu.so. If not, `masu run` adds it.
    pub preloaded: bool,
    /// The allocator that serves its `malloc`, or would serve it under `masu run`.
    pub malloc: Option<Serving>,
    /// The allocator that serves it if it is started without `masu run`.
    pub alone: Option<Serving>,
    /// Whether masu is the global allocator of a Rust program.
    pub rust: bool,
    /// The libraries that it starts with, in the order in which symbols are looked up.
    pub libraries: Vec<String>,
    /// Files that use malloc and get masu's.
    pub served: Vec<String>,
    /// Files that use malloc and get another allocator's, each with the allocator's name.
    pub elsewhere: Vec<(String, String)>,
}

impl Program {
    /// Whether masu takes effect without `masu run`.
    pub fn runs_on_masu(&self) -> bool {
        self.rust || self.alone.as_ref().is_some_and(Serving::is_masu)
    }
}

/// The identifier of findings about what `LD_PRELOAD` names.
pub const PRELOAD: &str = "environment.preload";

/// What becomes of a program on masu.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// The findings say it.
    Found,
    /// It crashes.
    Crash,
    /// Nothing is known.
    Unknown,
}

/// Examines the program that `command` starts.
pub fn look(
    command: &[OsString],
    library: &Library,
) -> Result<(Program, Vec<Finding>, Outlook), Failure> {
    let launched = launcher::look_through(command);
    let name = &launched.command[0];
    let path = program::find(name).map_err(|failure| failure.with_code(USAGE))?;
    let masu = Masu::new(Some(&library.path));
    let existing = environment(&launched);
    let preloaded = masu.is_in(existing.as_deref());
    let mut findings = Vec::new();
    let (binary, lost) = match program::interpreter(&path) {
        Ok(binary) => (binary, None),
        Err(failure) => (path.clone(), Some(Finding::failure("program.interpreter", failure))),
    };
    let stuck = lost.is_some();
    findings.extend(lost);
    let contents = Contents::read(&binary);
    let mut program = Program {
        name: name.to_string_lossy().into_owned(),
        path,
        preloaded,
        malloc: None,
        alone: None,
        rust: contents.as_ref().is_some_and(|contents| contents.rust),
        binary,
        libraries: Vec::new(),
        served: Vec::new(),
        elsewhere: Vec::new(),
    };

    let shown = file_name(&program.binary);
    let obstacles = obstacle::between(&program.binary, library);
    findings.extend(obstacles.iter().map(|obstacle| judge(&shown, obstacle)));
    let has = |weight| obstacles.iter().any(|obstacle| obstacle.weight == weight);
    if has(Weight::Unknown) {
        return Ok((program, findings, Outlook::Unknown));
    }
    // There is no point in asking about a program that cannot be loaded.
    if stuck || has(Weight::Stops) {
        if contents.as_ref().is_some_and(|contents| !contents.interpreted) {
            program.alone =
                serving::first(&files(&program, contents.as_ref(), None, OsStr::new("")));
            program.malloc = program.alone.clone();
        }
        return Ok((program, findings, Outlook::Found));
    }
    findings.push(kind(&program, &shown));
    findings.extend(java(contents.as_deref(), &shown));
    let alone = existing.clone().unwrap_or_default();
    let trace = ask(&program, &alone);
    program.alone = serving::first(&files(&program, contents.as_ref(), trace.as_ref(), &alone));
    if program.runs_on_masu() && !preloaded {
        findings.extend(linked(&mut program, &shown, trace, &masu));
        let by_masu = preload::in_front(&library.path, existing.as_deref());
        if launched.kept_by.is_none() && !program.alone.as_ref().is_some_and(Serving::is_masu) {
            let trace = ask(&program, &by_masu);
            program.malloc =
                serving::first(&files(&program, contents.as_ref(), trace.as_ref(), &by_masu));
        }
        return Ok((program, findings, Outlook::Found));
    }
    findings.extend(rivals(&alone, preloaded, &masu));
    if let Some(finding) = kept(&launched, &shown, preloaded) {
        findings.push(finding);
        program.malloc = program.alone.clone();
        return Ok((program, findings, Outlook::Found));
    }
    if !preloaded && !launched.by_masu {
        let lost = trace.as_ref().and_then(|trace| only_by_masu(trace, &shown));
        findings.push(lost.unwrap_or_else(|| not_by_itself(&program, library)));
    }
    let value = match existing {
        Some(value) if preloaded => value,
        existing => preload::in_front(&library.path, existing.as_deref()),
    };
    findings.extend(ask_loader(&mut program, &shown, &value, &masu));
    let outlook = if has(Weight::Ends) { Outlook::Crash } else { Outlook::Found };
    Ok((program, findings, outlook))
}

/// Returns the LD_PRELOAD that the program would get.
fn environment(launched: &Launched) -> Option<OsString> {
    match &launched.preload {
        Some(value) => Some(value.clone()),
        None if launched.kept_by.is_some() => None,
        None => env::var_os("LD_PRELOAD"),
    }
}

/// Reports what a launcher does to LD_PRELOAD.
fn kept(launched: &Launched, shown: &str, preloaded: bool) -> Option<Finding> {
    let words = launched.kept_by.as_ref().filter(|_| !preloaded)?.join(" ");
    let by = words.split(' ').next_back().filter(|word| !word.starts_with('-')).unwrap_or(&words);
    let by = if words.contains(' ') { &words } else { by };
    let command: Vec<_> = launched.command.iter().map(|word| word.to_string_lossy()).collect();
    let sentence =
        format!("`{by}` gives `{shown}` an environment of its own: LD_PRELOAD does not reach it.");
    Some(Finding::problem("program.launcher", sentence).fix(format!(
        "{words} {} run -- {}",
        program::this(),
        command.join(" ")
    )))
}

/// Returns the files that the program starts with.
fn files(
    program: &Program,
    contents: Option<&Arc<Contents>>,
    trace: Option<&Trace>,
    preload: &OsStr,
) -> Vec<Loaded> {
    let own = contents.map(|contents| Loaded {
        path: program.binary.clone(),
        contents: Some(contents.clone()),
        preloaded: false,
    });
    let others = trace.iter().flat_map(|trace| &trace.libraries).map(|library| Loaded {
        path: library.into(),
        contents: Contents::read(Path::new(library)),
        preloaded: preload::entries(preload)
            .any(|entry| same_file(&entry.to_string_lossy(), library)),
    });
    own.into_iter().chain(others).collect()
}

/// masu is in the program, either itself or as a library it is linked with.
fn linked(program: &mut Program, shown: &str, trace: Option<Trace>, masu: &Masu) -> Vec<Finding> {
    const ID: &str = "program.malloc";
    const EVER: &str = "however the program is started";
    let mut findings = Vec::new();
    if let Some(trace) = trace {
        findings.extend(troubles(&trace, shown, masu));
        findings.extend(brought_along(&trace, masu));
        sort_bindings(program, &trace, masu);
        program.libraries = trace.libraries;
    }
    program.malloc = program.alone.clone();
    let malloc = program.malloc.as_ref();
    findings.push(Finding::ok(
        ID,
        match malloc.filter(|serving| serving.is_masu()) {
            Some(serving) if serving.how == How::Inside => {
                format!("masu is linked into `{shown}` and serves malloc {EVER}.")
            }
            Some(serving) => {
                let file = serving.file.display();
                format!("`{shown}` is linked with {file}: masu serves malloc {EVER}.")
            }
            None => {
                let other = malloc.map_or("the C library", |serving| &serving.allocator);
                format!(
                    "masu is the global allocator of `{shown}` and serves Rust's allocations {EVER}. \
                     malloc, for code in other languages, is {other}'s without `masu run`."
                )
            }
        },
    ));
    if let Some((user, provider)) = program.elsewhere.first().filter(|_| !program.rust) {
        let sentence = format!(
            "`malloc` in {user} is bound to {provider}: `{shown}` hides its own from its libraries."
        );
        let fix = "-rdynamic, and no --exclude-libs or version script that hides malloc";
        findings.push(Finding::note(ID, sentence).fix(fix));
    }
    findings
}

/// A virtual machine has memory that does not come from an allocator.
fn java(contents: Option<&Contents>, shown: &str) -> Option<Finding> {
    contents.filter(|contents| contents.java).map(|_| {
        let sentence = format!(
            "`{shown}` starts a Java virtual machine: masu serves its native memory, not Java's heap."
        );
        Finding::note("program.allocator", sentence).fix("-Xmx limits the heap")
    })
}

/// A program that is linked with masu and does not find it.
fn only_by_masu(trace: &Trace, shown: &str) -> Option<Finding> {
    let library = trace.missing.iter().find(|name| crate::allocators::is_masus_name(name))?;
    let sentence = format!(
        "`{shown}` is linked with {library}, which its loader cannot find: it starts only under `masu run`."
    );
    Some(Finding::warning("program.libraries", sentence).fix(
        "run ldconfig if the library is in a system directory; otherwise name its directory in LD_LIBRARY_PATH",
    ))
}

/// Asks the program's dynamic loader.
fn ask(program: &Program, preload: &OsStr) -> Option<Trace> {
    let interpreter = Elf::read(&program.binary).ok()?.interpreter?;
    loader::ask(Path::new(&interpreter), &program.binary, preload)
}

/// Turns an obstacle into a finding about the program shown as `shown`.
pub fn judge(shown: &str, obstacle: &Obstacle) -> Finding {
    let sentence = format!("`{shown}` {}.", obstacle.what);
    let finding = match obstacle.weight {
        Weight::Stops | Weight::Ends | Weight::Useless | Weight::Unknown => {
            Finding::problem(obstacle.id, sentence)
        }
        Weight::Partial => Finding::warning(obstacle.id, sentence),
    };
    match (obstacle.remedy, obstacle.weight) {
        (Some(remedy), _) => finding.fix(remedy.replace('\n', " ")),
        (None, Weight::Useless | Weight::Partial) => finding
            .fix("build it without that allocator; most programs have a build option for that"),
        (None, _) => finding,
    }
}

/// Reports what kind of program it is.
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
            let how = match elf.interpreter {
                Some(_) => format!("linked dynamically, for {libc}"),
                None => "linked statically".to_owned(),
            };
            Finding::ok(ID, format!("{binary}{by}: {machine}, {how}."))
        }
        Err(_) => Finding::note(ID, format!("`{shown}` is not an ELF file; /bin/sh will read it."))
            .fix("add a first line such as #!/bin/sh"),
    }
}

/// Other allocators in `LD_PRELOAD`, and missing entries.
fn rivals(existing: &OsStr, preloaded: bool, masu: &Masu) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut masu_seen = !preloaded;
    for entry in preload::entries(existing) {
        let path = Path::new(entry);
        masu_seen |= masu.is(path);
        let Some(rival) = whose(path).filter(|_| !masu.is(path)) else { continue };
        findings.push(if masu_seen {
            Finding::warning(
                "environment.rival",
                format!("LD_PRELOAD names {rival} too, after masu, which serves malloc."),
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
    let other = program.alone.as_ref().map_or("the C library's malloc", |s| &s.allocator);
    Finding::note(PRELOAD, format!("Without `masu run`, `{name}` runs on {other}."))
        .fix(format!("masu run -- {name}   or   export LD_PRELOAD={}", library.path.display()))
}

fn ask_loader(program: &mut Program, shown: &str, value: &OsString, masu: &Masu) -> Vec<Finding> {
    const ID: &str = "program.malloc";
    let Some(interpreter) = Elf::read(&program.binary).ok().and_then(|elf| elf.interpreter) else {
        return Vec::new();
    };
    let Some(trace) = loader::ask(Path::new(&interpreter), &program.binary, value) else {
        let sentence = format!("The loader {interpreter} is not a known one, so it was not asked.");
        return vec![Finding::note(ID, sentence).fix("masu doctor --run starts the program")];
    };
    let contents = Contents::read(&program.binary);
    program.malloc = serving::first(&files(program, contents.as_ref(), Some(&trace), value));
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
        let sentence = format!("`{shown}` needs {library}, which does not exist.");
        Finding::problem("program.libraries", sentence)
            .fix(format!("install {library}, or name its directory in LD_LIBRARY_PATH"))
    });
    let ignored = trace.ignored.iter().map(|(object, reason)| {
        let sentence = format!("The loader cannot preload {object}: {reason}.");
        let finding = if masu.is(Path::new(object)) {
            Finding::problem(PRELOAD, sentence)
        } else {
            Finding::warning(PRELOAD, sentence)
        };
        finding.fix("correct the path in LD_PRELOAD")
    });
    missing.chain(ignored).collect()
}

/// Libraries that contain an allocator.
fn brought_along(trace: &Trace, masu: &Masu) -> Vec<Finding> {
    let others = trace.libraries.iter().filter(|library| !masu.is(Path::new(library)));
    let inside = |library: &String| Contents::read(Path::new(library))?.inside.first().copied();
    others
        .filter_map(|library| Some((library, inside(library)?)))
        .map(|(library, name)| {
            let sentence = format!("{library} has {name} inside, for its own use.");
            Finding::note("program.libraries", sentence)
        })
        .collect()
}

/// Sorts the users of `malloc` by the allocator they get.
fn sort_bindings(program: &mut Program, trace: &Trace, masu: &Masu) {
    let own = program.binary.display().to_string();
    for (user, provider) in &trace.malloc {
        // An executable at a fixed address provides its own entry for a function whose address it
        // takes: a library is then bound to the executable, and gets the executable's `malloc`.
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
