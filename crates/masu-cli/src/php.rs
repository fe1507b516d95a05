//! PHP before 8.5 loads its extensions with `RTLD_DEEPBIND`, so they see the C library's `malloc` and `free` while the
//! program has a preloaded library's. The first block that crosses over ends the process.
//!
//! No table of a program's file shows which flags it passes to `dlopen`, so this is knowledge about one program. musl
//! does not know the flag.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use memchr::memmem;

use crate::elf::Elf;

/// The first version without the flag.
const FIRST_WITHOUT: (u32, u32) = (8, 5);

/// Returns the version of the PHP in `elf`, if it is such a version and its configuration names extensions in files.
pub fn deep_binding(elf: &Elf) -> Option<String> {
    let is_php = elf.exported.iter().any(|name| name == "zend_load_extension");
    if !is_php || elf.is_musl() {
        return None;
    }
    let version = version(&elf.constants)?;
    let mut numbers = version.split('.').map_while(|number| number.parse().ok());
    let old = (numbers.next()?, numbers.next()?) < FIRST_WITHOUT;
    (old && directories(&elf.constants).any(names_extensions)).then_some(version)
}

/// Its version as in its own messages: `PHP/8.2.29`.
fn version(constants: &[u8]) -> Option<String> {
    const BEFORE: &[u8] = b"PHP/";
    memmem::find_iter(constants, BEFORE).find_map(|at| {
        let behind = &constants[at + BEFORE.len()..];
        let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        let length = behind.iter().take_while(|byte| is_part(byte)).count();
        let version = str::from_utf8(&behind[..length]).ok()?;
        version.contains('.').then(|| version.to_owned())
    })
}

/// Yields the directories that it reads its configuration from.
fn directories(constants: &[u8]) -> impl Iterator<Item = &Path> {
    let texts = constants.split(|&byte| byte == 0);
    let texts = texts.filter(|text| text.starts_with(b"/") && text.ends_with(b"conf.d"));
    texts.map(|text| Path::new(OsStr::from_bytes(text)))
}

/// Whether a file in a directory names an extension.
fn names_extensions(directory: &Path) -> bool {
    let names = |line: &str| {
        let name = line.split('=').next().unwrap_or_default().trim();
        line.contains('=') && matches!(name, "extension" | "zend_extension")
    };
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    let files =
        files.map(|entry| entry.path()).filter(|path| path.extension() == Some("ini".as_ref()));
    files.filter_map(|path| fs::read_to_string(path).ok()).any(|text| text.lines().any(names))
}
