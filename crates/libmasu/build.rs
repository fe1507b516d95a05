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
    // Where Rust links with lld; the GNU linker knows neither.
    let target = |what: &str| std::env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    if target("ARCH") == "x86_64" && target("ENV") == "gnu" {
        // Every segment begins a page: none shares its first and last page with another.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,separate-loadable-segments");
        // Functions of the same code are one.
        println!("cargo::rustc-cdylib-link-arg=-Wl,--icf=all");
    }
}
