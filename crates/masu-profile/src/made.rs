//! The names of code generated at run time.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::files;

/// Maximum size of a list; the rest of a longer one is ignored.
const MOST: u64 = 64 << 20;

/// Code generated at run time, from the list that engines write for `perf`: Node with
/// `--perf-basic-prof`, Java with `-XX:+DumpPerfMapAtExit`, CPython with `-X perf`: by where it begins, where it ends and
/// its name. No two overlap.
pub struct MadeCode(BTreeMap<u64, (u64, String)>);

impl MadeCode {
    pub fn of(process: u32) -> MadeCode {
        let mut bytes = Vec::new();
        if let Ok(list) = list(process) {
            let _ = list.take(MOST).read_to_end(&mut bytes);
        }
        MadeCode::parse(&bytes)
    }

    fn parse(list: &[u8]) -> MadeCode {
        let entry = |line: &[u8]| {
            let mut words = line.splitn(3, |&byte| byte == b' ');
            let mut number = || {
                let word = str::from_utf8(words.next()?).ok()?;
                u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()
            };
            let (start, len) = (number()?, number()?);
            let name = String::from_utf8_lossy(words.next()?).trim_end().to_owned();
            Some((start, start.saturating_add(len), name))
        };
        let mut made = MadeCode(BTreeMap::new());
        for (start, end, name) in list.split(|&byte| byte == b'\n').filter_map(entry) {
            made.put(start, end, name);
        }
        made
    }

    /// Adds code. An engine generates it where older code was, of another length or start: what was generated last is at
    /// that address now.
    fn put(&mut self, start: u64, end: u64, name: String) {
        if let Some((_, (before, older))) = self.0.range_mut(..start).next_back()
            && *before > start
        {
            let behind = (std::mem::replace(before, start), older.clone());
            if behind.0 > end {
                self.0.insert(end, behind);
            }
        }
        while let Some((&older, _)) = self.0.range(start..end).next() {
            let behind = self.0.remove(&older);
            self.0.extend(behind.filter(|&(last, _)| last > end).map(|behind| (end, behind)));
        }
        if start < end {
            self.0.insert(start, (end, name));
        }
    }

    /// Returns the name of the code at an address.
    pub fn name(&self, call: u64) -> Option<&str> {
        let (_, (end, name)) = self.0.range(..=call).next_back()?;
        (call < *end).then_some(name)
    }
}

/// Opens the list of a process; after its end, the one that is left in this process's `/tmp`.
fn list(process: u32) -> io::Result<File> {
    let inside = Whose::of(&process.to_string()).and_then(|Whose { process: inside, user }| {
        open(Path::new(&format!("/proc/{process}/root/tmp/perf-{inside}.map")), user)
    });
    let own = Whose::of("self")?.user;
    inside.or_else(|_| open(Path::new(&format!("/tmp/perf-{process}.map")), own))
}

/// Opens a list that belongs to a user or to root; anybody may write to `/tmp`.
fn open(path: &Path, user: u32) -> io::Result<File> {
    let file = files::open(path)?;
    let owner = file.metadata()?.uid();
    if owner == user || owner == 0 { Ok(file) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// What a process is to itself, and who runs it.
#[derive(Debug, PartialEq)]
struct Whose {
    /// Its ID in the innermost namespace: what it takes for its own.
    process: u32,
    /// Its effective user.
    user: u32,
}

impl Whose {
    fn of(process: &str) -> io::Result<Whose> {
        // The name in it need not be text: the kernel cuts names within a character.
        let status = fs::read(format!("/proc/{process}/status"))?;
        let whose = Whose::parse(&String::from_utf8_lossy(&status));
        whose.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Parses `/proc/PID/status`.
    fn parse(status: &str) -> Option<Whose> {
        let line = |key: &str| status.lines().find_map(|line| line.strip_prefix(key));
        Some(Whose {
            process: line("NSpid:")?.split_whitespace().next_back()?.parse().ok()?,
            user: line("Uid:")?.split_whitespace().nth(1)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn code_made_at_run_time_has_the_names_of_its_list() {
        let made =
            MadeCode::parse(b"40 10 b b\n0x10 10 a\nno line\n\xff 1 x\n50 8 \xff\n40 10 c\n");
        assert_eq!(made.name(31), Some("a"));
        assert_eq!(made.name(32), None);
        assert_eq!(made.name(64), Some("c"), "the last one");
        assert_eq!(made.name(0x50), Some("\u{fffd}"));
    }

    #[test]
    fn code_has_the_name_of_what_was_generated_there_last() {
        let made = MadeCode::parse(b"10 100 old\n20 10 a\n80 10 b\n18 20 new\n84 4 c\n90 0 none\n");
        let name = |call| made.name(call).unwrap_or("-");
        assert_eq!([0x10, 0x17, 0x18, 0x25, 0x37].map(name), ["old", "old", "new", "new", "new"]);
        assert_eq!([0x38, 0x7f, 0x80, 0x84, 0x88].map(name), ["old", "old", "b", "c", "b"]);
        assert_eq!([0x90, 0x10f, 0x110, 0xf].map(name), ["old", "old", "-", "-"]);
    }

    #[test]
    fn a_process_writes_its_list_under_its_innermost_id() {
        let status = "Name:\tnode\nUid:\t1\t1000\t3\t4\nNSpid:\t4711\t88\t7\n";
        assert_eq!(Whose::parse(status), Some(Whose { process: 7, user: 1000 }));
        assert_eq!(Whose::of("self").unwrap().process, std::process::id());
        assert_eq!(Whose::parse(""), None);
    }

    #[test]
    fn a_process_may_have_a_name_that_is_no_text() {
        use std::os::unix::process::CommandExt as _;
        let place = tempfile::tempdir().unwrap();
        let link = place.path().join("fourteen-bytes\u{e4}");
        std::os::unix::fs::symlink("/bin/sleep", &link).unwrap();
        let mut other = Command::new(&link).arg0("sleep").arg("60").spawn().unwrap();
        let whose = Whose::of(&other.id().to_string());
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(whose.unwrap().process, other.id());
    }

    #[test]
    fn a_list_that_is_none_keeps_nobody_waiting() {
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        let list = format!("/tmp/perf-{}.map", other.id());
        let _ = fs::remove_file(&list);
        fs::write(&list, "10 10 a\n").unwrap();
        assert_eq!(MadeCode::of(other.id()).name(16), Some("a"));
        fs::remove_file(&list).unwrap();
        assert!(Command::new("mkfifo").arg(&list).status().unwrap().success());
        let (said, told) = mpsc::channel();
        let process = other.id();
        std::thread::spawn(move || said.send(MadeCode::of(process).name(16).is_none()));
        let answer = told.recv_timeout(Duration::from_secs(20));
        fs::remove_file(&list).unwrap();
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(answer, Ok(true));
    }

    #[test]
    fn a_list_of_a_stranger_is_not_believed() {
        let place = tempfile::tempdir().unwrap();
        let list = place.path().join("list");
        fs::write(&list, "").unwrap();
        let owner = fs::metadata(&list).unwrap().uid();
        assert!(open(&list, owner).is_ok());
        assert_eq!(open(&list, owner.wrapping_add(1)).is_err(), owner != 0);
    }
}
