//! Where a program is, and who starts it: links, launchers, separate roots.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use masu_tests::{Compile, library, scratch, tool};

use crate::case::{Case, Served, has, left_out, masu, word};
use crate::probe;
use crate::truth::{self, LIBC};

/// A library beside the program, found by `$ORIGIN`, and links from elsewhere.
#[test]
fn links_and_libraries_beside_the_program() {
    let place = scratch();
    let (bin, lib) = (place.path().join("real/bin"), place.path().join("real/lib"));
    fs::create_dir_all(&bin).expect("made");
    fs::create_dir_all(&lib).expect("made");
    fs::write(place.path().join("beside.c"), "int beside(void) { return 1; }").expect("written");
    let source = place.path().join("beside.c");
    let library = Compile::with("gcc").flags(["-shared", "-fPIC", "-Wl,-soname,libbeside.so.1"]);
    fs::copy(library.file(source).build().path(), lib.join("libbeside.so.1")).expect("a copy");
    let program = Compile::with("gcc").flag("-Wl,--no-as-needed,-rpath,$ORIGIN/../lib");
    let program = probe(program.file(lib.join("libbeside.so.1")));
    fs::hard_link(program.path(), bin.join("probe")).expect("a second name");
    Case::new("$ORIGIN", [bin.join("probe")], LIBC, Served("masu")).check();
    let elsewhere = place.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("made");
    symlink("../real/bin/probe", elsewhere.join("one")).expect("a link");
    symlink("one", elsewhere.join("two")).expect("a link");
    Case::new("$ORIGIN by links", [elsewhere.join("two")], LIBC, Served("masu")).check();
    let relative = Case::new("by a path from here", ["./two"], LIBC, Served("masu"));
    Case { directory: Some(elsewhere), ..relative }.check();
}

#[test]
fn launchers_that_pass_the_environment_on() {
    let program = probe(Compile::with("gcc"));
    for words in [&["nice", "-n", "1"][..], &["env", "A=1"], &["timeout", "60"], &["nohup"]] {
        let command = words.iter().map(OsString::from).chain([program.path().into()]);
        Case::new("a launcher", command, LIBC, Served("masu")).check();
    }
    let kept = ["env", "-u", "LD_PRELOAD"].map(OsString::from).into_iter();
    let command = kept.chain([program.path().into()]);
    Case::new("a launcher that takes it away", command, LIBC, Served(LIBC)).check();
}

/// Whether `sudo` works without a password here, as it does for root.
fn sudo() -> bool {
    let may = || Command::new("sudo").args(["-n", "true"]).output();
    has("sudo", "sudo")
        && (may().is_ok_and(|done| done.status.success())
            || left_out("sudo", "it asks for a password"))
}

#[test]
fn sudo_gives_an_environment_of_its_own() {
    if !sudo() {
        return;
    }
    let program = probe(Compile::with("gcc"));
    let sudo = ["sudo", "-n"].map(OsString::from);
    let path = program.path().as_os_str().to_owned();
    let words = |more: &[OsString]| [&sudo, more, std::slice::from_ref(&path)].concat();
    // Preloads do not get through. (Not run under masu as another user: that is refused.)
    if is_root() {
        Case::new("sudo", words(&[]), LIBC, Served(LIBC)).check();
    }
    let lib = library().expect("masu").as_os_str().to_owned();
    let run = [masu().into(), "run".into(), "--lib".into(), lib.clone(), "--".into()];
    let show =
        [&sudo[..], &["MASU_SHOW_STATS=1".into()], &run, std::slice::from_ref(&path)].concat();
    Case::new("masu run behind sudo", show, "masu", Served("masu")).check_started();
    let mut preload = OsString::from("LD_PRELOAD=");
    preload.push(&lib);
    let words =
        [&sudo[..], &[preload, "MASU_SHOW_STATS=1".into()], std::slice::from_ref(&path)].concat();
    Case::new("LD_PRELOAD behind sudo", words, "masu", Served("masu")).check_started();
}

fn is_root() -> bool {
    // SAFETY: it has no preconditions.
    unsafe { libc::geteuid() == 0 }
}

/// Processes with another root: the doctor looks at their files as they see them.
#[test]
fn processes_in_other_mount_namespaces() {
    let place = scratch();
    let root = place.path().join("root");
    let program = probe(Compile::with("gcc"));
    let copies = [
        (program.path().to_path_buf(), "opt/probe"),
        (library().expect("masu").to_path_buf(), "opt/lib/allocator.so.1"),
    ];
    let ldd = Command::new(tool("ldd")).arg(program.path()).output().expect("ldd");
    let listed = String::from_utf8(ldd.stdout).expect("paths");
    let paths = listed.split_whitespace().filter(|word| word.starts_with('/'));
    let mut script = "set -e; mount -t tmpfs none \"$0\"; cd \"$0\"; mkdir -p opt/lib;".to_owned();
    for (from, to) in &copies {
        script += &format!("cp {} {to};", from.display());
    }
    for path in paths {
        let to = path.trim_start_matches('/');
        let directory = Path::new(to).parent().expect("a directory").display();
        script += &format!("mkdir -p {directory}; cp {path} {to};");
    }
    // A link relative to that root.
    script += "ln -s /opt/lib/allocator.so.1 opt/masu.so;";
    fs::create_dir(&root).expect("made");
    for (preload, served) in [("/opt/masu.so", "masu"), ("", LIBC)] {
        let run = format!(
            "{script} export LD_PRELOAD={preload}; exec {} . /opt/probe",
            word("chroot").display()
        );
        // The preload applies to `chroot` itself too: where it runs, the file is not there yet.
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &run]).arg(&root);
        let waiting = match truth::start(&mut command, None) {
            Ok(waiting) => waiting,
            Err(said) if said.contains("not permitted") => {
                left_out("other mount namespaces", "there is no right to make one");
                return;
            }
            Err(said) => panic!("{said}"),
        };
        Case::new("another root", ["true"], served, Served(served)).check_process(waiting);
    }
}
