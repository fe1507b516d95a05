//! Which build of a file is loaded: a plugin that is built again and loaded again may lie at the same address, with
//! tables of the same length.
//!
//! The linker's build ID tells. Its place on the file's first page is kept, so that the program headers are read once for
//! a file. A kept place is never trusted: if no ID is there, it is looked for anew. Without an ID the first entries of
//! `.eh_frame` tell.

use crate::kept::kept;
use crate::module::{FIRST, Module};
use crate::tables::Cursor;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Places that are kept. A stack passes through a few files.
const PLACES: usize = 64;
/// The bytes of `.eh_frame` that are read: some fifty functions.
const MOST: usize = 2048;

/// For each file its start, a multiple of [`FIRST`], plus the offset of its ID.
pub struct Places([AtomicUsize; PLACES]);

/// Returns what differs between builds. `frames` is where the module's header says that `.eh_frame` is.
#[inline(always)]
pub fn of(module: &Module, frames: u32) -> u64 {
    let Some(kept) = kept() else { return find(module, frames, None) };
    let first = module.start / FIRST % PLACES;
    let at = |i: usize| {
        let place = kept.places.0.get(i);
        (place, place.map_or(0, |place| place.load(Ordering::Relaxed)))
    };
    let (mut place, mut known) = at(first);
    // Two files whose starts fall on the same place have one each.
    if known != 0 && known & !(FIRST - 1) != module.start {
        (place, known) = at(first ^ 1);
    }
    if known & !(FIRST - 1) == module.start
        && let Some(hash) = hash_at(module, known % FIRST)
    {
        return hash;
    }
    find(module, frames, place)
}

/// Returns the hash of the note at an offset in the first page, if it is a build ID.
#[inline(always)]
fn hash_at(module: &Module, offset: usize) -> Option<u64> {
    const NT_GNU_BUILD_ID: u64 = 3;
    /// The kind, and the name.
    const IS_ID: u64 = NT_GNU_BUILD_ID | (u32::from_le_bytes(*b"GNU\0") as u64) << 32;
    let mut at = module.first_page();
    at.split(offset)?;
    let (name, length) = (at.u32()?, at.u32()?);
    // Usually twenty bytes, or sixteen; an ID that a user made up may have any length.
    if name == 4 && at.u64()? == IS_ID { Some(hash(at.split(length as usize)?)) } else { None }
}

/// Returns the hash of some bytes; the last few that fill no word are left out.
#[inline(always)]
fn hash(mut bytes: Cursor) -> u64 {
    let mut hash = 0u64;
    while let Some(word) = bytes.u64().or_else(|| bytes.u32().map(u64::from)) {
        hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
    hash
}

/// Looks for the ID, and keeps its place.
#[cold]
#[inline(never)]
fn find(module: &Module, frames: u32, place: Option<&AtomicUsize>) -> u64 {
    const PT_NOTE: u32 = 4;
    let mut skip = 0;
    while let Some(notes) = module.header(PT_NOTE, 0, skip) {
        skip += 1;
        let mut offset = notes.start.wrapping_sub(module.start);
        let end = notes.end.wrapping_sub(module.start);
        while offset < end {
            if let Some(hash) = hash_at(module, offset) {
                if let Some(place) = place {
                    place.store(module.start | offset, Ordering::Relaxed);
                }
                return hash;
            }
            // Past this note: twelve bytes, its name and its content.
            let mut at = module.first_page();
            let (Some(_), Some(name), Some(length)) = (at.split(offset), at.u32(), at.u32()) else {
                break;
            };
            let padded = |length: u32| (length as usize).next_multiple_of(4);
            offset += 12 + padded(name) + padded(length);
        }
    }
    // The header gives the distance of `.eh_frame` from its own fifth byte, in the one form that linkers write.
    let frames = (module.header + 4).wrapping_add_signed(frames as i32 as isize);
    module.segment(frames, &mut (0..0)).map_or(0, |frames| hash(frames.first(MOST)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the tables lie in [`File`], and the entries behind them.
    const TABLES: usize = 1024;
    const FRAMES: usize = 1536;

    /// A file with a segment, notes and tables.
    #[repr(align(4096))]
    struct File([u8; FIRST]);

    impl File {
        fn put(&mut self, at: usize, bytes: &[u8]) {
            self.0[at..at + bytes.len()].copy_from_slice(bytes);
        }

        fn header(&mut self, i: usize, kind: u32, start: usize, length: usize) {
            let at = 64 + i * 56;
            self.put(at, &kind.to_le_bytes());
            self.put(at + 4, &4u32.to_le_bytes());
            self.put(at + 16, &(start as u64).to_le_bytes());
            self.put(at + 40, &(length as u64).to_le_bytes());
        }

        /// Makes one of a note of another kind, and an ID, if there is one, in the same place as ever.
        fn make(&mut self, notes: usize, id: &[u8], entries: u8) -> u64 {
            self.0.fill(0);
            self.put(0, b"\x7fELF");
            self.put(32, &64u64.to_le_bytes());
            self.put(54, &56u16.to_le_bytes());
            self.put(56, &3u16.to_le_bytes());
            self.header(0, 1, 0, FIRST);
            self.header(1, 4, notes, 20 + if id.is_empty() { 0 } else { 16 + id.len() });
            self.header(2, 0x6474_e550, TABLES, 12);
            self.put(notes, &[4, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0]);
            self.put(notes + 12, b"Mas\0abc");
            if !id.is_empty() {
                self.put(notes + 20, &[4, 0, 0, 0, id.len() as u8, 0, 0, 0, 3, 0, 0, 0]);
                self.put(notes + 32, b"GNU\0");
                self.put(notes + 36, id);
            }
            self.put(TABLES, &[1, 0x1b, 0x03, 0x3b]);
            self.put(TABLES + 4, &((FRAMES - TABLES - 4) as u32).to_le_bytes());
            self.put(FRAMES + 1000, &[entries]);
            let start = self.0.as_ptr().expose_provenance();
            let end = start + FIRST;
            let mut module = Module { start, from: start, end, last: end, header: 0, tag: 0 };
            module.header = module.find_header();
            assert_eq!(module.header, start + TABLES);
            let first = module.identity();
            assert_eq!(first, module.identity(), "with the kept place");
            first
        }
    }

    /// Two builds that differ in the size of a buffer have tables at the same address, with the same beginning.
    #[test]
    fn builds_of_a_file_in_one_place_are_told_apart() {
        let mut file = Box::new(File([0; FIRST]));
        let (one, other) = ([7; 20], [[7; 19].as_slice(), &[8]].concat());
        let builds = [
            file.make(512, &one, 0),
            file.make(512, &other, 0),
            file.make(512, &one[..16], 0),
            // Without an ID: the kept place has none any more.
            file.make(512, &[], 1),
            file.make(512, &[], 2),
        ];
        for (i, build) in builds.iter().enumerate() {
            assert!(!builds[..i].contains(build), "{i}: {builds:x?}");
        }
        // The ID is found at another place, and the entries do not matter if there is one.
        assert_eq!(file.make(640, &one, 0), builds[0]);
        assert_eq!(file.make(512, &one, 3), builds[0]);
        // Notes of a wrong length lead nowhere.
        file.make(FIRST - 40, &[], 1);
    }

    /// Otherwise each walk through both would look for their IDs anew.
    #[test]
    fn files_that_fall_on_one_place_have_one_each() {
        let mut files: Vec<File> = (0..2 * PLACES).map(|_| File([0; FIRST])).collect();
        let places = &kept().expect("memory").places.0;
        let first_of = |file: &File| file.0.as_ptr().addr() / FIRST % PLACES;
        // Where no file of the process has its place.
        let is_free = |&i: &usize| {
            let first = first_of(&files[i]);
            [first, first ^ 1].iter().all(|&i| places[i].load(Ordering::Relaxed) == 0)
        };
        let at = (0..PLACES).find(is_free).expect("free places");
        let first = first_of(&files[at]);
        let mut starts = [at, at + PLACES].map(|i| {
            files[i].make(512, &[7; 20], 0);
            files[i].0.as_ptr().addr()
        });
        let mut found =
            [first, first ^ 1].map(|i| places[i].load(Ordering::Relaxed) & !(FIRST - 1));
        starts.sort();
        found.sort();
        assert_eq!(found, starts);
    }
}
