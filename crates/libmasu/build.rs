//! Linker arguments of the shared object; see "Linking" in `src/lib.rs`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for arg in [
        // No start files: only our own .init_array and .fini_array run.
        "-nostartfiles",
        // The number changes when programs linked with the library have to be relinked.
        "-Wl,-soname,libmasu.so.0",
        // Thread-exit hooks and fork handlers point into the object, so it is never unloaded.
        "-Wl,-z,nodelete",
        "-Wl,-z,now",
        "-Wl,-z,relro",
        // Functions call each other directly; variables that programs set may have a copy in the
        // executable, which then counts.
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
    // The GNU linker supports none of the following, and is what a compiler from a distribution links with, if it comes
    // without lld. Others have it; since 1.90 those of rust-lang.org use it by default, on x86-64.
    let lld = format!("{}/lib/rustlib/{}/bin/gcc-ld", said(&["--print", "sysroot"]), of("HOST"));
    if !std::path::Path::new(&lld).exists() {
        return;
    }
    println!("cargo::rustc-cdylib-link-arg=-fuse-ld=lld");
    println!("cargo::rustc-cdylib-link-arg=-B{lld}");
    // Merges functions with identical code.
    println!("cargo::rustc-cdylib-link-arg=-Wl,--icf=all");
    versions();
    if target("ARCH") == "x86_64" {
        // Code shares no page with anything else, except where the layout says so.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,separate-code");
        // Groups what most programs run and write, apart from the rest.
        println!("cargo::rerun-if-changed={LAYOUT}");
        println!("cargo::rustc-cdylib-link-arg=-Wl,-T,{}/{LAYOUT}", of("CARGO_MANIFEST_DIR"));
    }
}

/// Returns the compiler's output.
fn said(option: &[&str]) -> String {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let output = std::process::Command::new(rustc).args(option).output();
    String::from_utf8(output.expect("the compiler runs").stdout).expect("text").trim().to_owned()
}

/// Returns a variable that cargo sets.
fn of(variable: &str) -> String {
    std::env::var(variable).unwrap_or_default()
}

/// Gives symbols their versions. The compiler passes a version script without names, which would
/// override a second one. Both leave a name with an explicit version alone, and requesting such a
/// name (`-u`) is as good as defining it.
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
