//! How the hardened peers are built: allocators that masu's policy `hardened` is compared with, and its default is not.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::recipes::{Built, Recipe, find, origin, unpack};
use super::sources::Sources;
use super::tools::run;
use crate::paths;

/// The hardened peers. They take part only where they are named.
pub const ALL: [Recipe; 3] = [
    Recipe {
        name: "hardened_malloc",
        build: |sources, to| hardened_malloc(sources, to, "default"),
        link: |_| Ok(None),
    },
    Recipe {
        name: "hardened_malloc-light",
        build: |sources, to| hardened_malloc(sources, to, "light"),
        link: |_| Ok(None),
    },
    Recipe { name: "scudo", build: scudo, link: |_| Ok(None) },
];

/// Whether a peer is one of these.
pub fn is_one(name: &str) -> bool {
    ALL.iter().any(|recipe| recipe.name == name)
}

/// GrapheneOS's hardened_malloc in one of its two configurations, with its C++ operators, which check sizes.
fn hardened_malloc(sources: &Sources, to: &Path, configuration: &str) -> Result<Built> {
    let package = sources.package("hardened-malloc-sys")?;
    let root = package.root.join("vendor/hardened-malloc");
    let settings = fs::read_to_string(package.root.join(format!("config-{configuration}.conf")))?;
    let define = |line: &str| (!line.starts_with('#')).then(|| format!("-D{}", line.trim()));
    let defines: Vec<String> =
        settings.lines().filter(|line| line.contains('=')).filter_map(define).collect();
    let build = paths::peers().join("build").join(format!("hardened_malloc-{configuration}"));
    fs::create_dir_all(&build)?;
    let mut objects = Vec::new();
    for source in ["chacha.c", "h_malloc.c", "memory.c", "pages.c", "random.c", "util.c", "new.cc"]
    {
        let object = build.join(source).with_extension("o");
        let is_c = source.ends_with(".c");
        let mut compiler = Command::new(if is_c { "cc" } else { "c++" });
        if is_c {
            // Written in C23, of which older compilers have all but some keywords.
            compiler.args(["-std=gnu2x", "-include", "stdalign.h", "-include", "stdbool.h"]);
            compiler.args(["-Dstatic_assert=_Static_assert", "-Dthread_local=_Thread_local"]);
        }
        compiler.args(["-c", "-O3", "-flto", "-fPIC", "-fvisibility=hidden", "-fno-plt", "-w"]);
        compiler.arg("-D_GNU_SOURCE").args(&defines);
        for include in ["", "include", "third_party"] {
            compiler.arg("-I").arg(root.join(include));
        }
        run("hardened_malloc", compiler.arg(root.join(source)).arg("-o").arg(&object))?;
        objects.push(object);
    }
    run(
        "hardened_malloc-link",
        Command::new("c++")
            .args(["-shared", "-O3", "-flto", "-fPIC", "-static-libstdc++", "-static-libgcc"])
            .args(["-Wl,-z,relro,-z,now", "-pthread"])
            .args(&objects)
            .arg("-o")
            .arg(to),
    )?;
    let version = package.version.rsplit('.').next().unwrap_or(&package.version);
    Ok(Built { version: version.into(), origin: origin(package, "hardened-malloc-sys") })
}

/// LLVM's scudo, as the distribution ships it: the newest that there is.
fn scudo(_: &Sources, to: &Path) -> Result<Built> {
    for llvm in [21, 20, 19, 18, 17, 16, 15, 14] {
        let name = format!("libclang-rt-{llvm}-dev");
        let Ok((tree, version)) = unpack("scudo", &name) else { continue };
        let name_of_object = format!("libclang_rt.scudo_standalone-{}.so", std::env::consts::ARCH);
        let directory = tree.join(format!("usr/lib/llvm-{llvm}/lib/clang"));
        let inside = find(&directory, |_| true).context("the package has no directory of clang")?;
        fs::copy(inside.join("lib/linux").join(name_of_object), to)?;
        return Ok(Built { origin: format!("Debian package {name} {version}"), version });
    }
    bail!("the distribution has no package libclang-rt-dev that can be fetched")
}
