//! Obstacles between masu and a program: facts about the program's file that keep the library from
//! being loaded, or from serving the program's allocations.

use std::path::Path;

use crate::allocators::{Contents, MASU, Sanitizer, UNKNOWN, file_name};
use crate::elf::{Elf, Unreadable};
use crate::library::Library;
use crate::php;
use crate::privilege::{Gain, gained_by};

/// How much of masu's effect remains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// The library cannot be loaded, or the program would not run with it.
    Stops,
    /// It is loaded, and the program usually ends because of it.
    Ends,
    /// It is loaded but serves nothing.
    Useless,
    /// It serves a part.
    Partial,
    /// Nothing is known.
    Unknown,
}

/// An obstacle.
#[derive(Debug)]
pub struct Obstacle {
    /// Its identifier for programs.
    pub id: &'static str,
    /// How much it matters.
    pub weight: Weight,
    /// What it is; completes a sentence that begins with the program's name.
    pub what: String,
    /// The remedy.
    pub remedy: Option<&'static str>,
}

impl Obstacle {
    fn new(id: &'static str, weight: Weight, what: impl Into<String>) -> Self {
        Self { id, weight, what: what.into(), remedy: None }
    }

    fn remedy(self, remedy: &'static str) -> Self {
        Self { remedy: Some(remedy), ..self }
    }
}

/// The identifier of findings about files that cannot be read.
pub const READABLE: &str = "program.readable";
/// The identifier of [`php`]'s finding, which a run of the program can disprove.
pub const EXTENSIONS: &str = "program.extensions";

/// Returns the obstacles between `library` and the program in the file `binary`, worst first.
pub fn between(binary: &Path, library: &Library) -> Vec<Obstacle> {
    // Privileges matter only for preloading.
    let linked = Contents::read(binary).is_some_and(|contents| contents.runs_on_masu());
    let gain = gained_by(binary).filter(|_| !linked);
    let mut obstacles: Vec<_> = gain.map(rights).into_iter().collect();
    obstacles.extend(in_file(binary, Some(library)));
    obstacles
}

/// The same without the question of privileges, for a program that is already running.
pub fn in_file(binary: &Path, library: Option<&Library>) -> Vec<Obstacle> {
    use Weight::{Stops, Unknown};
    let mut obstacles = Vec::new();
    let elf = match Elf::read(binary) {
        Ok(elf) => elf,
        // A shell script without a #! line, or a format for the kernel to judge.
        Err(Unreadable::NotElf) => return obstacles,
        Err(Unreadable::Closed(error)) => {
            let what = format!("cannot be read ({error}), so nothing about it was checked");
            obstacles.push(
                Obstacle::new(READABLE, Unknown, what)
                    .remedy("run this as a user who may read it, or with --run, which starts it"),
            );
            return obstacles;
        }
        Err(Unreadable::Damaged(error)) => {
            let what = format!("is damaged: {error}");
            obstacles.push(Obstacle::new(READABLE, Stops, what));
            return obstacles;
        }
    };
    let contents = Contents::of(&elf, &file_name(binary));
    let is_static = elf.interpreter.is_none();
    if is_static && (contents.masu || contents.rust) {
        // Nothing is loaded, so the library does not matter.
        return obstacles;
    }
    obstacles.extend(library.and_then(|library| foreign(&elf, library)));
    obstacles.extend(if is_static { Some(static_program(&contents)) } else { own(&contents) });
    obstacles.extend(php::deep_binding(&elf).map(|version| {
        let what = format!(
            "is PHP {version}, which loads its extensions with RTLD_DEEPBIND: they free its blocks with the C \
             library's free, and it crashes under any preloaded malloc"
        );
        Obstacle::new(EXTENSIONS, Weight::Ends, what).remedy(
            "use PHP 8.5 or later, or an image on Alpine; with -n it runs without these extensions",
        )
    }));
    obstacles
}

fn rights(gain: Gain) -> Obstacle {
    let how = match gain {
        Gain::User => "runs as another user (set-user-ID)",
        Gain::Group => "runs as another group (set-group-ID)",
        Gain::Capabilities => "has file capabilities",
        Gain::Inherited => "would inherit the privileges that this process was given",
    };
    let what = format!("{how}, so the dynamic loader ignores LD_PRELOAD");
    Obstacle::new("program.rights", Weight::Stops, what).remedy(
        "run it as the user it changes to, or let the administrator name libmasu.so in\n\
         /etc/ld.so.preload, which applies to every program of the system",
    )
}

/// No loader exists that could preload anything.
fn static_program(contents: &Contents) -> Obstacle {
    let what = "is statically linked, so no library can be preloaded into it";
    let obstacle = Obstacle::new("program.linkage", Weight::Stops, what);
    if contents.go {
        obstacle.remedy("Go has an allocator of its own: GOMEMLIMIT and GOGC limit its memory")
    } else {
        obstacle.remedy("link libmasu.a into it, or build it dynamically linked")
    }
}

/// Whether the two can be in one process.
fn foreign(elf: &Elf, library: &Library) -> Option<Obstacle> {
    use Weight::Stops;
    if elf.machine != library.elf.machine {
        let (program, library) = (elf.machine, library.elf.machine);
        let what = format!("is a {program} program, and this masu is {library}");
        let remedy = match elf.machine.is_narrow() {
            true => "build the program for 64 bits: masu has no library for 32",
            false => "use a masu built for that machine",
        };
        return Some(Obstacle::new("program.machine", Stops, what).remedy(remedy));
    }
    if elf.is_musl() && library.elf.is_glibc() {
        let library = library.path.display();
        let what = format!("runs on musl, and `{library}` needs glibc");
        return Some(Obstacle::new("program.libc", Stops, what).remedy(
            "preload a library built for musl, or one that needs no libc, like libmasu.so",
        ));
    }
    None
}

/// Whether the program contains its own allocator.
fn own(contents: &Contents) -> Option<Obstacle> {
    use Weight::{Partial, Stops, Useless};
    const ID: &str = "program.allocator";
    const SANITIZER: &str = "program.sanitizer";
    match contents.sanitizer {
        _ if contents.masu => return None,
        Some(Sanitizer::Linked(name)) => {
            let what = format!("is built with {name}, which must be its malloc");
            return Some(
                Obstacle::new(SANITIZER, Stops, what)
                    .remedy("run it without masu, or build it without the sanitizer"),
            );
        }
        Some(Sanitizer::Inside(name)) => {
            let what = format!("is built with {name}, whose malloc wins: masu will serve nothing");
            return Some(Obstacle::new(SANITIZER, Useless, what));
        }
        None => {}
    }
    let other = |names: &[&'static str]| names.iter().find(|&&name| name != MASU).copied();
    let (weight, what) = if let Some(name) = contents.malloc {
        let whose = match name {
            UNKNOWN => "defines malloc itself, and that one wins".to_owned(),
            name => format!("has {name} built in, whose malloc wins"),
        };
        (Useless, format!("{whose}: masu will serve nothing"))
    } else if let Some(name) = other(&contents.inside) {
        (Partial, format!("has {name} built in: masu serves only what does not use it"))
    } else if let Some(name) = contents.calls.first() {
        let what =
            format!("calls {name}'s own functions, which stay {name}'s: masu takes over malloc");
        (Partial, what)
    } else if contents.go {
        let what = "is a Go program: masu serves its C code, and Go's own memory stays Go's";
        (Partial, what.to_owned())
    } else {
        return None;
    };
    Some(Obstacle::new(ID, weight, what))
}
