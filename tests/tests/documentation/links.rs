//! Links between pages lead somewhere, and to every page.

use std::fs;

use masu_tests::pages::pages;
use masu_tests::workspace;

/// Links to other files of the project, in all its pages.
#[test]
fn links_lead_somewhere() {
    let pages = pages(workspace());
    assert!(pages.len() > 40, "{pages:?}");
    let mut broken = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).expect("text");
        for rest in text.split("](").skip(1) {
            let target = rest.split(')').next().expect("a target");
            let (file, part) = target.split_once('#').unwrap_or((target, ""));
            if file.contains("://") {
                continue;
            }
            let other = match file {
                "" => page.clone(),
                file => page.parent().expect("a directory").join(file),
            };
            let heading = |line: &str| {
                let mut words = line.trim_start_matches('#').trim().to_lowercase();
                words.retain(|c| c.is_alphanumeric() || "-_ ".contains(c));
                line.starts_with('#') && words.replace(' ', "-") == part
            };
            let found = part.is_empty()
                || fs::read_to_string(&other).is_ok_and(|text| text.lines().any(heading));
            if !other.exists() || !found {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Each page is in the table of contents.
#[test]
fn every_page_is_in_the_index() {
    let index = fs::read_to_string(workspace().join("docs/README.md")).expect("docs/README.md");
    for file in fs::read_dir(workspace().join("docs")).expect("docs") {
        let name = file.expect("a file").file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") && name != "README.md" {
            assert!(index.contains(&format!("]({name})")), "{name} is not in docs/README.md");
        }
    }
}
