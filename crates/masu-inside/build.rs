//! Builds libmasu.so into the program, where that stands alone: `cargo install` takes programs and no libraries.
//! Among its sources the command has the library beside it, in the same directory, and nothing is done here.
//!
//! `library` has the sources, as links that packaging resolves. The compiler is called as cargo would: neither the
//! engine nor the unwinder has a dependency, and the library none but these two, which are compiled to what the optimiser
//! reads when it links, and no further. What the library's own build script says to the linker is asked of that script.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the library asks of the engine, in its manifest.
const FEATURES: [&str; 5] = ["arenas", "guard", "hardened", "hooks", "prof"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(with_library)");
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    // docs.rs has no linker for other machines.
    let documented = env::var_os("DOCS_RS").is_some();
    if documented || here.with_file_name("libmasu").join("Cargo.toml").exists() {
        return;
    }
    println!("cargo::rerun-if-changed=library");
    let out = PathBuf::from(variable("OUT_DIR"));
    let (core, library) = (here.join("library/masu-core"), here.join("library/libmasu"));

    let engine = out.join("libmasu_core.rlib");
    let mut rustc = compiler("masu_core", &core.join("lib.rs"), &out);
    rustc.args(FEATURES.map(|feature| format!("--cfg=feature=\"{feature}\"")));
    run(rustc.args(["--crate-type=rlib", "-Copt-level=s", "-Clinker-plugin-lto"]));
    let unwinder = out.join("libmasu_unwind.rlib");
    let mut rustc = compiler("masu_unwind", &here.join("library/masu-unwind/lib.rs"), &out);
    run(rustc.args(["--crate-type=rlib", "-Copt-level=3", "-Clinker-plugin-lto"]));

    let script = out.join("library-build-script");
    let mut rustc = Command::new(variable("RUSTC"));
    run(rustc.args(["--edition=2024", "-o"]).arg(&script).arg(library.join("build.rs")));
    let mut script = Command::new(script);
    script.current_dir(&library).env("CARGO_MANIFEST_DIR", &library);
    let said = script.output().expect("the library's build script runs");
    assert!(said.status.success(), "{said:?}");
    let said = String::from_utf8(said.stdout).expect("text");

    let mut rustc = compiler("masu", &library.join("src/lib.rs"), &out);
    rustc.args(["--crate-type=cdylib", "-Copt-level=z", "-Clto=fat", "-Cstrip=symbols"]);
    for argument in
        said.lines().filter_map(|line| line.strip_prefix("cargo::rustc-cdylib-link-arg="))
    {
        rustc.arg(format!("-Clink-arg={argument}"));
    }
    rustc.arg("--extern").arg(format!("masu_core={}", engine.display()));
    run(rustc.arg("--extern").arg(format!("masu_unwind={}", unwinder.display())));
    println!("cargo::rustc-cfg=with_library");
}

/// The compiler for one crate of the library, in release mode.
fn compiler(name: &str, source: &Path, out: &Path) -> Command {
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args([
        "--edition=2024",
        "--target",
        &variable("TARGET"),
        "--crate-name",
        name,
        "--cap-lints=allow",
    ]);
    rustc.args(["-Cpanic=abort", "-Ccodegen-units=1"]).arg("--out-dir").arg(out).arg(source);
    // On musl, programs are static by default, and libraries cannot be.
    if variable("CARGO_CFG_TARGET_ENV") == "musl" {
        rustc.arg("-Ctarget-feature=-crt-static");
    }
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        rustc.arg("-C").arg(format!("linker={}", PathBuf::from(linker).display()));
    }
    rustc
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
