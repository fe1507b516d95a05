//! From return addresses to functions, by the files that the code came from.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Symbolized, Symbolizer};
use object::Object as _;

use super::raw::Profile;

/// A function, or what is known of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// Its name; without one the file and the place in it.
    pub name: String,
    /// The source file, if debugging information has it.
    pub file: Option<String>,
    /// The line there.
    pub line: u32,
}

/// The frames of every return address of a profile: several where functions were inlined, innermost first.
pub struct Symbols {
    frames: HashMap<u64, Vec<Frame>>,
    /// Files without a symbol, of those that were asked for some.
    pub bare: BTreeSet<PathBuf>,
}

impl Symbols {
    /// Looks all of a profile's addresses up.
    pub fn of(profile: &Profile) -> Symbols {
        let mut by_file: BTreeMap<&Path, Vec<(u64, u64)>> = BTreeMap::new();
        let mut symbols = Symbols { frames: HashMap::new(), bare: BTreeSet::new() };
        let all: BTreeSet<u64> = profile.places.iter().flat_map(|p| &p.frames).copied().collect();
        for address in all {
            // The call, not where it returns to.
            let call = address.saturating_sub(1);
            match profile.mapping_of(call) {
                Some(mapping) => {
                    let offset = call - mapping.start + mapping.offset;
                    by_file.entry(&mapping.path).or_default().push((address, offset));
                }
                None => symbols.put(address, vec![unknown("code made at run time", call)]),
            }
        }
        let symbolizer = Symbolizer::new();
        for (path, addresses) in by_file {
            symbols.look_up(&symbolizer, path, &addresses);
        }
        symbols
    }

    fn look_up(&mut self, symbolizer: &Symbolizer, path: &Path, addresses: &[(u64, u64)]) {
        let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let offsets: Vec<u64> = addresses.iter().map(|&(_, offset)| offset).collect();
        let found = symbolizer
            .symbolize(&Source::Elf(Elf::new(path)), Input::FileOffset(&offsets))
            .unwrap_or_default();
        let mut any = false;
        for (i, &(address, offset)) in addresses.iter().enumerate() {
            let frames = match found.get(i) {
                Some(Symbolized::Sym(symbol)) => {
                    any = true;
                    let mut frames = vec![frame(&symbol.name, symbol.code_info.as_deref())];
                    // Each is inlined into the one before it.
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
            self.bare.insert(path.into());
        }
    }

    fn put(&mut self, address: u64, frames: Vec<Frame>) {
        self.frames.insert(address, frames);
    }

    /// The frames of a return address.
    pub fn get(&self, address: u64) -> &[Frame] {
        self.frames.get(&address).map_or(&[], Vec::as_slice)
    }

    /// The frames of a stack, innermost first.
    pub fn stack<'s>(&'s self, addresses: &'s [u64]) -> impl Iterator<Item = &'s Frame> {
        addresses.iter().flat_map(|&address| self.get(address))
    }
}

fn frame(name: &str, at: Option<&CodeInfo>) -> Frame {
    Frame {
        name: name.to_owned(),
        file: at.map(|at| at.to_path().to_string_lossy().into_owned()),
        line: at.and_then(|at| at.line).unwrap_or(0),
    }
}

fn unknown(file: &str, offset: u64) -> Frame {
    Frame { name: format!("{file}+{offset:#x}"), file: None, line: 0 }
}

/// The build id of a file, in hexadecimal; empty if it has none.
pub fn build_id(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let id =
        object::File::parse(&*bytes).ok().and_then(|file| Some(file.build_id().ok()??.to_vec()));
    id.unwrap_or_default().iter().map(|byte| format!("{byte:02x}")).collect()
}
