//! One reading of a running process's profile.

use std::fs;
use std::path::PathBuf;

use masu_inspect::memory::Memory;
use masu_inspect::profile::{Amount as Seen, Samples};
use masu_inspect::retained::{Retained, Share, retained};
use masu_inspect::{Engine, Error, find};
use masu_profile::raw::Free;
use masu_profile::{Amount, Mapping, Place, Profile};
use masu_watch::process::memory_id;

/// What is read.
pub struct Subject {
    /// The process.
    pub memory: Memory,
    /// The copies of masu in it.
    pub engines: Vec<Engine>,
    /// Blocks allocated after that moment count as growth.
    pub since: u64,
    /// Whether to find out what blocks retain.
    pub retained: bool,
}

/// Returns milliseconds, on the engine's clock.
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

impl Subject {
    /// Makes one for a process, from now on.
    pub fn of(process: u32, retained: bool) -> Result<Subject, Error> {
        let (memory, engines) = masu_inspect::engines(process)?;
        Ok(Subject { memory, engines, since: now(), retained })
    }

    /// Reads the profile. `None` if the process has not noticed it so far.
    pub fn look(&mut self) -> Result<Option<Profile>, Error> {
        let Some(mut profile) = self.places()? else { return Ok(None) };
        map(&mut profile)?;
        Ok(Some(profile))
    }

    /// Reads it without the mappings, which only the names of functions need.
    pub fn places(&mut self) -> Result<Option<Profile>, Error> {
        let memory = &self.memory;
        let mut profile = Profile { pid: memory.process, outside: true, ..Profile::default() };
        let mut any = false;
        for engine in &mut self.engines {
            let state = engine.profile_state(memory)?;
            if state.session == 0 || state.rate == 0 {
                continue;
            }
            any = true;
            let samples = engine.samples(memory)?;
            profile.rate = state.rate;
            profile.dropped += samples.dropped;
            let age = now().saturating_sub(samples.begun);
            profile.milliseconds = profile.milliseconds.max(age);
            let held = if self.retained {
                engine.look(memory)?;
                Some(retained(memory, engine, &samples)?)
            } else {
                None
            };
            add(&mut profile, &samples, held.as_ref(), self.since);
        }
        Ok(any.then_some(profile))
    }
}

/// Adds the mappings of files' code in the profile's process.
pub fn map(profile: &mut Profile) -> Result<(), Error> {
    // Files may have any name.
    profile.set_mappings(&String::from_utf8_lossy(&find::maps(profile.pid)?));
    let id = memory_id(profile.pid).to_string();
    profile.find_deleted(&id);
    if let Some((root, shown)) = other_root(&id) {
        for Mapping { path, file, .. } in &mut profile.mappings {
            let inside = path.strip_prefix(&shown).or_else(|_| path.strip_prefix("/"));
            file.get_or_insert_with(|| root.join(inside.unwrap_or(path)));
        }
    }
    Ok(())
}

/// Returns where the root of a process is, if it has other mounts than this process, and what the kernel calls it in the
/// paths of the mapped files. Among the same mounts, these paths are this process's, whatever that one's root is.
fn other_root(process: &str) -> Option<(PathBuf, PathBuf)> {
    let space = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    let root = PathBuf::from(format!("/proc/{process}/root"));
    let shown = fs::read_link(&root).unwrap_or_else(|_| "/".into());
    (space("self") != space(process)).then_some((root, shown))
}

fn amount(seen: Seen) -> Amount {
    Amount { objects: seen.blocks(), bytes: seen.bytes as f64 }
}

/// Adds the data of one copy of masu.
fn add(profile: &mut Profile, samples: &Samples, held: Option<&Retained>, since: u64) {
    let mut grown = vec![Seen::default(); samples.sites.len()];
    for sample in samples.live.iter().filter(|sample| sample.born >= since) {
        if let Some(sum) = grown.get_mut(sample.site) {
            sum.objects += sample.amount.objects;
            sum.bytes += sample.amount.bytes;
        }
    }
    for (i, site) in samples.sites.iter().enumerate() {
        let share = held.and_then(|held| held.sites.get(i)).copied();
        let Share { bytes, blocks } = share.unwrap_or_default();
        profile.places.push(Place {
            size: site.size,
            samples: site.samples,
            squares: site.squares,
            allocated: amount(site.allocated),
            live: amount(site.live),
            peak: amount(site.peak),
            lived: site.lived as f64,
            grown: amount(grown[i]),
            retained: Amount { objects: blocks, bytes },
            frames: site.frames.clone(),
        });
    }
    if let Some(held) = held {
        let milliseconds = now().saturating_sub(samples.begun);
        let free = profile.free.get_or_insert(Free::default());
        free.bytes += held.free;
        free.unknown += held.unknown;
        free.samples += held.samples;
        free.milliseconds = free.milliseconds.max(milliseconds);
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::ffi::OsStrExt as _;
    use std::process::Command;

    use masu_profile::files;

    use super::*;

    /// As in a jail, and as in a container within another root.
    #[test]
    fn the_files_of_a_process_with_a_root_of_its_own_are_found() {
        const SCRIPT: &str = "set -e; cd \"$0\"; sleep=$(command -v sleep)
            for file in $sleep $(ldd $sleep | grep -o '/[^ ]*'); do
                mkdir -p .$(dirname $file); cp $file .$file
            done
            exec \"$@\" chroot . $sleep 60";
        for before in [&["env"][..], &["unshare", "-m"]] {
            let place = tempfile::tempdir().unwrap();
            let mut command = Command::new("sh");
            command.args(["-c", SCRIPT]).arg(place.path()).args(before);
            let mut other = command.spawn().unwrap();
            let comm = format!("/proc/{}/comm", other.id());
            // The program, the loader and the C library.
            let ids: Vec<String> = loop {
                if other.try_wait().unwrap().is_some() {
                    // This takes rights.
                    break Vec::new();
                }
                let is_there = fs::read_to_string(&comm).is_ok_and(|name| name == "sleep\n");
                let mut profile = Profile { pid: other.id(), ..Profile::default() };
                let is_there = is_there && map(&mut profile).is_ok();
                profile.mappings.retain(Mapping::has_file);
                if is_there && profile.mappings.len() >= 3 {
                    break profile.mappings.iter().map(|it| files::build_id(it.file())).collect();
                }
            };
            let _ = other.kill();
            other.wait().unwrap();
            assert!(ids.iter().all(|id| !id.is_empty()), "{before:?}: {ids:?}");
        }
    }

    #[test]
    fn a_mapped_file_may_have_any_name() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(OsStr::from_bytes(b"\xff"));
        fs::write(&path, [0; 4096]).unwrap();
        let file = fs::File::open(&path).unwrap();
        let (at, may, how) = (std::ptr::null_mut(), libc::PROT_READ, libc::MAP_PRIVATE);
        // SAFETY: a new mapping, wherever there is room, which stays.
        let at = unsafe { libc::mmap(at, 4096, may, how, file.as_raw_fd(), 0) };
        assert_ne!(at, libc::MAP_FAILED);
        let mut profile = Profile { pid: std::process::id(), ..Profile::default() };
        map(&mut profile).unwrap();
        assert!(!profile.mappings.is_empty());
    }
}
