//! Code that engines generate at run time has names: they list it for `perf`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use masu_tests::running::command;
use masu_tests::{is_masu, left_out, library, scratch};

/// Profiles an engine that runs a script, and expects a stack with all these names.
#[track_caller]
fn has_names(engine: &Path, options: &[&str], file: &str, script: &str, names: &[&str]) {
    if !is_masu() {
        println!("profiles are masu's");
        return;
    }
    let place = scratch();
    let at = |name: &str| place.path().join(name);
    fs::write(at(file), script).expect("written");
    let mut masu = Command::new(command());
    masu.args(["prof", "--rate", "64KiB", "--folded"]).arg(at("a.folded"));
    masu.arg("--raw").arg(at("a.prof")).arg("--lib").arg(library().expect("masu"));
    masu.arg("--").arg(engine).args(options).arg(at(file));
    // Node writes a log where it runs.
    let output = masu.current_dir(place.path()).output().expect("the command is built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(at("a.folded")).expect("written");
    let has_all = |line: &str| names.iter().all(|name| line.contains(name));
    assert!(text.lines().any(has_all), "{}: {text}", engine.display());
    let raw = fs::read_to_string(at("a.prof")).expect("written");
    let id = raw.lines().find_map(|line| line.strip_prefix("pid ")).expect("a number");
    fs::remove_file(format!("/tmp/perf-{id}.map")).expect("the engine's list");
}

#[test]
fn javascript_in_node_has_names() {
    const SCRIPT: &str = "function makeBuffers() { const all = []; for (let i = 0; i < 200; i++) \
        all.push(Buffer.allocUnsafeSlow(20000).fill(1)); return all; }\n\
        let kept = []; for (let i = 0; i < 60; i++) kept = makeBuffers();\n";
    has_names("node".as_ref(), &["--perf-basic-prof"], "made.js", SCRIPT, &["makeBuffers"]);
}

#[test]
fn java_has_names() {
    const SOURCE: &str = "import java.nio.ByteBuffer;\npublic class Made {\n\
        static ByteBuffer[] kept = new ByteBuffer[200];\n\
        static void makeBuffers(int n) {\n\
        for (int i = 0; i < 200; i++) kept[i] = ByteBuffer.allocateDirect(20000 + n); }\n\
        public static void main(String[] words) { for (int n = 0; n < 300; n++) makeBuffers(n); } }\n";
    let options = ["-XX:+UseSerialGC", "-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit"];
    has_names("java".as_ref(), &options, "Made.java", SOURCE, &["allocateMemory0(long)"]);
}

/// Each function has a trampoline, which keeps no frame pointer.
#[test]
fn python_has_names() {
    const SCRIPT: &str = "kept = []\ndef inner():\n    return [bytearray(2000) for _ in range(500)]\n\
        def outer():\n    kept.append(inner())\nfor _ in range(40): outer()\n";
    let Some(python) = python_with_perf() else {
        left_out("names of Python's functions in a profile", "no Python here is 3.12 or later");
        return;
    };
    println!("{}", python.display());
    let names = ["_start;", "py::outer:", "py::inner:"];
    has_names(&python, &["-X", "perf"], "made.py", SCRIPT, &names);
}

/// A Python that lists its functions, as 3.12 and later do: the system's own, or one beside it, or one of pyenv's, whose
/// names in `PATH` may lead to no version.
fn python_with_perf() -> Option<PathBuf> {
    let of_path = ["python3", "python3.12", "python3.13", "python3.14"].map(PathBuf::from);
    let pyenv = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let pyenv = pyenv.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")));
    let versions = fs::read_dir(pyenv.unwrap_or_default().join("versions")).into_iter().flatten();
    let of_pyenv = versions.filter_map(|version| Some(version.ok()?.path().join("bin/python3")));
    of_path.into_iter().chain(of_pyenv).find_map(|python| {
        let mut command = Command::new(python);
        // The program itself, and not a script that starts it.
        let script = "import sys; sys.activate_stack_trampoline; print(sys.executable)";
        let output = command.args(["-X", "perf", "-c", script]).output().ok()?;
        let is_it = output.status.success();
        is_it.then(|| String::from_utf8_lossy(&output.stdout).trim().into())
    })
}
