//! The allocators on this system: shared objects under their well-known names in the usual places.

use std::collections::BTreeSet;
use std::env::{self, consts};
use std::fs;
use std::path::{Path, PathBuf};

use crate::arm::Arm;

/// What allocators call themselves, and the names of their objects without `lib` and `.so`, the
/// preferred one first.
const KNOWN: &[(&str, &[&str])] = &[
    ("jemalloc", &["jemalloc"]),
    ("mimalloc", &["mimalloc"]),
    ("tcmalloc", &["tcmalloc_minimal", "tcmalloc"]),
    ("snmalloc", &["snmallocshim", "snmalloc-minimal", "snmalloc"]),
    ("rpmalloc", &["rpmalloc", "rpmallocwrap"]),
    ("scudo", &["scudo"]),
    ("hoard", &["hoard"]),
    ("tbbmalloc", &["tbbmalloc_proxy"]),
];

/// The names that are looked for.
pub fn known() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|(name, _)| *name)
}

/// Every allocator found, each once, by the best of its objects.
pub fn installed() -> Vec<Arm> {
    in_places(&places())
}

fn in_places(places: &[PathBuf]) -> Vec<Arm> {
    let mut seen = BTreeSet::new();
    let mut arms = Vec::new();
    for (name, stems) in KNOWN {
        let objects = stems.iter().flat_map(|stem| places.iter().map(move |place| (place, stem)));
        let found = objects.filter_map(|(place, stem)| newest(place, stem)).next();
        if let Some(object) = found.filter(|object| seen.insert(object.clone())) {
            arms.push(Arm::preloading(name, &version(&object), object));
        }
    }
    arms
}

/// The directories looked into.
fn places() -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> =
        env::var_os("LD_LIBRARY_PATH").map_or(Vec::new(), |path| env::split_paths(&path).collect());
    let multiarch = format!("{}-linux-gnu", consts::ARCH);
    for prefix in ["/usr/local", "/usr", "/opt/homebrew", "/home/linuxbrew/.linuxbrew", "/"] {
        let lib = Path::new(prefix).join("lib");
        places.extend([lib.join(&multiarch), Path::new(prefix).join("lib64"), lib]);
    }
    places.retain(|place| place.is_absolute());
    places
}

/// The object of that name in a directory, by its real path; of several versions the newest.
fn newest(place: &Path, stem: &str) -> Option<PathBuf> {
    let start = format!("lib{stem}.so");
    let named = |name: &str| {
        name.strip_prefix(&start).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let entries = fs::read_dir(place).ok()?.flatten();
    let objects = entries.filter(|entry| named(&entry.file_name().to_string_lossy()));
    let real = objects.filter_map(|entry| entry.path().canonicalize().ok());
    real.filter(|path| path.is_file()).max_by_key(|path| numbers(&version(path)))
}

/// The version that an object's file name ends with, such as 2.0 in `libmimalloc.so.2.0`.
pub fn version(object: &Path) -> String {
    let name = object.file_name().unwrap_or_default().to_string_lossy();
    let version = name.split_once(".so.").map_or("", |(_, version)| version);
    if version.is_empty() { "unknown".into() } else { format!("so.{version}") }
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_object_of_each_is_found_once() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().canonicalize().unwrap();
        for file in
            ["libjemalloc.so.1", "libjemalloc.so.2", "libtcmalloc.so.4.5.10", "libjemallocx.so"]
        {
            fs::write(place.join(file), "").unwrap();
        }
        std::os::unix::fs::symlink("libjemalloc.so.1", place.join("libjemalloc.so")).unwrap();
        fs::write(place.join("libtcmalloc_minimal.so.4"), "").unwrap();
        fs::create_dir(place.join("libhoard.so")).unwrap();
        let arms = in_places(&[place.join("missing"), place.clone(), place.clone()]);
        let found: Vec<_> = arms
            .iter()
            .map(|arm| (arm.name.as_str(), arm.version.as_str(), arm.library.clone().unwrap()))
            .collect();
        assert_eq!(
            found,
            [
                ("jemalloc", "so.2", place.join("libjemalloc.so.2")),
                ("tcmalloc", "so.4", place.join("libtcmalloc_minimal.so.4")),
            ]
        );
    }

    #[test]
    fn the_usual_places_are_absolute() {
        assert!(places().iter().all(|place| place.is_absolute()));
        assert!(places().contains(&PathBuf::from("/usr/lib")));
    }
}
