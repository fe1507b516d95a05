//! How each peer is built.
//!
//! One rule for all: the release flags its own authors use, nothing tuned for this
//! machine, no C++ runtime where the C functions do not need one, and the TLS model a
//! preloaded library is entitled to.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::linked;
use super::sources::{Package, Sources, manifest};
use super::tools::{copy_tree, jobs, run};
use crate::paths;

/// A successful build.
pub struct Built {
    /// The allocator's own version.
    pub version: String,
    /// The package it came from.
    pub origin: String,
}

/// One peer's recipe.
pub struct Recipe {
    /// The peer's name.
    pub name: &'static str,
    /// Builds its sources into the given shared object.
    pub build: fn(&Sources, &Path) -> Result<Built>,
    /// Builds the measured program with it linked in; nothing if it is no allocator for that.
    pub link: fn(&Path) -> Result<Option<Built>>,
}

/// Every peer, strongest first.
pub const ALL: &[Recipe] = &[
    Recipe { name: "jemalloc", build: jemalloc, link: |to| link("jemalloc", to) },
    Recipe {
        name: "mimalloc3",
        build: |sources, to| mimalloc(sources, to, "mimalloc3"),
        link: |to| link("mimalloc3", to),
    },
    Recipe {
        name: "mimalloc2",
        build: |sources, to| mimalloc(sources, to, "mimalloc"),
        link: |to| link("mimalloc2", to),
    },
    Recipe { name: "snmalloc", build: snmalloc, link: |to| link("snmalloc", to) },
    Recipe { name: "tcmalloc", build: tcmalloc, link: |to| link("tcmalloc", to) },
    // The distribution's package is a C library without a Rust crate for its version.
    Recipe { name: "gperftools", build: gperftools, link: |_| Ok(None) },
    Recipe { name: "rpmalloc", build: rpmalloc, link: |to| link("rpmalloc", to) },
    Recipe {
        name: "rusty_alloc",
        build: |_, to| rust(to, "masu-peer-rusty-alloc", "rusty_alloc"),
        link: |to| link("rusty_alloc", to),
    },
    Recipe { name: "stoolap-jemalloc", build: stoolap, link: |to| link("stoolap-jemalloc", to) },
    Recipe {
        name: "dlmalloc-rs",
        build: |_, to| rust(to, "masu-peer-dlmalloc-rs", "dlmalloc"),
        link: |to| link("dlmalloc-rs", to),
    },
    Recipe { name: "smalloc", build: smalloc, link: |_| Ok(None) },
    Recipe { name: "musl", build: musl_object, link: musl },
    // The subject itself, linked in as the others are.
    Recipe { name: "masu", build: masu_object, link: |to| link("masu", to) },
];

/// The measured program with a Rust global allocator; its version is the shared object's.
fn link(name: &str, to: &Path) -> Result<Option<Built>> {
    linked::build(name, to)?;
    let (package, version) = match name {
        "stoolap-jemalloc" => (name, "0.1.5"),
        "masu" => (name, env!("CARGO_PKG_VERSION")),
        _ => (name, "-"),
    };
    let origin = format!("crate {package} {version}");
    Ok(Some(Built { version: version.into(), origin }))
}

/// stoolap-jemalloc frees by the size that Rust passes; C's `free` knows none.
fn stoolap(_: &Sources, _: &Path) -> Result<Built> {
    bail!("its functions need the size of what is freed, which C does not pass; linked in only")
}

/// The registry has another allocator under the name of smalloc.
fn smalloc(_: &Sources, _: &Path) -> Result<Built> {
    bail!(
        "the allocator for servers of that name is not in the registry; the crate smalloc 0.1.2 is \
         another one: a fixed heap for one thread on Solana"
    )
}

/// A static program's malloc cannot be preloaded.
fn musl_object(_: &Sources, _: &Path) -> Result<Built> {
    bail!("part of musl's C library; linked in only")
}

fn musl(to: &Path) -> Result<Option<Built>> {
    let version = linked::musl(to)?;
    Ok(Some(Built { origin: format!("Debian package musl-dev {version}"), version }))
}

/// The preloaded object of masu is the one under test and not a peer.
fn masu_object(_: &Sources, _: &Path) -> Result<Built> {
    bail!("the object under test is target/release/libmasu.so or MASU_LIB")
}

/// jemalloc with its own configure script and defaults, without the C++ operators.
fn jemalloc(sources: &Sources, to: &Path) -> Result<Built> {
    let package = sources.package("tikv-jemalloc-sys")?;
    // The package's version reads 0.7.1+5.3.1-0-g<commit>.
    let full = package.version.split('+').nth(1).context("no jemalloc version in the package's")?;
    let tree = copy_tree(&package.root.join("jemalloc"), "jemalloc")?;
    // The archive carries a generated configure script beside the sources.
    fs::copy(package.root.join("configure/configure"), tree.join("configure"))?;
    run(
        "jemalloc-configure",
        Command::new("sh")
            .args(["./configure", "--disable-cxx", "--enable-doc=no", "--disable-static"])
            .arg(format!("--with-version={full}"))
            .current_dir(&tree),
    )?;
    run(
        "jemalloc-make",
        Command::new("make").args(["-j", &jobs(), "build_lib_shared"]).current_dir(&tree),
    )?;
    fs::copy(tree.join("lib/libjemalloc.so.2"), to)?;
    let version = full.split('-').next().unwrap_or(full);
    Ok(Built { version: version.into(), origin: origin(package, "tikv-jemalloc-sys") })
}

/// mimalloc as its release build of the shared override library.
fn mimalloc(sources: &Sources, to: &Path, tree: &str) -> Result<Built> {
    let package = sources.package("libmimalloc-sys2")?;
    let root = package.root.join("c_src").join(tree);
    let header = fs::read_to_string(root.join("include/mimalloc.h"))?;
    run(
        tree,
        Command::new("cc")
            .args(["-shared", "-fPIC", "-O3", "-std=gnu11", "-DNDEBUG", "-DMI_BUILD_RELEASE"])
            .args(["-DMI_MALLOC_OVERRIDE", "-DMI_SHARED_LIB", "-DMI_SHARED_LIB_EXPORT"])
            .args(["-fvisibility=hidden", "-fno-builtin-malloc", "-ftls-model=initial-exec"])
            .arg("-I")
            .arg(root.join("include"))
            .arg(root.join("src/static.c"))
            .arg("-o")
            .arg(to)
            .arg("-pthread"),
    )?;
    let number: u32 = header
        .split("#define MI_MALLOC_VERSION")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .context("no MI_MALLOC_VERSION in mimalloc.h")?;
    let version = format!("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
    Ok(Built { version, origin: origin(package, "libmimalloc-sys2") })
}

/// snmalloc's `snmalloc-minimal` target: the C functions only.
fn snmalloc(sources: &Sources, to: &Path) -> Result<Built> {
    let package = sources.package("snmalloc-sys")?;
    let build = paths::peers().join("build/snmalloc");
    run(
        "snmalloc-configure",
        Command::new("cmake")
            .args(["-DCMAKE_BUILD_TYPE=Release", "-DSNMALLOC_BUILD_TESTING=OFF"])
            .arg("-S")
            .arg(package.root.join("upstream"))
            .arg("-B")
            .arg(&build),
    )?;
    run(
        "snmalloc-build",
        Command::new("cmake").arg("--build").arg(&build).args(["--target", "snmalloc-minimal"]),
    )?;
    fs::copy(build.join("libsnmalloc-minimal.so"), to)?;
    Ok(Built { version: package.version.clone(), origin: origin(package, "snmalloc-sys") })
}

/// google/tcmalloc: its package builds an archive without the C names; the file that
/// exports them is compiled again with them and linked with the rest of the archive.
fn tcmalloc(sources: &Sources, to: &Path) -> Result<Built> {
    let package = sources.package("libtcmalloc-sys")?;
    let out = cargo_out_dir("libtcmalloc-sys")?;
    let tree = out.join("patched_deps/c_src");
    let object = paths::peers().join("build/tcmalloc.o");
    run(
        "tcmalloc",
        Command::new("c++")
            .args(["-c", "-O3", "-fPIC", "-std=c++17", "-DNDEBUG", "-DTCMALLOC_INTERNAL_8K_PAGES"])
            .arg("-I")
            .arg(tree.join("abseil-cpp"))
            .arg("-I")
            .arg(tree.join("tcmalloc"))
            .arg(tree.join("tcmalloc/tcmalloc/tcmalloc.cc"))
            .arg("-o")
            .arg(&object),
    )?;
    run(
        "tcmalloc-link",
        Command::new("c++")
            .args(["-shared", "-static-libstdc++", "-static-libgcc"])
            .arg(&object)
            .arg(out.join("libtcmalloc.a"))
            .args(["-Wl,--gc-sections", "-pthread", "-o"])
            .arg(to),
    )?;
    Ok(Built { version: "2025-06".into(), origin: origin(package, "libtcmalloc-sys") })
}

/// gperftools' minimal tcmalloc, as the distribution ships it.
fn gperftools(_: &Sources, to: &Path) -> Result<Built> {
    let name = "libtcmalloc-minimal4";
    let (tree, version) = unpack("gperftools", name)?;
    let machine = Command::new("gcc").arg("-print-multiarch").output()?;
    let multiarch = String::from_utf8_lossy(&machine.stdout).trim().to_string();
    let directory = tree.join("usr/lib").join(multiarch);
    fs::copy(directory.join("libtcmalloc_minimal.so.4"), to)?;
    Ok(Built { origin: format!("Debian package {name} {version}"), version })
}

/// Fetches a package of the distribution. Returns where it is unpacked, and its version.
pub fn unpack(peer: &str, name: &str) -> Result<(PathBuf, String)> {
    let tree = paths::peers().join("build").join(peer);
    if tree.exists() {
        fs::remove_dir_all(&tree)?;
    }
    fs::create_dir_all(&tree)?;
    run(peer, Command::new("apt-get").args(["download", name]).current_dir(&tree))?;
    let package = find(&tree, |file| file.ends_with(".deb"))?;
    let log = format!("{peer}-unpack");
    run(&log, Command::new("dpkg-deb").arg("-x").arg(&package).arg(&tree))?;
    let shown = Command::new("dpkg-deb").arg("-f").arg(&package).arg("Version").output()?;
    Ok((tree, String::from_utf8_lossy(&shown.stdout).trim().to_string()))
}

/// rpmalloc with its preload and override switches on.
fn rpmalloc(sources: &Sources, to: &Path) -> Result<Built> {
    let package = sources.package("rpmalloc-sys")?;
    let root = package.root.join("rpmalloc");
    run(
        "rpmalloc",
        Command::new("cc")
            .args(["-shared", "-fPIC", "-O3", "-DNDEBUG", "-D_GNU_SOURCE=1"])
            .args(["-DENABLE_PRELOAD=1", "-DENABLE_OVERRIDE=1", "-ftls-model=initial-exec"])
            .arg(root.join("rpmalloc/rpmalloc.c"))
            .args(["-pthread", "-ldl", "-o"])
            .arg(to),
    )?;
    let changes = fs::read_to_string(root.join("CHANGELOG"))?;
    let version = changes.lines().next().unwrap_or("unknown").trim().to_string();
    Ok(Built { version, origin: origin(package, "rpmalloc-sys") })
}

/// A Rust allocator behind a thin C shim of this repository.
fn rust(to: &Path, shim: &str, crate_name: &str) -> Result<Built> {
    let built = cargo_build(shim)?;
    let library = built
        .iter()
        .filter_map(|message| message["filenames"].as_array())
        .flatten()
        .filter_map(Value::as_str)
        .find(|file| file.ends_with("_peer.so"))
        .context("cargo built no shared object")?;
    fs::copy(library, to)?;
    let id = built
        .iter()
        .filter(|message| message["target"]["name"].as_str() == Some(crate_name))
        .find_map(|message| message["package_id"].as_str())
        .context("cargo did not name the allocator's package")?;
    let version = id.rsplit(['@', '#']).next().unwrap_or(id).to_string();
    Ok(Built { origin: format!("crate {crate_name} {version}"), version })
}

/// Builds one package of the peers' workspace and returns cargo's messages.
fn cargo_build(package: &str) -> Result<Vec<Value>> {
    let output = Command::new("cargo")
        .args(["build", "--release", "--locked", "--message-format=json", "-p", package])
        .arg("--manifest-path")
        .arg(manifest())
        .arg("--target-dir")
        .arg(paths::peers().join("build/cargo"))
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo failed: {}", text.lines().last().unwrap_or("?"));
    let messages = String::from_utf8_lossy(&output.stdout);
    Ok(messages.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Where a package's build script left its output.
fn cargo_out_dir(package: &str) -> Result<PathBuf> {
    let messages = cargo_build(package)?;
    let out = messages
        .iter()
        .filter(|message| message["reason"] == "build-script-executed")
        .filter(|message| message["package_id"].as_str().is_some_and(|id| id.contains(package)))
        .find_map(|message| message["out_dir"].as_str())
        .with_context(|| format!("cargo did not say where {package} was built"))?;
    Ok(PathBuf::from(out))
}

/// The first entry of a directory whose path fits.
pub fn find(directory: &Path, matches: impl Fn(&str) -> bool) -> Result<PathBuf> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if matches(&path.to_string_lossy()) {
            return Ok(path);
        }
    }
    anyhow::bail!("nothing suitable in {}", directory.display())
}

/// The package that a peer came from.
pub fn origin(package: &Package, name: &str) -> String {
    let version = package.version.split('+').next().unwrap_or(&package.version);
    format!("crate {name} {version}")
}
