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
    if target("ARCH") == "x86_64" && target("ENV") == "gnu" {
        // The GNU linker knows none of these.
        with_lld();
        // Code shares no page with what is not code, but where the layout says so.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,separate-code");
        // Functions of the same code are one.
        println!("cargo::rustc-cdylib-link-arg=-Wl,--icf=all");
        versions();
        // What most programs run and write lies apart from the rest.
        println!("cargo::rerun-if-changed={LAYOUT}");
        println!("cargo::rustc-cdylib-link-arg=-Wl,-T,{}/{LAYOUT}", directory());
    }
}

/// Has compilers before 1.90, which do not by themselves, link with the lld that comes with Rust.
fn with_lld() {
    let said = |option: &[&str]| {
        let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
        let output = std::process::Command::new(rustc).args(option).output();
        String::from_utf8(output.expect("the compiler runs").stdout).expect("text")
    };
    let version = said(&["--version"]);
    let minor = version.strip_prefix("rustc 1.").and_then(|rest| rest.split('.').next());
    if minor.and_then(|minor| minor.parse().ok()).is_some_and(|minor: u32| minor < 90) {
        let host = std::env::var("HOST").unwrap_or_default();
        let sysroot = said(&["--print", "sysroot"]);
        println!("cargo::rustc-cdylib-link-arg=-fuse-ld=lld");
        println!("cargo::rustc-cdylib-link-arg=-B{}/lib/rustlib/{host}/bin/gcc-ld", sysroot.trim());
    }
}

/// Gives symbols their versions. The compiler passes a version script without names, which would win over
/// a second one: a name that says its version is left alone by both, and asking for such a name (`-u`)
/// is as good as defining it.
fn versions() {
    println!("cargo::rerun-if-changed={SCRIPT}");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={}/{SCRIPT}", directory());
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

/// Where the scripts are.
fn directory() -> String {
    std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default()
}

const SCRIPT: &str = "libmasu.map";
const LAYOUT: &str = "layout.ld";
