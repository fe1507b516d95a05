//! Translates return addresses to functions, using the files that contain the code.

#[cfg(feature = "symbols")]
use std::collections::BTreeMap;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
#[cfg(feature = "symbols")]
use std::path::Path;
use std::path::PathBuf;

#[cfg(feature = "symbols")]
use blazesym::symbolize::source::{Elf, Source};
#[cfg(feature = "symbols")]
use blazesym::symbolize::{CodeInfo, Input, Symbolized, Symbolizer};

#[cfg(feature = "symbols")]
use crate::files;
#[cfg(feature = "symbols")]
use crate::made::MadeCode;
#[cfg(feature = "symbols")]
use crate::raw::{Mapping, Profile};

/// A function, or what is known about it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// Its name; otherwise the file and the offset in it.
    pub name: String,
    /// The source file, if debugging information has it.
    pub file: Option<String>,
    /// The line in that file.
    pub line: u32,
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.file {
            Some(file) if self.line != 0 => write!(f, "{}  {file}:{}", self.name, self.line),
            Some(file) => write!(f, "{}  {file}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// The frames of every return address of a profile: several if functions were inlined, innermost first.
pub struct Symbols {
    frames: HashMap<u64, Vec<Frame>>,
    /// Files without a symbol, among those that were searched for one.
    pub bare: BTreeSet<PathBuf>,
}

/// Maximum number of the allocator's frames at the inner end of a stack.
const DEEPEST: usize = 24;

impl Frame {
    /// Whether it belongs to the allocator or to the language's glue in front of it.
    fn is_allocators(&self) -> bool {
        let name = self.name.trim_start_matches(['<', '&', '_']);
        ["masu_core::", "masu::global::", "rust_alloc", "rust_realloc", "alloc::alloc::"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
    }
}

/// An address from a stack, and the offset of the call in its file.
#[cfg(feature = "symbols")]
struct InFile {
    address: u64,
    offset: u64,
}

impl Symbols {
    /// Looks nothing up: the profile's readers have the files.
    pub fn none() -> Symbols {
        Symbols { frames: HashMap::new(), bare: BTreeSet::new() }
    }

    /// Looks up all addresses of a profile.
    #[cfg(feature = "symbols")]
    pub fn of(profile: &Profile) -> Symbols {
        // Two files that were deleted may have had one path.
        let mut by_file: BTreeMap<(&Path, &Path), (&Mapping, Vec<InFile>)> = BTreeMap::new();
        let mut symbols = Symbols::none();
        let mut made = None;
        let all: BTreeSet<u64> = profile.places.iter().flat_map(|p| &p.frames).copied().collect();
        for address in all {
            // The address of the call, not of its return.
            let call = address.saturating_sub(1);
            let mapping = profile.mapping_of(call);
            match mapping {
                Some(mapping) if mapping.has_file() => {
                    let offset = call - mapping.start + mapping.offset;
                    let file = (&*mapping.path, mapping.file());
                    let (_, addresses) = by_file.entry(file).or_insert((mapping, Vec::new()));
                    addresses.push(InFile { address, offset });
                }
                _ => {
                    let made = made.get_or_insert_with(|| MadeCode::of(profile.pid));
                    let frame = match (made.name(call), mapping) {
                        (Some(name), _) => Frame { name: name.into(), file: None, line: 0 },
                        (None, Some(mapping)) => {
                            unknown(&mapping.name(), call - mapping.start + mapping.offset)
                        }
                        (None, None) => unknown("generated or unloaded code", call),
                    };
                    symbols.put(address, vec![frame]);
                }
            }
        }
        for (mapping, addresses) in by_file.into_values() {
            symbols.look_up(mapping, &addresses);
        }
        symbols
    }

    #[cfg(feature = "symbols")]
    fn look_up(&mut self, mapping: &Mapping, addresses: &[InFile]) {
        let path = &mapping.path;
        let name = mapping.name();
        let offsets: Vec<u64> = addresses.iter().map(|place| place.offset).collect();
        let symbolizer = Symbolizer::new();
        let file = files::open(mapping.file()).ok();
        let found = file.and_then(|file| {
            let mut elf = Elf::new(files::again(&file));
            let mut look_up = |debug_syms| {
                elf.debug_syms = debug_syms;
                symbolizer.symbolize(&Source::Elf(elf.clone()), Input::FileOffset(&offsets))
            };
            // If the debugging information is unreadable, the file's own symbols must still be used.
            let whole = files::links_to_files(&file).then(|| look_up(true).ok()).flatten();
            whole.or_else(|| look_up(false).ok())
        });
        let found = found.unwrap_or_default();
        let mut any = false;
        for (i, &InFile { address, offset }) in addresses.iter().enumerate() {
            let frames = match found.get(i) {
                Some(Symbolized::Sym(symbol)) => {
                    any = true;
                    let mut frames = vec![frame(&symbol.name, symbol.code_info.as_deref())];
                    // Each is inlined into the previous one.
                    for inlined in symbol.inlined.iter() {
                        frames.push(frame(&inlined.name, inlined.code_info.as_ref()));
                    }
                    frames.reverse();
                    frames
                }
                _ => vec![unknown(&name, offset)],
            };
            self.put(address, frames);
        }
        if !any {
            self.bare.insert(path.clone());
        }
    }

    pub(crate) fn put(&mut self, address: u64, frames: Vec<Frame>) {
        self.frames.insert(address, frames);
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Returns the frames of a return address.
    pub fn get(&self, address: u64) -> &[Frame] {
        self.frames.get(&address).map_or(&[], Vec::as_slice)
    }

    /// Returns the frames of a stack, innermost first, without the allocator's own, which are part of programs in Rust.
    pub fn stack<'s>(&'s self, addresses: &'s [u64]) -> impl Iterator<Item = &'s Frame> {
        let frames = || addresses.iter().flat_map(|&address| self.get(address));
        let own = frames().take(DEEPEST).enumerate().filter(|(_, frame)| frame.is_allocators());
        let first = own.last().map_or(0, |(index, _)| index + 1);
        frames().skip(first)
    }
}

#[cfg(feature = "symbols")]
fn frame(name: &str, at: Option<&CodeInfo>) -> Frame {
    Frame {
        name: readable(name),
        file: at.map(|at| at.to_path().to_string_lossy().into_owned()),
        line: at.and_then(|at| at.line).unwrap_or(0),
    }
}

/// Returns the name that a mangled one stands for, and any other as it is. Only the prefixes of mangled symbols tell them
/// from other names: a function of C may be called `w`, which is also how C++ mangles the type `wchar_t`.
#[cfg(feature = "symbols")]
fn readable(name: &str) -> String {
    let rust = || rustc_demangle::try_demangle(name).map(|name| format!("{name:#}")).ok();
    let cxx = || cpp_demangle::Symbol::new(name).ok().and_then(|name| name.demangle().ok());
    let is_mangled = ["_Z", "__Z", "_R", "_GLOBAL_"].iter().any(|start| name.starts_with(start));
    is_mangled.then(|| rust().or_else(cxx)).flatten().unwrap_or_else(|| name.to_owned())
}

#[cfg(feature = "symbols")]
fn unknown(file: &str, offset: u64) -> Frame {
    Frame { name: format!("{file}+{offset:#x}"), file: None, line: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allocators_own_frames_are_cut_off() {
        let mut symbols = Symbols::none();
        let names = [
            "masu_core::prof::sample",
            "<masu::global::Masu as core::alloc::global::GlobalAlloc>::alloc",
            "__rust_alloc",
            "alloc::vec::Vec<T>::push",
            "masu::heap::scope",
            "main",
        ];
        for (address, name) in (1..).zip(names) {
            symbols.put(address, vec![Frame { name: name.into(), file: None, line: 0 }]);
        }
        let shown: Vec<&str> =
            symbols.stack(&[1, 2, 3, 4, 5, 6]).map(|frame| frame.name.as_str()).collect();
        assert_eq!(shown, names[3..]);
    }

    /// A profile of this process with calls at these addresses.
    #[cfg(feature = "symbols")]
    fn at(frames: Vec<u64>, mappings: Vec<Mapping>) -> Profile {
        let places = vec![crate::Place { frames, ..Default::default() }];
        Profile { pid: std::process::id(), places, mappings, ..Profile::default() }
    }

    // The name is also how C++ mangles the type `wchar_t`.
    #[cfg(feature = "symbols")]
    std::arch::global_asm!(".globl w", ".type w, %function", "w: .skip 16", ".size w, 16");

    #[cfg(feature = "symbols")]
    #[test]
    fn a_function_of_c_is_no_type_of_cxx() {
        unsafe extern "C" {
            fn w();
        }
        let mut profile = at(vec![w as *const () as u64 + 1], Vec::new());
        profile.set_mappings(&std::fs::read_to_string("/proc/self/maps").unwrap());
        let symbols = Symbols::of(&profile);
        assert_eq!(symbols.get(profile.places[0].frames[0])[0].name, "w");
        for (name, shown) in [
            ("_start", "_start"),
            ("_Z1wv", "w()"),
            ("_ZN3one3twoEPKc", "one::two(char const*)"),
            ("_ZN3one3two17h0123456789abcdefE", "one::two"),
            ("_RNvC3one3two", "one::two"),
        ] {
            assert_eq!(frame(name, None).name, shown);
        }
    }

    #[cfg(feature = "symbols")]
    #[test]
    fn code_in_memory_with_a_name_has_the_names_of_its_list() {
        let list = format!("/tmp/perf-{}.map", std::process::id());
        std::fs::write(&list, "1000 10 made\n2000 10 doubled\n").unwrap();
        let of = |start, path: &str| Mapping {
            start,
            end: start + 0x1000,
            offset: 0,
            path: path.into(),
            file: None,
        };
        let mappings = vec![
            of(0x1000, "[anon:code]"),
            of(0x2000, "/memfd:doublemapper (deleted)"),
            of(0x3000, "[vdso]"),
        ];
        let symbols = Symbols::of(&at(vec![0x1002, 0x2002, 0x3002], mappings));
        std::fs::remove_file(&list).unwrap();
        let name = |address| symbols.get(address)[0].name.as_str();
        assert_eq!([name(0x1002), name(0x2002), name(0x3002)], ["made", "doubled", "[vdso]+0x1"]);
        assert!(symbols.bare.is_empty());
    }

    #[cfg(feature = "symbols")]
    #[test]
    fn two_deleted_files_of_one_path_have_their_own_names() {
        let mut profile = at(Vec::new(), Vec::new());
        profile.set_mappings(&std::fs::read_to_string("/proc/self/maps").unwrap());
        let here = unknown as *const () as u64;
        let mut one = profile.mapping_of(here).unwrap().clone();
        one.path = "/x (deleted)".into();
        one.file = Some("/proc/self/exe".into());
        let mut other = one.clone();
        (other.start, other.end) = (one.end, one.end + (one.end - one.start));
        other.file = Some("/proc/self/status".into());
        let there = here - one.start + other.start;
        let symbols = Symbols::of(&at(vec![here + 1, there + 1], vec![one, other]));
        let name = |address| symbols.get(address).last().unwrap().name.as_str();
        assert!(name(here + 1).contains("unknown"), "{}", name(here + 1));
        assert!(name(there + 1).starts_with("x (deleted)+0x"), "{}", name(there + 1));
    }
}
