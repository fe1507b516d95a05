//! The facts in an ELF file that matter for preloading.

mod bounded;

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;

use object::read::elf::{ElfFile, FileHeader, ProgramHeader};
use object::{Endianness, FileKind, Object, ObjectSection, ObjectSegment, ObjectSymbol, elf};

use bounded::Bounded;

/// The facts about one file.
pub struct Elf {
    /// The machine it was built for.
    pub machine: Machine,
    /// The dynamic loader it names; a static program names none.
    pub interpreter: Option<String>,
    /// The libraries it requires.
    pub needed: Vec<String>,
    /// The name by which others require it.
    pub soname: Option<String>,
    /// The symbols it imports.
    pub imported: Vec<String>,
    /// The symbols it exports to the dynamic loader. A program's override a preloaded library's.
    pub exported: Vec<String>,
    /// All symbols it defines, unless their names were stripped.
    pub defined: Vec<String>,
    /// Its constants, including messages.
    pub constants: Vec<u8>,
    /// Whether Go's compiler built it.
    pub is_go: bool,
    /// masu's doors in it.
    pub doors: Vec<Door>,
    /// Whether glibc's start files are in it, as in every program for glibc.
    pub starts_on_glibc: bool,
}

/// The door by which masu is in a file. It leaves a note (`masu_core::note`) that `strip` never removes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Door {
    /// The file's `malloc` is masu's: the shared library, or the archive linked in.
    Malloc,
    /// Rust's global allocator.
    Global,
    /// An archive with its own names, made by `private-archive --prefix`.
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

/// Instruction set, word size and byte order: the same for all files in a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    instruction_set: elf::Machine,
    bits: u8,
    little_endian: bool,
}

/// Why a file gives no facts.
#[derive(Debug)]
pub enum Unreadable {
    /// It is not an ELF file.
    NotElf,
    /// It is an ELF file, but damaged.
    Damaged(object::Error),
    /// It cannot be opened.
    Closed(io::Error),
}

impl Elf {
    /// Reads the facts about the file at `path`. Opening a pipe would wait for its writer.
    pub fn read(path: &Path) -> Result<Self, Unreadable> {
        if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
            return Err(Unreadable::NotElf);
        }
        Self::of(File::open(path).map_err(Unreadable::Closed)?)
    }

    /// Reads the facts about an open file.
    pub fn of(file: File) -> Result<Self, Unreadable> {
        let cache = Bounded::new(file);
        match FileKind::parse(&cache) {
            Ok(FileKind::Elf32) => facts::<elf::FileHeader32<Endianness>>(&cache),
            Ok(FileKind::Elf64) => facts::<elf::FileHeader64<Endianness>>(&cache),
            _ => return Err(Unreadable::NotElf),
        }
        .map_err(Unreadable::Damaged)
    }

    /// Whether it is built for musl.
    pub fn is_musl(&self) -> bool {
        let musl = |name: &String| name.contains("ld-musl-") || name.starts_with("libc.musl-");
        self.interpreter.iter().chain(&self.needed).any(musl)
    }

    /// Whether it is built for glibc.
    pub fn is_glibc(&self) -> bool {
        self.needed.iter().any(|name| name == "libc.so.6")
    }
}

fn facts<H: FileHeader<Endian = Endianness>>(cache: &Bounded) -> object::Result<Elf> {
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

/// Returns the constant text; for a file without sections, all loaded read-only data.
fn constants<'data, H: FileHeader<Endian = Endianness>>(
    file: &ElfFile<'data, H, &'data Bounded>,
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

/// Returns the names of the defined symbols and of the undefined ones.
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

impl Machine {
    /// Whether its programs have 32 bits.
    pub fn is_narrow(&self) -> bool {
        self.bits == 32
    }
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
