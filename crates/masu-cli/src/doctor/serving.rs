//! Which file serves `malloc`: the first one that offers it, in the loader's symbol lookup order.
//! That order is the program, preloaded libraries, the libraries they require, the ones those
//! require, and finally libraries loaded later.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::allocators::{Contents, MASU, file_name, known_library};
use crate::printable;

/// How a program gets its allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// LD_PRELOAD or /etc/ld.so.preload names the allocator's library.
    Preloaded,
    /// The program, or one of its libraries, is linked with the allocator's library.
    Linked,
    /// The program's own file contains the allocator.
    Inside,
    /// The C library contains the allocator.
    Libc,
}

/// The allocator that serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Serving {
    /// Its name: `masu`, `glibc`, `musl`, `jemalloc` and so on. `libc` is a static program's C library of which no
    /// more is known, `Go` a program that has nothing but Go's.
    pub allocator: String,
    /// How the program gets it.
    pub how: How,
    /// The file that contains it.
    #[serde(serialize_with = "printable::path")]
    pub file: PathBuf,
}

impl Serving {
    /// Whether it is masu.
    pub fn is_masu(&self) -> bool {
        self.allocator == MASU
    }
}

/// One file of a program or process.
#[derive(Clone)]
pub struct Loaded {
    /// As the process names it.
    pub path: PathBuf,
    /// What is in it, if it could be read.
    pub contents: Option<Arc<Contents>>,
    /// Whether it was preloaded.
    pub preloaded: bool,
}

impl Loaded {
    /// Returns the allocator whose `malloc` it offers.
    pub fn malloc(&self) -> Option<&'static str> {
        match &self.contents {
            Some(contents) => contents.malloc,
            None => known_library(&file_name(&self.path)),
        }
    }

    /// Whether a file that requires `name` gets this one.
    pub fn is_called(&self, name: &str) -> bool {
        let soname = self.contents.as_ref().and_then(|contents| contents.soname.as_deref());
        soname == Some(name) || file_name(&self.path) == file_name(Path::new(name))
    }

    /// Whether it is linked with `other`.
    pub fn needs(&self, other: &Loaded) -> bool {
        let needed = self.contents.iter().flat_map(|contents| &contents.needed);
        needed.into_iter().any(|name| other.is_called(name))
    }
}

/// Returns the allocator that serves a program consisting of these files, the program itself first.
pub fn first(files: &[Loaded]) -> Option<Serving> {
    let serving = |(i, file): (usize, &Loaded)| {
        // The program's own code calls its masu even if the program hides it from its libraries.
        let own = i == 0 && file.contents.as_ref().is_some_and(|contents| contents.masu);
        let allocator = file.malloc().or(own.then_some(MASU))?;
        let how = match allocator {
            _ if i == 0 => How::Inside,
            "glibc" | "musl" => How::Libc,
            _ if file.preloaded => How::Preloaded,
            _ => How::Linked,
        };
        Some(Serving { allocator: allocator.to_owned(), how, file: file.path.clone() })
    };
    let program = files.first()?;
    match &program.contents {
        // There is no loader, so other mappings do not belong to the program.
        Some(contents) if !contents.interpreted => {
            let allocator = contents.of_static_program();
            let libc = matches!(allocator, "glibc" | "libc");
            Some(Serving {
                allocator: allocator.to_owned(),
                how: if libc { How::Libc } else { How::Inside },
                file: program.path.clone(),
            })
        }
        _ => files.iter().enumerate().find_map(serving),
    }
}

/// Returns the files of a process in the loader's order. `is_preloaded` returns the position of
/// those that a variable or a list names; `None` is for files it cannot know about.
pub fn in_order(
    program: Option<&Loaded>,
    others: Vec<Loaded>,
    preloads: impl Fn(&Loaded) -> Option<usize>,
) -> Vec<Loaded> {
    let (mut first, mut rest): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|file| preloads(file).is_some());
    first.sort_by_key(&preloads);
    let preloaded = first.into_iter().map(|file| Loaded { preloaded: true, ..file });
    // The first is the program, even if nothing is known about it.
    let unknown = || Loaded { path: PathBuf::new(), contents: None, preloaded: false };
    let program = program.cloned().unwrap_or_else(unknown);
    let mut ordered: Vec<_> = std::iter::once(program).chain(preloaded).collect();
    let mut at = 0;
    while let Some(file) = ordered.get(at) {
        let needed = file.contents.as_ref().map(|contents| contents.needed.clone());
        for name in needed.iter().flatten() {
            if let Some(found) = rest.iter().position(|file| file.is_called(name)) {
                ordered.push(rest.remove(found));
            }
        }
        at += 1;
    }
    ordered.extend(rest);
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, malloc: Option<&'static str>, needed: &[&str]) -> Loaded {
        let needed = needed.iter().map(|&name| name.to_owned()).collect();
        let contents = Contents { malloc, needed, interpreted: true, ..Contents::default() };
        Loaded { path: path.into(), contents: Some(Arc::new(contents)), preloaded: false }
    }

    #[test]
    fn the_first_malloc_in_the_loaders_order_serves() {
        let program = file("/bin/x", None, &["libc.so.6", "libz.so"]);
        let libc = file("/lib/libc.so.6", Some("glibc"), &[]);
        let other = file("/lib/libj.so", Some("jemalloc"), &["libc.so.6"]);
        let serving = |others: &[&Loaded], preload: &str| {
            let others = others.iter().map(|&file| file.clone()).collect();
            let preloads = |file: &Loaded| (file.path == Path::new(preload)).then_some(0);
            let serving = first(&in_order(Some(&program), others, preloads)).unwrap();
            (serving.allocator, serving.how)
        };
        assert_eq!(serving(&[&other, &libc], ""), ("glibc".to_owned(), How::Libc));
        assert_eq!(
            serving(&[&libc, &other], "/lib/libj.so"),
            ("jemalloc".to_owned(), How::Preloaded)
        );
        // A library requires it, so it comes after those that the program requires.
        let between = file("/lib/libz.so", None, &["libj.so"]);
        assert_eq!(serving(&[&libc, &between, &other], "").0, "glibc");
        let masu = file("/lib/libz.so", Some(MASU), &[]);
        assert_eq!(serving(&[&masu, &libc], "").0, "glibc");
        let unread = Loaded { contents: None, ..file("/lib/libmasu.so.0", None, &[]) };
        assert_eq!(
            serving(&[&libc, &unread], "/lib/libmasu.so.0"),
            (MASU.to_owned(), How::Preloaded)
        );
    }

    #[test]
    fn a_program_without_a_loader() {
        let program = |contents: Contents| {
            let contents = Some(Arc::new(contents));
            first(&[Loaded { path: "/x".into(), contents, preloaded: false }]).unwrap()
        };
        let served = |contents| (program(contents).allocator, ());
        assert_eq!(served(Contents { masu: true, ..Contents::default() }).0, MASU);
        assert_eq!(served(Contents { go: true, ..Contents::default() }).0, "Go");
        assert_eq!(served(Contents { glibc: true, ..Contents::default() }).0, "glibc");
        let inside = vec!["jemalloc", MASU];
        assert_eq!(served(Contents { inside, ..Contents::default() }).0, "jemalloc");
        assert_eq!(served(Contents::default()).0, "libc");
    }
}
