//! Folded stacks, one per line, and the flame graph made from them.

use std::collections::BTreeMap;

#[cfg(feature = "flame")]
use inferno::flamegraph::{self, Options, Palette, color::BasicPalette};

use crate::raw::Profile;
use crate::symbols::Symbols;
use crate::view::View;

/// The name of all stacks that are not known.
pub(crate) const OTHERS: &str = "(other stacks)";

/// Returns `outer;inner BYTES` for every stack.
pub fn folded(profile: &Profile, symbols: &Symbols, view: View) -> Vec<String> {
    let mut stacks: BTreeMap<String, f64> = BTreeMap::new();
    for place in &profile.places {
        let mut names: Vec<String> = symbols
            .stack(&place.frames)
            .map(|frame| frame.name.replace(|c: char| c == ';' || c.is_control(), ":"))
            .collect();
        // Readers take a number between the stack and its bytes for another count.
        if let Some(inner) = names.first_mut()
            && let Some((name, end)) = inner.rsplit_once(' ')
            && end.chars().all(|c| c.is_ascii_digit() || c == '.')
        {
            *inner = format!("{name}:{end}");
        }
        names.reverse();
        if names.is_empty() {
            names.push(OTHERS.into());
        }
        *stacks.entry(names.join(";")).or_default() += view.of(place).bytes;
    }
    let lines = stacks.into_iter().filter(|(_, bytes)| *bytes >= 0.5);
    lines.map(|(stack, bytes)| format!("{stack} {bytes:.0}")).collect()
}

/// Returns the flame graph: a picture, or a complete page with the given text above it. `Err` means there is nothing to
/// show.
#[cfg(feature = "flame")]
pub fn flame(lines: &[String], view: View, page: Option<&str>) -> Result<Vec<u8>, String> {
    let mut options = Options::default();
    options.title = view.title().into();
    options.count_name = "bytes".into();
    options.colors = Palette::Basic(BasicPalette::Mem);
    options.deterministic = true;
    options.hash = true;
    let mut picture = Vec::new();
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut picture)
        .map_err(|error| error.to_string())?;
    let Some(above) = page else { return Ok(picture) };
    let text = String::from_utf8_lossy(&picture);
    let svg = text.find("<svg").map_or(&*text, |at| &text[at..]);
    let title = view.title();
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <style>body {{ margin: 0 }}</style>\n{above}{svg}\n</html>\n"
    )
    .into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::{Amount, Place};
    use crate::symbols::Frame;

    /// XML, of which pictures are made, forbids control characters.
    #[test]
    fn no_name_breaks_its_line_or_a_picture() {
        let mut symbols = Symbols::none();
        symbols.put(1, vec![Frame { name: "a;b\n\x1b[2Jc".into(), file: None, line: 0 }]);
        let live = Amount { objects: 1.0, bytes: 8.0 };
        let places = vec![Place { frames: vec![1], live, ..Place::default() }];
        let profile = Profile { places, ..Profile::default() };
        assert_eq!(folded(&profile, &symbols, View::Live), ["a:b::[2Jc 8"]);
    }

    #[test]
    fn a_number_in_a_name_is_no_count() {
        let mut symbols = Symbols::none();
        for (address, name) in [(1, "outer 7"), (2, "RegExp:foo 12"), (3, "foo 1.5"), (4, "v 2x")] {
            symbols.put(address, vec![Frame { name: name.into(), file: None, line: 0 }]);
        }
        let live = Amount { objects: 1.0, bytes: 8.0 };
        let place = |inner| Place { frames: vec![inner, 1], live, ..Place::default() };
        let profile = Profile { places: [2, 3, 4].map(place).into(), ..Profile::default() };
        let lines = folded(&profile, &symbols, View::Live);
        assert_eq!(lines, ["outer 7;RegExp:foo:12 8", "outer 7;foo:1.5 8", "outer 7;v 2x 8"]);
    }
}
