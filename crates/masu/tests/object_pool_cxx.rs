//! `masu.hpp`, compiled and run: plainly, and with the compiler's checks of addresses, of undefined
//! behaviour and of data races.

use std::path::{Path, PathBuf};
use std::process::Command;

fn compile(name: &str, flags: &[&str]) -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let result = Command::new(&compiler)
        .args(["-std=c++17", "-O1", "-g", "-pthread", "-Wall", "-Wextra", "-Werror"])
        .args(flags)
        .arg("-I")
        .arg(here.join("../libmasu/include"))
        .arg(here.join("tests/cxx/object_pool.cpp"))
        .arg("-o")
        .arg(&output)
        .output();
    match result {
        Ok(result) if result.status.success() => Some(output),
        Ok(result) => {
            let said = String::from_utf8_lossy(&result.stderr).into_owned();
            // A compiler without the sanitizer's library fails at the very end.
            assert!(!flags.is_empty() && said.contains("cannot find"), "{compiler}: {said}");
            eprintln!("{name}: left out, the compiler has no library for {flags:?}");
            None
        }
        Err(error) => {
            eprintln!("{name}: left out, no C++ compiler ({compiler}: {error})");
            None
        }
    }
}

fn run(name: &str, flags: &[&str]) {
    let Some(program) = compile(name, flags) else { return };
    // The sanitizers have their own allocator.
    let result = Command::new(program).env_remove("LD_PRELOAD").output().expect("it runs");
    let said = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{name}: {}\n{said}", result.status);
}

#[test]
fn as_it_is() {
    run("object_pool", &[]);
}

#[test]
fn with_checked_addresses_leaks_and_undefined_behaviour() {
    run("object_pool_asan", &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
}

#[test]
fn with_checked_data_races() {
    run("object_pool_tsan", &["-fsanitize=thread"]);
}

/// Before C++17 one line says what is needed, and no others follow it.
#[test]
fn of_an_earlier_standard() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let result = Command::new(&compiler)
        .args([
            "-std=c++11",
            "-fsyntax-only",
            "-x",
            "c++",
            "-include",
            "masu/masu.hpp",
            "/dev/null",
        ])
        .arg("-I")
        .arg(here.join("../libmasu/include"))
        .output();
    let Ok(result) = result else { return eprintln!("left out, no C++ compiler ({compiler})") };
    let said = String::from_utf8_lossy(&result.stderr);
    assert!(!result.status.success());
    assert_eq!(said.matches("error").count(), said.matches("#error").count() + 1, "{said}");
    assert!(said.contains("masu.hpp needs C++17 or later: compile with -std=c++17"), "{said}");
}

/// A container that is destroyed at exit may be older than the first use of the resource.
#[test]
fn the_memory_resource_is_not_destroyed_at_exit() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("memory_resource.cpp");
    let lines = "#include <masu/masu.hpp>\nvoid *used() { return masu::memory_resource(); }\n";
    std::fs::write(&source, lines).expect("a place to write");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let result = Command::new(&compiler)
        .args(["-std=c++17", "-O1", "-S", "-o", "-", "-I"])
        .arg(here.join("../libmasu/include"))
        .arg(&source)
        .output();
    let Ok(result) = result else { return eprintln!("left out, no C++ compiler ({compiler})") };
    let code = String::from_utf8_lossy(&result.stdout);
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    assert!(code.contains("used") && !code.contains("atexit"), "{code}");
}

#[test]
fn of_a_later_standard() {
    run("object_pool_20", &["-std=c++20"]);
}
