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

/// Where files of debugging information are installed.
#[cfg(feature = "symbols")]
const DEBUG: [&str; 2] = ["/usr/lib/debug", "/lib/debug"];

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

/// Returns an ELF file's beginning up to the end of its program headers. `first` reads so many bytes of it.
pub fn head(first: impl Fn(u64) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let head = first(size_of::<FileHeader64<Endianness>>() as u64)?;
    let parsed = FileHeader64::<Endianness>::parse(&*head).ok()?;
    let endian = parsed.endian().ok()?;
    let len = u64::from(parsed.e_phnum(endian)) * u64::from(parsed.e_phentsize(endian));
    let end = parsed.e_phoff(endian).checked_add(len).filter(|&end| end <= MOST)?;
    first(end.max(head.len() as u64))
}

fn build_id_of(file: &File) -> Option<Vec<u8>> {
    let head = head(|len| part(file, 0, len))?;
    let parsed = FileHeader64::<Endianness>::parse(&*head).ok()?;
    let endian = parsed.endian().ok()?;
    let headers = parsed.program_headers(endian, &*head).ok()?;
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

/// Whether a file has no link to a file of debugging information that is none: it would be opened to look for names.
#[cfg(feature = "symbols")]
pub fn links_to_files(file: &File) -> bool {
    let Some(targets) = links(file) else { return false };
    let own = std::fs::canonicalize(again(file)).ok();
    targets.iter().all(|target| {
        let beside = own.as_ref().map(|own| own.with_file_name(target));
        let installed = DEBUG.iter().map(|place| Path::new(place).join(target));
        let mut candidates = installed.chain(beside).filter(|path| path.exists());
        candidates.all(|path| {
            let path = std::fs::canonicalize(path).unwrap_or_default();
            // One with the debugging information may in turn have a link to what several files share.
            let is_own = own.as_ref() == Some(&path);
            is_own || open(&path).is_ok_and(|file| shares_files(&file, &path))
        })
    })
}

/// Whether the files that one with debugging information shares with others are such.
#[cfg(feature = "symbols")]
fn shares_files(file: &File, path: &Path) -> bool {
    links(file).is_some_and(|targets| {
        targets.iter().all(|target| {
            let mut all = DEBUG.iter().map(|place| Path::new(place).join(target));
            let is_file = |path: &Path| !path.exists() || path.is_file();
            all.all(|path| is_file(&path)) && is_file(&path.with_file_name(target))
        })
    })
}

/// Returns the names of the files that one with code or debugging information has links to.
#[cfg(feature = "symbols")]
fn links(file: &File) -> Option<Vec<PathBuf>> {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use object::read::ReadCache;
    use object::read::elf::SectionHeader as _;

    let data = &ReadCache::new(file);
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    // Without this number, which has 16 bits, a table may have any size.
    if header.e_shnum(endian) == 0 {
        return Some(Vec::new()).filter(|_| header.e_shoff(endian) == 0);
    }
    let sections = header.sections(endian, data).ok()?;
    let mut links = Vec::new();
    for section in sections.iter() {
        let name = sections.section_name(endian, section).ok()?;
        let skipped = match name {
            b".gnu_debuglink" | b".gnu_debugaltlink" => 0,
            // A version and a flag come first.
            b".debug_sup" => 3,
            _ => continue,
        };
        let bytes = part(file, section.sh_offset(endian), section.sh_size(endian))?;
        let target = bytes.get(skipped..)?.split(|&byte| byte == 0).next()?;
        links.push(OsStr::from_bytes(target).into());
    }
    Some(links)
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

    #[cfg(feature = "symbols")]
    #[test]
    fn debugging_information_is_in_files() {
        let place = tempfile::tempdir().unwrap();
        let path = |name| place.path().join(name);
        let names = b"\0.gnu_debuglink\0.shstrtab\0";
        let with_link = |target: &[u8; 8]| {
            let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
            let mut bytes = own[..64].to_vec();
            // No program headers, and three sections behind the header.
            bytes[32..40].fill(0);
            bytes[40..48].copy_from_slice(&64_u64.to_ne_bytes());
            bytes[56..58].fill(0);
            bytes[60..62].copy_from_slice(&3_u16.to_ne_bytes());
            bytes[62..64].copy_from_slice(&2_u16.to_ne_bytes());
            let behind = 64 + 3 * 64;
            for (name, kind, offset, size) in [
                (0_u32, 0_u32, 0_u64, 0_u64),
                (1, 1, behind, 12),
                (16, 3, behind + 12, names.len() as u64),
            ] {
                let mut section = [0; 64];
                section[..4].copy_from_slice(&name.to_ne_bytes());
                section[4..8].copy_from_slice(&kind.to_ne_bytes());
                section[24..32].copy_from_slice(&offset.to_ne_bytes());
                section[32..40].copy_from_slice(&size.to_ne_bytes());
                bytes.extend(section);
            }
            bytes.extend(target);
            bytes.extend([0; 4]);
            bytes.extend(names);
            std::fs::write(path("program"), bytes).unwrap();
            open(&path("program")).unwrap()
        };
        assert_eq!(links(&with_link(b"fifo\0\0\0\0")), Some(vec!["fifo".into()]));
        assert!(links_to_files(&with_link(b"fifo\0\0\0\0")), "there is none");
        assert!(Command::new("mkfifo").arg(path("fifo")).status().unwrap().success());
        assert!(!links_to_files(&with_link(b"fifo\0\0\0\0")));
        // A file with debugging information that shares the FIFO.
        std::fs::copy(path("program"), path("debug")).unwrap();
        assert!(!links_to_files(&with_link(b"debug\0\0\0")));
        std::fs::remove_file(path("fifo")).unwrap();
        assert!(links_to_files(&with_link(b"debug\0\0\0")));
        assert!(links_to_files(&open(&std::env::current_exe().unwrap()).unwrap()));
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
