//! Asks the dynamic loader itself what it would do with a program.
//!
//! In trace mode, glibc's loader maps the program and its libraries, looks up every symbol as at a
//! normal start, reports both, and ends: no code of the program or of a library runs, not even a
//! constructor or a resolver of indirect functions. `ldd -r` does the same. musl's `--list` maps
//! and reports, without symbols. A loader with another name is not asked, because one that does not
//! know the option would run the program.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

/// The loader's answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The files it maps besides the program, in symbol lookup order.
    pub libraries: Vec<String>,
    /// Required libraries that are missing.
    pub missing: Vec<String>,
    /// What it could not preload, with the reason.
    pub ignored: Vec<(String, String)>,
    /// For each file that uses `malloc`, the file whose `malloc` it gets. Unknown on musl.
    pub malloc: BTreeMap<String, String>,
}

/// Asks the loader at `interpreter` about the file `program` with this `LD_PRELOAD`. Returns `None`
/// if it cannot be asked.
pub fn ask(interpreter: &Path, program: &Path, preload: &OsStr) -> Option<Trace> {
    let name = interpreter.file_name()?.to_string_lossy();
    let mut command = Command::new(interpreter);
    let is_musl = name.starts_with("ld-musl-");
    if is_musl {
        command.arg("--list");
    } else if name.starts_with("ld-linux") || name.starts_with("ld64.so") {
        command.env("LD_TRACE_LOADED_OBJECTS", "1");
        command.env("LD_WARN", "1").env("LD_BIND_NOW", "1").env("LD_DEBUG", "bindings");
        command.env_remove("LD_DEBUG_OUTPUT").env_remove("LD_VERBOSE").env_remove("LD_AUDIT");
    } else {
        return None;
    }
    // The file itself, as the kernel passes it to the loader: a bare name would mean a library, and
    // $ORIGIN is the directory of the file, not of a link to it.
    let program = program.canonicalize().ok()?;
    let output = command.arg(program).env("LD_PRELOAD", preload).stdin(Stdio::null()).output();
    let output = output.ok()?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut trace = read(&said(&output.stdout), &said(&output.stderr));
    // musl's loader lists itself first, and a second time, as the C library, in its place in the
    // order.
    if is_musl && trace.libraries.len() > 1 && Path::new(&trace.libraries[0]) == interpreter {
        trace.libraries.remove(0);
    }
    Some(trace)
}

fn read(out: &str, err: &str) -> Trace {
    let mut trace = Trace::default();
    for line in out.lines().chain(err.lines()) {
        if let Some(object) = line.strip_prefix("ERROR: ld.so: object '") {
            trace.ignored.extend(ignored(object));
        } else if let Some(binding) = line.split_once("binding file ").map(|(_, rest)| rest) {
            trace.malloc.extend(binding_of_malloc(binding));
        } else if let Some(missing) = missing(line) {
            trace.missing.push(missing.to_owned());
        } else if let Some(library) = library(line) {
            trace.libraries.push(library.to_owned());
        }
    }
    trace
}

/// Parses `X' from LD_PRELOAD cannot be preloaded (reason): ignored.`
fn ignored(rest: &str) -> Option<(String, String)> {
    let (object, rest) = rest.split_once('\'')?;
    let (_, reason) = rest.split_once('(')?;
    let (reason, _) = reason.rsplit_once(')')?;
    Some((object.to_owned(), reason.to_owned()))
}

/// ``A [0] to B [0]: normal symbol `malloc' [VERSION]``
fn binding_of_malloc(rest: &str) -> Option<(String, String)> {
    if !rest.contains("symbol `malloc'") {
        return None;
    }
    let (user, rest) = rest.split_once(" [0] to ")?;
    let (provider, _) = rest.split_once(" [0]: ")?;
    Some((user.to_owned(), provider.to_owned()))
}

/// `libx.so => not found`, or musl's `Error loading shared library libx.so: …`.
fn missing(line: &str) -> Option<&str> {
    let musl = line.strip_prefix("Error loading shared library ");
    let musl = musl.and_then(|rest| rest.split(": ").next());
    line.trim().strip_suffix(" => not found").or(musl)
}

/// `name => /path (0x…)` or `/path (0x…)`.
fn library(line: &str) -> Option<&str> {
    let line = line.strip_prefix('\t')?;
    let (file, _) = line.rsplit_once(" (0x")?;
    let file = file.split_once(" => ").map_or(file, |(_, path)| path);
    file.starts_with('/').then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glibc() {
        let out = "\tlinux-vdso.so.1 (0x00007fff)\n\t/opt/libmasu.so (0x00007f42)\n\
                   \tlibz.so.1 => /lib/libz.so.1 (0x00007f42)\n\tlibno.so.2 => not found\n";
        let err = "ERROR: ld.so: object '/no.so' from LD_PRELOAD cannot be preloaded (cannot open \
                   shared object file): ignored.\n     \
                   13945:\tbinding file /bin/x [0] to /opt/libmasu.so [0]: normal symbol `malloc' \
                   [GLIBC_2.2.5]\n     \
                   13945:\tbinding file /bin/x [0] to /lib/libc.so.6 [0]: normal symbol \
                   `malloc_info'\n";
        let trace = read(out, err);
        assert_eq!(trace.libraries, ["/opt/libmasu.so", "/lib/libz.so.1"]);
        assert_eq!(trace.missing, ["libno.so.2"]);
        let reason = "cannot open shared object file".to_owned();
        assert_eq!(trace.ignored, [("/no.so".to_owned(), reason)]);
        let malloc: Vec<_> = trace.malloc.into_iter().collect();
        assert_eq!(malloc, [("/bin/x".to_owned(), "/opt/libmasu.so".to_owned())]);
    }

    #[test]
    fn musl() {
        let trace = read(
            "\t/lib/ld-musl-x86_64.so.1 (0x7ff)\n\
             \t/opt/libmasu.so => /opt/libmasu.so (0x7ff)\n\
             \tlibc.so => /lib/ld-musl-x86_64.so.1 (0x7ff)\n",
            "Error loading shared library libno.so: No such file or directory (needed by x)\n",
        );
        assert_eq!(trace.libraries[1], "/opt/libmasu.so");
        assert_eq!(trace.missing, ["libno.so"]);
    }

    #[test]
    fn a_loader_of_another_name_is_not_asked() {
        let ask = |loader: &str| ask(Path::new(loader), Path::new("/bin/true"), OsStr::new(""));
        assert_eq!(ask("/bin/true"), None);
        assert_eq!(ask("/no/ld-linux.so.2"), None);
    }
}
