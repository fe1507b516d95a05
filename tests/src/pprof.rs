//! Reads a profile as strictly as any reader: every number refers to something, and no id is zero.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use crate::scratch;

/// A sample: its functions, innermost first, and its values.
pub struct Sample {
    /// The functions.
    pub functions: Vec<String>,
    /// A value for each type.
    pub values: Vec<i64>,
}

/// A mapping of a file's code.
pub struct Mapping {
    /// The file.
    pub file: String,
    /// The file's build ID in hexadecimal; empty if it has none.
    pub build_id: String,
}

/// A profile with every number resolved.
pub struct Decoded {
    /// The sample types.
    pub types: Vec<String>,
    /// The samples.
    pub samples: Vec<Sample>,
    /// The mappings, the program's own first.
    pub mappings: Vec<Mapping>,
    /// Bytes between two samples.
    pub period: u64,
    /// The type that is shown first.
    pub default: String,
    /// The nanoseconds that it is of.
    pub duration: u64,
}

/// A field of a message.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, by number.
struct Message<'a>(Vec<(u64, Field<'a>)>);

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut n = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().expect("a number is whole");
        *bytes = rest;
        n |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return n;
        }
    }
    panic!("a number has at most ten bytes");
}

impl<'a> Message<'a> {
    fn of(mut bytes: &'a [u8]) -> Message<'a> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let value = match key & 7 {
                0 => Field::Number(varint(&mut bytes)),
                2 => {
                    let len = usize::try_from(varint(&mut bytes)).expect("short");
                    let (value, rest) = bytes.split_at(len);
                    bytes = rest;
                    Field::Bytes(value)
                }
                kind => panic!("a field of kind {kind}"),
            };
            fields.push((key >> 3, value));
        }
        Message(fields)
    }

    fn number(&self, field: u64) -> u64 {
        let mut found = self.0.iter().filter_map(|(number, value)| match value {
            Field::Number(n) if *number == field => Some(*n),
            _ => None,
        });
        found.next().unwrap_or(0)
    }

    fn all(&self, field: u64) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter_map(move |(number, value)| match value {
            Field::Bytes(bytes) if *number == field => Some(*bytes),
            _ => None,
        })
    }

    fn packed(&self, field: u64) -> Vec<u64> {
        let mut numbers = Vec::new();
        for mut bytes in self.all(field) {
            while !bytes.is_empty() {
                numbers.push(varint(&mut bytes));
            }
        }
        numbers
    }
}

fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut gzip = Command::new("gzip")
        .arg("-dc")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("gzip");
    let (mut input, packed) = (gzip.stdin.take().expect("a pipe"), packed.to_vec());
    let writer = std::thread::spawn(move || input.write_all(&packed));
    let out = gzip.wait_with_output().expect("it ends");
    writer.join().expect("it ends").expect("it reads");
    assert!(out.status.success(), "the profile is compressed");
    out.stdout
}

/// What `go tool pprof` makes of a profile, which it checks first.
///
/// # Panics
/// It cannot read the profile, or there is no Go.
pub fn go(options: &[&str], packed: &[u8]) -> String {
    // The first call builds pprof, in a minute of processor time; two at once would both build it.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let place = scratch();
    let file = place.path().join("heap.pb.gz");
    fs::write(&file, packed).expect("written");
    let mut command = Command::new("go");
    command
        .args(["tool", "pprof", "-symbolize=none"])
        .args(options)
        .arg(&file)
        // pprof needs no settings, but Go keeps its builds in the user's cache.
        .env("XDG_CONFIG_HOME", place.path());
    let out = command.stdin(Stdio::null()).output().expect("go is installed: tests/install-tools");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

impl Decoded {
    /// Decodes a file.
    ///
    /// # Panics
    /// A reader would refuse it.
    pub fn of(packed: &[u8]) -> Decoded {
        let bytes = unpacked(packed);
        let file = Message::of(&bytes);
        let strings: Vec<String> =
            file.all(6).map(|s| String::from_utf8(s.to_vec()).expect("UTF-8")).collect();
        assert_eq!(strings[0], "", "the first string is empty");
        let string = |n: u64| strings[usize::try_from(n).expect("small")].clone();
        let by_id = |field| {
            let mut all = HashMap::new();
            for message in file.all(field).map(Message::of) {
                let id = message.number(1);
                assert_ne!(id, 0, "an id of zero in field {field}");
                assert!(all.insert(id, message).is_none(), "id {id} twice in field {field}");
            }
            all
        };
        let (mappings, locations, functions) = (by_id(3), by_id(4), by_id(5));
        let names: HashMap<u64, String> =
            functions.iter().map(|(&id, function)| (id, string(function.number(2)))).collect();
        assert!(names.values().all(|name| !name.is_empty()), "a function without a name");
        let frames: HashMap<u64, Vec<String>> = locations
            .iter()
            .map(|(&id, location)| {
                let mapping = &mappings[&location.number(2)];
                let (start, end, at) = (mapping.number(2), mapping.number(3), location.number(3));
                assert!(end == 0 || (start..end).contains(&at), "{at:x} is not in its mapping");
                let lines = location.all(4).map(|line| names[&Message::of(line).number(1)].clone());
                (id, lines.collect())
            })
            .collect();
        let types: Vec<String> = file.all(1).map(|t| string(Message::of(t).number(1))).collect();
        let samples = file.all(2).map(Message::of).map(|sample| {
            let values: Vec<i64> = sample
                .packed(2)
                .into_iter()
                .map(|n| i64::try_from(n).expect("not negative"))
                .collect();
            assert_eq!(values.len(), types.len(), "a value for each type");
            let functions = sample.packed(1).iter().flat_map(|id| frames[id].clone()).collect();
            Sample { functions, values }
        });
        let now = UNIX_EPOCH.elapsed().expect("after 1970").as_nanos();
        let age = now.saturating_sub(file.number(9).into());
        assert!(age < 60_000_000_000, "{age} ns old");
        let mapping = |mapping: Message| Mapping {
            file: string(mapping.number(5)),
            build_id: string(mapping.number(6)),
        };
        Decoded {
            samples: samples.collect(),
            mappings: file.all(3).map(Message::of).map(mapping).collect(),
            duration: file.number(10),
            period: file.number(12),
            default: string(file.number(14)),
            types,
        }
    }

    /// One that a collector has asked for: of this moment, for Pyroscope refuses old ones, and Parca takes one with a
    /// duration for a difference.
    ///
    /// # Panics
    /// A reader would refuse it.
    pub fn for_collectors(packed: &[u8]) -> Decoded {
        let decoded = Decoded::of(packed);
        assert_eq!(decoded.duration, 0);
        decoded
    }

    /// Panics unless the profile shows where the code of a program and of its C library is, by files and their build
    /// IDs, which symbol servers go by.
    pub fn names_files(&self, program: &str) {
        let id = |file: &str| {
            let found = self.mappings.iter().find(|mapping| mapping.file.ends_with(file));
            &*found.unwrap_or_else(|| panic!("{file} is not among the mappings")).build_id
        };
        assert!(self.mappings[0].file.ends_with(program), "{}", self.mappings[0].file);
        for id in [id(program), id("/libc.so.6")] {
            let is_hexadecimal = id.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(id.len() == 40 && is_hexadecimal, "a build ID: {id:?}");
        }
    }

    /// The sum of what a function itself allocated.
    pub fn sum(&self, kind: &str, function: &str) -> i64 {
        let kind = self.types.iter().position(|name| name == kind).expect("a type");
        let of = self.samples.iter().filter(|s| s.functions.first().is_some_and(|f| f == function));
        of.map(|sample| sample.values[kind]).sum()
    }
}
