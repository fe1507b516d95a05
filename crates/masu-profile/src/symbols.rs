//! Translates return addresses to functions, using the files that contain the code.

#[cfg(feature = "symbols")]
use std::collections::BTreeMap;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

#[cfg(feature = "symbols")]
use blazesym::symbolize::source::{Elf, Source};
#[cfg(feature = "symbols")]
use blazesym::symbolize::{CodeInfo, Input, Symbolized, Symbolizer};
use object::Object as _;

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
        let mut by_file: BTreeMap<&Path, (&Mapping, Vec<InFile>)> = BTreeMap::new();
        let mut symbols = Symbols::none();
        let mut made = None;
        let all: BTreeSet<u64> = profile.places.iter().flat_map(|p| &p.frames).copied().collect();
        for address in all {
            // The address of the call, not of its return.
            let call = address.saturating_sub(1);
            match profile.mapping_of(call) {
                Some(mapping) => {
                    let offset = call - mapping.start + mapping.offset;
                    let (_, addresses) =
                        by_file.entry(&mapping.path).or_insert((mapping, Vec::new()));
                    addresses.push(InFile { address, offset });
                }
                None => {
                    let made = made.get_or_insert_with(|| MadeCode::of(profile.pid));
                    symbols.put(address, vec![made.frame(call)]);
                }
            }
        }
        let symbolizer = Symbolizer::new();
        for (mapping, addresses) in by_file.into_values() {
            symbols.look_up(&symbolizer, mapping, &addresses);
        }
        symbols
    }

    #[cfg(feature = "symbols")]
    fn look_up(&mut self, symbolizer: &Symbolizer, mapping: &Mapping, addresses: &[InFile]) {
        let path = &mapping.path;
        let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let offsets: Vec<u64> = addresses.iter().map(|place| place.offset).collect();
        let mut elf = Elf::new(mapping.file());
        let mut look_up = |debug_syms| {
            elf.debug_syms = debug_syms;
            symbolizer.symbolize(&Source::Elf(elf.clone()), Input::FileOffset(&offsets))
        };
        // If the debugging information is unreadable, the file's own symbols must still be used.
        let found = look_up(true).or_else(|_| look_up(false)).unwrap_or_default();
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
                _ => vec![unknown(&file, offset)],
            };
            self.put(address, frames);
        }
        if !any {
            self.bare.insert(path.clone());
        }
    }

    #[cfg(any(feature = "symbols", test))]
    fn put(&mut self, address: u64, frames: Vec<Frame>) {
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
        name: name.to_owned(),
        file: at.map(|at| at.to_path().to_string_lossy().into_owned()),
        line: at.and_then(|at| at.line).unwrap_or(0),
    }
}

#[cfg(feature = "symbols")]
fn unknown(file: &str, offset: u64) -> Frame {
    Frame { name: format!("{file}+{offset:#x}"), file: None, line: 0 }
}

/// Code generated at run time, from the list that engines write for `perf`: Node with
/// `--perf-basic-prof`, Java with `-XX:+DumpPerfMapAtExit`, CPython with `-X perf`.
#[cfg(feature = "symbols")]
struct MadeCode(Vec<(u64, u64, String)>);

#[cfg(feature = "symbols")]
impl MadeCode {
    fn of(process: u32) -> MadeCode {
        let list = format!("/tmp/perf-{process}.map");
        let text = fs::read(format!("/proc/{process}/root{list}")).or_else(|_| fs::read(list));
        let text = text.unwrap_or_default();
        let entry = |line: &str| {
            let mut words = line.splitn(3, ' ');
            let mut number = || {
                let word = words.next()?;
                u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()
            };
            let (start, len) = (number()?, number()?);
            Some((start, start.saturating_add(len), words.next()?.to_owned()))
        };
        let mut code: Vec<_> = String::from_utf8_lossy(&text).lines().filter_map(entry).collect();
        // The code generated last is at that address now.
        code.sort_by_key(|&(start, ..)| start);
        MadeCode(code)
    }

    fn frame(&self, call: u64) -> Frame {
        let behind = self.0.partition_point(|&(start, ..)| start <= call);
        match self.0[..behind].last() {
            Some((_, end, name)) if call < *end => {
                Frame { name: name.clone(), file: None, line: 0 }
            }
            _ => unknown("code generated at run time", call),
        }
    }
}

/// Returns the build ID of a file in hexadecimal; empty if it has none.
pub fn build_id(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let id =
        object::File::parse(&*bytes).ok().and_then(|file| Some(file.build_id().ok()??.to_vec()));
    id.unwrap_or_default().iter().map(|byte| format!("{byte:02x}")).collect()
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

    #[cfg(feature = "symbols")]
    #[test]
    fn code_made_at_run_time_has_the_names_of_its_list() {
        let made = MadeCode(vec![(16, 32, "a".into()), (64, 80, "b b".into())]);
        assert_eq!(made.frame(31).name, "a");
        assert_eq!(made.frame(64).name, "b b");
        assert_eq!(made.frame(40).name, "code generated at run time+0x28");
    }
}
