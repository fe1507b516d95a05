//! The profile in the format of pprof and its other readers: a compressed protocol buffer.
//!
//! The message has few fields, which are written here individually; the numbers are those of `profile.proto`.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::files::build_id;
use crate::raw::{Amount, Place, Profile};
use crate::stacks::OTHERS;
use crate::symbols::{Frame, Symbols};
use crate::view::View;

/// What a pair of sample types says of a call stack.
type Figure = fn(&Place) -> Amount;

/// The sample types: pairs of objects and bytes, each with a name and a figure. The last two are only in profiles that
/// have them.
const TYPES: [(&str, Figure); 5] = [
    ("alloc", |place| place.allocated),
    ("inuse", |place| place.live),
    ("peak", |place| place.peak),
    ("grown", |place| place.grown),
    ("retained", |place| place.retained),
];
/// How many of these pairs Go's heap profiles have.
const GO: usize = 2;

/// Frames that a reader omits once it knows their names, together with the frames they called: the allocator itself.
const DROPPED_FRAMES: &str =
    "(__rust_|__rdl_|__rg_|alloc::alloc::|<?&?(masu::global|masu_core)::).*";

/// The address of stacks that are not known: no code is there.
const UNKNOWN: u64 = 0;

/// Returns the file's bytes, with all sample types that the profile has.
pub fn encode(profile: &Profile, symbols: &Symbols, view: View) -> io::Result<Vec<u8>> {
    let types: Vec<_> = TYPES
        .into_iter()
        .filter(|&(name, _)| match name {
            "grown" => profile.outside,
            "retained" => profile.free.is_some(),
            _ => true,
        })
        .collect();
    encode_types(profile, symbols, view, &types, profile.milliseconds)
}

/// The same as Go's programs serve it. It has no other sample types than theirs: Alloy subtracts each profile from the
/// next one, and has room for four values a sample. It is of this moment and no period, whenever sampling began: its time
/// is where collectors enter it, Pyroscope refuses old ones, and Parca takes one with a duration for a difference.
/// `view` must be of these types.
pub fn encode_for_collectors(
    profile: &Profile,
    symbols: &Symbols,
    view: View,
) -> io::Result<Vec<u8>> {
    encode_types(profile, symbols, view, &TYPES[..GO], 0)
}

/// `milliseconds`: the period that the profile is of, before it was taken.
fn encode_types(
    profile: &Profile,
    symbols: &Symbols,
    view: View,
    types: &[(&str, Figure)],
    milliseconds: u64,
) -> io::Result<Vec<u8>> {
    let mut file = Message::default();
    let mut strings = Strings::default();
    strings.id("");
    for (name, _) in types {
        for (figure, unit) in [("objects", "count"), ("space", "bytes")] {
            file.message(1, &value_type(&mut strings, &format!("{name}_{figure}"), unit));
        }
    }
    let others = [Frame { name: OTHERS.into(), file: None, line: 0 }];
    // A location is an address; its lines are the functions inlined there, innermost first.
    let mut locations: HashMap<u64, u64> = HashMap::new();
    let mut functions: HashMap<(String, String), u64> = HashMap::new();
    let (mut location_part, mut function_part) = (Message::default(), Message::default());
    // A stack that an earlier profile has as well is one sample: their sum.
    let mut sums: BTreeMap<(&[u64], u64), Vec<Amount>> = BTreeMap::new();
    for place in &profile.places {
        let sum = sums.entry((&place.frames, place.size)).or_default();
        sum.resize(types.len(), Amount::default());
        for (sum, (_, figure)) in sum.iter_mut().zip(types) {
            let Amount { objects, bytes } = figure(place);
            (sum.objects, sum.bytes) = (sum.objects + objects, sum.bytes + bytes);
        }
    }
    for ((frames, size), sum) in sums {
        let mut sample = Message::default();
        let mut ids = Message::default();
        // Readers leave out what has no location.
        let frames = if frames.is_empty() { &[UNKNOWN][..] } else { frames };
        for &address in frames {
            let next = locations.len() as u64 + 1;
            let id = *locations.entry(address).or_insert(next);
            ids.varint(id);
            if id != next {
                continue;
            }
            let call = address.saturating_sub(1);
            let mut location = Message::default();
            location.number(1, id);
            let mapping = profile.mappings.iter().position(|m| (m.start..m.end).contains(&call));
            // Addresses outside every file belong to the last mapping, which exists for them.
            location.number(2, mapping.unwrap_or(profile.mappings.len()) as u64 + 1);
            location.number(3, call);
            let frames = if address == UNKNOWN { &others[..] } else { symbols.get(address) };
            for frame in frames {
                let source = frame.file.clone().unwrap_or_default();
                let next = functions.len() as u64 + 1;
                let function =
                    *functions.entry((frame.name.clone(), source.clone())).or_insert(next);
                if function == next {
                    let mut part = Message::default();
                    part.number(1, function);
                    part.number(2, strings.id(&frame.name));
                    part.number(3, strings.id(&frame.name));
                    part.number(4, strings.id(&source));
                    function_part.message(5, &part);
                }
                let mut line = Message::default();
                line.number(1, function);
                line.number(2, frame.line.into());
                location.message(4, &line);
            }
            location_part.message(4, &location);
        }
        sample.message(1, &ids);
        let mut values = Message::default();
        for Amount { objects, bytes } in sum {
            // Negative if an earlier profile was subtracted.
            values.varint(objects.round() as i64 as u64);
            values.varint(bytes.round() as i64 as u64);
        }
        sample.message(2, &values);
        let mut label = Message::default();
        label.number(1, strings.id("bytes"));
        label.number(3, size);
        label.number(4, strings.id("bytes"));
        sample.message(3, &label);
        file.message(2, &sample);
    }
    mappings(profile, !symbols.is_empty(), &mut file, &mut strings);
    file.append(location_part);
    file.append(function_part);
    let period = value_type(&mut strings, "space", "bytes");
    let default = strings.id(view.sample_type());
    let dropped = strings.id(DROPPED_FRAMES);
    for string in &strings.list {
        file.bytes(6, string.as_bytes());
    }
    file.number(7, dropped);
    let end = profile.taken.unwrap_or_else(SystemTime::now);
    let end = end.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    file.number(9, end.saturating_sub(milliseconds * 1_000_000));
    file.number(10, milliseconds * 1_000_000);
    file.message(11, &period);
    file.number(12, profile.rate);
    file.number(14, default);
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(&file.0)?;
    packed.finish()
}

fn mappings(profile: &Profile, are_named: bool, file: &mut Message, strings: &mut Strings) {
    let mut build_ids: HashMap<&Path, String> = HashMap::new();
    for (i, mapping) in profile.mappings.iter().enumerate() {
        let id = build_ids.entry(mapping.file()).or_insert_with(|| {
            if mapping.has_file() { build_id(mapping.file()) } else { String::new() }
        });
        let mut part = Message::default();
        part.number(1, i as u64 + 1);
        part.number(2, mapping.start);
        part.number(3, mapping.end);
        part.number(4, mapping.offset);
        part.number(5, strings.id(&mapping.path.to_string_lossy()));
        part.number(6, strings.id(id));
        // If functions are looked up already, readers need not do so.
        for field in (7..=10).filter(|_| are_named) {
            part.number(field, 1);
        }
        file.message(3, &part);
    }
    let mut rest = Message::default();
    rest.number(1, profile.mappings.len() as u64 + 1);
    rest.number(5, strings.id("[generated or unloaded code]"));
    rest.number(7, 1);
    file.message(3, &rest);
}

fn value_type(strings: &mut Strings, name: &str, unit: &str) -> Message {
    let mut message = Message::default();
    message.number(1, strings.id(name));
    message.number(2, strings.id(unit));
    message
}

/// The table of strings; the first is empty.
#[derive(Default)]
struct Strings {
    list: Vec<String>,
    ids: HashMap<String, u64>,
}

impl Strings {
    fn id(&mut self, string: &str) -> u64 {
        if let Some(&id) = self.ids.get(string) {
            return id;
        }
        let id = self.list.len() as u64;
        self.list.push(string.to_owned());
        self.ids.insert(string.to_owned(), id);
        id
    }
}

/// A message being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    fn number(&mut self, field: u64, n: u64) {
        if n != 0 {
            self.varint(field << 3);
            self.varint(n);
        }
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, part: &Message) {
        self.bytes(field, &part.0);
    }

    fn append(&mut self, part: Message) {
        self.0.extend(part.0);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::time::Duration;

    use flate2::read::GzDecoder;

    use super::*;
    use crate::raw::Free;

    type Encode = fn(&Profile, &Symbols, View) -> io::Result<Vec<u8>>;

    /// The bytes of the file before they are compressed.
    fn encoded(encode: Encode, profile: &Profile) -> Vec<u8> {
        let packed = encode(profile, &Symbols::none(), View::Live).unwrap();
        let mut bytes = Vec::new();
        GzDecoder::new(&*packed).read_to_end(&mut bytes).unwrap();
        bytes
    }

    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        n
    }

    /// A number among the file's own fields, or 0.
    fn number(mut bytes: &[u8], field: u64) -> u64 {
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let n = varint(&mut bytes);
            match key & 7 {
                0 if key >> 3 == field => return n,
                2 => bytes = &bytes[n as usize..],
                _ => {}
            }
        }
        0
    }

    #[test]
    fn collectors_get_the_sample_types_of_go_alone() {
        let free = Some(Free::default());
        let profile = Profile { outside: true, free, ..Profile::default() };
        let types = |encode: Encode| -> Vec<&'static str> {
            let bytes = encoded(encode, &profile);
            let has = |name: &&str| {
                let name = format!("{name}_space");
                bytes.windows(name.len()).any(|part| part == name.as_bytes())
            };
            TYPES.iter().map(|&(name, _)| name).filter(has).collect()
        };
        assert_eq!(types(encode), ["alloc", "inuse", "peak", "grown", "retained"]);
        assert_eq!(types(encode_for_collectors), ["alloc", "inuse"]);
    }

    #[test]
    fn collectors_get_profiles_of_the_moment() {
        let profile = Profile { milliseconds: 7_200_000, ..Profile::default() };
        let time = |encode: Encode| {
            let bytes = encoded(encode, &profile);
            let now = UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
            ((now - number(&bytes, 9)) / 3_600_000_000_000, number(&bytes, 10))
        };
        // Hours ago, and nanoseconds.
        assert_eq!(time(encode), (2, 7_200_000_000_000));
        assert_eq!(time(encode_for_collectors), (0, 0));
        let taken = Some(UNIX_EPOCH + Duration::from_secs(7_200));
        let saved = encoded(encode, &Profile { milliseconds: 1000, taken, ..profile });
        assert_eq!(number(&saved, 9), 7_199_000_000_000);
    }

    /// `go tool pprof -top` shows no sample without a location.
    #[test]
    fn stacks_that_are_not_known_have_a_name() {
        let places = vec![Place { samples: 1, ..Place::default() }];
        let bytes = encoded(encode, &Profile { places, ..Profile::default() });
        assert!(bytes.windows(OTHERS.len()).any(|part| part == OTHERS.as_bytes()));
        // A location with its ID and a line.
        assert!(bytes.windows(4).any(|part| part[0] == 4 << 3 | 2 && part[2..] == [1 << 3, 1]));
    }
}
