//! The core file of a process that has ended: its memory, as far as it was dumped, and the cause of
//! its end.
//!
//! Code and constants, which the kernel leaves out because files contain them, are read from these files, unless their
//! first page has changed since.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use object::elf::{ET_CORE, FileHeader64, PF_X, PN_XNUM, PT_LOAD, PT_NOTE, ProgramHeader64};
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader};
use object::{Endianness, ReadRef};

use crate::core_stack::{self, Registers};
use crate::memory::Pages;
use crate::tables::{u32_at, u64_at};

/// The notes that are read.
const NT_PRSTATUS: u32 = 1;
const NT_PRPSINFO: u32 = 3;
const NT_FILE: u32 = 0x4649_4c45;
const NT_SIGINFO: u32 = 0x5349_4749;
/// Offsets in `NT_PRSTATUS` of the thread's ID and of its registers.
const THREAD: u64 = 32;
const REGISTERS: u64 = 112;
/// Offsets in `NT_PRPSINFO` of the process ID and of the name.
const PROCESS: u64 = 24;
const NAME: std::ops::Range<usize> = 40..56;
/// The offset in a section's header of `sh_info`.
const SECTION_INFO: u64 = 44;
/// Maximum plausible size of headers and notes.
const MOST: u64 = 64 << 20;
/// Bytes read at a time when searching for filled pages.
const PIECE: usize = 1 << 20;

/// A thread at the end of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    /// Its ID.
    pub id: u32,
    /// Its program counter.
    pub counter: u64,
    /// Its registers.
    pub(crate) registers: Registers,
}

/// The signal that ended the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal {
    /// Its number.
    pub number: i32,
    /// Its cause: above 0 if it came from the kernel.
    pub code: i32,
    /// The address of the fault, if it was one.
    pub address: u64,
}

/// A file that was mapped.
#[derive(Debug, Clone)]
pub struct Mapped {
    /// Its addresses.
    pub range: (u64, u64),
    /// Their offset in the file.
    pub offset: u64,
    /// The file.
    pub path: PathBuf,
    /// Whether it could be executed.
    pub is_code: bool,
    /// The file, if it still exists unchanged.
    file: Option<usize>,
}

/// A part of the memory, and how much of it is in the core file.
struct Segment {
    start: u64,
    dumped: u64,
    offset: u64,
    is_code: bool,
}

/// Whether a file is an ELF file with code at an offset. `None` if it is not ELF.
fn has_code(file: &File, offset: u64) -> Option<bool> {
    let mut head = vec![0; 4096];
    file.read_exact_at(&mut head, 0).ok()?;
    let header = FileHeader64::<Endianness>::parse(&*head).ok()?;
    let endian = header.endian().ok()?;
    let mut headers = header.program_headers(endian, &*head).ok()?.iter();
    Some(headers.any(|header| {
        let (start, len) = (header.p_offset(endian), header.p_filesz(endian));
        header.p_type(endian) == PT_LOAD
            && header.p_flags(endian).contains(PF_X)
            && (start & !4095..start.saturating_add(len)).contains(&offset)
    }))
}

/// A core file.
pub struct Core {
    file: File,
    segments: Vec<Segment>,
    opened: Vec<File>,
    /// The process ID.
    pub process: u32,
    /// Its name.
    pub name: String,
    /// The signal that ended it, if the core file says so.
    pub signal: Option<Signal>,
    /// Its threads, starting with the one that received the signal.
    pub threads: Vec<Thread>,
    /// Files that were mapped.
    pub mapped: Vec<Mapped>,
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl Core {
    /// A core file of which nothing has been read.
    pub(crate) fn of(file: File) -> Core {
        Core {
            file,
            segments: Vec::new(),
            opened: Vec::new(),
            process: 0,
            name: String::new(),
            signal: None,
            threads: Vec::new(),
            mapped: Vec::new(),
        }
    }

    /// Opens a core file.
    ///
    /// # Errors
    /// If it cannot be read, or is not of a process of this kind of machine.
    pub fn open(path: &Path) -> io::Result<Core> {
        let file = File::open(path)?;
        let none = || wrong("is not a core file of a 64-bit process");
        let mut head = vec![0; size_of::<FileHeader64<Endianness>>()];
        file.read_exact_at(&mut head, 0).map_err(|_| none())?;
        let parsed = FileHeader64::<Endianness>::parse(&*head).map_err(|_| none())?;
        let endian = parsed.endian().map_err(|_| none())?;
        if parsed.e_type(endian) != ET_CORE {
            return Err(none());
        }
        let cut = |_| wrong("is incomplete: its headers are cut off");
        let (start, mut number) = (parsed.e_phoff(endian), u32::from(parsed.e_phnum(endian)));
        if number == u32::from(PN_XNUM) {
            // They are more than that, and the first section's header says how many.
            let mut word = [0; 4];
            let at = parsed.e_shoff(endian).saturating_add(SECTION_INFO);
            file.read_exact_at(&mut word, at).map_err(cut)?;
            number = u32::from_ne_bytes(word);
        }
        let end = start.saturating_add(u64::from(number) * 56);
        if end > MOST {
            return Err(none());
        }
        head.resize(end as usize, 0);
        file.read_exact_at(&mut head, 0).map_err(cut)?;
        let bytes: &[u8] = &head;
        let headers: &[ProgramHeader64<Endianness>] =
            bytes.read_slice_at(start, number as usize).map_err(|()| none())?;
        let mut core = Core::of(file);
        for header in headers.iter().filter(|header| header.p_type(endian) == PT_LOAD) {
            let start = header.p_vaddr(endian);
            core.segments.push(Segment {
                start,
                dumped: header.p_filesz(endian),
                offset: header.p_offset(endian),
                is_code: header.p_flags(endian).contains(PF_X),
            });
        }
        core.segments.sort_by_key(|segment| segment.start);
        for header in headers.iter().filter(|header| header.p_type(endian) == PT_NOTE) {
            let mut bytes = vec![0; header.p_filesz(endian).min(MOST) as usize];
            core.file.read_exact_at(&mut bytes, header.p_offset(endian)).map_err(cut)?;
            let notes = NoteIterator::<FileHeader64<Endianness>>::new(
                endian,
                header.p_align(endian),
                &bytes,
            );
            let mut notes = notes.map_err(|_| none())?;
            while let Ok(Some(note)) = notes.next() {
                if note.name() == b"CORE" {
                    core.note(note.n_type(endian).0, note.desc());
                }
            }
        }
        core.find_files();
        Ok(core)
    }

    fn note(&mut self, kind: u32, bytes: &[u8]) {
        match kind {
            NT_PRSTATUS => {
                let (registers, counter) = core_stack::registers(bytes, REGISTERS);
                self.threads.push(Thread { id: u32_at(bytes, THREAD) as u32, counter, registers });
            }
            NT_PRPSINFO => {
                self.process = u32_at(bytes, PROCESS) as u32;
                let name = bytes.get(NAME).unwrap_or_default();
                let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
                self.name = String::from_utf8_lossy(name).into_owned();
            }
            // The first is that of the thread that received the signal.
            NT_SIGINFO if self.signal.is_none() => {
                self.signal = Some(Signal {
                    number: u32_at(bytes, 0) as i32,
                    code: u32_at(bytes, 8) as i32,
                    address: u64_at(bytes, 16),
                });
            }
            NT_FILE => {
                let (count, page) = (u64_at(bytes, 0).min(1 << 20), u64_at(bytes, 8));
                let names = bytes.get(16 + count as usize * 24..).unwrap_or_default();
                let names = names.split(|&byte| byte == 0);
                for (i, name) in (0..count).zip(names) {
                    let at = 16 + i * 24;
                    self.mapped.push(Mapped {
                        range: (u64_at(bytes, at), u64_at(bytes, at + 8)),
                        offset: u64_at(bytes, at + 16).saturating_mul(page),
                        path: PathBuf::from(String::from_utf8_lossy(name).into_owned()),
                        is_code: false,
                        file: None,
                    });
                }
            }
            _ => {}
        }
    }

    /// Opens the files that were mapped, if they are unchanged.
    fn find_files(&mut self) {
        let mut known: Vec<(PathBuf, Option<usize>)> = Vec::new();
        for i in 0..self.mapped.len() {
            let Mapped { range, offset, path, .. } = self.mapped[i].clone();
            let segment = self.segments.iter().find(|segment| segment.start == range.0);
            let is_code = segment.map(|segment| segment.is_code);
            let found = match known.iter().find(|(known, _)| *known == path) {
                Some((_, found)) => *found,
                None => {
                    let (mut was, mut is) = ([0; 4096], [0; 4096]);
                    let file = masu_profile::files::open(&path).ok().filter(|file| {
                        let whole = file.read_exact_at(&mut is, offset).is_ok();
                        !whole || self.dumped(range.0, &mut was).is_err() || was == is
                    });
                    let found = file.map(|file| {
                        self.opened.push(file);
                        self.opened.len() - 1
                    });
                    known.push((path, found));
                    found
                }
            };
            self.mapped[i].file = found;
            // gdb omits what files contain.
            self.mapped[i].is_code = is_code.unwrap_or_else(|| {
                found.is_some_and(|file| has_code(&self.opened[file], offset).unwrap_or(false))
            });
        }
    }

    /// Reads dumped bytes.
    fn dumped(&self, at: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let next = self.segments.partition_point(|segment| segment.start <= at);
        let segment = next.checked_sub(1).map(|i| &self.segments[i]);
        let segment = segment.filter(|segment| at - segment.start < segment.dumped);
        let segment = segment.ok_or_else(|| wrong("is not in the core file"))?;
        let within = at - segment.start;
        let len = bytes.len().min((segment.dumped - within) as usize);
        self.file.read_exact_at(&mut bytes[..len], segment.offset + within)?;
        Ok(len)
    }

    /// Reads bytes that a file contains.
    fn of_file(&self, at: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let mapped =
            self.mapped.iter().find(|mapped| (mapped.range.0..mapped.range.1).contains(&at));
        let (mapped, file) = mapped
            .and_then(|mapped| Some((mapped, self.opened.get(mapped.file?)?)))
            .ok_or_else(|| wrong("is not in the core file"))?;
        let len = bytes.len().min((mapped.range.1 - at) as usize);
        let n = file.read_at(&mut bytes[..len], mapped.offset + at - mapped.range.0)?;
        if n == 0 { Err(wrong("is not in the file")) } else { Ok(n) }
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// If they are neither in the core file nor in another.
    pub(crate) fn read(&self, mut at: u64, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let n = self.dumped(at, bytes).or_else(|_| self.of_file(at, bytes))?;
            (at, bytes) = (at + n as u64, &mut bytes[n..]);
        }
        Ok(())
    }

    /// Returns the pages in `start..end` that were dumped and are not all zero. Others were never
    /// written.
    pub(crate) fn pages(&self, start: u64, end: u64, page: u64) -> io::Result<Pages> {
        let mut pages = Pages::default();
        let mut piece = vec![0; PIECE];
        for segment in &self.segments {
            let to = end.min(segment.start + segment.dumped);
            let mut at = start.max(segment.start);
            while at < to {
                let len = (to - at).min(PIECE as u64) as usize;
                let n = self.dumped(at, &mut piece[..len])?;
                for (i, bytes) in (0..).zip(piece[..n].chunks(page as usize)) {
                    if bytes.iter().any(|&byte| byte != 0) {
                        let here = at + i * page;
                        pages.filled.push(here, here + page);
                        pages.resident.push(here, here + page);
                    }
                }
                at += n as u64;
            }
        }
        Ok(pages)
    }

    /// Returns the stack of a thread as return addresses, innermost first, as far as it can be followed. The first is one past
    /// where the thread stopped.
    pub fn stack(&self, thread: &Thread) -> Vec<u64> {
        core_stack::stack(self, thread)
    }

    /// Returns the file whose code is at an address.
    pub(crate) fn code_at(&self, at: u64) -> Option<&Mapped> {
        let has = |it: &&Mapped| it.is_code && (it.range.0..it.range.1).contains(&at);
        self.mapped.iter().find(has)
    }

    /// Returns where the file begins in memory to which a part of it belongs.
    pub(crate) fn start_of(&self, part: &Mapped) -> Option<u64> {
        let before = self.mapped.iter().filter(|it| it.range.0 <= part.range.0);
        before.rev().find(|it| it.offset == 0 && it.path == part.path).map(|it| it.range.0)
    }

    /// Yields the dumped parts of the memory: start and end.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (u64, u64)> {
        self.segments.iter().map(|segment| (segment.start, segment.start + segment.dumped))
    }

    /// Whether an address belongs to a mapped file.
    pub(crate) fn is_mapped(&self, at: u64) -> bool {
        self.mapped.iter().any(|mapped| (mapped.range.0..mapped.range.1).contains(&at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_mapped_path_that_is_a_fifo_now_is_not_opened() {
        let path = std::env::temp_dir().join(format!("masu-core-fifo-{}", std::process::id()));
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let own = std::env::current_exe().unwrap();
        let mapped = [&path, &own].map(|path| Mapped {
            range: (0x1000, 0x2000),
            offset: 0,
            path: path.clone(),
            is_code: false,
            file: None,
        });
        let mut core = Core { mapped: mapped.into(), ..Core::of(File::open(&own).unwrap()) };
        core.find_files();
        std::fs::remove_file(&path).unwrap();
        assert_eq!((core.mapped[0].file, core.mapped[1].file), (None, Some(0)));
    }

    /// A process has more mappings than the field has room for if `vm.max_map_count` allows it.
    #[test]
    fn a_core_file_may_have_more_segments_than_its_header_can_say() {
        const SEGMENTS: usize = 3;
        let behind = 64 + SEGMENTS * 56;
        let mut bytes = vec![0; behind + 64];
        let mut put = |at: usize, what: &[u8]| bytes[at..at + what.len()].copy_from_slice(what);
        put(0, b"\x7fELF\x02\x01\x01");
        for (at, half) in [(16, 4), (18, 62), (54, 56), (56, 0xffff_u16), (58, 64), (60, 1)] {
            put(at, &half.to_le_bytes());
        }
        put(20, &1_u32.to_le_bytes());
        put(32, &64_u64.to_le_bytes());
        put(40, &(behind as u64).to_le_bytes());
        for segment in 0..SEGMENTS {
            put(64 + segment * 56, &1_u32.to_le_bytes());
            put(64 + segment * 56 + 16, &(segment as u64 * 4096).to_le_bytes());
        }
        put(behind + 44, &(SEGMENTS as u32).to_le_bytes());
        let path = std::env::temp_dir().join(format!("masu-core-many-{}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let core = Core::open(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(core.unwrap().parts().count(), SEGMENTS);
    }
}
