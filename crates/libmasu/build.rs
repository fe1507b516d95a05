//! Linker arguments of the shared object; see "Linking" in `src/lib.rs`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for arg in [
        // No start files: nothing but our own .init_array and .fini_array runs.
        "-nostartfiles",
        // The number changes when programs that are linked with the library have to be linked anew.
        "-Wl,-soname,libmasu.so.0",
        // Threads' exit hooks and fork handlers point into the object: it never goes away.
        "-Wl,-z,nodelete",
        "-Wl,-z,now",
        "-Wl,-z,relro",
        // Functions call each other directly; of a variable that programs set there may be a copy in the
        // executable, and that one counts.
        "-Wl,-Bsymbolic-functions",
        // Required from a static libc, optional in a running process.
        "-Wl,--wrap=pthread_key_create",
        "-Wl,--wrap=pthread_setspecific",
        "-Wl,--wrap=pthread_atfork",
    ] {
        println!("cargo::rustc-cdylib-link-arg={arg}");
    }
    let target = |what: &str| std::env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    if target("ENV") != "gnu" {
        return;
    }
    // The GNU linker knows none of what follows. On x86-64 the compiler links with the lld that comes with it, by itself
    // since 1.90; for other machines it has to be told, and not all that package Rust bring that linker.
    let lld = format!("{}/lib/rustlib/{}/bin/gcc-ld", said(&["--print", "sysroot"]), of("HOST"));
    let is_usual = target("ARCH") == "x86_64";
    if !is_usual && !std::path::Path::new(&lld).exists() {
        return;
    }
    if !is_usual || minor_version().is_some_and(|minor| minor < 90) {
        println!("cargo::rustc-cdylib-link-arg=-fuse-ld=lld");
        println!("cargo::rustc-cdylib-link-arg=-B{lld}");
    }
    // Functions of the same code are one.
    println!("cargo::rustc-cdylib-link-arg=-Wl,--icf=all");
    versions();
    if is_usual {
        // Code shares no page with what is not code, but where the layout says so.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,separate-code");
        // What most programs run and write lies apart from the rest.
        println!("cargo::rerun-if-changed={LAYOUT}");
        println!("cargo::rustc-cdylib-link-arg=-Wl,-T,{}/{LAYOUT}", of("CARGO_MANIFEST_DIR"));
    }
}

/// What the compiler answers.
fn said(option: &[&str]) -> String {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let output = std::process::Command::new(rustc).args(option).output();
    String::from_utf8(output.expect("the compiler runs").stdout).expect("text").trim().to_owned()
}

/// The compiler's version, behind `1.`.
fn minor_version() -> Option<u32> {
    let version = said(&["--version"]);
    version.strip_prefix("rustc 1.")?.split('.').next()?.parse().ok()
}

/// A variable that cargo sets.
fn of(variable: &str) -> String {
    std::env::var(variable).unwrap_or_default()
}

/// Gives symbols their versions. The compiler passes a version script without names, which would win over
/// a second one: a name that says its version is left alone by both, and asking for such a name (`-u`)
/// is as good as defining it.
fn versions() {
    println!("cargo::rerun-if-changed={SCRIPT}");
    println!(
        "cargo::rustc-cdylib-link-arg=-Wl,--version-script={}/{SCRIPT}",
        of("CARGO_MANIFEST_DIR")
    );
    let script = std::fs::read_to_string(SCRIPT).expect("the version script is beside this file");
    let mut version = "";
    for line in script.lines().map(str::trim) {
        if let Some(name) = line.strip_suffix(" {") {
            version = name;
        } else if let Some(symbol) = line.strip_suffix(';').filter(|name| !name.starts_with('}')) {
            println!("cargo::rustc-cdylib-link-arg=-Wl,-u,{symbol}@@{version}");
        }
    }
}

const SCRIPT: &str = "libmasu.map";
const LAYOUT: &str = "layout.ld";
