//! Processes, as the kernel's files in `/proc` describe them.
//!
//! A process may end, or execute another program, while it is read: the result is then empty, not
//! an error.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use procfs_core::process::{SmapsRollup, Stat, Status};
use procfs_core::{FromBufRead as _, FromRead as _};

/// Returns the ID under which the kernel shows a process's memory: its own, until its first thread ends before the others
/// (`pthread_exit` in `main`); then that of another thread.
pub fn memory_id(process: u32) -> u32 {
    stat(process).map_or(process, |stat| memory_id_of(process, &stat))
}

/// [`memory_id`] of a process whose state is known.
pub fn memory_id_of(process: u32, stat: &Stat) -> u32 {
    let has_ended = |stat: &Stat| matches!(stat.state, 'Z' | 'X');
    if !has_ended(stat) || stat.num_threads <= 1 {
        return process;
    }
    let is_alive = |thread: &u32| {
        let stat = Stat::from_file(format!("/proc/{process}/task/{thread}/stat"));
        stat.is_ok_and(|stat| !has_ended(&stat))
    };
    threads(process).find(is_alive).unwrap_or(process)
}

/// Yields all processes.
pub fn all() -> impl Iterator<Item = u32> {
    numbers("/proc")
}

/// Yields the threads of a process.
pub fn threads(process: u32) -> impl Iterator<Item = u32> {
    numbers(&format!("/proc/{process}/task"))
}

/// Yields the entries of a directory that are numbers.
fn numbers(directory: &str) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns the children of all threads of a process.
pub fn children(process: u32) -> Vec<u32> {
    let children = |thread| fs::read_to_string(format!("/proc/{process}/task/{thread}/children"));
    let all: Vec<String> = threads(process).filter_map(|thread| children(thread).ok()).collect();
    all.iter().flat_map(|text| text.split_whitespace()).filter_map(|id| id.parse().ok()).collect()
}

/// Returns a process and all its descendants.
pub fn family(process: u32) -> Vec<u32> {
    let mut all = vec![process];
    let mut next = 0;
    while let Some(&parent) = all.get(next) {
        all.extend(children(parent));
        next += 1;
    }
    all
}

/// Returns its state, its parent and its processor time.
pub fn stat(process: u32) -> Option<Stat> {
    Stat::from_file(format!("/proc/{process}/stat")).ok()
}

/// Returns its status. Its name in it need not be text: the kernel cuts names within a character.
pub fn status(process: u32) -> Option<Status> {
    let text = fs::read(format!("/proc/{process}/status")).ok()?;
    Status::from_buf_read(String::from_utf8_lossy(&text).as_bytes()).ok()
}

/// Returns how long its threads have run, in nanoseconds.
pub fn ran(process: u32) -> Option<u64> {
    let mut threads = threads(process).peekable();
    threads.peek()?;
    let ran = |thread| {
        let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some(threads.filter_map(ran).sum())
}

/// Returns the files that a process has mapped, in address order. They may have any names.
pub fn mapped(process: u32) -> Vec<PathBuf> {
    let maps = fs::read(format!("/proc/{}/maps", memory_id(process))).unwrap_or_default();
    let file = |line: &[u8]| {
        let path = line.splitn(6, |&byte| byte == b' ').nth(5)?.trim_ascii();
        path.starts_with(b"/").then(|| PathBuf::from(OsStr::from_bytes(path)))
    };
    let mut files: Vec<_> = maps.split(|&byte| byte == b'\n').filter_map(file).collect();
    files.dedup();
    files
}

/// Returns the sums over all mappings of a process, if it has memory.
pub fn smaps_rollup(process: u32) -> Option<SmapsRollup> {
    SmapsRollup::from_file(format!("/proc/{}/smaps_rollup", memory_id(process))).ok()
}

/// The memory of a process, from `smaps_rollup`.
pub struct Memory(HashMap<String, u64>);

impl Memory {
    /// Reads it, if the process has memory.
    pub fn of(process: u32) -> Option<Self> {
        let rollup = smaps_rollup(process)?;
        Some(Memory(rollup.memory_map_rollup.into_iter().next()?.extension.map))
    }

    /// Returns the value of a key such as `Pss`, in KiB; 0 if this kernel does not have it.
    pub fn kib(&self, key: &str) -> u64 {
        self.0.get(key).map_or(0, |bytes| bytes / 1024)
    }
}

/// The most that a process has had resident since it executed its program, in KiB.
///
/// The kernel notes the peak from counters that each processor adds to in batches, so the value may be
/// less than an exact count by some hundred KiB.
pub fn peak(process: u32) -> Option<u64> {
    status(memory_id(process))?.vmhwm
}

/// The memory of a process and all that descend from it, in KiB; `None` if none of them has any.
pub fn resident(root: u32) -> Option<u64> {
    let all: Vec<_> = family(root).into_iter().filter_map(Memory::of).collect();
    let key = if all.len() == 1 { "Rss" } else { "Pss" };
    let kib = all.iter().map(|memory| memory.kib(key)).sum();
    (kib > 0).then_some(kib)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_works_has_run() {
        let me = std::process::id();
        let (before, begin) = (ran(me).unwrap(), std::time::Instant::now());
        while ran(me).unwrap() < before + 1_000_000 {
            assert!(begin.elapsed().as_secs() < 60, "it has run for no millisecond");
        }
        assert_eq!(ran(u32::MAX / 2), None);
    }

    #[test]
    fn memory_is_the_resident_set_and_grows_with_it() {
        // Other tests give memory back meanwhile, so nothing could be said about this process.
        if std::env::var_os("MASU_TEST_ALONE").is_none() {
            let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
            alone.args(["--exact", "process::tests::memory_is_the_resident_set_and_grows_with_it"]);
            let output = alone.env("MASU_TEST_ALONE", "1").output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let before = resident(std::process::id()).unwrap();
        let block = vec![1u8; 32 << 20];
        let after = resident(std::process::id()).unwrap();
        assert!(after > before + (31 << 10), "{before} {after} {}", block.len());
        drop(block);
        // Each processor may have some hundred KiB that are not in the kernel's counters yet.
        let peak_kib = peak(std::process::id()).unwrap();
        assert!(peak_kib >= after - (8 << 10), "{peak_kib} {after}");
        assert_eq!((resident(u32::MAX / 2), peak(u32::MAX / 2)), (None, None));
    }

    #[test]
    fn a_process_whose_name_is_cut_within_a_character_has_a_peak() {
        use std::os::unix::process::CommandExt as _;
        let place = std::env::temp_dir().join(format!("masu-watch-cut-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let link = place.join("fourteen-bytes\u{e4}");
        std::os::unix::fs::symlink("/bin/sleep", &link).unwrap();
        let mut child = std::process::Command::new(&link).arg0("sleep").arg("60").spawn().unwrap();
        // The kernel lets the parent go on shortly before the child has its new name.
        let is_cut = |status: Status| status.name == "fourteen-bytes\u{fffd}";
        let found = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            status(child.id()).is_some_and(is_cut)
        });
        let peak = peak(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        fs::remove_dir_all(&place).unwrap();
        assert!(found);
        assert!(peak.is_some());
    }

    #[test]
    fn a_mapped_file_may_have_any_name() {
        use std::os::fd::AsRawFd as _;
        let place = std::env::temp_dir().join(format!("masu-watch-name-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let path = place.canonicalize().unwrap().join(OsStr::from_bytes(b"a \xff"));
        fs::write(&path, [0; 4096]).unwrap();
        let file = fs::File::open(&path).unwrap();
        let (at, may, how) = (std::ptr::null_mut(), libc::PROT_READ, libc::MAP_PRIVATE);
        // SAFETY: a new mapping, wherever there is room, which stays.
        let at = unsafe { libc::mmap(at, 4096, may, how, file.as_raw_fd(), 0) };
        assert_ne!(at, libc::MAP_FAILED);
        let files = mapped(std::process::id());
        fs::remove_dir_all(&place).unwrap();
        assert!(files.contains(&path), "{files:?}");
    }

    #[test]
    fn a_child_is_found_with_its_parent_and_its_files() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (me, id) = (std::process::id(), child.id());
        // The kernel's list of threads may lack some while others end, as those of other tests do.
        let start = std::time::Instant::now();
        while !children(me).contains(&id) {
            assert!(start.elapsed() < std::time::Duration::from_secs(20));
        }
        assert!(all().any(|process| process == id));
        assert_eq!(stat(id).map(|stat| stat.ppid), i32::try_from(me).ok());
        assert!(mapped(me).contains(&std::env::current_exe().unwrap()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(stat(id).is_none() && mapped(id).is_empty() && family(id) == [id]);
    }
}
