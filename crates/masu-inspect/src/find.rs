//! Finds the copies of masu in a process, by the notes in its mapped files.
//!
//! The headers are read from the process's memory: the file may have been replaced, or be on
//! another file system than the reader's.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use masu_core::outside::NOTE_TYPE;
use masu_watch::process::{self, memory_id};
use object::Endianness;
use object::elf::{FileHeader64, PF_W, PT_LOAD, PT_NOTE};
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader};
use procfs_core::process::{MMPermissions, MMapPath, MemoryMap, MemoryMaps};
use procfs_core::{FromBufRead as _, ProcError, ProcResult};

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

/// Most plausible bytes of a line of `maps` and of a mapping in `smaps`, on average, and most plausible mappings: four
/// times as many as the kernel allows by default. A process may map files with paths of four thousand bytes.
const LINE: u64 = 256;
const ENTRY: u64 = 2048;
const MAPPINGS: u64 = 1 << 18;

/// Returns the mappings of a process, with the kernel's information about each.
///
/// # Errors
/// If the process does not exist, or may not be read.
pub fn mappings(process: u32) -> Result<MemoryMaps, Error> {
    let mut maps = of_text(process, &text(process, "smaps", MAPPINGS * ENTRY)?)?;
    maps.0 = once(maps.0);
    Ok(maps)
}

/// Leaves each mapping once. The kernel lists one that grows meanwhile over the next one a second time, from its start.
fn once(listed: Vec<MemoryMap>) -> Vec<MemoryMap> {
    let mut found: Vec<MemoryMap> = Vec::with_capacity(listed.len());
    for map in listed {
        while found.last().is_some_and(|last| last.address.0 >= map.address.0) {
            found.pop();
        }
        found.push(map);
    }
    found
}

/// Returns the text of a process's `maps`.
///
/// # Errors
/// If the process does not exist, may not be read, or has an implausible number of mappings.
pub fn maps(process: u32) -> Result<Vec<u8>, Error> {
    text(process, "maps", MAPPINGS * LINE)
}

fn of_text(process: u32, text: &[u8]) -> Result<MemoryMaps, Error> {
    parsed(text).map_err(|_| Error::Damaged(process))
}

fn text(process: u32, file: &str, most: u64) -> Result<Vec<u8>, Error> {
    let directory = format!("/proc/{}", memory_id(process));
    if !Path::new(&directory).exists() {
        return Err(Error::NoProcess(process));
    }
    let read = || whole(File::open(format!("{directory}/{file}"))?, most);
    read().map_err(|error| match error {
        ProcError::PermissionDenied(_) => Error::Refused(process),
        ProcError::NotFound(_) => Error::Ended(process),
        ProcError::Io(error, _) => Error::of(process, &error),
        _ => Error::Damaged(process),
    })
}

/// Returns all bytes of a file, which may have fewer than `most`.
fn whole(file: impl io::Read, most: u64) -> ProcResult<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    match (bytes.len() as u64) < most {
        true => Ok(bytes),
        false => Err(ProcError::Other("too long".into())),
    }
}

/// Parses the text of a process's `maps` or `smaps`. Its files may have any names: the parser refuses those that are
/// not UTF-8, and panics at some that begin like the name of a System V segment and lack its key.
///
/// # Errors
/// If it is no such text.
pub fn parsed(text: &[u8]) -> ProcResult<MemoryMaps> {
    const SEGMENT: &str = " /SYSV";
    let text = String::from_utf8_lossy(text);
    if !text.contains(SEGMENT) {
        return MemoryMaps::from_buf_read(text.as_bytes());
    }
    let is_key = |key: &str| key.bytes().all(|byte| byte.is_ascii_hexdigit());
    let lines = text.split_inclusive('\n').map(|line| match line.split_once(SEGMENT) {
        // With a second slash it is a file, and the same one.
        Some((before, name)) if !name.get(..8).is_some_and(is_key) => {
            format!("{before} //SYSV{name}")
        }
        _ => line.to_owned(),
    });
    MemoryMaps::from_buf_read(lines.collect::<String>().as_bytes())
}

/// Returns every copy of masu in a process.
///
/// # Errors
/// If the process does not exist, may not be read, or has no copy, or one of an unknown version.
pub fn engines(process: u32) -> Result<(Memory, Vec<Engine>), Error> {
    let maps = of_text(process, &maps(process)?)?;
    if maps.0.is_empty() {
        // A process that has ended and is not reaped, or a kernel thread.
        return Err(match process::stat(process).map(|stat| stat.state) {
            Some('Z' | 'X') | None => Error::Ended(process),
            Some(_) => Error::NoMasu(process),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_is_none() {
        assert_eq!(whole(&b"four"[..], 5).expect("all"), b"four");
        assert!(whole(&b"four"[..], 4).is_err());
        assert!(whole(io::repeat(b'a'), 1000).is_err(), "without an end");
    }

    #[test]
    fn a_mapping_that_grows_meanwhile_counts_once() {
        let line = |from, to| format!("{from}-{to} rw-p 00000000 00:00 0 \n");
        let listed =
            [(1000, 2000), (2000, 3000), (2000, 4000), (5000, 6000), (2000, 7000), (8000, 9000)];
        let text: String = listed.iter().map(|&(from, to)| line(from, to)).collect();
        let maps = once(parsed(text.as_bytes()).expect("mappings").0);
        let found: Vec<_> = maps.iter().map(|map| map.address).collect();
        assert_eq!(found, [(0x1000, 0x2000), (0x2000, 0x7000), (0x8000, 0x9000)]);
    }

    #[test]
    fn mapped_files_may_have_any_name() {
        let line = |path: &[u8]| [&b"1000-2000 r--p 00000000 00:00 7 "[..], path, b"\n"].concat();
        let paths = [
            &b"/SYSV"[..],
            "/SYSV1234567\u{e9}".as_bytes(),
            b"/SYSVnumbers",
            b"/a \xff",
            b"/SYSV0000002a (deleted)",
        ];
        let maps = parsed(&paths.map(line).concat()).expect("mappings");
        let file = |path: &str| MMapPath::Path(path.into());
        let found: Vec<_> = maps.0.into_iter().map(|map| map.pathname).collect();
        let names = ["/SYSV", "/SYSV1234567\u{e9}", "/SYSVnumbers", "/a \u{fffd}"];
        assert_eq!(found[..4], names.map(file));
        assert_eq!(found[4], MMapPath::Vsys(42));
    }
}
