//! `make install` and `make uninstall`.

use std::fs;
use std::path::Path;
use std::process::Command;

use masu_tests::{LARGEST_LIBRARY, scratch, tool, workspace};

use crate::{built, links_lead_to_files, output, script, succeed, text};

/// A directory whose name has what shells, sed and pkg-config treat in their own ways.
const PREFIX: &str = "/opt/ma su & more";

/// By an administrator whose files are their own, and whose shell looks for directories elsewhere too: everybody uses
/// what they install.
fn make(from: &Path, destination: &Path, goal: &str) -> Command {
    let mut make = Command::new("sh");
    make.args(["-c", "umask 077; exec \"$@\"", "sh"]).arg(tool("make"));
    make.arg("-C").arg(workspace()).arg(goal).arg(format!("BUILT={}", from.display()));
    make.args([format!("PREFIX={PREFIX}"), format!("LIBDIR={PREFIX}/lib/here")])
        .arg("JEMALLOC=yes");
    make.arg(format!("DESTDIR={}", destination.display())).env("CDPATH", ".");
    make
}

/// Files and links below a directory.
fn files(place: &Path) -> Vec<String> {
    let mut find = Command::new("find");
    let list = succeed(find.arg(place).args(["!", "-type", "d", "-printf", "%P\\n"]));
    let mut list: Vec<_> = list.lines().map(str::to_owned).collect();
    list.sort();
    list
}

#[test]
fn what_make_installs_works_and_can_be_taken_away() {
    let Some(from) = built() else { return };
    let place = scratch();
    succeed(&mut make(from, place.path(), "install"));
    let prefix = place.path().join(&PREFIX[1..]);
    let list = files(&prefix);
    for name in [
        "bin/masu",
        "include/masu/masu.h",
        "include/masu/masu.hpp",
        "include/masu/module.modulemap",
        "lib/here/libmasu.a",
        "lib/here/libmasu.so",
        "lib/here/libmasu.so.0",
        "lib/here/cmake/masu/masu-config.cmake",
        "lib/here/masu/compat/libjemalloc.so.2",
        "lib/here/pkgconfig/masu.pc",
        "lib/masu/masu-work",
        "share/bash-completion/completions/masu",
        "share/doc/masu/LICENSE-MIT",
        "share/doc/masu/docs/statistics.md",
        "share/fish/vendor_completions.d/masu.fish",
        "share/man/man1/masu.1",
        "share/man/man1/masu-run.1",
        "share/man/man7/masu-conf.7",
        "share/masu/observe/grafana-dashboard.json",
        "share/masu/observe/kubernetes/daemonset.yaml",
        "share/masu/observe/masu-export.service",
        "share/masu/observe/prometheus-rules.yml",
        "share/zsh/site-functions/_masu",
    ] {
        assert!(list.iter().any(|other| other == name), "{name} is not among {list:#?}");
    }
    links_lead_to_files(&prefix.join("share/doc/masu"));
    let observe = workspace().join("packaging/observe");
    assert_eq!(files(&prefix.join("share/masu/observe")), files(&observe), "not all of them");
    assert!(files(place.path()).iter().all(|name| name.starts_with(&PREFIX[1..])));
    let mut own = Command::new("find");
    let own = succeed(own.arg(place.path().join("opt")).args(["!", "-perm", "-o=r"]));
    assert_eq!(own, "", "not for everybody");

    let mut words = Command::new(tool("pkg-config"));
    words.env("PKG_CONFIG_PATH", prefix.join("lib/here/pkgconfig"));
    let words = succeed(words.args(["--cflags", "--libs", "masu"]));
    let here = r"/opt/ma\ su\ \&\ more";
    assert_eq!(words.trim(), format!("-I{here}/include -L{here}/lib/here -lmasu"));

    let library = prefix.join("lib/here/libmasu.so.0");
    let length = fs::metadata(&library).expect("the library").len();
    assert!(length <= LARGEST_LIBRARY, "{length} bytes");
    let mut readelf = Command::new(tool("readelf"));
    let dynamic = succeed(readelf.arg("-d").arg(&library));
    assert!(dynamic.contains("[libmasu.so.0]"), "{dynamic}");
    assert_eq!(
        fs::read_link(prefix.join("lib/here/libmasu.so")).unwrap(),
        Path::new("libmasu.so.0")
    );

    // What is preloaded may have no space in its path.
    let beside = scratch();
    let library = beside.path().join("libmasu.so.0");
    fs::copy(prefix.join("lib/here/libmasu.so.0"), &library).expect("a copy");
    let mut run = Command::new(prefix.join("bin/masu"));
    run.args(["run", "--lib"]).arg(&library).args(["--", "cat", "/proc/self/maps"]);
    assert!(succeed(&mut run).contains("libmasu.so.0"));

    let mut bench = Command::new(prefix.join("bin/masu"));
    bench.args(["bench", "--rounds", "1", "--against", "none", "--lib"]).arg(&library);
    succeed(bench.args(["--", "true"]));

    succeed(&mut make(from, place.path(), "uninstall"));
    assert_eq!(files(place.path()), Vec::<String>::new());
}

/// What a page links to is installed with it, or the link is not there: the sources are not.
#[test]
fn documents_have_no_link_that_leads_nowhere() {
    let place = scratch();
    let own = place.path().join("own");
    fs::write(&own, "").expect("written");
    let documents = |arguments: &[&str]| {
        let mut install = Command::new(workspace().join("packaging/documents"));
        succeed(install.args(arguments).arg(place.path()));
    };
    documents(&[]);
    links_lead_to_files(place.path());
    let readme = fs::read_to_string(place.path().join("docs/README.md")).expect("a page");
    assert!(readme.contains("](benchmarks/README.md)"), "{readme}");
    documents(&["--uninstall"]);
    assert_eq!(files(place.path()), ["own"]);
    fs::remove_file(own).expect("still there");
    assert!(fs::read_dir(place.path()).expect("a directory").next().is_none());
}

/// Also for a cargo whose configuration names another directory: the variable counts for more.
#[test]
fn what_make_builds_is_where_make_install_looks_for_it() {
    let place = scratch();
    let cargo = script(place.path(), "cargo", "echo \"$CARGO_TARGET_DIR $1\"");
    for (set, expected) in [(None, "target build\n"), (Some("else/where"), "else/where build\n")] {
        let mut make = Command::new(tool("make"));
        make.args(["-s", "-C"]).arg(workspace()).arg(format!("CARGO={}", cargo.display()));
        make.env_remove("CARGO_TARGET_DIR");
        if let Some(set) = set {
            make.env("CARGO_TARGET_DIR", set);
        }
        assert_eq!(succeed(&mut make), expected);
    }
}

#[test]
fn without_a_build_make_install_says_what_to_do() {
    if built().is_none() {
        return;
    }
    let place = scratch();
    let done = output(&mut make(place.path(), place.path(), "install"));
    assert!(!done.status.success());
    assert!(text(&done.stderr).contains("run make first"), "{}", text(&done.stderr));
}

/// Runs a script as root of a separate machine: its /etc and /usr/local are not this machine's. `None` where that is
/// not allowed.
pub fn on_another_machine(script: &str) -> Option<String> {
    let place = scratch();
    let enter = "mount --make-rprivate / && mount -t tmpfs none /usr/local && mkdir /usr/local/.e /usr/local/.w && \
                 mount -t overlay none -o lowerdir=/etc,upperdir=/usr/local/.e,workdir=/usr/local/.w /etc";
    let root = |script: &str| {
        let mut shell = Command::new("unshare");
        shell.args(["--mount", "sh", "-ec", script]).current_dir(place.path());
        output(&mut shell)
    };
    if !root(enter).status.success() {
        println!("a machine of one's own takes root, and overlays");
        return None;
    }
    let done = root(&format!("{enter}\n{script}"));
    let said = format!("{}{}", text(&done.stdout), text(&done.stderr));
    assert!(done.status.success(), "{script}\n{said}");
    Some(said)
}

#[test]
fn a_program_links_with_what_was_installed_and_runs() {
    let Some(from) = built() else { return };
    let install = workspace().join("crates/libmasu/install");
    let install = format!("{} --from {}", install.display(), from.display());
    let program = "echo 'int main(void) { return 0; }' >program.c";
    let cc = tool("cc");
    let link = format!("{program}; {} program.c", cc.display());

    let linked = format!("{link} -Wl,--no-as-needed");
    let known = format!(
        "{install}; {linked} -lmasu; ldd ./a.out; ./a.out; {install} --uninstall; ldconfig -p"
    );
    let Some(said) = on_another_machine(&known) else { return };
    assert_eq!(said.matches("libmasu").count(), 2, "{said}");
    assert!(said.contains("libmasu.so.0 => /usr/local/lib/libmasu.so.0"), "{said}");
    assert!(!said.contains("install:"), "{said}");

    // Each of the three ways that are offered works elsewhere, and one of them is needed.
    let elsewhere = format!(
        "{install} --prefix /usr/local/opt 2>said; cat said; {linked} -L/usr/local/opt/lib -lmasu; ! ./a.out; \
         way() {{ sed -n \"$1p\" said; }}; \
         (eval \"$(way 3)\"; ./a.out); (eval \"$(way 2) -Wl,--no-as-needed\"; ./a.out); \
         {linked} -L/usr/local/opt/lib -lmasu; eval \"$(way 4)\"; ./a.out; echo all of them"
    );
    let said = on_another_machine(&elsewhere).expect("as above");
    assert!(
        said.starts_with("install: the dynamic loader does not look in /usr/local/opt/lib."),
        "{said}"
    );
    assert_eq!(said.matches("cannot open shared object").count(), 1, "{said}");
    assert!(said.contains("all of them"), "{said}");
}
