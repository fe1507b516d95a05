//! What an ELF file says about itself, as far as preloading depends on it.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;

use object::read::elf::{ElfFile, FileHeader, ProgramHeader};
use object::{
    Endianness, FileKind, Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadCache, elf,
};

/// The facts about one file.
pub struct Elf {
    /// What it was built for.
    pub machine: Machine,
    /// The dynamic loader it names; a static program names none.
    pub interpreter: Option<String>,
    /// The libraries it asks for.
    pub needed: Vec<String>,
    /// The name that others ask for it by.
    pub soname: Option<String>,
    /// What it takes from others.
    pub imported: Vec<String>,
    /// What it defines for the dynamic loader. In a program these win over a preloaded library's.
    pub exported: Vec<String>,
    /// What it defines at all, as far as it was not stripped of the names.
    pub defined: Vec<String>,
    /// Its constants: messages among them.
    pub constants: Vec<u8>,
    /// Whether Go's compiler made it.
    pub is_go: bool,
    /// The doors of masu that are in it.
    pub doors: Vec<Door>,
    /// Whether glibc's start files are in it, as in every program for glibc.
    pub starts_on_glibc: bool,
}

/// By which door masu came into a file. It leaves a note there (`masu_core::note`), which no `strip` takes
/// away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Door {
    /// The file's `malloc` is masu's: the shared library, or the archive linked in.
    Malloc,
    /// Rust's global allocator.
    Global,
    /// An archive under names of its own, made by `private-archive --prefix`.
    Private,
}

impl Door {
    fn of(note_type: u32) -> Option<Self> {
        match note_type {
            1 => Some(Self::Malloc),
            2 => Some(Self::Global),
            3 => Some(Self::Private),
            _ => None,
        }
    }
}

/// Instruction set, word size and byte order: what all files in one process share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    instruction_set: elf::Machine,
    bits: u8,
    little_endian: bool,
}

/// Why a file says nothing.
#[derive(Debug)]
pub enum Unreadable {
    /// It is no ELF file.
    NotElf,
    /// It is one, but damaged.
    Damaged(object::Error),
    /// It cannot be opened.
    Closed(io::Error),
}

impl Elf {
    /// Reads the facts about the file at `path`.
    pub fn read(path: &Path) -> Result<Self, Unreadable> {
        Self::of(File::open(path).map_err(Unreadable::Closed)?)
    }

    /// Reads the facts about an open file.
    pub fn of(file: File) -> Result<Self, Unreadable> {
        let cache = ReadCache::new(file);
        match FileKind::parse(&cache) {
            Ok(FileKind::Elf32) => facts::<elf::FileHeader32<Endianness>>(&cache),
            Ok(FileKind::Elf64) => facts::<elf::FileHeader64<Endianness>>(&cache),
            _ => return Err(Unreadable::NotElf),
        }
        .map_err(Unreadable::Damaged)
    }

    /// Whether it belongs to musl's world.
    pub fn is_musl(&self) -> bool {
        let musl = |name: &String| name.contains("ld-musl-") || name.starts_with("libc.musl-");
        self.interpreter.iter().chain(&self.needed).any(musl)
    }

    /// Whether it belongs to glibc's world.
    pub fn is_glibc(&self) -> bool {
        self.needed.iter().any(|name| name == "libc.so.6")
    }
}

fn facts<H: FileHeader<Endian = Endianness>>(cache: &ReadCache<File>) -> object::Result<Elf> {
    let file: ElfFile<H, _> = ElfFile::parse(cache)?;
    let (header, endian) = (file.elf_header(), file.endian());

    let (mut interpreter, mut doors, mut starts_on_glibc) = (None, Vec::new(), false);
    for segment in file.elf_program_headers() {
        if let Some(path) = segment.interpreter(endian, cache)? {
            interpreter = Some(text(path));
        }
        let mut notes = segment.notes(endian, cache)?;
        while let Some(note) = notes.as_mut().and_then(|notes| notes.next().ok().flatten()) {
            match note.name() {
                b"masu" => doors.extend(Door::of(note.n_type(endian).0)),
                b"GNU" => starts_on_glibc |= note.n_type(endian) == elf::NT_GNU_ABI_TAG,
                _ => {}
            }
        }
    }
    doors.dedup();
    let dynamic = file.elf_dynamic_table()?;
    let named = |tag| dynamic.iter().filter(move |entry| entry.tag == tag);
    let name = |entry| dynamic.string(entry).map(text);
    let needed = named(elf::DT_NEEDED).map(name).collect::<Result<_, _>>()?;
    let soname = named(elf::DT_SONAME).map(name).next().transpose()?;
    let (exported, imported) = split(file.dynamic_symbols());

    Ok(Elf {
        machine: Machine {
            instruction_set: header.e_machine(endian),
            bits: if header.is_type_64() { 64 } else { 32 },
            little_endian: header.is_little_endian(),
        },
        interpreter,
        needed,
        soname,
        exported,
        imported,
        defined: split(file.symbols()).0,
        constants: constants(&file)?,
        is_go: file.section_by_name(".go.buildinfo").is_some(),
        doors,
        starts_on_glibc,
    })
}

/// The constant text; of a file without sections, all that is loaded and not written.
fn constants<'data, H: FileHeader<Endian = Endianness>>(
    file: &ElfFile<'data, H, &'data ReadCache<File>>,
) -> object::Result<Vec<u8>> {
    let mut constants = Vec::new();
    for section in file.sections().filter(|s| s.name().is_ok_and(|n| n.starts_with(".rodata"))) {
        constants.extend_from_slice(section.data()?);
    }
    if file.sections().next().is_none() {
        for segment in file.segments().filter(|segment| !segment.permissions().writable()) {
            constants.extend_from_slice(segment.data()?);
        }
    }
    Ok(constants)
}

/// The names of the symbols that are defined, and of those that are not.
fn split<'data>(symbols: impl Iterator<Item: ObjectSymbol<'data>>) -> (Vec<String>, Vec<String>) {
    let (mut defined, mut undefined) = (Vec::new(), Vec::new());
    for symbol in symbols {
        let Ok(name) = symbol.name_bytes() else { continue };
        if symbol.is_undefined() { &mut undefined } else { &mut defined }.push(text(name));
    }
    (defined, undefined)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}-bit ", self.bits)?;
        match self.instruction_set {
            elf::EM_X86_64 | elf::EM_386 => f.write_str("x86")?,
            elf::EM_AARCH64 | elf::EM_ARM => f.write_str("ARM")?,
            elf::EM_RISCV => f.write_str("RISC-V")?,
            elf::EM_PPC64 => f.write_str("POWER")?,
            elf::EM_S390 => f.write_str("s390")?,
            other => write!(f, "machine {}", other.0)?,
        }
        f.write_str(if self.little_endian { "" } else { ", big-endian" })
    }
}
