//! Languages with their own allocators and memory.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use masu_tests::{Compile, scratch};

use crate::case::{Case, Refused, Served, has, left_out, word};
use crate::truth::LIBC;

#[test]
fn rusts_global_allocator() {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_doctor_probe"));
    let place = scratch();
    let stripped = place.path().join("stripped");
    let mut strip = Command::new("strip");
    assert!(strip.arg("-o").arg(&stripped).arg(&program).status().expect("binutils").success());
    for program in [program, stripped] {
        let rust = Case::new("masu::Masu", [&program], "masu", Served("masu"));
        Case { rust: true, ..rust }.check();
        // What C allocates in the program.
        let words = [program.into_os_string(), "c".into()];
        let c = Case::new("malloc beside masu::Masu", words, LIBC, Served("masu"));
        Case { always: true, ..c }.check();
    }
}

const GO: &str = r#"package main

import (
	"fmt"
	"io"
	"os"
)

var kept [][]byte

func main() {
	for i := 0; i < 48<<10; i++ {
		kept = append(kept, make([]byte, 1000))
	}
	fmt.Println("ready", os.Getpid())
	io.Copy(io.Discard, os.Stdin)
}
"#;

const CGO: &str = r#"package main

// #include <stdlib.h>
import "C"
import (
	"fmt"
	"io"
	"os"
)

func main() {
	for i := 0; i < 48<<10; i++ {
		C.malloc(1000)
	}
	fmt.Println("ready", os.Getpid())
	io.Copy(io.Discard, os.Stdin)
	C.exit(0)
}
"#;

#[test]
fn go() {
    if !has("go", "Go") {
        return;
    }
    let place = scratch();
    let build = |name: &str, source: &str, cgo: &str| {
        let (file, out) = (place.path().join(format!("{name}.go")), place.path().join(name));
        fs::write(&file, source).expect("written");
        let mut go = Command::new("go");
        go.args(["build", "-ldflags", "-s -w", "-o"]).arg(&out).arg(file);
        go.env("CGO_ENABLED", cgo).env("GOFLAGS", "-mod=mod").current_dir(place.path());
        assert!(go.status().expect("go").success());
        out
    };
    let program = build("pure", GO, "0");
    Case::new("Go", [program], LIBC, Refused).check();
    let program = build("mixed", CGO, "1");
    Case::new("Go with cgo", [program], LIBC, Served("masu")).partly().check();
}

const JAVA: &str = "public class Probe {\n\
    static native int allocate();\n\
    public static void main(String[] arguments) { System.load(arguments[0]); allocate(); }\n}\n";

/// `java` is a link, and finds its libraries by the location of the file that it leads to.
#[test]
fn java_and_a_library_of_its_native_interface() {
    if !has("javac", "Java") || !has("java", "Java") {
        return;
    }
    let javac = fs::canonicalize(word("javac")).expect("there");
    let home = javac.parent().and_then(|bin| bin.parent()).expect("a home");
    let include = home.join("include");
    if !include.join("jni.h").is_file() {
        left_out("Java", "there is no jni.h");
        return;
    }
    let include = include.display();
    let library = Compile::with("gcc").flags(["-shared", "-fPIC", "-DPROBE_JAVA"]);
    let library = library.flag(format!("-I{include}")).flag(format!("-I{include}/linux"));
    let library = library.file("c/doctor_probe.c").build();
    let place = scratch();
    fs::write(place.path().join("Probe.java"), JAVA).expect("written");
    let mut compile = Command::new("javac");
    let done = compile.arg("Probe.java").current_dir(place.path()).status().expect("javac");
    assert!(done.success());
    // The `java` of the same home: the library may need a newer one than the first in PATH.
    let java = [
        home.join("bin/java").into_os_string(),
        "-Xshare:auto".into(),
        "-cp".into(),
        place.path().into(),
        "Probe".into(),
        library.path().into(),
    ];
    Case::new("Java", java, LIBC, Served("masu")).check();
    // The name in PATH may be a link, or a link to a link.
    let link = place.path().join("java");
    std::os::unix::fs::symlink(home.join("bin/java"), &link).expect("a link");
    let words: [OsString; 5] =
        [link.into(), "-cp".into(), place.path().into(), "Probe".into(), library.path().into()];
    Case::new("Java by a link", words, LIBC, Served("masu")).check();
}

/// Imports `$MODULE`, if installed, and allocates by `malloc`.
const PYTHON: &str = "import ctypes, importlib, os, sys\n\
    for name in sys.argv[1:]: importlib.import_module(name)\n\
    malloc = ctypes.CDLL(None).malloc\n\
    malloc.argtypes = [ctypes.c_size_t]\n\
    for i in range(48 << 10): malloc(1000)\n\
    print('ready', os.getpid(), flush=True)\n\
    sys.stdin.read()\n";

fn python() -> OsString {
    std::env::var_os("MASU_TEST_PYTHON").unwrap_or_else(|| word("python3"))
}

/// Python's own file: the one in PATH may be a script that searches for it.
fn interpreter() -> OsString {
    let mut ask = Command::new(python());
    let output = ask.args(["-c", "import sys; print(sys.executable)"]).output().expect("python3");
    String::from_utf8(output.stdout).expect("a path").trim().into()
}

#[test]
fn python_and_a_script_of_it() {
    let python = interpreter();
    let words = [python.clone(), "-c".into(), PYTHON.into()];
    Case::new("Python", words, LIBC, Served("masu")).check();
    let place = scratch();
    let script = place.path().join("script");
    let text = format!("#!{}\n{PYTHON}", python.display());
    // By a separate process: another test's child may hold this one's files open.
    let mut write = Command::new("sh");
    write.args(["-c", "printf %s \"$1\" >\"$0\"; chmod +x \"$0\""]).arg(&script).arg(text);
    assert!(write.status().expect("sh").success());
    Case::new("a script", [&script], LIBC, Served("masu")).check();
    let link = place.path().join("link");
    std::os::unix::fs::symlink(&script, &link).expect("a link");
    Case::new("a script by a link", [link], LIBC, Served("masu")).check();
}

/// Wheels that contain an allocator keep it to themselves.
#[test]
fn pythons_packages_with_allocators_inside() {
    let python = interpreter();
    for (package, allocators) in
        [("pyarrow", &["jemalloc", "mimalloc"][..]), ("polars", &["jemalloc"]), ("torch", &[])]
    {
        let mut import = Command::new(&python);
        let import = import.args(["-c", &format!("import {package}")]).output().expect("python3");
        if !import.status.success() {
            left_out(package, "it is not installed");
            continue;
        }
        let words = [python.clone(), "-c".into(), PYTHON.into(), package.into()];
        let case = Case::new("a Python package", words, LIBC, Served("masu"));
        case.check_inside(allocators);
        case.check();
    }
}
