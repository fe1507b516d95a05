//! What a distribution installs: pkg-config and CMake packages, jemalloc's name, and a private copy of the allocator
//! inside another library.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use masu_tests::{
    archive, is_masu, library, optional_tool, pages, scratch, source, tool, workspace,
};

/// An installation in a separate directory; for other allocators `None`, and a message.
fn installed() -> Option<&'static Path> {
    static PLACE: LazyLock<Option<tempfile::TempDir>> = LazyLock::new(|| {
        if !is_masu() {
            println!("only masu is installed");
            return None;
        }
        let place = scratch();
        let from = library().expect("masu is a library").parent().expect("a directory");
        let mut install = Command::new(workspace().join("crates/libmasu/install"));
        install.args(["--jemalloc", "--prefix"]).arg(place.path()).arg("--from").arg(from);
        succeed(&mut install);
        Some(place)
    });
    PLACE.as_ref().map(tempfile::TempDir::path)
}

/// Runs a command and returns its output.
#[track_caller]
fn succeed(command: &mut Command) -> String {
    command.env_remove("LD_PRELOAD");
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}\n{errors}", output.status);
    said
}

/// What pkg-config says about `package`, as words.
fn pkg_config(place: &Path, arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new(tool("pkg-config"));
    command.env("PKG_CONFIG_PATH", place.join("lib/pkgconfig")).args(arguments);
    succeed(&mut command).split_whitespace().map(str::to_owned).collect()
}

/// Builds `tests/cxx/jemalloc.cc` with these words and runs it; it says "ok".
#[track_caller]
fn builds_and_runs(place: &Path, words: &[String]) {
    let directory = scratch();
    let program = directory.path().join("program");
    let mut compile = Command::new(tool("g++"));
    compile.args(["-std=c++17", "-O1", "-o"]).arg(&program).arg(source("cxx/jemalloc.cc"));
    succeed(compile.args(words));
    let mut run = Command::new(&program);
    assert_eq!(succeed(run.env("LD_LIBRARY_PATH", place.join("lib"))), "ok\n");
}

#[test]
fn pkg_config_finds_masu_under_both_names() {
    let Some(place) = installed() else { return };
    builds_and_runs(place, &pkg_config(place, &["--cflags", "--libs", "jemalloc"]));
    let mut words = pkg_config(place, &["--cflags", "--libs", "masu"]);
    // Under its own name, jemalloc's header is found as masu's.
    words.push(format!("-I{}", place.join("include/masu/compat").display()));
    builds_and_runs(place, &words);
    let version = pkg_config(place, &["--modversion", "jemalloc"]);
    assert_eq!(version, ["5.3.1"]);
    let newer = Command::new(tool("pkg-config"))
        .env("PKG_CONFIG_PATH", place.join("lib/pkgconfig"))
        .args(["--exists", "masu >= 99"])
        .status();
    assert!(!newer.expect("pkg-config runs").success());
}

#[test]
fn pkg_config_links_a_static_program() {
    let Some(place) = installed() else { return };
    let mut words = vec!["-static".to_owned()];
    words.extend(pkg_config(place, &["--static", "--cflags", "--libs", "jemalloc"]));
    builds_and_runs(place, &words);
}

/// Also where only the C library asks for memory: nothing in the program's own file would draw the archive in.
#[test]
fn pkg_config_links_a_static_program_that_does_not_name_malloc() {
    let Some(place) = installed() else { return };
    let directory = scratch();
    let (file, program) = (directory.path().join("main.c"), directory.path().join("main"));
    fs::write(&file, "#include <stdio.h>\nint main(void) { return fopen(\"/\", \"r\") == 0; }\n")
        .expect("written");
    let mut compile = Command::new(tool("cc"));
    compile.arg("-static").arg(&file).arg("-o").arg(&program);
    succeed(compile.args(pkg_config(place, &["--static", "--libs", "masu"])));
    let run = Command::new(&program).env("MASU_SHOW_STATS", "1").output().expect("it runs");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && said.starts_with("masu: statistics\n"), "{said}");
}

/// Configures, builds and runs a CMake project that links `target` of `package`.
#[track_caller]
fn cmake(place: &Path, package: &str, target: &str) {
    let directory = scratch();
    let lists = format!(
        "cmake_minimum_required(VERSION 3.16)\nproject(user CXX)\nfind_package({package} REQUIRED)\n\
         add_executable(program {})\ntarget_link_libraries(program PRIVATE {target})\n\
         target_include_directories(program PRIVATE {})\n",
        source("cxx/jemalloc.cc").display(),
        place.join("include/masu/compat").display(),
    );
    fs::write(directory.path().join("CMakeLists.txt"), lists).expect("written");
    let build = directory.path().join("build");
    let mut configure = Command::new(tool("cmake"));
    configure.arg("-S").arg(directory.path()).arg("-B").arg(&build);
    succeed(configure.arg(format!("-DCMAKE_PREFIX_PATH={}", place.display())));
    succeed(Command::new(tool("cmake")).arg("--build").arg(&build));
    assert_eq!(succeed(&mut Command::new(build.join("program"))), "ok\n");
}

#[test]
fn cmake_finds_masu_shared() {
    let Some(place) = installed() else { return };
    cmake(place, "masu", "masu::masu");
}

#[test]
fn cmake_finds_masu_static() {
    let Some(place) = installed() else { return };
    cmake(place, "masu", "masu::masu_static");
}

#[test]
fn cmake_finds_jemalloc_shared_and_static() {
    let Some(place) = installed() else { return };
    cmake(place, "jemalloc 5.0", "jemalloc::jemalloc");
    cmake(place, "jemalloc", "jemalloc::jemalloc_static");
}

/// A program linked with `-ljemalloc` runs on masu instead.
#[test]
fn the_name_libjemalloc_leads_to_masu() {
    let Some(place) = installed() else { return };
    let compat = place.join("lib/masu/compat");
    let directory = scratch();
    let program = directory.path().join("program");
    let mut compile = Command::new(tool("g++"));
    compile.args(["-std=c++17", "-o"]).arg(&program).arg(source("cxx/jemalloc.cc"));
    compile.arg("-I").arg(place.join("include/masu/compat")).arg("-L").arg(&compat);
    succeed(compile.arg("-ljemalloc"));
    let mut run = Command::new(&program);
    assert_eq!(succeed(run.env("LD_LIBRARY_PATH", place.join("lib"))), "ok\n");
}

/// A private copy under `prefix`: the archive and its header.
fn private(directory: &Path, prefix: &str) -> (PathBuf, PathBuf) {
    let (out, header) =
        (directory.join(format!("{prefix}.a")), directory.join(format!("{prefix}.h")));
    let mut make = Command::new(workspace().join("crates/libmasu/private-archive"));
    make.args(["--prefix", prefix]).arg(archive().expect("an archive")).arg(&out).arg(&header);
    succeed(&mut make);
    (out, header)
}

#[test]
fn a_private_copy_shows_nothing_but_its_own_names() {
    if installed().is_none() {
        return;
    }
    let directory = scratch();
    let (archive, _) = private(directory.path(), "je_");
    let mut nm = Command::new(tool("nm"));
    let symbols = succeed(nm.args(["--defined-only", "--extern-only"]).arg(&archive));
    let names: Vec<_> = symbols.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    assert!(names.contains(&"je_mallocx") && names.contains(&"je_malloc"), "{names:?}");
    let strays: Vec<_> = names.iter().filter(|name| !name.starts_with("je_")).collect();
    assert!(strays.is_empty(), "{strays:?}");
    // Thread-local storage: one word.
    let mut readelf = Command::new(tool("readelf"));
    let sections = succeed(readelf.args(["-SW"]).arg(&archive));
    let tls: Vec<_> = sections.lines().filter(|line| line.contains(" .tdata")).collect();
    assert!(tls.len() == 1 && tls[0].contains(" 000008 "), "{tls:?}");
}

#[test]
fn private_copies_live_beside_each_other_and_the_c_library() {
    if installed().is_none() {
        return;
    }
    let directory = scratch();
    let at = |name: &str| directory.path().join(name);
    let mut objects = Vec::new();
    for (prefix, entry, more) in [("je_", "main", "-DSECOND"), ("other_", "second", "-DLAST")] {
        let (archive, header) = private(directory.path(), prefix);
        let object = at(&format!("{prefix}.o"));
        let mut compile = Command::new(tool("gcc"));
        compile.args(["-c", "-O1", "-fPIC", "-fno-builtin", more, "-o"]).arg(&object);
        compile.arg(format!("-DPRIVATE_HEADER=\"{}\"", header.display()));
        succeed(compile.arg(format!("-DENTRY={entry}")).arg(source("c/jemalloc/private.c")));
        // Each user and its copy become one object, as in a real library.
        let library = at(&format!("lib{prefix}.so"));
        if prefix == "other_" {
            let mut link = Command::new(tool("gcc"));
            link.args(["-shared", "-o"]).arg(&library).arg(&object).arg(&archive);
            succeed(&mut link);
            objects.push(library);
        } else {
            objects.extend([object, archive]);
        }
    }
    let program = at("program");
    let mut link = Command::new(tool("gcc"));
    succeed(link.arg("-o").arg(&program).args(&objects).arg("-lpthread"));
    let mut run = Command::new(&program);
    assert_eq!(succeed(run.env("LD_LIBRARY_PATH", directory.path())), "ok\n");
}

/// A program that wants a private copy for its own `malloc`, as jemalloc's header offers it.
#[test]
fn plain_names_may_be_macros_for_those_of_a_private_copy() {
    if installed().is_none() {
        return;
    }
    let directory = scratch();
    let (archive, header) = private(directory.path(), "own_");
    let source = directory.path().join("mangled.c");
    let text = "#define JEMALLOC_MANGLE\n#include PRIVATE_HEADER\nint main(void) {\n\
                char *block = malloc(100);\nblock = rallocx(block, 1 << 20, MALLOCX_ZERO);\n\
                int lost = own_malloc_usable_size(block) < 1 << 20;\nfree(block);\nreturn lost;\n}\n";
    fs::write(&source, text).expect("written");
    let program = directory.path().join("program");
    let mut compile = Command::new(tool("gcc"));
    compile.arg("-o").arg(&program).arg(format!("-DPRIVATE_HEADER=\"{}\"", header.display()));
    succeed(compile.arg(&source).arg(&archive).arg("-lpthread"));
    succeed(&mut Command::new(&program));
}

/// The blocks of a documentation page in this language.
fn listings(page: &str, language: &str) -> Vec<String> {
    let blocks = pages::blocks(&format!("docs/{page}")).into_iter();
    blocks.filter(|block| block.language == language).map(|block| block.text).collect()
}

/// The page's program, built by the page's CMake, says what the page says; with the archive too.
#[test]
fn the_page_on_cxx_is_true() {
    let Some(place) = installed() else { return };
    let directory = scratch();
    let [program, lists, said] =
        ["cpp", "cmake", "text"].map(|language| listings("cxx.md", language).remove(0));
    fs::write(directory.path().join("main.cpp"), program).expect("written");
    for target in ["masu::masu)", "masu::masu_static)"] {
        let lists = lists.replace("masu::masu)", target);
        fs::write(directory.path().join("CMakeLists.txt"), lists).expect("written");
        let mut configure = Command::new(tool("cmake"));
        configure.args(["-S", ".", "-B", "build"]).current_dir(&directory);
        succeed(configure.arg(format!("-DCMAKE_PREFIX_PATH={}", place.display())));
        succeed(Command::new(tool("cmake")).args(["--build", "build"]).current_dir(&directory));
        assert_eq!(succeed(&mut Command::new(directory.path().join("build/tenants"))), said);
    }
}

/// The page's program in Swift, built with the page's words, prints what the comment after each `print` says.
#[test]
fn the_page_on_swift_is_true() {
    let Some(place) = installed() else { return };
    // Debian 13 has it (swiftlang).
    let Some(swiftc) = optional_tool("swiftc", "the page on Swift") else { return };
    let directory = scratch();
    let program = listings("languages.md", "swift").remove(0);
    let said = program.lines().filter_map(|line| Some(line.rsplit_once("    // ")?.1));
    let said: Vec<_> = said.collect();
    assert_eq!(said.len(), 3, "{program}");
    fs::write(directory.path().join("main.swift"), &program).expect("written");
    let mut compile = Command::new(swiftc);
    compile.args(["-O", "main.swift"]).current_dir(&directory);
    succeed(compile.args(pkg_config(place, &["--cflags", "--libs", "masu"])));
    let mut run = Command::new(directory.path().join("main"));
    let output = succeed(run.env("LD_LIBRARY_PATH", place.join("lib")));
    assert_eq!(output.lines().collect::<Vec<_>>(), said);
}

/// The page's program in Zig prints what its comments say, built with the page's words, and with the archive in a debug
/// build.
#[test]
fn the_page_on_zig_is_true() {
    let Some(place) = installed() else { return };
    // PyPI has it (ziglang), in the package's directory.
    if optional_tool("zig", "the page on Zig").is_none() {
        return;
    }
    let directory = scratch();
    let program = listings("languages.md", "zig").remove(0);
    let said: Vec<_> =
        program.lines().filter_map(|line| Some(line.rsplit_once("; // ")?.1)).collect();
    assert_eq!(said.len(), 4, "{program}");
    fs::write(directory.path().join("main.zig"), &program).expect("written");
    let words = listings("languages.md", "bash");
    let words = words.iter().find(|words| words.contains("zig build-exe")).expect("a command");
    let archive = "$(pkg-config --variable=libdir masu)/libmasu.a";
    let debug = words.replace("-O ReleaseSafe ", "").replace("$(pkg-config --libs masu)", archive);
    assert!(debug.contains(archive) && !debug.contains("-O "), "{debug}");
    for words in [words, &debug] {
        let mut build = Command::new("sh");
        build.arg("-ec").arg(words).current_dir(&directory);
        succeed(build.env("PKG_CONFIG_PATH", place.join("lib/pkgconfig")));
        let mut run = Command::new(directory.path().join("main"));
        run.env("LD_LIBRARY_PATH", place.join("lib")).env_remove("LD_PRELOAD");
        let output = run.output().expect("it runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words}: {}\n{errors}", output.status);
        assert_eq!(errors.lines().collect::<Vec<_>>(), said, "{words}");
    }
}

/// What programs run on is replaced as a whole: where the installation fails, the library is the one before.
#[test]
fn an_installation_that_fails_leaves_the_library_as_it_was() {
    if !is_masu() {
        return;
    }
    let place = scratch();
    let from = library().expect("masu is a library").parent().expect("a directory");
    let install = || {
        let mut install = Command::new(workspace().join("crates/libmasu/install"));
        install.arg("--prefix").arg(place.path()).arg("--from").arg(from);
        install
    };
    succeed(&mut install());
    let file = || {
        let data = fs::metadata(place.path().join("lib/libmasu.so.0")).expect("the library");
        (data.ino(), data.len())
    };
    let before = file();
    let done = install().env("STRIP", "false").output().expect("it runs");
    assert!(!done.status.success());
    assert_eq!(file(), before);
}

/// Not silently into a directory of that name below the prefix.
#[test]
fn a_directory_outside_the_prefix_is_refused() {
    let mut install = Command::new(workspace().join("crates/libmasu/install"));
    let place = scratch();
    install.arg("--destdir").arg(place.path()).args(["--prefix", "/opt/masu"]);
    let done = install.args(["--libdir", "/usr/lib64"]).output().expect("it runs");
    assert_eq!(done.status.code(), Some(2));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("below the prefix, /opt/masu: /usr/lib64 is not"), "{said}");
    let mut install = Command::new(workspace().join("crates/libmasu/install"));
    install.arg("--destdir").arg(place.path());
    let done = install.args(["--prefix", "here"]).output().expect("it runs");
    assert_eq!(done.status.code(), Some(2), "pkg-config's file would hold a relative path");
}

/// Everything that takes a value says so where there is none.
#[test]
fn an_option_without_its_value_is_refused() {
    for (script, option) in [
        ("crates/libmasu/install", "--prefix"),
        ("packaging/deb", "--out"),
        ("packaging/gem", "--out"),
        ("packaging/install.sh", "--prefix"),
        ("packaging/npm", "--out"),
        ("packaging/release", "--machine"),
        ("packaging/tarball", "--from"),
    ] {
        let done = Command::new(workspace().join(script)).arg(option).output().expect("it runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{script}: {said}");
        let name = script.rsplit('/').next().unwrap_or_default();
        assert!(said.starts_with(&format!("{name}: {option} ")), "{said}");
    }
}

/// cargo splits RUSTFLAGS at spaces.
#[test]
fn a_release_is_built_in_a_directory_with_a_space() {
    let place = scratch();
    let root = place.path().join("a place");
    fs::create_dir_all(root.join("bin")).expect("made");
    let mut copy = Command::new("cp");
    copy.arg("-r").args(["packaging", "Cargo.toml", "CHANGELOG.md"]).current_dir(workspace());
    succeed(copy.arg(&root));
    // A compiler for this machine, and a cargo that notes how it is to compile. Both are written by another process: a
    // file that is open for writing in a child of another test cannot be executed.
    let write = "mkdir -p lib/rustlib/$1-unknown-linux-gnu lib/rustlib/$1-unknown-linux-musl
        printf '#!/bin/sh\\necho \"%s\"\\n' \"$PWD\" >bin/rustc
        printf '#!/bin/sh\\nprintf %%s \"$CARGO_ENCODED_RUSTFLAGS\" >flags; exit 1\\n' >bin/cargo
        chmod +x bin/rustc bin/cargo";
    let machine = std::env::consts::ARCH;
    succeed(Command::new("sh").args(["-ec", write, "sh", machine]).current_dir(&root));
    let path = format!("{}:{}", root.join("bin").display(), std::env::var("PATH").expect("PATH"));
    let mut release = Command::new(root.join("packaging/release"));
    release.args(["--dirty", "--machine", machine]).env("PATH", path).env("CARGO_HOME", "/c c");
    let done = release.output().expect("it runs");
    let said = String::from_utf8_lossy(&done.stderr);
    let flags = fs::read_to_string(root.join("flags")).unwrap_or_else(|_| panic!("{said}"));
    let expected = [format!("{}=/masu", root.display()), "/c c=/cargo".to_owned()]
        .map(|prefix| format!("--remap-path-prefix={prefix}"));
    assert_eq!(flags.split('\x1f').collect::<Vec<_>>(), expected);
}

/// As on Alpine, where `realpath` is busybox's and takes no options.
#[test]
fn an_archive_is_made_with_the_commands_of_busybox() {
    if !is_masu() {
        return;
    }
    let place = scratch();
    symlink("/bin/busybox", place.path().join("realpath")).expect("a link");
    let out = place.path().join("out.a");
    let mut make = Command::new(workspace().join("crates/libmasu/private-archive"));
    make.arg("--public").arg(archive().expect("an archive")).arg(&out);
    let path = std::env::var("PATH").expect("PATH");
    succeed(make.env("PATH", format!("{}:{path}", place.path().display())));
    assert!(out.is_file());
}

/// Distributions package Rust without lld, too: then the system's linker is not given what only lld knows.
#[test]
fn a_compiler_without_lld_links_with_what_there_is() {
    let place = scratch();
    let script = place.path().join("script");
    let library = workspace().join("crates/libmasu");
    let mut compile = Command::new(tool("rustc"));
    succeed(compile.args(["--edition=2024", "-o"]).arg(&script).arg(library.join("build.rs")));
    let said = |compiler: &str| {
        let mut run = Command::new(&script);
        run.current_dir(&library).env("CARGO_MANIFEST_DIR", &library).env("RUSTC", compiler);
        run.env("HOST", format!("{}-unknown-linux-gnu", std::env::consts::ARCH));
        run.env("CARGO_CFG_TARGET_ENV", "gnu").env("CARGO_CFG_TARGET_ARCH", "x86_64");
        succeed(&mut run)
    };
    // It answers with the question, which is no directory that has a linker.
    let without = said("echo");
    assert!(without.contains("-soname,libmasu.so.0"), "{without}");
    for option in ["--icf", "--version-script", "-T,", "-fuse-ld"] {
        assert!(!without.contains(option), "{without}");
    }
    let with = said("rustc");
    assert_eq!(with.contains("--icf"), with.contains("-fuse-ld=lld"), "{with}");
}
