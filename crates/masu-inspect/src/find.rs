//! The copies of masu in a process, found by the notes in what it has mapped.
//!
//! The headers are read in the process's memory: the file may have been replaced, or lie in another file
//! system than the reader's.

use masu_core::outside::NOTE_TYPE;
use object::Endianness;
use object::elf::{FileHeader64, PF_W, PT_LOAD, PT_NOTE};
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader};
use procfs::process::{MMPermissions, MMapPath, MemoryMaps, Process};

use crate::engine::Engine;
use crate::error::Error;
use crate::memory::Memory;

/// A file that the process has loaded.
struct Image {
    /// What its addresses are shifted by.
    bias: u64,
    /// Its first address and the one behind its last.
    range: (u64, u64),
}

/// The mappings of a process, with what the kernel knows of each.
///
/// # Errors
/// It is not there, or may not be read.
pub fn mappings(process: u32) -> Result<MemoryMaps, Error> {
    maps(process, Process::smaps)
}

fn maps(
    process: u32,
    read: impl Fn(&Process) -> procfs::ProcResult<MemoryMaps>,
) -> Result<MemoryMaps, Error> {
    let found = Process::new(process as i32).map_err(|_| Error::NoProcess(process))?;
    read(&found).map_err(|error| match error {
        procfs::ProcError::PermissionDenied(_) => Error::Refused(process),
        procfs::ProcError::NotFound(_) => Error::Ended(process),
        procfs::ProcError::Io(error, _) => Error::of(process, &error),
        _ => Error::Damaged(process),
    })
}

/// Every copy of masu in a process.
///
/// # Errors
/// The process is not there, may not be read, or has none, or one of a version that is not known.
pub fn engines(process: u32) -> Result<(Memory, Vec<Engine>), Error> {
    let maps = maps(process, Process::maps)?;
    if maps.0.is_empty() {
        let state = Process::new(process as i32).and_then(|it| it.stat()).map(|stat| stat.state);
        // One that has ended and is not waited for; or a kernel thread.
        return Err(match state {
            Ok('Z' | 'X') | Err(_) => Error::Ended(process),
            Ok(_) => Error::NoMasu(process),
        });
    }
    let memory = Memory::of(process)?;
    let mut engines: Vec<Engine> = Vec::new();
    for map in &maps.0 {
        let is_start = matches!(map.pathname, MMapPath::Path(_))
            && map.offset == 0
            && map.perms.contains(MMPermissions::READ);
        if !is_start {
            continue;
        }
        add(&memory, map.address, &mut engines)?;
    }
    if engines.is_empty() { Err(Error::NoMasu(process)) } else { Ok((memory, engines)) }
}

/// Every copy of masu in a process that has left a core file.
///
/// # Errors
/// There is none, or one of a version that is not known.
pub fn engines_in(memory: &Memory) -> Result<Vec<Engine>, Error> {
    let mut engines = Vec::new();
    for mapped in memory.core().into_iter().flat_map(|core| &core.mapped) {
        if mapped.offset == 0 {
            add(memory, mapped.range, &mut engines)?;
        }
    }
    if engines.is_empty() { Err(Error::NoMasu(memory.process)) } else { Ok(engines) }
}

/// Adds the copies in the file whose beginning is mapped there.
fn add(memory: &Memory, range: (u64, u64), engines: &mut Vec<Engine>) -> Result<(), Error> {
    for (place, image) in places(memory, range)? {
        if engines.iter().all(|engine| engine.place != place) {
            engines.push(Engine::at(memory, place, image.range)?);
        }
    }
    Ok(())
}

/// Where the notes lead that it has.
fn places(memory: &Memory, (start, end): (u64, u64)) -> Result<Vec<(u64, Image)>, Error> {
    let mut head = vec![0; 4096.min(end - start) as usize];
    match memory.read(start, &mut head) {
        Ok(()) => {}
        // A device, or behind the end of a file.
        Err(Error::Damaged(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    }
    Ok(notes(memory, start, &head).unwrap_or_default())
}

fn notes(memory: &Memory, start: u64, head: &[u8]) -> Option<Vec<(u64, Image)>> {
    let header = FileHeader64::<Endianness>::parse(head).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, head).ok()?;
    let loaded = || segments.iter().filter(|s| s.p_type(endian) == PT_LOAD);
    let first = loaded().map(|s| s.p_vaddr(endian)).min()?;
    // The page that the first segment begins in is where the file's beginning is mapped.
    let bias = start.wrapping_sub(first & !0xfff);
    let end = loaded().map(|s| s.p_vaddr(endian) + s.p_memsz(endian)).max()?;
    let mut found = Vec::new();
    for segment in segments.iter().filter(|s| s.p_type(endian) == PT_NOTE) {
        let (at, len) = (bias.wrapping_add(segment.p_vaddr(endian)), segment.p_filesz(endian));
        // What is written at run time is no note.
        if len == 0 || len > 1 << 20 || segment.p_flags(endian).contains(PF_W) {
            continue;
        }
        let mut bytes = vec![0; len as usize];
        memory.read(at, &mut bytes).ok()?;
        let mut notes =
            NoteIterator::<FileHeader64<Endianness>>::new(endian, segment.p_align(endian), &bytes)
                .ok()?;
        while let Ok(Some(note)) = notes.next() {
            if note.name() != b"masu" || note.n_type(endian).0 != NOTE_TYPE {
                continue;
            }
            let [word] = note.desc().as_chunks::<4>().0 else { continue };
            let within = note.desc().as_ptr() as u64 - bytes.as_ptr() as u64;
            let place = (at + within).wrapping_add_signed(i64::from(i32::from_ne_bytes(*word)));
            found.push((place, Image { bias, range: (start, bias.wrapping_add(end)) }));
        }
    }
    debug_assert!(found.iter().all(|(_, image)| image.bias == bias));
    Some(found)
}
