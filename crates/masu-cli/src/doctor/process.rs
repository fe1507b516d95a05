//! A running process: whether masu is in it, with which options, beside which other allocators, and
//! its memory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use procfs_core::process::{MemoryMaps, SmapsRollup, Stat, Status};
use rustix::process::geteuid;
use serde::Serialize;

use super::finding::Finding;
use super::mapped::{Environment, Files, sees, undeleted};
use super::root::Root;
use super::serving::{self, How, Serving};
use super::settings::{self, Setting};
use super::target::judge;
use super::unit::Unit;
use crate::allocators::{MASU, file_name, known_library};
use crate::bytes::Bytes;
use crate::failure::{Failure, USAGE};
use crate::library::Library;
use crate::obstacle::{self, Weight};
use crate::preload;
use crate::printable::{self, printable};
use crate::see;

const AT_SECURE: u64 = 23;

/// A process. What could not be read is null or empty.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Process {
    /// The process ID.
    pub id: u32,
    /// Its name, as `ps -o comm` shows it.
    pub name: String,
    /// Its executable file.
    #[serde(serialize_with = "printable::path_if_any")]
    pub binary: Option<PathBuf>,
    /// The allocator that serves its `malloc`.
    pub malloc: Option<Serving>,
    /// The libmasu.so that it has mapped.
    #[serde(serialize_with = "printable::path_if_any")]
    pub masu: Option<PathBuf>,
    /// Whether masu is linked into the program itself.
    pub linked_in: bool,
    /// Whether masu is the global allocator of a Rust program.
    pub rust: bool,
    /// Whether it runs with more privileges than its caller (AT_SECURE).
    pub secure: bool,
    /// The options in force, if the process has masu and its environment can be read.
    pub settings: Vec<Setting>,
    /// Files that contain another allocator, each with the allocator's name.
    #[serde(serialize_with = "printable::paths")]
    pub others: Vec<(PathBuf, String)>,
    /// Its memory.
    pub memory: Option<Memory>,
    /// The number of its mappings.
    pub mappings: Option<u64>,
    /// The number of its threads.
    pub threads: Option<u64>,
    /// The systemd unit that it belongs to.
    pub unit: Option<String>,
}

impl Process {
    /// Whether masu serves it, either its `malloc` or Rust's allocations.
    pub fn runs_on_masu(&self) -> bool {
        self.rust || self.malloc.as_ref().is_some_and(Serving::is_masu)
    }
}

/// Bytes of memory.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Memory {
    /// Resident (RSS).
    pub rss: u64,
    /// Resident; a page that n processes share counts as an nth part (PSS).
    pub pss: u64,
    /// Resident and anonymous: blocks, stacks.
    pub anonymous: u64,
    /// Resident and of files: programs, libraries, data.
    pub file: u64,
    /// Swapped out.
    pub swap: u64,
}

/// Examines the process `id`.
pub fn look(
    id: u32,
    root: &Root,
    library: Option<&Library>,
    most_mappings: Option<u64>,
) -> Result<(Process, Vec<Finding>), Failure> {
    let maps = maps(id, root)?;
    let environment = Environment::of(root);
    let (process, files) = facts(id, &maps, &environment, root);

    let mut findings = Vec::new();
    if process.runs_on_masu() {
        findings.push(served(&process));
        findings.extend(process.masu.iter().filter(|path| files.deleted.contains(path)).map(
            |_| {
                let sentence = "libmasu.so was replaced since the process started.";
                Finding::note("process.replaced", sentence)
                    .fix("restart the process to run on the new version")
            },
        ));
        findings.push(options(&process, &environment, root));
        if !process.secure {
            findings.extend(settings::mistakes(environment.variables()));
        }
    } else {
        findings.push(absent(&process, &environment, library, root));
    }
    findings.extend(beside(&process, &files));
    findings.extend(process.memory.as_ref().map(resident));
    findings.extend(mappings(&process, most_mappings));
    Ok((process, findings))
}

/// Reads what there is to know about the process `id`, which has these mappings and variables.
pub fn facts(
    id: u32,
    maps: &MemoryMaps,
    environment: &Environment,
    root: &Root,
) -> (Process, Files) {
    let status: Option<Status> = root.process("status");
    let binary = fs::read_link(root.process_file("exe")).ok().map(|path| undeleted(&path).0);
    let files = Files::of(maps, binary.as_deref(), environment, root);
    let own = binary.as_ref().and_then(|_| files.program()?.contents.clone());
    let mut process = Process {
        id,
        name: status.as_ref().map(|status| printable(&status.name)).unwrap_or_default(),
        malloc: serving::first(&files.ordered),
        masu: files.masu().map(|file| file.path.clone()),
        linked_in: own.as_ref().is_some_and(|own| own.masu || own.rust),
        rust: own.is_some_and(|own| own.rust),
        secure: root.auxiliary(AT_SECURE) == Some(1),
        settings: Vec::new(),
        others: Vec::new(),
        memory: memory(root),
        mappings: Some(maps.0.len() as u64),
        threads: status.map(|status| status.threads),
        unit: Unit::of(root).map(|unit| unit.name),
        binary,
    };
    process.masu = process.masu.filter(|path| Some(path) != process.binary.as_ref());
    process.others = others(&process, &files);
    let known = process.secure || matches!(environment, Environment::Read(_));
    if process.runs_on_masu() && known {
        process.settings = settings::of(environment.variables(), process.secure);
    }
    (process, files)
}

/// Returns the other allocators: libraries that are one and do not serve, and files that contain
/// one.
fn others(process: &Process, files: &Files) -> Vec<(PathBuf, String)> {
    let serving = process.malloc.as_ref().map(|serving| (&*serving.file, &*serving.allocator));
    let mut others = Vec::new();
    for file in &files.ordered {
        let offered = file.malloc().filter(|name| !matches!(*name, MASU | "glibc" | "musl"));
        let own = process.linked_in && process.binary.as_ref() == Some(&file.path);
        let inside = file.contents.iter().flat_map(|contents| contents.inside.iter().copied());
        let inside = inside.filter(|name| !(own && *name == MASU));
        for name in offered.into_iter().chain(inside) {
            if serving != Some((&*file.path, name)) {
                others.push((file.path.clone(), name.to_owned()));
            }
        }
    }
    others
}

/// Returns the mappings of the process.
pub fn mappings_of(root: &Root) -> io::Result<MemoryMaps> {
    let bytes = fs::read(root.process_file("maps"))?;
    masu_inspect::find::parsed(&bytes).map_err(|error| io::Error::other(error.to_string()))
}

fn maps(id: u32, root: &Root) -> Result<MemoryMaps, Failure> {
    let cannot =
        |why: &str| Failure::new(USAGE, format!("process {id} cannot be inspected: {why}"));
    let none = || see::failure(&masu_inspect::Error::NoProcess(id));
    match mappings_of(root) {
        Ok(maps) if !maps.0.is_empty() => Ok(maps),
        // Linux 6.14 and older show no mappings, later ones fail.
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => Err(match error.kind() {
            io::ErrorKind::NotFound => none(),
            io::ErrorKind::PermissionDenied => cannot("permission denied").remedy(privileges()),
            _ => cannot(&error.to_string()),
        }),
        _ => Err(match root.process::<Stat>("stat").map(|stat| stat.state) {
            None => none(),
            Some('Z' | 'X') => cannot("it has ended, but its parent has not waited for it yet"),
            Some(_) => cannot("it is a kernel thread, which has no memory of its own"),
        }),
    }
}

/// Who may read the process.
fn privileges() -> String {
    if geteuid().is_root() {
        masu_inspect::error::root()
    } else {
        "run this as the process's user, or as root".into()
    }
}

fn memory(root: &Root) -> Option<Memory> {
    let rollup: SmapsRollup = root.process("smaps_rollup")?;
    let values = &rollup.memory_map_rollup.0.first()?.extension.map;
    let of = |name: &str| values.get(name).copied().unwrap_or(0);
    let (rss, anonymous) = (of("Rss"), of("Anonymous"));
    Some(Memory {
        rss,
        pss: of("Pss"),
        anonymous,
        file: rss.saturating_sub(anonymous),
        swap: of("Swap"),
    })
}

const ID: &str = "process.masu";

/// masu serves: from which file?
fn served(process: &Process) -> Finding {
    const RUST: &str = "masu is the program's global allocator and serves Rust's allocations.";
    let malloc = process.malloc.as_ref().map(|serving| match serving {
        Serving { how: How::Inside, .. } if serving.is_masu() => {
            "masu is linked into the program and serves malloc.".to_owned()
        }
        Serving { how: How::Linked, file, .. } if serving.is_masu() => {
            format!("The program is linked with {}, which serves malloc.", file.display())
        }
        Serving { file, .. } if serving.is_masu() => {
            format!("{} is mapped and serves malloc.", file.display())
        }
        Serving { allocator, .. } => {
            format!("malloc, for code in other languages, is {allocator}'s.")
        }
    });
    let rust = process.rust.then(|| RUST.to_owned());
    Finding::ok(ID, rust.into_iter().chain(malloc).collect::<Vec<_>>().join(" "))
}

/// masu does not serve: why not?
fn absent(
    process: &Process,
    environment: &Environment,
    library: Option<&Library>,
    root: &Root,
) -> Finding {
    if let (Some(masu), Some(first)) = (&process.masu, &process.malloc) {
        return behind(masu, first, process);
    }
    if process.secure {
        return Finding::problem(
            ID,
            "It runs with more privileges than its caller, so the dynamic loader ignored LD_PRELOAD.",
        )
        .fix("name libmasu.so in /etc/ld.so.preload, which applies to every program of the system");
    }
    let exe = root.process_file("exe");
    let binary =
        process.binary.as_deref().map(|path| if exe.exists() { exe } else { root.at(path) });
    let obstacles = binary.map(|file| obstacle::in_file(&file, library)).unwrap_or_default();
    let hopeless = |weight| matches!(weight, Weight::Stops | Weight::Useless);
    if let Some(obstacle) = obstacles.iter().find(|obstacle| hopeless(obstacle.weight)) {
        let shown = process.binary.as_deref().map(file_name).unwrap_or_default();
        return Finding { id: ID, ..judge(&shown, obstacle) };
    }
    if matches!(environment, Environment::Unreadable) {
        return Finding::problem(ID, "masu is not mapped; its environment cannot be read.")
            .fix(privileges());
    }
    let preload = environment.value("LD_PRELOAD").unwrap_or_default();
    let named = preload::entries(preload).map(Path::new);
    if let Some(entry) = named.into_iter().find(|entry| is_masu(entry)) {
        let shown = entry.display();
        return if sees(entry, root) || !entry.has_root() {
            let sentence = format!("LD_PRELOAD names {shown}, but the loader did not map it.");
            Finding::problem(ID, sentence)
                .fix("start it by hand and read what the loader says on stderr")
        } else {
            Finding::problem(ID, format!("LD_PRELOAD names {shown}, which does not exist."))
                .fix("correct the path, as the process sees it")
        };
    }
    let serves = process.malloc.as_ref().map_or("", |serving| &serving.allocator);
    let serves = if serves.is_empty() { String::new() } else { format!(" It runs on {serves}.") };
    let sentence = match environment {
        Environment::Overwritten => format!(
            "masu is not mapped; the process has overwritten its environment, including LD_PRELOAD.{serves}"
        ),
        _ => format!("It was started without masu: LD_PRELOAD does not name it.{serves}"),
    };
    Finding::problem(ID, sentence).fix(match Unit::of(root) {
        Some(unit) => unit.preloads(library.map(|library| &*library.path)),
        None => {
            let line = match (environment, &process.binary) {
                // Its arguments lie before the environment, and went first.
                (Environment::Overwritten, Some(binary)) => format!("{} …", binary.display()),
                _ => command_line(root).unwrap_or_else(|| process.name.clone()),
            };
            format!("restart it with: masu run -- {line}")
        }
    })
}

fn is_masu(entry: &Path) -> bool {
    known_library(&file_name(entry)) == Some(MASU)
}

/// masu is mapped, but another allocator serves.
fn behind(masu: &Path, first: &Serving, process: &Process) -> Finding {
    let Serving { allocator, how, file } = first;
    let (file, masu) = (file.display(), masu.display());
    match how {
        How::Preloaded => Finding::problem(ID, format!("{file} is preloaded before masu."))
            .fix("start it with: masu run, which puts masu first"),
        How::Inside => {
            let name = &process.name;
            let sentence =
                format!("{masu} is mapped, but `{name}` has {allocator}, whose malloc wins.");
            Finding::problem(ID, sentence)
                .fix("build it without that allocator; most programs have a build option for that")
        }
        How::Linked | How::Libc => {
            let sentence = format!("{masu} was loaded later: malloc is {file}'s ({allocator}).");
            Finding::problem(ID, sentence).fix("start it with: masu run")
        }
    }
}

/// Returns its command line, as a shell would read it, if it is short enough to show.
fn command_line(root: &Root) -> Option<String> {
    let bytes = root.process_words("cmdline").ok()?;
    let words = bytes.strip_suffix(&[0])?.split(|&byte| byte == 0);
    let plain = |word: &str| {
        !word.is_empty()
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./=:@%+,".contains(&b))
    };
    let quoted = words.map(|word| match String::from_utf8_lossy(word) {
        word if plain(&word) => word.into_owned(),
        word => format!("'{}'", word.replace('\'', r"'\''")),
    });
    let line = quoted.collect::<Vec<_>>().join(" ");
    (line.len() <= 80 && !line.contains(char::is_control)).then_some(line)
}

fn options(process: &Process, environment: &Environment, root: &Root) -> Finding {
    const ID: &str = "process.options";
    if process.secure {
        return Finding::note(
            ID,
            "It runs with more privileges than its caller, so its options are the defaults.",
        );
    }
    match environment {
        Environment::Read(_) => {}
        Environment::Unreadable => {
            return Finding::note(ID, "Its environment, and so its options, cannot be read.")
                .fix(privileges());
        }
        Environment::Overwritten => {
            const UNKNOWN: &str =
                "The process has overwritten its environment, so its options are unknown";
            let seen = root.is_live().then(|| settings::seen(process.id)).flatten();
            let seen = seen.map(|seen| format!(", except {seen}")).unwrap_or_default();
            return Finding::note(ID, format!("{UNKNOWN}{seen}."));
        }
    }
    // A policy is named without the values it stands for.
    let named = |setting: &&Setting| !matches!(&*setting.origin, "built-in" | "policy");
    let set = process.settings.iter().filter(named);
    let set: Vec<_> = set.map(|s| format!("{} {} ({})", s.key, s.value, s.origin)).collect();
    Finding::ok(
        ID,
        if set.is_empty() {
            "All options have their defaults.".to_owned()
        } else {
            format!("Options set: {}.", set.join(", "))
        },
    )
}

/// Other allocators in the process, and languages that have one.
fn beside(process: &Process, files: &Files) -> Vec<Finding> {
    const ALLOCATORS: &str = "process.allocators";
    let on_masu = process.runs_on_masu();
    let others = process.others.iter().map(|(path, name)| {
        let shown = path.display();
        let is_program = process.binary.as_deref() == Some(path);
        let offers = files.ordered.iter().any(|file| file.path == *path && file.malloc().is_some());
        if is_program && on_masu {
            let sentence =
                format!("{shown} has {name} built in: masu serves only what does not use it.");
            Finding::warning(ALLOCATORS, sentence)
                .fix("build it without that allocator; most programs have a build option for that")
        } else if offers {
            Finding::note(ALLOCATORS, format!("{name} is mapped too: {shown}."))
        } else {
            Finding::note(ALLOCATORS, format!("{shown} has {name} inside, for its own use."))
        }
    });
    let mut findings: Vec<_> = others.collect();
    let has = |what: fn(&crate::allocators::Contents) -> bool| {
        files.ordered.iter().any(|file| file.contents.as_deref().is_some_and(what))
    };
    if on_masu && has(|contents| contents.go) {
        let sentence =
            "It is a Go program: masu serves its C code, and Go's own memory stays Go's.";
        findings.push(Finding::warning(ALLOCATORS, sentence).fix("GOMEMLIMIT and GOGC limit it"));
    }
    if on_masu && has(|contents| contents.java) {
        let sentence =
            "It is a Java virtual machine: masu serves its native memory, not Java's heap.";
        findings.push(Finding::note(ALLOCATORS, sentence).fix("-Xmx limits the heap"));
    }
    findings
}

fn resident(memory: &Memory) -> Finding {
    let Memory { rss, pss, anonymous, file, swap } = *memory;
    let swap = if swap == 0 { String::new() } else { format!(", {} in swap", Bytes(swap)) };
    Finding::ok(
        "process.memory",
        format!(
            "RSS {}: {} anonymous, {} of files; PSS {}{swap}.",
            Bytes(rss),
            Bytes(anonymous),
            Bytes(file),
            Bytes(pss)
        ),
    )
}

fn mappings(process: &Process, most: Option<u64>) -> Option<Finding> {
    const ID: &str = "process.mappings";
    let (count, most) = (process.mappings?, most?);
    let threads = process.threads.map_or(String::new(), |n| {
        if n == 1 { ", 1 thread".to_owned() } else { format!(", {n} threads") }
    });
    let sentence = format!("{count} of {most} mappings{threads}");
    let fix = format!("sysctl vm.max_map_count={}", most.max(65530).saturating_mul(4));
    Some(if count.saturating_mul(10) > most.saturating_mul(9) {
        Finding::problem(ID, format!("{sentence}: mmap is about to fail.")).fix(fix)
    } else if count > most / 2 {
        Finding::warning(ID, format!("{sentence}: more than half.")).fix(fix)
    } else {
        Finding::ok(ID, format!("{sentence}."))
    })
}
