//! `masu unit` and the services of Debian's own packages, in an image of this system with masu's packages.

use std::process::Command;

use masu_tests::{left_out, scratch};

use crate::image::{Image, TO_RUN, search_path};
use crate::{output, package, packages, text};

/// A service, and the package that its unit file is from.
const SERVICES: [(&str, &str); 4] = [
    ("postgresql@15-main", "postgresql-common"),
    ("redis-server", "redis-server"),
    ("mariadb", "mariadb-server"),
    ("nginx", "nginx-common"),
];

/// systemd reads the drop-in file, and has nothing to say about it that it does not say about the unit alone.
#[test]
fn debians_services_take_the_drop_in() {
    let Some(packages) = packages() else { return };
    let Some(image) = Image::of_this_system() else { return };
    let environment = search_path();
    let shell = |script: &str| image.shell(&environment, script);
    image.install(packages, &TO_RUN);
    if !shell("command -v systemd-analyze || true").contains("systemd-analyze") {
        return left_out("the drop-in files of services", "systemd-analyze is not installed");
    }
    // What it says about a unit, file by file; its exit status is also that of the units that this one needs.
    let verified = |name: &str| {
        let done = output(image.inside(&environment).args([
            "systemd-analyze",
            "verify",
            "--man=no",
            name,
        ]));
        text(&done.stderr)
    };
    for (name, from) in SERVICES {
        let Some(file) = unit(&image, name, from) else { continue };
        let (unit, drop_in) = (
            format!("{name}.service"),
            format!("/etc/systemd/system/{name}.service.d/zz-masu.conf"),
        );
        let alone = verified(&unit);
        shell(&format!("masu unit --policy container --conf stats_file:/run/masu.%p {name}"));
        let text = shell(&format!("cat {drop_in}"));
        let library = "libmasu.so.0\n";
        assert!(text.contains("\nEnvironment=LD_PRELOAD=/usr/lib/"), "{file}: {text}");
        assert!(text.contains(library) && text.contains("=/run/masu.%%p\n"), "{file}: {text}");
        assert_eq!(verified(&unit), alone, "{file}: {text}");
        // So systemd has read it: a line that it does not know is named.
        shell(&format!("cp {drop_in} /tmp/kept; echo Nonsense=1 >>{drop_in}"));
        let said = verified(&unit);
        assert!(said.contains("zz-masu.conf") && said.contains("Nonsense"), "{file}: {said}");
        shell(&format!("mv /tmp/kept {drop_in}; masu unit --remove {name}"));
        shell(&format!("test ! -e {drop_in}"));
    }
    // Debian lets redis run no code but that of /usr/lib: a library elsewhere would be left out by the loader.
    if unit(&image, "redis-server", "redis-server").is_some() {
        shell("cp /usr/lib/*/libmasu.so.0 /usr/local/lib/");
        let elsewhere = "/usr/local/lib/libmasu.so.0";
        let words = ["masu", "unit", "--print", "--lib", elsewhere, "redis-server"];
        let done = output(image.inside(&environment).args(words));
        let said = text(&done.stderr);
        assert!(
            said.contains(&format!("may not run code of {elsewhere}: NoExecPaths is set")),
            "{said}"
        );
        assert!(said.contains("\n  name a copy below /usr/lib or /lib with --lib\n"), "{said}");
    }
}

/// The unit file of a package in the image; if it is not installed, it is unpacked there. `None`, and a message, if it
/// cannot be had.
fn unit(image: &Image, name: &str, from: &str) -> Option<String> {
    let file = match name.split_once('@') {
        Some((name, _)) => format!("{name}@.service"),
        None => format!("{name}.service"),
    };
    let path = format!("/lib/systemd/system/{file}");
    let environment = search_path();
    let has = || output(image.inside(&environment).args(["test", "-e", &path])).status.success();
    if !has() {
        let place = scratch();
        let mut download = Command::new("apt-get");
        download.args(["download", "-qq", from]).current_dir(&place);
        if !download.output().is_ok_and(|done| done.status.success()) {
            left_out(&format!("{file} of Debian's"), &format!("{from} cannot be downloaded"));
            return None;
        }
        image.put(&package(place.path(), from, ".deb"), "/tmp/packages/other.deb");
        // /lib is a link here, which the package's directory must not replace.
        let unpack = "dpkg-deb --fsys-tarfile /tmp/packages/other.deb | tar -x -C / --keep-directory-symlink";
        image.shell(&environment, unpack);
    }
    assert!(has(), "{from} has no {path}");
    Some(file)
}
