//! A root file system that can be changed at will: either this whole system, with changes written elsewhere (an
//! overlay), or a small separate tree. Nothing of the system is touched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use masu_tests::{left_out, scratch};
use tempfile::TempDir;

use crate::{output, package, succeed, text};

/// What runs programs on masu: the library's package and the command's.
pub const TO_RUN: [&str; 2] = ["libmasu0_", "masu_"];

/// An image: in `place`, `root` is its mount point, and `upper` has the changes.
pub struct Image {
    place: TempDir,
    overlay: bool,
}

impl Image {
    /// This system as an image; `None`, and a message, where that is impossible.
    pub fn of_this_system() -> Option<Image> {
        let image = Image { place: empty_place(), overlay: true };
        let done = output(image.inside(&[]).args(["/bin/sh", "-c", "id -u"]));
        if done.status.success() && text(&done.stdout).trim() == "0" {
            return Some(image);
        }
        let because = format!("that takes root and overlayfs: {}", text(&done.stderr).trim());
        left_out("images of this system", &because);
        None
    }

    /// An empty image, with the directories that are mounted.
    pub fn empty() -> Image {
        let image = Image { place: empty_place(), overlay: false };
        for directory in ["proc", "dev", "tmp", "bin", "lib"] {
            fs::create_dir(image.root().join(directory)).expect("made");
        }
        image
    }

    /// A separate copy.
    pub fn copy(&self) -> Image {
        let image = Image { place: empty_place(), overlay: self.overlay };
        let part = if self.overlay { "upper" } else { "root" };
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(self.place.path().join(part).join("."));
        succeed(copy.arg(image.place.path().join(part)));
        image
    }

    /// Where the tree is; for an overlay, only while a command runs.
    pub fn root(&self) -> PathBuf {
        self.place.path().join("root")
    }

    /// The files that differ from this system's, below the root.
    pub fn written(&self) -> Vec<String> {
        let mut find = Command::new("find");
        find.current_dir(self.place.path().join("upper"));
        // A character device marks a file as removed.
        succeed(find.args([".", "!", "-type", "d", "!", "-type", "c", "-printf", "%P\\n"]))
            .lines()
            .map(str::to_owned)
            .collect()
    }

    /// A command inside, yet to be added: as root, with only this environment.
    pub fn inside(&self, environment: &[(String, String)]) -> Command {
        let mut command = self.mounted("exec chroot \"$root\" env -i \"$@\"");
        command.args(environment.iter().map(|(name, value)| format!("{name}={value}")));
        command
    }

    /// `script` for the shell outside, with the tree mounted at `$root`; the caller adds its arguments.
    pub fn mounted(&self, script: &str) -> Command {
        let mount = if self.overlay {
            "mount -t overlay overlay -o lowerdir=/,upperdir=\"$1/upper\",workdir=\"$1/work\" \"$1/root\";"
        } else {
            ""
        };
        let script = format!(
            "set -e; root=$1/root; {mount} mount --bind /proc \"$root/proc\"; \
             mount --bind /dev \"$root/dev\"; shift; {script}"
        );
        let mut command = Command::new("timeout");
        command.args(["300", "unshare", "--mount", "sh", "-c", &script, "sh"]);
        command.arg(self.place.path());
        command
    }

    /// A shell script inside, which must succeed; returns its output.
    #[track_caller]
    pub fn shell(&self, environment: &[(String, String)], script: &str) -> String {
        succeed(self.inside(environment).args(["/bin/sh", "-ec", script]))
    }

    /// Installs those of masu's Debian packages that begin with these names. They stay in `/tmp/packages`.
    #[track_caller]
    pub fn install(&self, packages: &Path, names: &[&str]) {
        let put = |name: &&str| {
            let file = format!("/tmp/packages/{name}.deb");
            self.put(&package(packages, name, ".deb"), &file);
            file
        };
        let files: Vec<String> = names.iter().map(put).collect();
        self.shell(&search_path(), &format!("dpkg -i {}", files.join(" ")));
    }

    /// Adds a file to the image.
    pub fn put(&self, source: &Path, path: &str) {
        let script = "mkdir -p \"$(dirname \"$root/$2\")\"; cp -aL \"$1\" \"$root/$2\"";
        succeed(self.mounted(script).arg(source).arg(path));
    }
}

fn empty_place() -> TempDir {
    let place = scratch();
    for part in ["root", "upper", "work"] {
        fs::create_dir(place.path().join(part)).expect("made");
    }
    // Other users inside must be able to pass through here.
    let mut open = Command::new("chmod");
    succeed(open.arg("755").arg(place.path()).arg(place.path().join("upper")));
    place
}

/// The variables by which this system's programs are found.
pub fn search_path() -> Vec<(String, String)> {
    ["PATH", "HOME"]
        .map(|name| (name.to_owned(), std::env::var(name).unwrap_or_else(|_| "/".into())))
        .to_vec()
}
