//! The Debian packages, installed into an image of this system.

use std::process::Command;

use masu_tests::{tool, workspace};

use crate::image::{Image, search_path};
use crate::{built, links_lead_to_files, output, package, packages, succeed, text};

const NAMES: [&str; 3] = ["libmasu0_", "libmasu-dev_", "masu_"];

#[test]
fn installed_they_work_and_purged_they_leave_nothing() {
    let Some(packages) = packages() else { return };
    let Some(image) = Image::of_this_system() else { return };
    let environment = search_path();
    image.install(packages, &NAMES);
    image.put(&workspace().join("tests/cxx/jemalloc.cc"), "/tmp/packages/user.cc");
    let shell = |script: &str| image.shell(&environment, script);
    assert_eq!(shell("dpkg --verify libmasu0 libmasu-dev masu"), "");

    let triplet = shell("gcc -print-multiarch");
    let library = format!("/usr/lib/{}/libmasu.so.0", triplet.trim());
    assert!(shell("masu run cat /proc/self/maps").contains(&library));
    // The loader finds it by name.
    assert!(shell("LD_PRELOAD=libmasu.so.0 cat /proc/self/maps").contains(&library));
    shell("masu bench --rounds 1 --against none -- true");
    let version = shell("masu --version");
    assert_eq!(version.trim(), shell("echo masu $(dpkg-query -W -f '${Version}' masu)").trim());
    for page in ["man1/masu.1.gz", "man1/masu-run.1.gz", "man3/libmasu.3.gz", "man7/masu-conf.7.gz"]
    {
        assert!(shell(&format!("zcat /usr/share/man/{page}")).contains(".TH"), "{page}");
    }
    // What belongs to `masu export`, where docs/watch-a-fleet.md says that it is.
    shell("grep -q '^ExecStart=masu export' /usr/share/masu/observe/masu-export.service");
    shell("test -f /usr/share/masu/observe/kubernetes/daemonset.yaml");
    let completions = "bash -c '. /usr/share/bash-completion/completions/masu; complete -p masu'";
    assert!(shell(completions).contains("masu"));

    for link in [
        "$(pkg-config --cflags --libs masu)",
        "$(pkg-config --cflags masu) -Wl,-u,malloc -l:libmasu.a",
    ] {
        let build = format!(
            "cd /tmp/packages; g++ -std=c++17 -I/usr/include/masu/compat user.cc -o user {link}; ./user"
        );
        assert_eq!(shell(&build), "ok\n", "{link}");
    }
    assert!(shell("ldd /tmp/packages/user || true").contains("libc.so"));

    shell(
        "dpkg -r masu libmasu-dev libmasu0; dpkg -P masu libmasu-dev libmasu0; rm -r /tmp/packages",
    );
    let books = ["var/lib/dpkg/", "var/log/", "var/cache/", "etc/ld.so.cache", "tmp/"];
    let mut left = image.written();
    left.retain(|path| !books.iter().any(|book| path.starts_with(book)));
    assert_eq!(left, Vec::<String>::new(), "left behind");
    assert!(
        !output(image.inside(&environment).args(["sh", "-c", "dpkg -s libmasu0"])).status.success()
    );
}

/// Packages name the maintainer that was configured, or nobody.
#[test]
fn the_maintainer_is_who_builds() {
    let (Some(packages), Some(from)) = (packages(), built()) else { return };
    let named = masu_tests::scratch();
    let mut make = Command::new(workspace().join("packaging/deb"));
    make.env("DEBFULLNAME", "Ada & Söhne").env("DEBEMAIL", "ada@example.org");
    succeed(make.arg("--out").arg(named.path()).arg("--from").arg(from));
    for name in NAMES {
        let maintainer = |place| {
            let mut field = Command::new("dpkg-deb");
            succeed(field.arg("-f").arg(package(place, name, ".deb")).arg("Maintainer"))
        };
        assert_eq!(maintainer(named.path()), "Ada & Söhne <ada@example.org>\n");
        assert_eq!(maintainer(packages), "Built locally <nobody@built-locally.invalid>\n");
    }
}

#[test]
fn the_documents_of_a_package_link_to_each_other() {
    let Some(packages) = packages() else { return };
    let place = masu_tests::scratch();
    let mut unpack = Command::new("dpkg-deb");
    succeed(unpack.arg("-x").arg(package(packages, "masu_", ".deb")).arg(place.path()));
    links_lead_to_files(&place.path().join("usr/share/doc/masu"));
}

/// Debian's own checks find nothing.
#[test]
fn lintian_is_content() {
    let Some(packages) = packages() else { return };
    let mut lintian = Command::new(tool("lintian"));
    lintian.args(["--fail-on", "error,warning", "--allow-root"]);
    let done = output(lintian.args(NAMES.map(|name| package(packages, name, ".deb"))));
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
}

#[test]
fn the_same_build_gives_the_same_packages() {
    let (Some(packages), Some(from)) = (packages(), built()) else { return };
    let again = masu_tests::scratch();
    let mut make = Command::new(workspace().join("packaging/deb"));
    make.env_remove("DEBFULLNAME").env_remove("DEBEMAIL");
    succeed(make.arg("--out").arg(again.path()).arg("--from").arg(from));
    for name in NAMES {
        let read = |place| std::fs::read(package(place, name, ".deb")).expect("a package");
        assert!(read(packages) == read(again.path()), "{name} differs");
    }
}

/// What the command needs is read from all its programs, also where `readelf` takes its time.
#[test]
fn packages_for_another_machine_name_what_the_command_needs() {
    let Some(from) = built() else { return };
    let (other, place) =
        (if cfg!(target_arch = "aarch64") { "amd64" } else { "arm64" }, masu_tests::scratch());
    // By a separate process: see `packages`.
    let slow =
        "printf '#!/bin/sh\\n%s \"$@\" && sleep 0.2 && echo\\n' \"$1\" >readelf; chmod 755 readelf";
    let mut write = Command::new("sh");
    write.args(["-c", slow, "sh"]).arg(tool("readelf")).current_dir(place.path());
    succeed(&mut write);
    let path = std::env::var("PATH").expect("PATH");
    let mut make = Command::new(workspace().join("packaging/deb"));
    make.env_remove("DEBFULLNAME").env_remove("DEBEMAIL").arg("--out").arg(place.path());
    make.env("PATH", format!("{}:{path}", place.path().display()));
    make.arg("--from").arg(from).args(["--arch", other, "--writer"]).arg(from.join("masu"));
    succeed(&mut make);
    let mut field = Command::new("dpkg-deb");
    let field = field.arg("-f").arg(package(place.path(), "masu_", ".deb"));
    let needed = succeed(field.arg("Depends"));
    assert!(needed.contains("libc6 (>= 2.") && needed.contains("libgcc-s1"), "{needed}");
}
