//! The bill of materials.

use std::fs;
use std::path::Path;
use std::process::Command;

use masu_tests::{left_out, scratch, tool, workspace};

use crate::{output, package, succeed, text};

/// Packages need it for the licences in them, even those of a finished build.
#[test]
fn a_bill_of_materials_without_cargo_says_so() {
    // Not before Python runs: that may be a script itself.
    let program = "import os, runpy, sys\n\
                   os.environ['PATH'] = '/nowhere'\n\
                   runpy.run_path(sys.argv.pop(1), run_name='__main__')";
    let mut bill = Command::new(tool("python3"));
    let done = output(bill.args(["-c", program]).arg(workspace().join("packaging/sbom")));
    assert_eq!(text(&done.stderr), "sbom: cargo is missing: https://rustup.rs\n");
    assert_eq!(done.status.code(), Some(1));
}

/// The schema of CycloneDX knows every field, and has no other.
#[test]
fn bills_of_materials_keep_to_the_schema() {
    // Where tests/install-tools puts the library.
    let python = Path::new("/opt/masu-tests/bin/python3");
    let has = |module: &str| {
        let mut import = Command::new(python);
        import
            .args(["-c", &format!("import {module}")])
            .output()
            .is_ok_and(|done| done.status.success())
    };
    if !has("cyclonedx") {
        let because = "cyclonedx-python-lib is not installed in /opt/masu-tests";
        return left_out("the schema of the bill of materials", because);
    }
    let program = "
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(open(sys.argv[1]).read())
if error: sys.exit(str(error))
";
    let place = scratch();
    let mut make = Command::new(workspace().join("packaging/sbom"));
    succeed(make.arg("--out").arg(place.path()));
    for name in ["libmasu-", "masu-"] {
        let bill = package(place.path(), name, ".cdx.json");
        succeed(Command::new(python).args(["-c", program]).arg(&bill));
        // A field that the schema does not have.
        let wrong = fs::read_to_string(&bill).expect("a bill").replacen("\"purl\"", "\"pearl\"", 1);
        fs::write(&bill, wrong).expect("written");
        let done = output(Command::new(python).args(["-c", program]).arg(&bill));
        assert!(!done.status.success() && text(&done.stderr).contains("pearl"), "{done:?}");
    }
}

/// The bill of materials names the files' contents, with the checksums of the lock file, and is reproducible.
#[test]
fn the_bill_of_materials_names_what_is_inside() {
    let places = [scratch(), scratch()];
    let bills = places.each_ref().map(|place| {
        let mut make = Command::new(workspace().join("packaging/sbom"));
        succeed(make.arg("--out").arg(place.path()));
        ["libmasu-", "masu-"].map(|name| {
            fs::read_to_string(package(place.path(), name, ".cdx.json")).expect("a bill")
        })
    });
    assert_eq!(bills[0], bills[1]);
    let [library, command] = bills[0].each_ref().map(|bill| {
        let bill: serde_json::Value = serde_json::from_str(bill).expect("JSON");
        assert_eq!(bill["bomFormat"], "CycloneDX");
        let all = bill["components"].as_array().expect("components").clone();
        all.into_iter()
            .map(|one| (one["name"].as_str().unwrap().to_owned(), one))
            .collect::<Vec<_>>()
    });
    let names = |bill: &[(String, serde_json::Value)]| -> Vec<String> {
        bill.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&library), ["masu-core", "masu-unwind"]);
    let command_names = names(&command);
    for name in ["masu-core", "masu-bench", "clap", "object"] {
        assert!(command_names.iter().any(|other| other == name), "no {name} in {command_names:?}");
    }
    for name in ["loom", "insta", "masu-lab", "serde_derive"] {
        assert!(!command_names.iter().any(|other| other == name), "{name} is in no file");
    }
    let notices = scratch();
    let notices = notices.path().join("notices.txt");
    let mut make = Command::new(workspace().join("packaging/sbom"));
    succeed(make.arg("--notices").arg(&notices));
    let notices = fs::read_to_string(notices).expect("notices");
    assert!(notices.contains("Permission is hereby granted"), "{notices}");
    let lock = fs::read_to_string(workspace().join("Cargo.lock")).expect("Cargo.lock");
    for (name, one) in command.iter().filter(|(name, _)| !name.starts_with("masu")) {
        let sum =
            one["hashes"][0]["content"].as_str().unwrap_or_else(|| panic!("{name} has no sum"));
        assert!(lock.contains(sum), "{name}");
        let licence = one["licenses"][0]["expression"].as_str();
        let licence = licence.unwrap_or_else(|| panic!("{name} has no licence"));
        assert!(!licence.contains("  "), "{name}: {licence}");
        let line = format!("\n{name} {}: ", one["version"].as_str().expect("a version"));
        assert!(notices.contains(&line), "{name} is not in the notices");
    }
}
