//! A root file system that can be changed at will: either all of this system with what is written going
//! elsewhere (an overlay), or a small tree of its own. Nothing of the system is touched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use masu_tests::scratch;
use tempfile::TempDir;

use crate::{output, succeed, text};

/// An image: in `place`, `root` is where it is mounted, `upper` what was written.
pub struct Image {
    place: TempDir,
    overlay: bool,
}

impl Image {
    /// This system as an image; `None`, with a word, where that cannot be.
    pub fn of_this_system() -> Option<Image> {
        let image = Image { place: empty_place(), overlay: true };
        let done = output(image.inside(&[]).args(["/bin/sh", "-c", "id -u"]));
        if done.status.success() && text(&done.stdout).trim() == "0" {
            return Some(image);
        }
        println!("no image of this system (that takes root and overlayfs): {}", text(&done.stderr));
        None
    }

    /// An empty one, with the directories that are mounted.
    pub fn empty() -> Image {
        let image = Image { place: empty_place(), overlay: false };
        for directory in ["proc", "dev", "tmp", "bin", "lib"] {
            fs::create_dir(image.root().join(directory)).expect("made");
        }
        image
    }

    /// A copy of its own.
    pub fn copy(&self) -> Image {
        let image = Image { place: empty_place(), overlay: self.overlay };
        let part = if self.overlay { "upper" } else { "root" };
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(self.place.path().join(part).join("."));
        succeed(copy.arg(image.place.path().join(part)));
        image
    }

    /// Where the tree is: for an overlay, while a command runs.
    pub fn root(&self) -> PathBuf {
        self.place.path().join("root")
    }

    /// The files that differ from this system's, below the root.
    pub fn written(&self) -> Vec<String> {
        let mut find = Command::new("find");
        find.current_dir(self.place.path().join("upper"));
        // A character device is the absence of a file.
        succeed(find.args([".", "!", "-type", "d", "!", "-type", "c", "-printf", "%P\\n"]))
            .lines()
            .map(str::to_owned)
            .collect()
    }

    /// A command, still to be given, inside: as root, with this environment and no other.
    pub fn inside(&self, environment: &[(String, String)]) -> Command {
        let mut command = self.mounted("exec chroot \"$root\" env -i \"$@\"");
        command.args(environment.iter().map(|(name, value)| format!("{name}={value}")));
        command
    }

    /// `script` for the shell outside, with the tree mounted at `$root`; its arguments are to be given.
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
        command.args(["60", "unshare", "--mount", "sh", "-c", &script, "sh"]);
        command.arg(self.place.path());
        command
    }

    /// A shell script inside that has to end well; what it wrote.
    #[track_caller]
    pub fn shell(&self, environment: &[(String, String)], script: &str) -> String {
        succeed(self.inside(environment).args(["/bin/sh", "-ec", script]))
    }

    /// Makes a file of the image.
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
    // What runs inside as another user has to pass through here.
    let mut open = Command::new("chmod");
    succeed(open.arg("755").arg(place.path()).arg(place.path().join("upper")));
    place
}

/// The variables that this system's programs are found by.
pub fn search_path() -> Vec<(String, String)> {
    ["PATH", "HOME"]
        .map(|name| (name.to_owned(), std::env::var(name).unwrap_or_else(|_| "/".into())))
        .to_vec()
}
