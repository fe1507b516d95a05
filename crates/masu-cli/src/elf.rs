//! What an ELF file says about itself, as far as preloading depends on it.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;

use object::read::elf::{ElfFile, FileHeader, ProgramHeader};
use object::{Endianness, FileKind, Object, ObjectSection, ObjectSymbol, ReadCache, elf};

/// The facts about one file.
pub struct Elf {
    /// What it was built for.
    pub machine: Machine,
    /// The dynamic loader it names; a static program names none.
    pub interpreter: Option<String>,
    /// The libraries it asks for.
    pub needed: Vec<String>,
    /// What it defines for the dynamic loader. In a program these win over a preloaded library's.
    pub exported: Vec<String>,
    /// What it defines at all, as far as it was not stripped of the names.
    pub defined: Vec<String>,
    /// Its constant text.
    pub rodata: Vec<u8>,
    /// Whether Go's compiler made it.
    pub is_go: bool,
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
        let cache = ReadCache::new(File::open(path).map_err(Unreadable::Closed)?);
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

    let mut interpreter = None;
    for segment in file.elf_program_headers() {
        if let Some(path) = segment.interpreter(endian, cache)? {
            interpreter = Some(text(path));
        }
    }
    let dynamic = file.elf_dynamic_table()?;
    let needed = dynamic.iter().filter(|entry| entry.tag == elf::DT_NEEDED);
    let needed = needed.map(|entry| dynamic.string(entry).map(text)).collect::<Result<_, _>>()?;
    let rodata = file.section_by_name(".rodata");

    Ok(Elf {
        machine: Machine {
            instruction_set: header.e_machine(endian),
            bits: if header.is_type_64() { 64 } else { 32 },
            little_endian: header.is_little_endian(),
        },
        interpreter,
        needed,
        exported: defined(file.dynamic_symbols()),
        defined: defined(file.symbols()),
        rodata: rodata.map(|section| section.data()).transpose()?.unwrap_or_default().to_vec(),
        is_go: file.section_by_name(".go.buildinfo").is_some(),
    })
}

fn defined<'data>(symbols: impl Iterator<Item: ObjectSymbol<'data>>) -> Vec<String> {
    let names = symbols.filter(|symbol| !symbol.is_undefined()).map(|symbol| symbol.name_bytes());
    names.flatten().map(text).collect()
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
