//! Packages that the recipes for other build systems make, by the tools of those systems, and programs that use them.
//!
//! For Arch and RPM, what `make` has built is packed; Conan and vcpkg's port build the library.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use masu_tests::{optional_tool, scratch, source, tool, workspace};

use crate::{built, package, succeed, text};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a package holds of the library and the command.
const HELD: [&str; 5] = [
    "usr/bin/masu",
    "usr/lib/masu/masu-work",
    "usr/share/man/man1/masu-run.1",
    "usr/share/bash-completion/completions/masu",
    "usr/share/doc/masu/README.md",
];

/// Compares the names in a package with [`HELD`] and `more`; compressed pages have a longer name.
#[track_caller]
fn holds(names: &str, more: &[&str]) {
    for name in HELD.iter().chain(more) {
        let is_it = |line: &str| line.trim_start_matches('/').starts_with(name);
        assert!(names.lines().any(is_it), "no {name} in\n{names}");
    }
}

#[test]
fn arch_packs_what_is_built() {
    let Some(from) = built() else { return };
    let tools = ["makepkg", "bsdtar"].map(|name| optional_tool(name, "the package for Arch"));
    let [Some(makepkg), Some(_)] = tools else { return };
    let place = scratch();
    fs::copy(workspace().join("packaging/aur/PKGBUILD"), place.path().join("PKGBUILD"))
        .expect("copied");
    fs::create_dir(place.path().join("src")).expect("made");
    symlink(workspace(), place.path().join(format!("src/masu-{VERSION}"))).expect("a link");
    // It refuses to run as root.
    let mut pack = Command::new(tool("unshare"));
    pack.args(["--user", "--map-user=1000", "--map-group=1000"]).arg(makepkg);
    pack.args(["--repackage", "--nodeps", "--skipinteg", "--nocolor"]);
    // It asks the package manager for nothing here, but looks for it.
    pack.env("PACMAN", "true");
    pack.current_dir(&place).env("PKGDEST", place.path()).env("PKGEXT", ".pkg.tar");
    succeed(pack.env("CARGO_TARGET_DIR", from.parent().expect("a directory")));
    let packed = package(place.path(), &format!("masu-{VERSION}-1-"), ".pkg.tar");
    let names = succeed(Command::new("tar").arg("-tf").arg(&packed));
    holds(&names, &["usr/lib/libmasu.so.0", "usr/share/licenses/masu/LICENSE-MIT", ".PKGINFO"]);
    assert!(!names.lines().any(|name| name.starts_with("usr/local/")), "{names}");
}

#[test]
fn rpm_packs_what_is_built() {
    let Some(from) = built() else { return };
    let Some(rpmbuild) = optional_tool("rpmbuild", "the packages for RPM") else { return };
    let place = scratch();
    fs::create_dir(place.path().join("BUILD")).expect("made");
    symlink(workspace(), place.path().join(format!("BUILD/masu-{VERSION}"))).expect("a link");
    // From %install on, with %check; then every file must be in one of the packages, and each of those that they name must
    // be there. What is needed to build is here under Debian's names.
    for stage in ["-bi", "-bb"] {
        let mut pack = Command::new(&rpmbuild);
        pack.args([stage, "--short-circuit", "--nodeps", "--define"]);
        pack.arg(format!("_topdir {}", place.path().display()));
        pack.env("CARGO_TARGET_DIR", from.parent().expect("a directory"));
        succeed(pack.arg(workspace().join("packaging/rpm/masu.spec")));
    }
    let packages = place.path().join("RPMS").join(std::env::consts::ARCH);
    let names = |name: &str| {
        let file = package(&packages, &format!("{name}-{VERSION}-"), ".rpm");
        succeed(Command::new("rpm").args(["--query", "--list", "--package"]).arg(file))
    };
    holds(&names("masu"), &[]);
    let library = names("libmasu");
    assert!(library.contains("/libmasu.so.0\n"), "{library}");
    assert!(names("libmasu-devel").contains("/pkgconfig/masu.pc\n"));
}

/// Runs a program that was linked with masu, which says so.
#[track_caller]
fn is_on_masu(program: &Path) {
    let run = Command::new(program).env("MASU_SHOW_STATS", "1").output().expect("it runs");
    let said = text(&run.stderr);
    assert!(run.status.success() && said.starts_with("masu: statistics\n"), "{said}");
}

/// A C project in a directory that links `target` of masu's CMake package.
fn project(place: &Path, target: &str) {
    let lists = format!(
        "cmake_minimum_required(VERSION 3.16)\nproject(user C)\nfind_package(masu REQUIRED)\n\
         add_executable(program main.c)\ntarget_link_libraries(program PRIVATE {target})\n"
    );
    fs::create_dir_all(place).expect("made");
    fs::write(place.join("CMakeLists.txt"), lists).expect("written");
    // No compiler may leave out a call by way of a volatile pointer.
    let program = "#include <masu/masu.h>\n#include <stdlib.h>\nint main(void) {\n\
                   void *(*volatile allocate)(size_t) = malloc;\nfree(allocate(64));\nreturn 0;\n}\n";
    fs::write(place.join("main.c"), program).expect("written");
}

/// Configures such a project with more arguments, builds and runs it.
#[track_caller]
fn builds_and_runs(place: &Path, arguments: &[String]) {
    let build = place.join("build");
    let mut configure = Command::new(tool("cmake"));
    configure.arg("-S").arg(place).arg("-B").arg(&build).arg("-DCMAKE_BUILD_TYPE=Release");
    succeed(configure.args(arguments));
    succeed(Command::new(tool("cmake")).arg("--build").arg(&build));
    is_on_masu(&build.join("program"));
}

/// A recipe builds as users do: with link-time optimisation, whatever the tests are built with.
fn as_users(command: &mut Command) -> &mut Command {
    command
        .env_remove("CARGO_PROFILE_RELEASE_LTO")
        .env_remove("CARGO_PROFILE_RELEASE_CODEGEN_UNITS")
}

/// CMake links the one library that a package has.
#[test]
fn conan_creates_both_packages() {
    if built().is_none() {
        return;
    }
    let Some(conan) = optional_tool("conan", "the packages for Conan") else { return };
    let home = scratch();
    let conan = |arguments: &[&str]| {
        let mut command = Command::new(&conan);
        succeed(as_users(command.env("CONAN_HOME", home.path()).args(arguments)))
    };
    conan(&["profile", "detect"]);
    let recipe = workspace().join("packaging/conan").display().to_string();
    for (shared, target) in [("True", "masu::masu"), ("False", "masu::masu_static")] {
        let option = format!("masu/*:shared={shared}");
        conan(&["create", &recipe, "--options", &option]);
        let place = home.path().join(shared);
        project(&place, target);
        let to = place.display().to_string();
        let wanted = format!("--requires=masu/{VERSION}");
        let generators =
            ["--generator=CMakeDeps", "--generator=CMakeToolchain", "--output-folder", &to];
        conan(&[&["install", &wanted, "--options", &option][..], &generators].concat());
        builds_and_runs(&place, &[format!("-DCMAKE_TOOLCHAIN_FILE={to}/conan_toolchain.cmake")]);
    }
    let mut find = Command::new("find");
    let files =
        succeed(find.arg(home.path()).args(["-path", "*/p/lib/libmasu*", "-printf", "%f\n"]));
    let mut files: Vec<_> = files.lines().collect();
    files.sort();
    assert_eq!(files, ["libmasu.a", "libmasu.so", "libmasu.so.0"], "one kind a package");
}

/// What a port installs, for each kind of library that a triplet asks for, and CMake links it.
#[test]
fn vcpkgs_port_installs_both_libraries() {
    if built().is_none() {
        return;
    }
    let place = scratch();
    for (linkage, target) in [("dynamic", "masu::masu"), ("static", "masu::masu_static")] {
        let at = |name: &str| place.path().join(name).display().to_string();
        let packages = at(linkage);
        let mut port = Command::new(tool("cmake"));
        for (name, value) in [
            ("CURRENT_PORT_DIR", workspace().join("packaging/vcpkg").display().to_string()),
            ("CURRENT_BUILDTREES_DIR", at("build")),
            ("CURRENT_PACKAGES_DIR", packages.clone()),
            ("VCPKG_LIBRARY_LINKAGE", linkage.to_owned()),
            ("TARGET_TRIPLET", "x64-linux".to_owned()),
        ] {
            port.arg(format!("-D{name}={value}"));
        }
        succeed(as_users(port.arg("-P").arg(source("stand-ins/vcpkg.cmake"))));
        let lib = fs::read_dir(place.path().join(linkage).join("lib")).expect("lib");
        let mut names: Vec<_> =
            lib.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        let expected: &[&str] = match linkage {
            "static" => &["libmasu.a", "pkgconfig"],
            // CMake's package has both targets.
            _ => &["libmasu.a", "libmasu.so", "libmasu.so.0", "pkgconfig"],
        };
        assert_eq!(names, expected, "{linkage}");
        let user = place.path().join(format!("user-{linkage}"));
        project(&user, target);
        builds_and_runs(&user, &[format!("-DCMAKE_PREFIX_PATH={packages}")]);
    }
}
