//! Guesses what a mistyped word was meant to be.

/// The one of `words` that is `written` with at most one change.
pub fn by_one<'w>(written: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    within(1, written, words)
}

/// The one of `words` that is nearest to `written`, if at most a third of it would have to change. Two
/// letters that changed places are one change.
pub fn to<'w>(written: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    within(written.chars().count() / 3, written, words)
}

fn within<'w>(most: usize, written: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let written = written.to_lowercase();
    let far = |word: &&str| strsim::damerau_levenshtein(&written, &word.to_lowercase());
    let nearest = words.min_by_key(far)?;
    (far(&nearest) <= most).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_meant_if_it_is_near() {
        let words = ["default", "low-memory", "container"];
        let meant = |written| to(written, words.into_iter());
        assert_eq!(meant("contianer"), Some("container"));
        assert_eq!(meant("LOW_MEMORY"), Some("low-memory"));
        assert_eq!(meant("fast"), None);
        assert_eq!(meant(""), None);
        assert_eq!(by_one("containr", words.into_iter()), Some("container"));
        assert_eq!(by_one("contanr", words.into_iter()), None);
    }
}
