//! The same inside a directory of the engine: its files have an order, too.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use masu_tests::{rust_files, workspace};

use super::paths;

/// The files of a directory in order, each with what it is for: a file may use itself and those above it, never one
/// below. A file belongs to the longest name that its path begins with, so a folder is one of them, except for what has
/// a line of its own. `mod` is the directory's own module, which declares the files and says what others use of them.
/// The tests that lie beside the files may use all of them.
pub struct Order {
    /// Where it is in `crates/masu-core/src`.
    pub directory: &'static str,
    pub files: &'static [(&'static str, &'static str)],
}

impl Order {
    /// Checks that the files keep it, and that it names all of them and no other.
    pub fn assert_kept(&self) {
        let root = workspace().join("crates/masu-core/src");
        let (mut wrong, mut found) = (Vec::new(), BTreeSet::new());
        let mut files = rust_files(&root.join(self.directory));
        let beside = root.join(self.directory).with_extension("rs");
        files.extend(Some(beside).filter(|file| file.is_file()));
        for file in files {
            let inside = file.strip_prefix(&root).expect("below the root");
            let is_of_tests = |name: &str| name.starts_with("tests") || name.starts_with("test_");
            if inside.iter().any(|part| is_of_tests(&part.to_string_lossy())) {
                continue;
            }
            let rank = self.rank_of(&module_of(inside));
            let rank = rank.unwrap_or_else(|| panic!("no place for {}", inside.display()));
            found.insert(self.files[rank].0);
            let text = fs::read_to_string(&file).expect("readable");
            wrong.extend(self.arrows_up(&inside.to_string_lossy(), &text));
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        let named = self.files.iter().map(|(name, _)| *name).collect();
        assert_eq!(found, named, "{}", self.directory);
    }

    /// The arrows in `text`, the content of the engine's file `file`, that point to a file of the directory below.
    pub fn arrows_up(&self, file: &str, text: &str) -> Vec<String> {
        let own = module_of(Path::new(file));
        let rank = self.rank_of(&own).expect("a file of the directory");
        // Tests inside a file come last.
        let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let code = code.split("\n#[cfg(all(test, not(loom)))]\nmod tests {").next();
        let targets = paths(code.unwrap_or_default()).into_iter();
        targets
            .filter_map(|path| self.absolute(&own, &path))
            .filter(|target| self.inside(target).is_some_and(|rest| !rest.is_empty()))
            .filter(|target| self.rank_of(target).is_none_or(|below| below > rank))
            .map(|target| format!("{file}: may not use {}", target.join("::")))
            .collect()
    }

    /// Where a path in a module leads, if it is one to a module of the engine.
    fn absolute(&self, own: &[String], path: &[String]) -> Option<Vec<String>> {
        let supers = path.iter().take_while(|name| *name == "super").count();
        let (base, rest) = match path[0].as_str() {
            "crate" => (&own[..0], &path[1..]),
            "self" => (own, &path[1..]),
            "super" => (&own[..own.len().checked_sub(supers)?], &path[supers..]),
            // A module inside this one, or something that was imported, and was looked at there.
            _ => {
                let name = self.inside(&[own, &path[..1]].concat())?;
                let is_module = path.len() > 1 && self.files.iter().any(|(file, _)| *file == name);
                return is_module.then(|| [own, path].concat());
            }
        };
        Some([base, rest].concat()).filter(|_| rest.iter().any(|name| name != "self"))
    }

    /// The place of what a path leads to, or of a module, among the files; `None` if it is in none of them.
    fn rank_of(&self, path: &[String]) -> Option<usize> {
        let inside = self.inside(path)?;
        let inside = if inside.is_empty() { "mod" } else { &inside };
        let files = self.files.iter().enumerate();
        let holding = files.filter(|(_, (name, _))| Path::new(inside).starts_with(name));
        holding.max_by_key(|(_, (name, _))| name.len()).map(|(rank, _)| rank)
    }

    /// The rest of a path that leads to the directory, or into it.
    fn inside(&self, path: &[String]) -> Option<String> {
        let names: Vec<&str> = self.directory.split('/').collect();
        let (start, rest) = path.split_at_checked(names.len())?;
        start.iter().eq(names).then(|| rest.join("/"))
    }
}

/// The module that is in a file, by the file's path below `src`.
fn module_of(file: &Path) -> Vec<String> {
    let name = file.with_extension("");
    let parts = name.iter().map(|part| part.to_string_lossy().into_owned());
    parts.filter(|name| name != "mod").collect()
}
