//! The Dockerfiles and entry points of `packaging/docker`, executed as they are.
//!
//! The applications print which of two libraries are mapped into them: masu's, and another that was preloaded before
//! masu.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use masu_tests::{scratch, tool, workspace};

use crate::dockerfile::{Built, Environment, build};
use crate::image::{Image, search_path};
use crate::{output, packages, succeed, text};

const RAILS: &str = r##"#!/usr/bin/env ruby
maps = File.read("/proc/self/maps")
found = %w[libmasu libother].select { |name| maps.include?(name) }
puts "#{ARGV.first} on #{found.join(" ")}".strip
"##;
const PYTHON: &str = r#"
maps = open("/proc/self/maps").read()
print("server on", *[name for name in ("libmasu", "libother") if name in maps])
"#;
const NODE: &str = r#"
const maps = require("fs").readFileSync("/proc/self/maps", "utf8");
console.log(["server on", ...["libmasu", "libother"].filter((name) => maps.includes(name))].join(" "));
"#;
const C: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
    char *line = malloc(4096);
    int masu = 0, other = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, 4096, maps)) {
        if (strstr(line, "libmasu")) masu = 1;
        if (strstr(line, "libother")) other = 1;
    }
    free(line);
    printf("server on%s%s\n", masu ? " libmasu" : "", other ? " libother" : "");
    return 0;
}
"#;

/// A directory to build an image from, with these files, executable.
fn context(files: &[(&str, &str)]) -> tempfile::TempDir {
    let place = scratch();
    for (name, content) in files {
        let path = place.path().join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(&path, content).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
    }
    place
}

fn docker(name: &str) -> String {
    let path = workspace().join("packaging/docker").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A library that does nothing, built by `compiler`.
fn other(compiler: &str, place: &Path) {
    let mut compile = Command::new(tool(compiler));
    compile.args(["-shared", "-fPIC", "-nostdlib", "-xc", "/dev/null", "-o"]);
    succeed(compile.arg(place.join("libother.so")));
}

/// This system with what the base images contain: Ruby, Node, and Python with pip.
fn debian(name: &str) -> Option<(Image, Environment)> {
    let image = Image::of_this_system()?;
    let mut environment = search_path();
    if name.starts_with("python") {
        succeed(image.inside(&environment).args(["python3", "-m", "venv", "/opt/venv"]));
        let path = format!("/opt/venv/bin:{}", environment[0].1);
        environment[0].1 = path;
    }
    let place = scratch();
    other("gcc", place.path());
    image.put(&place.path().join("libother.so"), "/usr/lib/libother.so");
    // A library for another machine, as on a multi-architecture system: it must not be taken.
    for machine in ["aarch64", "x86_64"].iter().filter(|other| **other != std::env::consts::ARCH) {
        let stray = place.path().join("stray");
        fs::write(&stray, "for another machine").expect("written");
        image.put(&stray, &format!("/usr/lib/{machine}-linux-gnu/libmasu.so.0"));
    }
    Some((image, environment))
}

/// A tree with musl and busybox, like Alpine's.
fn alpine(_: &str) -> Option<(Image, Environment)> {
    let (busybox, loader) = (busybox(), musl());
    let image = Image::empty();
    image.put(&busybox, "/bin/busybox");
    image.put(&loader, &format!("/lib/{}", loader.file_name().unwrap().to_string_lossy()));
    let place = scratch();
    other("musl-gcc", place.path());
    image.put(&place.path().join("libother.so"), "/usr/lib/libother.so");
    for name in ["sh", "env", "uname"] {
        symlink("busybox", image.root().join("bin").join(name)).expect("a link");
    }
    Some((image, vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())]))
}

fn busybox() -> std::path::PathBuf {
    let path = Path::new("/bin/busybox");
    let is_static = || !text(&output(Command::new("ldd").arg(path)).stdout).contains("=>");
    assert!(path.is_file() && is_static(), "no static busybox: run tests/install-tools");
    path.to_owned()
}

fn musl() -> std::path::PathBuf {
    let name = format!("/lib/ld-musl-{}.so.1", std::env::consts::ARCH);
    assert!(Path::new(&name).exists(), "{name} is missing: run tests/install-tools");
    name.into()
}

/// Starts the container; checks the lines of its application, which prints nothing else.
#[track_caller]
fn says(built: &Built, more: &[(&str, &str)], expected: &[&str]) {
    let done = built.start(more);
    let (said, errors) = (text(&done.stdout), text(&done.stderr));
    assert!(done.status.success(), "{more:?}: {}\n{said}{errors}", done.status);
    assert_eq!(said.lines().collect::<Vec<_>>(), expected, "{more:?}\n{errors}");
    assert_eq!(errors, "", "{more:?}");
}

/// With masu, after which other preloads stay; and without, if that is configured.
fn with_and_without(built: &Built, before: &[&str]) {
    let lines = |found: &str| -> Vec<String> {
        let one = |word: &str| format!("{word} on {found}").trim().to_owned();
        before.iter().chain(&["server"]).map(|word| one(word)).collect()
    };
    let check = |more: &[(&str, &str)], found: &str| {
        let lines = lines(found);
        says(built, more, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    };
    let other = ("LD_PRELOAD", "/usr/lib/libother.so");
    check(&[], "libmasu");
    check(&[other], "libmasu libother");
    for no in ["", "0", "off"] {
        check(&[("MASU_DISABLE", no)], "libmasu");
    }
    check(&[("MASU_DISABLE", "1")], "");
    check(&[("MASU_DISABLE", "1"), other], "libother");
}

fn rails(version: &str) {
    let Some(packages) = packages() else { return };
    let entry = docker(&format!("rails-{version}-entrypoint"));
    let context = context(&[("bin/rails", RAILS), ("bin/docker-entrypoint", &entry)]);
    let file = docker(&format!("rails-{version}.Dockerfile"));
    let Some(built) = build(&file, context.path(), packages, debian) else { return };
    with_and_without(&built, &["db:prepare"]);
}

#[test]
fn rails_7_2_with_a_pattern() {
    rails("7.2");
}

#[test]
fn rails_8_0_with_find() {
    rails("8.0");
}

#[test]
fn rails_8_1_with_a_link_and_a_variable() {
    let Some(packages) = packages() else { return };
    let context = context(&[
        ("bin/rails", RAILS),
        ("bin/docker-entrypoint", "#!/bin/bash -e\nexec \"$@\"\n"),
    ]);
    let file = docker("rails-8.1.Dockerfile");
    let Some(built) = build(&file, context.path(), packages, debian) else { return };
    says(&built, &[], &["server on libmasu"]);
    let both = "/usr/local/lib/libmasu.so:/usr/lib/libother.so";
    says(&built, &[("LD_PRELOAD", both)], &["server on libmasu libother"]);
    says(&built, &[("LD_PRELOAD", "")], &["server on"]);
}

#[test]
fn python_with_the_wheel() {
    let Some(packages) = packages() else { return };
    let context = context(&[("app.py", PYTHON)]);
    let file = docker("python.Dockerfile");
    let Some(built) = build(&file, context.path(), packages, debian) else { return };
    with_and_without(&built, &[]);
}

/// The shorter way that the page names.
#[test]
fn python_with_the_command_as_entry_point() {
    const ENTRY: &str = r#"ENTRYPOINT ["masu", "run", "--"]"#;
    let Some(packages) = packages() else { return };
    let page = fs::read_to_string(workspace().join("docs/docker.md")).expect("docs/docker.md");
    assert!(page.contains(ENTRY));
    let context = context(&[("app.py", PYTHON)]);
    let lines = docker("python.Dockerfile").replace(" && \\\n    ln -s", "\nLINK");
    let others = ["LINK", "COPY --from=masu /packages/masu-entrypoint", "ENTRYPOINT"];
    let kept = lines.lines().filter(|line| !others.iter().any(|other| line.starts_with(other)));
    let file: String = kept.chain([ENTRY]).map(|line| format!("{line}\n")).collect();
    assert_eq!(lines.lines().count(), file.lines().count() + 2, "{file}");
    let Some(built) = build(&file, context.path(), packages, debian) else { return };
    says(&built, &[], &["server on libmasu"]);
    says(&built, &[("LD_PRELOAD", "/usr/lib/libother.so")], &["server on libmasu libother"]);
}

/// The image of the exporters in Kubernetes: it runs what they run, and the page shows the file.
#[test]
fn an_exporter_with_the_debian_packages() {
    let observe = workspace().join("packaging/observe/kubernetes");
    let read = |name: &str| fs::read_to_string(observe.join(name)).expect(name);
    let file = read("export.Dockerfile");
    let page = fs::read_to_string(workspace().join("docs/watch-a-fleet.md")).expect("the page");
    assert!(page.contains(&format!("\n{file}```\n")), "the page does not show it as it is");
    let name = file.split_whitespace().skip_while(|word| *word != "-t").nth(1).expect("a name");
    let Some(packages) = packages() else { return };
    let context = context(&[]);
    let Some(built) = build(&file, context.path(), packages, debian) else { return };
    let runs = |words: &[&str]| {
        let mut command = built.image.inside(&search_path());
        command.args(["timeout", "--preserve-status", "3"]).args(words);
        let said = succeed(&mut command);
        assert!(said.starts_with("masu: metrics at http://127.0.0.1:"), "{words:?}: {said}");
    };
    // On another port, because the tests run side by side.
    let default: Vec<String> = ["ENTRYPOINT ", "CMD "]
        .iter()
        .flat_map(|word| {
            let list = file.lines().find_map(|line| line.strip_prefix(word)).expect(word);
            serde_json::from_str::<Vec<String>>(list).expect("a list")
        })
        .map(|word| word.replace("0.0.0.0:9464", "127.0.0.1:0"))
        .collect();
    runs(&default.iter().map(String::as_str).collect::<Vec<_>>());
    for name_of_file in ["daemonset.yaml", "sidecar.yaml"] {
        let yaml = read(name_of_file);
        assert!(yaml.contains(&format!("image: {name}\n")), "{name_of_file} does not take {name}");
        let command = yaml.lines().find_map(|line| line.trim().strip_prefix("command: ["));
        let command = command.and_then(|line| line.strip_suffix(']')).expect("a command");
        let command = command.replace(['"', ','], "").replace("$(POD_IP):9464", "127.0.0.1:0");
        runs(&command.split(' ').collect::<Vec<_>>());
    }
}

#[test]
fn node_with_the_debian_package() {
    let Some(packages) = packages() else { return };
    let context = context(&[("app.js", NODE)]);
    let file = docker("node.Dockerfile");
    let Some(built) = build(&file, context.path(), packages, debian) else { return };
    with_and_without(&built, &[]);
}

#[test]
fn alpine_with_a_program_on_musl() {
    let Some(packages) = packages() else { return };
    let context = context(&[("app.c", C)]);
    let (source, program) = (context.path().join("app.c"), context.path().join("app"));
    succeed(Command::new(tool("musl-gcc")).arg("-O1").arg(source).arg("-o").arg(program));
    let file = docker("alpine.Dockerfile");
    let Some(built) = build(&file, context.path(), packages, alpine) else { return };
    with_and_without(&built, &[]);
}

/// In an image without masu the container runs all the same, and a line says why it uses malloc.
#[test]
fn the_entry_point_without_masu_runs_on() {
    let Some(packages) = packages() else { return };
    let context = context(&[("app.js", NODE)]);
    let file: String = docker("node.Dockerfile")
        .lines()
        .filter(|line| !line.contains("libmasu0"))
        .map(|line| format!("{line}\n"))
        .collect();
    let Some(built) = build(&file, context.path(), packages, debian) else { return };
    let done = built.start(&[]);
    assert_eq!(text(&done.stdout), "server on\n");
    assert_eq!(text(&done.stderr), "masu-entrypoint: no libmasu.so.0 in this image\n");
}

/// `COPY . .` brings the sources alone: what was built for this system may need a newer C library than the image has.
#[test]
fn what_is_built_here_stays_out_of_the_image() {
    let ignored = fs::read_to_string(workspace().join(".dockerignore")).expect("a list");
    assert!(docker("masu.Dockerfile").contains("\nCOPY . .\n"));
    assert!(ignored.lines().any(|line| line == "/target"), "{ignored}");
}

/// The documentation shows the files as they are.
#[test]
fn the_documentation_shows_these_files() {
    let page = fs::read_to_string(workspace().join("docs/docker.md")).expect("docs/docker.md");
    let directory = fs::read_dir(workspace().join("packaging/docker")).expect("packaging/docker");
    for file in directory {
        let path = file.expect("a file").path();
        let content = fs::read_to_string(&path).expect("text");
        let shown = page.contains(&format!("\n{}```\n", content));
        assert!(shown, "docs/docker.md does not show {} as it is", path.display());
    }
}
