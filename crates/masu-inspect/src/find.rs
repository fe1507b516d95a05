//! Finds the copies of masu in a process, by the notes in its mapped files.
//!
//! The headers are read from the process's memory: the file may have been replaced, or be on
//! another file system than the reader's.

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
    /// The difference between its addresses in memory and in the file.
    bias: u64,
    /// Its first address and the one after its last.
    range: (u64, u64),
}

/// Returns the mappings of a process, with the kernel's information about each.
///
/// # Errors
/// If the process does not exist, or may not be read.
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

/// Returns every copy of masu in a process.
///
/// # Errors
/// If the process does not exist, may not be read, or has no copy, or one of an unknown version.
pub fn engines(process: u32) -> Result<(Memory, Vec<Engine>), Error> {
    let maps = maps(process, Process::maps)?;
    if maps.0.is_empty() {
        let state = Process::new(process as i32).and_then(|it| it.stat()).map(|stat| stat.state);
        // A process that has ended and is not reaped, or a kernel thread.
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

/// Returns every copy of masu in a process that has left a core file.
///
/// # Errors
/// If there is none, or one of an unknown version.
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

/// Returns the places that the file's notes point to.
fn places(memory: &Memory, (start, end): (u64, u64)) -> Result<Vec<(u64, Image)>, Error> {
    let mut head = vec![0; 4096.min(end - start) as usize];
    match memory.read(start, &mut head) {
        Ok(()) => {}
        // A device, or beyond the end of a file.
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
    // The file's beginning is mapped at the page that contains the start of the first segment.
    let bias = start.wrapping_sub(first & !0xfff);
    let end = loaded().map(|s| s.p_vaddr(endian) + s.p_memsz(endian)).max()?;
    let mut found = Vec::new();
    for segment in segments.iter().filter(|s| s.p_type(endian) == PT_NOTE) {
        let (at, len) = (bias.wrapping_add(segment.p_vaddr(endian)), segment.p_filesz(endian));
        // A segment written at run time is not a note.
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
