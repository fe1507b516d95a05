//! Files that another process names: it may have put anything there.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{ELF_NOTE_GNU, FileHeader64, NT_GNU_BUILD_ID, PT_NOTE};
use object::read::elf::{FileHeader as _, NoteIterator, ProgramHeader as _};

/// Maximum plausible size of program headers and of notes.
const MOST: u64 = 1 << 20;

/// Opens a regular file; anything else is refused before it is opened, since opening a FIFO blocks and opening a device
/// may do anything. Of symbolic links at the end of a path only the kernel's own, to a process's files, are followed.
pub fn open(path: &Path) -> io::Result<File> {
    let kernels = path.strip_prefix("/proc").ok().and_then(|inside| inside.iter().nth(1));
    let is_kernels = kernels.is_some_and(|name| name == "exe" || name == "map_files");
    let follow = if is_kernels { 0 } else { libc::O_NOFOLLOW };
    let found = OpenOptions::new().read(true).custom_flags(libc::O_PATH | follow).open(path)?;
    if !path.is_absolute() || !found.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "is not a regular file"));
    }
    // What was checked is what is opened. Who holds a lease on it is not waited for.
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(again(&found))
}

/// Returns the path by which an open file can be opened again.
pub fn again(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Returns the build ID of a file in hexadecimal; empty if it has none.
pub fn build_id(path: &Path) -> String {
    let id = open(path).ok().and_then(|file| build_id_of(&file)).unwrap_or_default();
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn build_id_of(file: &File) -> Option<Vec<u8>> {
    let mut head = part(file, 0, size_of::<FileHeader64<Endianness>>() as u64)?;
    let parsed = FileHeader64::<Endianness>::parse(&*head).ok()?;
    let endian = parsed.endian().ok()?;
    let len = u64::from(parsed.e_phnum(endian)) * u64::from(parsed.e_phentsize(endian));
    head = part(file, 0, parsed.e_phoff(endian).checked_add(len)?)?;
    let headers = FileHeader64::<Endianness>::parse(&*head).ok()?;
    let headers = headers.program_headers(endian, &*head).ok()?;
    headers.iter().filter(|header| header.p_type(endian) == PT_NOTE).find_map(|header| {
        let bytes = part(file, header.p_offset(endian), header.p_filesz(endian))?;
        let align = header.p_align(endian);
        let mut notes =
            NoteIterator::<FileHeader64<Endianness>>::new(endian, align, &bytes).ok()?;
        while let Ok(Some(note)) = notes.next() {
            if note.name() == ELF_NOTE_GNU && note.n_type(endian) == NT_GNU_BUILD_ID {
                return Some(note.desc().to_vec());
            }
        }
        None
    })
}

fn part(file: &File, offset: u64, len: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(len).ok().filter(|_| len <= MOST)?];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn only_regular_files_are_opened() {
        let place = tempfile::tempdir().unwrap();
        let path = |name| place.path().join(name);
        std::fs::write(path("file"), "x").unwrap();
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        assert!(Command::new("mkfifo").arg(path("fifo")).status().unwrap().success());
        assert!(open(&path("file")).is_ok());
        assert!(open(Path::new("/proc/self/exe")).is_ok());
        // A FIFO that nobody writes to would block for ever.
        for name in ["link", "fifo", "."] {
            assert!(open(&path(name)).is_err(), "{name}");
        }
        assert!(open(Path::new("/dev/zero")).is_err());
        assert!(open(Path::new("Cargo.toml")).is_err(), "relative");
    }

    #[test]
    fn a_build_id_is_found_without_reading_the_file() {
        use object::Object as _;
        let own = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&own).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(build_id(&own), file.build_id().unwrap().map(hex).unwrap_or_default());
        let place = tempfile::tempdir().unwrap();
        let sparse = place.path().join("sparse");
        // Its headers are said to be at its end.
        let mut start = bytes[..64].to_vec();
        start[32..40].copy_from_slice(&(1_u64 << 40).to_ne_bytes());
        std::fs::write(&sparse, start).unwrap();
        OpenOptions::new().write(true).open(&sparse).unwrap().set_len(1 << 42).unwrap();
        assert_eq!(build_id(&sparse), "");
    }
}
