//! What the shared library exports, needs and reserves, read from its ELF headers.

use std::collections::BTreeSet;

use masu_tests::{Run, is_masu, library};

/// The output of readelf over masu; for other allocators `None`, and a message.
fn readelf(option: &str) -> Option<String> {
    if !is_masu() {
        println!("only masu is held to this");
        return None;
    }
    let path = library().expect("masu is a library");
    Some(Run::new("readelf").bare().args(["-W", option]).arg(path).run().success().stdout)
}

/// The symbols it defines, or takes from others if `undefined`.
fn symbols(undefined: bool) -> Option<BTreeSet<String>> {
    let table = readelf("--dyn-syms")?;
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let rows = rows.filter(|row| row.len() >= 8 && (row[6] == "UND") == undefined);
    Some(rows.map(|row| row[7].split('@').next().expect("a name").to_owned()).collect())
}

#[track_caller]
fn exports(names: &[&str]) {
    let Some(defined) = symbols(false) else { return };
    let missing: Vec<_> = names.iter().filter(|name| !defined.contains(**name)).collect();
    assert!(missing.is_empty(), "not exported: {missing:?}");
}

#[test]
fn the_whole_libc_family_is_exported() {
    exports(&[
        "malloc",
        "calloc",
        "realloc",
        "reallocarray",
        "free",
        "cfree",
        "free_sized",
        "free_aligned_sized",
        "posix_memalign",
        "aligned_alloc",
        "memalign",
        "valloc",
        "pvalloc",
        "malloc_usable_size",
        "malloc_trim",
        "mallinfo",
        "mallinfo2",
        "mallopt",
        "malloc_stats",
        "malloc_info",
    ]);
}

/// Programs and libraries reach glibc's allocator under these names too. If one of them stayed
/// glibc's own, blocks of one heap would be freed to the other.
#[test]
fn the_second_names_of_glibc_are_exported() {
    exports(&[
        "__libc_malloc",
        "__libc_calloc",
        "__libc_realloc",
        "__libc_free",
        "__libc_memalign",
        "__libc_valloc",
        "__libc_pvalloc",
    ]);
}

/// Libraries take an allocator for jemalloc if they find the first ten; programs call the others.
#[test]
fn the_whole_jemalloc_door_is_exported() {
    exports(&[
        "mallocx",
        "rallocx",
        "xallocx",
        "sallocx",
        "dallocx",
        "sdallocx",
        "nallocx",
        "mallctl",
        "mallctlnametomib",
        "mallctlbymib",
        "malloc_stats_print",
        "malloc_message",
    ]);
}

#[test]
fn all_operators_new_and_delete_are_exported() {
    exports(&[
        "_Znwm",
        "_Znam",
        "_ZnwmRKSt9nothrow_t",
        "_ZnamRKSt9nothrow_t",
        "_ZnwmSt11align_val_t",
        "_ZnamSt11align_val_t",
        "_ZnwmSt11align_val_tRKSt9nothrow_t",
        "_ZnamSt11align_val_tRKSt9nothrow_t",
        "_ZdlPv",
        "_ZdaPv",
        "_ZdlPvm",
        "_ZdaPvm",
        "_ZdlPvRKSt9nothrow_t",
        "_ZdaPvRKSt9nothrow_t",
        "_ZdlPvSt11align_val_t",
        "_ZdaPvSt11align_val_t",
        "_ZdlPvmSt11align_val_t",
        "_ZdaPvmSt11align_val_t",
        "_ZdlPvSt11align_val_tRKSt9nothrow_t",
        "_ZdaPvSt11align_val_tRKSt9nothrow_t",
    ]);
}

/// Internal names would collide with the program's own.
#[test]
fn nothing_of_the_inside_is_exported() {
    let Some(defined) = symbols(false) else { return };
    let strays: Vec<_> = defined
        .iter()
        .filter(|name| {
            name.contains("masu_core") || name.starts_with("_R") || name.starts_with("rust_")
        })
        .collect();
    assert!(strays.is_empty(), "{strays:?}");
}

/// The library must load into any process, before and beside any libc.
#[test]
fn no_other_library_is_needed() {
    let Some(dynamic) = readelf("--dynamic") else { return };
    assert!(!dynamic.contains("(NEEDED)"), "{dynamic}");
}

#[test]
fn nothing_is_taken_from_the_unwinder_or_the_allocator_of_libc() {
    let Some(undefined) = symbols(true) else { return };
    // `sbrk` is asked where glibc's own heap ends, and moves nothing.
    let forbidden = ["malloc", "free", "__tls_get_addr", "_Unwind_Resume", "brk"];
    let found: Vec<_> = forbidden.iter().filter(|name| undefined.contains(**name)).collect();
    assert!(found.is_empty(), "{found:?} of {undefined:?}");
}

/// One word is taken of the reserve that the loader keeps for libraries that are opened later.
#[test]
fn thread_local_storage_is_one_word() {
    let Some(headers) = readelf("--program-headers") else { return };
    let segment = headers.lines().find(|line| line.trim_start().starts_with("TLS"));
    let size = segment.map_or("0x0", |line| line.split_whitespace().nth(5).expect("a size"));
    let size = u64::from_str_radix(size.trim_start_matches("0x"), 16).expect("hexadecimal");
    assert!(size == 8, "{size} bytes:\n{headers}");
}

#[test]
fn the_stack_is_not_executable_and_no_page_is_both_writable_and_executable() {
    let Some(headers) = readelf("--program-headers") else { return };
    // Without this header, the loader makes the stack executable.
    assert!(headers.contains("GNU_STACK"), "{headers}");
    assert!(!headers.lines().any(|line| line.contains("RWE")), "{headers}");
}
