//! Whether the user of a service may read a file.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A user, by number.
pub struct User {
    id: u32,
    groups: Vec<u32>,
}

impl User {
    /// Finds the user in `/etc/passwd` below `root`, with that user's groups and `more`. One whom systemd makes up is in
    /// no file, and owns none.
    pub fn find(root: &Path, name: &str, is_made_up: bool, more: &[&str]) -> Option<Self> {
        let users = lines(&root.join("etc/passwd"));
        let known = users.iter().find(|user| user[0] == name || user[2] == name);
        let (id, mut groups) = match known {
            Some(user) => (user[2].parse().ok()?, vec![user[3].parse().ok()?]),
            None if is_made_up => (u32::MAX, Vec::new()),
            None => return None,
        };
        let name = known.map_or(name, |user| user[0].as_str());
        for group in lines(&root.join("etc/group")) {
            let is_named = more.iter().any(|other| group[0] == *other || group[2] == *other);
            if is_named || group[3].split(',').any(|member| member == name) {
                groups.extend(group[2].parse::<u32>().ok());
            }
        }
        Some(Self { id, groups })
    }

    /// Whether the user may read the file, as far as its mode and those of the directories above it say.
    pub fn may_read(&self, file: &Path) -> bool {
        const READ: u32 = 4;
        const SEARCH: u32 = 1;
        let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        let mut directories = file.ancestors().skip(1).chain(real.ancestors().skip(1));
        self.has(READ, &real) && directories.all(|directory| self.has(SEARCH, directory))
    }

    fn has(&self, right: u32, path: &Path) -> bool {
        let Ok(data) = fs::metadata(path) else { return true };
        let shift = if data.uid() == self.id {
            6
        } else if self.groups.contains(&data.gid()) {
            3
        } else {
            0
        };
        self.id == 0 || (data.mode() >> shift) & right != 0
    }
}

/// The lines of a file like `/etc/passwd`, by fields.
fn lines(file: &Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().map(|line| line.split(':').map(str::to_owned).collect::<Vec<_>>());
    lines.filter(|fields| fields.len() > 3).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_read_by_its_mode_and_those_above_it() {
        let root = tempfile::tempdir().unwrap();
        let (etc, home) = (root.path().join("etc"), root.path().join("home"));
        let file = home.join("libmasu.so");
        for directory in [&etc, &home] {
            fs::create_dir(directory).unwrap();
        }
        fs::write(&file, "").unwrap();
        let owner = fs::metadata(&file).unwrap();
        fs::write(etc.join("passwd"), "app:x:4711:4711::/:/bin/sh\nodd\n").unwrap();
        fs::write(etc.join("group"), format!("shared:x:{}:other,app\n", owner.gid())).unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode));
        let user = |name, is_made_up, more: &[&str]| {
            User::find(root.path(), name, is_made_up, more).map(|user| user.may_read(&file))
        };

        mode(root.path(), 0o755).unwrap();
        for (above, own, expected) in
            [(0o755, 0o644, true), (0o700, 0o644, false), (0o755, 0o600, false)]
        {
            mode(&home, above).unwrap();
            mode(&file, own).unwrap();
            assert_eq!(user("app", false, &[]), Some(expected));
            assert_eq!(user("4711", false, &[]), Some(expected));
            assert_eq!(user("made-up", true, &[]), Some(expected));
        }
        // By a group of the user's, or of the service's.
        mode(&home, 0o750).unwrap();
        mode(&file, 0o640).unwrap();
        assert_eq!(user("app", false, &[]), Some(true));
        assert_eq!(user("made-up", true, &["shared"]), Some(true));
        assert_eq!(user("made-up", true, &["other"]), Some(false));
        assert_eq!(user("unknown", false, &[]), None);
    }
}
