//! A profile, and the file that stores it.
//!
//! The library writes lines, as `masu_core`'s `prof/dump.rs` shows. A profile that a command has taken from outside
//! uses the same format, with two more pairs of numbers in each place's line, for grown and retained memory, and with
//! the process's memory over time.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The first line of the file.
pub const FIRST_LINE: &str = "masu heap profile 1";

/// A process's profile.
#[derive(Debug, Default, Clone)]
pub struct Profile {
    /// Average bytes between two samples.
    pub rate: u64,
    /// The process ID.
    pub pid: u32,
    /// Milliseconds of observation.
    pub milliseconds: u64,
    /// When it was taken, if that was not just now.
    pub taken: Option<SystemTime>,
    /// Samples that could not be stored.
    pub dropped: u64,
    /// Whether it was observed from outside, so that growth is known.
    pub outside: bool,
    /// Free memory in spans with blocks in use, if it is known whose blocks pin it.
    pub free: Option<Free>,
    /// Its memory over time, if it was watched.
    pub timeline: Vec<Moment>,
    /// The call stacks that allocated.
    pub places: Vec<Place>,
    /// The mappings of files' code.
    pub mappings: Vec<Mapping>,
}

/// Free memory in spans with blocks in use.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Free {
    /// Total resident bytes.
    pub bytes: f64,
    /// The part in spans of sizes without any sample.
    pub unknown: f64,
    /// The part in the spans of the samples themselves.
    pub samples: f64,
    /// Milliseconds from the start to this measurement.
    pub milliseconds: u64,
}

/// A process's memory at one moment, in KiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds since the first moment.
    pub milliseconds: u64,
    /// Resident.
    pub resident: u64,
    /// Free in masu and not given back.
    pub free: u64,
    /// Given back so far.
    pub back: u64,
}

/// A stack, and the blocks of one size that were allocated there.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// Bytes of a block: exact up to 16 KiB, otherwise the power of two below.
    pub size: u64,
    /// Samples taken there.
    pub samples: u64,
    /// The sum of the squared numbers of blocks that the samples stand for.
    pub squares: f64,
    /// Everything that was allocated.
    pub allocated: Amount,
    /// In use at the end.
    pub live: Amount,
    /// In use at the process's peak.
    pub peak: Amount,
    /// Total milliseconds that freed blocks lived.
    pub lived: f64,
    /// Allocated during the observation and in use at the end.
    pub grown: Amount,
    /// Free bytes that blocks in use pin in their spans, and the number of these blocks.
    pub retained: Amount,
    /// Return addresses, innermost first.
    pub frames: Vec<u64>,
}

/// Blocks and the bytes requested in them, estimated.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Amount {
    /// Blocks.
    pub objects: f64,
    /// Bytes.
    pub bytes: f64,
}

/// A mapping of a file's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Its first byte.
    pub start: u64,
    /// The byte after its last.
    pub end: u64,
    /// Its offset in the file.
    pub offset: u64,
    /// The file.
    pub path: PathBuf,
    /// Where the file can be opened, if not at that path.
    pub file: Option<PathBuf>,
}

impl Mapping {
    /// Returns where its file can be opened.
    pub fn file(&self) -> &Path {
        self.file.as_deref().unwrap_or(&self.path)
    }

    /// Whether its name is that of a file: others are of memory, into which code is generated.
    pub fn has_file(&self) -> bool {
        let is_memory = ["/memfd:", "/dev/zero", "//anon", "/SYSV"]
            .iter()
            .any(|start| self.path.to_string_lossy().starts_with(start));
        // A program may have been started from memory.
        let is_program = self.file.as_ref().is_some_and(|file| file.ends_with("exe"));
        self.path.is_absolute() && (!is_memory || is_program)
    }

    /// Returns its name without directories.
    #[cfg(feature = "symbols")]
    pub(crate) fn name(&self) -> std::borrow::Cow<'_, str> {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy()
    }
}

/// What is wrong with a file that ends too early.
const NOT_WHOLE: &str = "is incomplete: did the process end while writing it?";

impl Profile {
    /// Parses a file; `Err` says what is wrong with it.
    pub fn parse(text: &str) -> Result<Profile, String> {
        let mut lines = text.lines().enumerate();
        if lines.next().is_none_or(|(_, line)| line != FIRST_LINE) {
            return Err("is not a heap profile of masu".into());
        }
        let mut profile = Profile::default();
        let (mut ended, mut peak) = (false, None);
        for (number, line) in lines.by_ref() {
            let wrong = || match text.ends_with('\n') {
                true => format!("is damaged: line {} is `{line}`", number + 1),
                false => NOT_WHOLE.into(),
            };
            let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
            let value = || rest.parse().map_err(|_| wrong());
            match key {
                "rate" => profile.rate = value()?,
                "pid" => profile.pid = rest.parse().map_err(|_| wrong())?,
                "ms" => profile.milliseconds = value()?,
                "dropped" => profile.dropped = value()?,
                "peak" => peak = Some(value()?),
                "outside" => profile.outside = value()? != 0,
                "free" => profile.free = Some(free(rest).ok_or_else(wrong)?),
                "time" => profile.timeline.push(moment(rest).ok_or_else(wrong)?),
                "place" => profile.places.push(place(rest).ok_or_else(wrong)?),
                "maps" => {
                    ended = true;
                    break;
                }
                // Lines that a later version adds.
                _ => {}
            }
        }
        // The end is marked, so that a truncated file is not taken for a complete one.
        if !ended || profile.rate == 0 || !text.ends_with("\nend\n") {
            return Err(NOT_WHOLE.into());
        }
        profile.mappings = lines.filter_map(|(_, line)| mapping(line)).collect();
        if let Some(peak) = peak {
            profile.fit_peak(peak);
        }
        Ok(profile)
    }

    /// Returns its lines, without those of the mappings.
    fn lines(&self) -> String {
        let mut text = format!(
            "{FIRST_LINE}\nrate {}\npid {}\nms {}\ndropped {}\noutside {}\n",
            self.rate,
            self.pid,
            self.milliseconds,
            self.dropped,
            u8::from(self.outside)
        );
        if let Some(Free { bytes, unknown, samples, milliseconds }) = self.free {
            let _ = writeln!(text, "free {bytes:.0} {unknown:.0} {samples:.0} {milliseconds}");
        }
        for Moment { milliseconds, resident, free, back } in &self.timeline {
            let _ = writeln!(text, "time {milliseconds} {resident} {free} {back}");
        }
        for place in &self.places {
            let _ = write!(text, "place {} {}", place.size, place.samples);
            let _ = write!(text, " {:.0}", place.squares * 256.0);
            let pair = |of: Amount| format!(" {:.0} {:.0}", of.objects * 65536.0, of.bytes);
            text.extend([place.allocated, place.live, place.peak].map(pair));
            let _ = write!(text, " {:.0}", place.lived);
            text.extend([place.grown, place.retained].map(pair));
            text.push_str(" @");
            for frame in &place.frames {
                let _ = write!(text, " {frame:#x}");
            }
            text.push('\n');
        }
        text.push_str("maps\n");
        text
    }

    /// Returns its file.
    pub fn text(&self) -> String {
        let mut text = self.lines();
        for Mapping { start, end, offset, path, .. } in &self.mappings {
            let path = path.display();
            let _ = writeln!(text, "{start:x}-{end:x} r-xp {offset:08x} 00:00 0 {path}");
        }
        text.push_str("end\n");
        text
    }

    /// Makes what was in use at the peak no more than `most`, which the process's exact counters allow. The largest of
    /// many estimates is usually one that is too large.
    pub fn fit_peak(&mut self, most: u64) {
        let sum: f64 = self.places.iter().map(|place| place.peak.bytes).sum();
        let part = most as f64 / sum;
        if part < 1.0 {
            for Place { peak, .. } in &mut self.places {
                *peak = Amount { objects: peak.objects * part, bytes: peak.bytes * part };
            }
        }
    }

    /// Sets the mappings from the text of `/proc/PID/maps`.
    pub fn set_mappings(&mut self, maps: &str) {
        self.mappings = maps.lines().filter_map(mapping).collect();
    }

    /// Finds where the deleted files among the mappings can still be opened. `process` has them: its number, or `self`.
    pub fn find_deleted(&mut self, process: &str) {
        let exe = std::fs::read_link(format!("/proc/{process}/exe")).ok();
        for Mapping { start, end, path, file, .. } in &mut self.mappings {
            if path.to_string_lossy().ends_with(" (deleted)") {
                let is_program = exe.as_ref() == Some(path);
                let name = if is_program { "exe" } else { &format!("map_files/{start:x}-{end:x}") };
                *file = Some(format!("/proc/{process}/{name}").into());
            }
        }
    }

    /// Keeps, of everything allocated, only what was allocated after `base`, an earlier profile of the same session;
    /// drops places that have allocated nothing since and have nothing in use.
    pub fn allocated_since(&mut self, base: &Profile) {
        let mut before: HashMap<&[u64], BTreeMap<u64, Amount>> = HashMap::new();
        for place in &base.places {
            let sizes = before.entry(&place.frames).or_default();
            let sum = sizes.entry(place.size).or_default();
            sum.objects += place.allocated.objects;
            sum.bytes += place.allocated.bytes;
        }
        self.places.retain_mut(|place| {
            // Two copies of masu may have the same stack.
            let sizes = before.get_mut(&*place.frames);
            if let Some(left) = sizes.and_then(|sizes| sizes.get_mut(&place.size)) {
                let gone = Amount {
                    objects: left.objects.min(place.allocated.objects),
                    bytes: left.bytes.min(place.allocated.bytes),
                };
                if place.allocated.objects > 0.0 {
                    place.squares *= 1.0 - gone.objects / place.allocated.objects;
                }
                for (of, less) in [(&mut *left, gone), (&mut place.allocated, gone)] {
                    of.objects -= less.objects;
                    of.bytes -= less.bytes;
                }
            }
            place.allocated.bytes > 0.0 || place.live.bytes > 0.0
        });
    }

    /// Returns the mapping that contains a code address.
    pub fn mapping_of(&self, address: u64) -> Option<&Mapping> {
        self.mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))
    }
}

fn place(text: &str) -> Option<Place> {
    let (numbers, frames) = text.split_once(" @")?;
    let numbers: Vec<u64> = numbers.split(' ').map(|n| n.parse().ok()).collect::<Option<_>>()?;
    let [
        size,
        samples,
        squares,
        allocated,
        bytes,
        live,
        live_bytes,
        peak,
        peak_bytes,
        lived,
        ref rest @ ..,
    ] = numbers[..]
    else {
        return None;
    };
    let amount = |objects: u64, bytes: u64| Amount {
        objects: objects as f64 / 65536.0,
        bytes: bytes as f64,
    };
    let frames = frames
        .split_whitespace()
        .map(|frame| u64::from_str_radix(frame.strip_prefix("0x")?, 16).ok());
    let mut rest = rest.as_chunks::<2>().0.iter().map(|&[objects, bytes]| amount(objects, bytes));
    Some(Place {
        size,
        samples,
        squares: squares as f64 / 256.0,
        allocated: amount(allocated, bytes),
        live: amount(live, live_bytes),
        peak: amount(peak, peak_bytes),
        lived: lived as f64,
        grown: rest.next().unwrap_or_default(),
        retained: rest.next().unwrap_or_default(),
        frames: frames.collect::<Option<_>>()?,
    })
}

/// Parses the values of a `time` line.
fn moment(line: &str) -> Option<Moment> {
    let mut numbers = line.split(' ').map(|word| word.parse().ok());
    let mut next = || numbers.next()?;
    let (milliseconds, resident, free, back) = (next()?, next()?, next()?, next()?);
    Some(Moment { milliseconds, resident, free, back })
}

fn free(text: &str) -> Option<Free> {
    let numbers: Vec<f64> = text.split(' ').map(|n| n.parse().ok()).collect::<Option<_>>()?;
    let [bytes, unknown, samples, milliseconds] = numbers[..] else { return None };
    Some(Free { bytes, unknown, samples, milliseconds: milliseconds as u64 })
}

/// Parses a line of `/proc/PID/maps`, if it is of code.
fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (range, rights, offset) = (words.next()?, words.next()?, words.next()?);
    let path = words.nth(2)?.trim_start();
    if !rights.contains('x') || path.is_empty() {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let hex = |n: &str| u64::from_str_radix(n, 16).ok();
    Some(Mapping {
        start: hex(start)?,
        end: hex(end)?,
        offset: hex(offset)?,
        path: Path::new(path).into(),
        file: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "masu heap profile 1\nrate 4096\npid 7\nms 12\ndropped 3\nlive 1\n\
        place 64 2 1024 131072 128 65536 64 131072 120 40 @ 0x10 0xfF\nmaps\n\
        400-500 r-xp 00000010 fe:00 99                         /bin/a b\n\
        500-600 rw-p 00000000 00:00 0 \nend\n";

    #[test]
    fn a_profile_is_read() {
        let profile = Profile::parse(TEXT).unwrap();
        assert_eq!(
            (profile.rate, profile.pid, profile.milliseconds, profile.dropped),
            (4096, 7, 12, 3)
        );
        let place = &profile.places[0];
        assert_eq!((place.size, &place.frames[..]), (64, &[16, 255][..]));
        assert_eq!((place.samples, place.squares), (2, 4.0));
        assert_eq!(place.allocated, Amount { objects: 2.0, bytes: 128.0 });
        assert_eq!(place.live, Amount { objects: 1.0, bytes: 64.0 });
        assert_eq!((place.peak.bytes, place.lived), (120.0, 40.0));
        assert_eq!(profile.mappings.len(), 1);
        assert_eq!(profile.mapping_of(0x4ff).unwrap().path, Path::new("/bin/a b"));
        assert_eq!(profile.mapping_of(0x500), None);
    }

    #[test]
    fn memory_with_a_name_is_no_file() {
        let has_file = |path: &str, file: Option<&str>| {
            let file = file.map(Into::into);
            Mapping { start: 0, end: 1, offset: 0, path: path.into(), file }.has_file()
        };
        for name in [
            "/memfd:doublemapper (deleted)",
            "/dev/zero (deleted)",
            "[anon:v8]",
            "[vdso]",
            "//anon",
            "/SYSV00000000 (deleted)",
        ] {
            assert!(!has_file(name, Some("/proc/7/map_files/0-1")), "{name}");
        }
        assert!(has_file("/lib/memfd:x", None));
        assert!(has_file("/memfd:program (deleted)", Some("/proc/7/exe")));
    }

    #[test]
    fn a_program_that_was_replaced_is_found_in_its_process() {
        let place = tempfile::tempdir().unwrap();
        let own = place.path().join("own");
        std::fs::copy("/bin/sleep", &own).unwrap();
        let mut other = std::process::Command::new(&own).arg("60").spawn().unwrap();
        std::fs::remove_file(&own).unwrap();
        let process = other.id().to_string();
        let mut profile = Profile::default();
        // The kernel lets the parent go on shortly before the program is mapped.
        while profile.mappings.first().is_none_or(|first| !first.path.starts_with(place.path())) {
            let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
            profile.set_mappings(&maps);
        }
        profile.find_deleted(&process);
        let file = profile.mappings[0].file().to_owned();
        let ids = [&*file, Path::new("/bin/sleep")].map(crate::files::build_id);
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(file, Path::new(&format!("/proc/{process}/exe")));
        assert_eq!(ids[0], ids[1]);
    }

    #[test]
    fn a_peak_is_no_more_than_was_possible() {
        let of = |peak: &str| {
            let text = TEXT.replace("live 1\n", &format!("live 1\npeak {peak}\n"));
            Profile::parse(&text).unwrap().places[0].peak
        };
        assert_eq!(of("120"), Amount { objects: 2.0, bytes: 120.0 });
        assert_eq!(of("121"), of("120"));
        assert_eq!(of("30"), Amount { objects: 0.5, bytes: 30.0 });
        assert_eq!(of("0"), Amount::default());
    }

    #[test]
    fn what_is_written_is_read() {
        let mut profile = Profile::parse(TEXT).unwrap();
        profile.outside = true;
        profile.free = Some(Free { bytes: 9.0, unknown: 1.0, samples: 2.0, milliseconds: 30 });
        profile.places[0].grown = Amount { objects: 1.5, bytes: 96.0 };
        profile.places[0].retained = Amount { objects: 0.5, bytes: 7.0 };
        let again = Profile::parse(&profile.text()).unwrap();
        assert_eq!(format!("{again:?}"), format!("{profile:?}"));
    }

    #[test]
    fn of_what_was_allocated_only_the_later_part_counts() {
        let at = |frame, allocated: f64, live: f64| Place {
            size: 64,
            allocated: Amount { objects: allocated, bytes: allocated * 64.0 },
            live: Amount { objects: live, bytes: live * 64.0 },
            frames: vec![frame],
            ..Place::default()
        };
        let base = Profile { places: vec![at(1, 5.0, 0.0), at(2, 9.0, 9.0)], ..Profile::default() };
        // Place 2 occurs twice, as with two copies of masu; 3 is new, and 1 has done nothing since.
        let places = vec![at(1, 5.0, 0.0), at(2, 4.0, 4.0), at(2, 8.0, 8.0), at(3, 1.0, 0.0)];
        let mut later = Profile { places, ..Profile::default() };
        later.allocated_since(&base);
        let left: Vec<_> = later
            .places
            .iter()
            .map(|p| (p.frames[0], p.allocated.objects, p.live.objects))
            .collect();
        assert_eq!(left, [(2, 0.0, 4.0), (2, 3.0, 8.0), (3, 1.0, 0.0)]);
    }

    #[test]
    fn what_is_none_says_so() {
        for (text, said) in [
            ("", "not a heap profile"),
            ("heap_v2/524288\n", "not a heap profile"),
            ("masu heap profile 1\nrate 1\n", "is incomplete"),
            ("masu heap profile 1\nrate 1\nplace 16 1 6", "is incomplete"),
            ("masu heap profile 1\nrate 1\nmaps\n400-500 r-xp 0 0 0 /a\n", "is incomplete"),
            (TEXT.trim_end(), "is incomplete"),
            ("masu heap profile 1\nrate x\n", "line 2 is `rate x`"),
            ("masu heap profile 1\nrate 1\nplace 1 2 @\nmaps\n", "line 3"),
        ] {
            let error = Profile::parse(text).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
