//! Which allocator is under test.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Most bytes of the stripped library. A tenth of it is the profiler with the functions that tests call, another tenth
/// is the hardened heap; both lie beside code that few programs need.
pub const LARGEST_LIBRARY: u64 = 358 << 10;

/// The shared library under test, or `None` when `MASU_LIB=none` asks for the
/// system's malloc. Fails the test if the library has not been built.
pub fn library() -> Option<&'static Path> {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    LIBRARY.get_or_init(locate).as_deref()
}

fn locate() -> Option<PathBuf> {
    let path = match std::env::var_os("MASU_LIB") {
        Some(choice) if choice == "none" => return None,
        Some(path) => PathBuf::from(path),
        None => target_directory().join("release/libmasu.so"),
    };
    match path.canonicalize() {
        Ok(path) => Some(path),
        Err(_) => panic!(
            "no library under test at {}: run `cargo build --release`, or set MASU_LIB",
            path.display()
        ),
    }
}

/// Always the workspace's own `target/`, whatever `CARGO_TARGET_DIR` says: that
/// is where the release build that users are told to make leaves the library.
fn target_directory() -> PathBuf {
    super::workspace().join("target")
}

/// The static library beside the shared one; `None` exactly when [`library`] is.
pub fn archive() -> Option<PathBuf> {
    let path = library()?.with_extension("a");
    assert!(path.is_file(), "no static library at {}", path.display());
    Some(path)
}

/// Whether the library under test is masu, not another allocator or the system's malloc: for what
/// only masu promises, such as its diagnostics.
pub fn is_masu() -> bool {
    library().and_then(Path::file_name).is_some_and(|n| n.to_string_lossy().starts_with("libmasu"))
}

/// The pair for a child's environment that preloads the library under test. For a tracer, which
/// must pass it only to the traced program.
pub fn preload() -> Option<String> {
    library().map(|path| format!("LD_PRELOAD={}", path.display()))
}
