//! A process that runs: is masu in it, with which options, beside whom, and in how much memory.

use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use memchr::memmem;
use procfs::process::{MMPermissions, MMapPath, MemoryMaps, SmapsRollup, Status};
use schemars::JsonSchema;
use serde::Serialize;

use super::bytes::Bytes;
use super::finding::Finding;
use super::masu::{Masu, file_name};
use super::root::Root;
use super::settings::{self, Setting};
use super::target::{inside, judge};
use crate::allocators::known_library;
use crate::elf::Elf;
use crate::failure::{Failure, USAGE};
use crate::library::Library;
use crate::obstacle::{self, Weight};
use crate::preload;

const AT_SECURE: u64 = 23;

/// The facts. What could not be read is null or empty.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Process {
    /// Its id.
    pub id: u32,
    /// Its name, as `ps -o comm` shows it.
    pub name: String,
    /// The file it runs.
    pub binary: Option<PathBuf>,
    /// The libmasu.so that is mapped.
    pub masu: Option<PathBuf>,
    /// Whether masu is linked into the program itself.
    pub linked_in: bool,
    /// Whether it runs with rights that its caller has not (AT_SECURE).
    pub secure: bool,
    /// The options in force, if masu is there and the environment can be read.
    pub settings: Vec<Setting>,
    /// Files that bring another allocator, and which.
    pub others: Vec<(PathBuf, String)>,
    /// What it takes of memory.
    pub memory: Option<Memory>,
    /// How many mappings it has.
    pub mappings: Option<u64>,
    /// How many threads it has.
    pub threads: Option<u64>,
}

/// Bytes of memory.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Memory {
    /// Resident.
    pub rss: u64,
    /// Resident, pages shared with n processes counting for an nth.
    pub pss: u64,
    /// Resident and not of a file: blocks, stacks.
    pub anonymous: u64,
    /// Resident and of a file: programs, libraries, data.
    pub file: u64,
    /// In swap.
    pub swap: u64,
}

/// Looks at the process `id`.
pub fn look(
    id: u32,
    root: &Root,
    library: Option<&Library>,
    most_mappings: Option<u64>,
) -> Result<(Process, Vec<Finding>), Failure> {
    let maps = maps(id, root)?;
    let status: Option<Status> = root.process("status");
    let masu = Masu::new(library.map(|library| library.path.as_path()));
    let files = Files::of(&maps, root);
    let environment = environment(root);
    let variables = environment.as_deref().unwrap_or_default();
    let mut process = Process {
        id,
        name: status.as_ref().map(|status| status.name.clone()).unwrap_or_default(),
        binary: fs::read_link(root.process_file("exe")).ok().map(|path| undeleted(&path).0),
        secure: root.auxiliary(AT_SECURE) == Some(1),
        memory: memory(root),
        mappings: Some(maps.0.len() as u64),
        threads: status.map(|status| status.threads),
        ..Process::default()
    };
    let mapped = files.0.iter().find(|file| masu.is(&file.path));
    process.masu = mapped.map(|file| file.path.clone());
    let binary = process.binary.as_deref().and_then(|binary| files.named(binary));
    process.linked_in = binary.is_some_and(|file| has_masu(&file.here));
    process.others = files.allocators(&masu);
    let there = process.masu.is_some() || process.linked_in;

    let mut findings = Vec::new();
    if there {
        findings.extend(served(&process, variables, &masu, mapped.is_some_and(|f| f.deleted)));
        process.settings = settings::of(variables, process.secure);
        findings.push(options(&process, environment.is_some()));
        if !process.secure {
            findings.extend(settings::mistakes(variables));
        }
    } else {
        let context = (variables, environment.is_some());
        findings.push(absent(&process, context, &masu, binary, library, root));
    }
    findings.extend(beside(&process));
    findings.extend(process.memory.as_ref().map(resident));
    findings.extend(mappings(&process, most_mappings));
    Ok((process, findings))
}

fn maps(id: u32, root: &Root) -> Result<MemoryMaps, Failure> {
    let file = root.process_file("maps");
    if let Err(error) = fs::read(&file) {
        let why = match error.kind() {
            io::ErrorKind::NotFound => "there is no such process".to_owned(),
            io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => error.to_string(),
        };
        let failure = Failure::new(USAGE, format!("process {id} cannot be looked at: {why}"));
        return Err(match error.kind() {
            io::ErrorKind::PermissionDenied => failure.remedy("ask as that user, or as root"),
            _ => failure,
        });
    }
    root.process("maps").ok_or_else(|| {
        Failure::new(USAGE, format!("process {id} cannot be looked at: `{}`", file.display()))
    })
}

/// A file of which code is mapped.
struct MappedFile {
    /// As the process names it.
    path: PathBuf,
    /// Where it is for us: the process may have a root of its own.
    here: PathBuf,
    /// Whether it was removed or replaced since.
    deleted: bool,
}

struct Files(Vec<MappedFile>);

impl Files {
    fn of(maps: &MemoryMaps, root: &Root) -> Self {
        let mut files: Vec<MappedFile> = Vec::new();
        for map in &maps.0 {
            let MMapPath::Path(path) = &map.pathname else { continue };
            if !map.perms.contains(MMPermissions::EXECUTE) {
                continue;
            }
            let (path, deleted) = undeleted(path);
            if files.iter().all(|file| file.path != path) {
                let own = root.process_file("root").join(path.strip_prefix("/").unwrap_or(&path));
                let here = if own.exists() { own } else { root.at(&path) };
                files.push(MappedFile { path, here, deleted });
            }
        }
        Self(files)
    }

    fn named(&self, path: &Path) -> Option<&MappedFile> {
        self.0.iter().find(|file| file.path == path)
    }

    /// The other allocators: libraries that are one, and files that have one inside.
    fn allocators(&self, masu: &Masu) -> Vec<(PathBuf, String)> {
        let others = self.0.iter().filter(|file| !masu.is(&file.path));
        let named = |file: &MappedFile| known_library(file_name(&file.path));
        others
            .filter_map(|file| {
                let name = named(file).or_else(|| inside(&file.here))?;
                Some((file.path.clone(), name.to_owned()))
            })
            .collect()
    }
}

/// The path without the mark of a file that is gone.
fn undeleted(path: &Path) -> (PathBuf, bool) {
    match path.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
        Some(path) => (PathBuf::from(OsStr::from_bytes(path)), true),
        None => (path.to_path_buf(), false),
    }
}

/// Whether masu is linked into the program in the file `path`.
fn has_masu(path: &Path) -> bool {
    let Ok(elf) = Elf::read(path) else { return false };
    memmem::find(&elf.rodata, b"masu: effective configuration").is_some()
}

/// The variables it was started with.
fn environment(root: &Root) -> Option<Vec<CString>> {
    let bytes = fs::read(root.process_file("environ")).ok()?;
    let variables = bytes.split(|&byte| byte == 0).filter(|variable| !variable.is_empty());
    Some(variables.filter_map(|variable| CString::new(variable).ok()).collect())
}

fn variable<'a>(variables: &'a [CString], name: &str) -> Option<&'a OsStr> {
    let value = |variable: &'a CString| {
        variable.to_bytes().strip_prefix(name.as_bytes())?.strip_prefix(b"=")
    };
    variables.iter().find_map(value).map(OsStr::from_bytes)
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

/// masu is there: does it serve?
fn served(process: &Process, variables: &[CString], masu: &Masu, deleted: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let preload = variable(variables, "LD_PRELOAD").unwrap_or_default();
    let first = preload::entries(preload)
        .map(Path::new)
        .find(|entry| masu.is(entry) || known_library(file_name(entry)).is_some());
    match first.filter(|entry| !masu.is(entry) && !process.linked_in) {
        Some(rival) => findings.push(
            Finding::problem(ID, format!("LD_PRELOAD names {} before masu.", rival.display()))
                .fix("start it with: masu run, which puts masu first"),
        ),
        None => findings.push(Finding::ok(
            ID,
            match &process.masu {
                Some(library) => format!("{} is mapped.", library.display()),
                None => "masu is linked into the program.".to_owned(),
            },
        )),
    }
    if deleted {
        findings.push(
            Finding::note("process.replaced", "libmasu.so was replaced since the process started.")
                .fix("restart the process to run on the new one"),
        );
    }
    findings
}

/// masu is not there: why?
fn absent(
    process: &Process,
    (variables, known): (&[CString], bool),
    masu: &Masu,
    binary: Option<&MappedFile>,
    library: Option<&Library>,
    root: &Root,
) -> Finding {
    let name = &process.name;
    if process.secure {
        return Finding::problem(
            ID,
            "It runs with rights its caller has not, so the dynamic loader ignored LD_PRELOAD.",
        )
        .fix("name libmasu.so in /etc/ld.so.preload, which holds for every program of the system");
    }
    let obstacles = binary.map(|file| obstacle::in_file(&file.here, library)).unwrap_or_default();
    if let Some(stops) = obstacles.iter().find(|obstacle| obstacle.weight == Weight::Stops) {
        return Finding { id: ID, ..judge(name, stops) };
    }
    if !known {
        return Finding::problem(ID, "masu is not mapped; its environment cannot be read.")
            .fix("ask as the user it runs as, or as root");
    }
    let preload = variable(variables, "LD_PRELOAD").unwrap_or_default();
    if let Some(entry) = preload::entries(preload).map(Path::new).find(|entry| masu.is(entry)) {
        let shown = entry.display();
        let relative = entry.strip_prefix("/").ok();
        let there = relative.is_some_and(|path| root.process_file("root").join(path).is_file());
        return if there || !entry.has_root() {
            let sentence = format!("LD_PRELOAD names {shown}, and the loader did not map it.");
            Finding::problem(ID, sentence)
                .fix("start it by hand and read what the loader says on stderr")
        } else {
            Finding::problem(ID, format!("LD_PRELOAD names {shown}, which is not there."))
                .fix("correct the path, as the process sees it")
        };
    }
    Finding::problem(ID, "It was started without masu: LD_PRELOAD does not name it.")
        .fix(format!("restart it with: masu run -- {}", command_line(root).unwrap_or(name.clone())))
}

/// Its command line, as a shell would read it, if it is not too long to show.
fn command_line(root: &Root) -> Option<String> {
    let bytes = fs::read(root.process_file("cmdline")).ok()?;
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
    (line.len() <= 80).then_some(line)
}

fn options(process: &Process, known: bool) -> Finding {
    const ID: &str = "process.options";
    if process.secure {
        return Finding::note(ID, "It runs with rights its caller has not: the defaults hold.");
    }
    if !known {
        return Finding::note(ID, "Its environment cannot be read, nor its options.")
            .fix("ask as the user it runs as, or as root");
    }
    // A policy is named; what it stands for need not be.
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

/// Other allocators in the process.
fn beside(process: &Process) -> Vec<Finding> {
    let others = process.others.iter().map(|(path, name)| {
        let shown = path.display();
        let is_program = process.binary.as_deref() == Some(path);
        if is_program {
            let sentence =
                format!("{shown} has {name} built in: masu serves only what does not go there.");
            Finding::warning("process.allocators", sentence)
                .fix("build it without that allocator; most programs have an option for it")
        } else if known_library(file_name(path)).is_some() {
            Finding::note("process.allocators", format!("{name} is mapped too: {shown}."))
        } else {
            Finding::note(
                "process.allocators",
                format!("{shown} has {name} inside, for its own use."),
            )
        }
    });
    others.collect()
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
