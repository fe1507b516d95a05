//! The Python wheel, in a virtual environment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use masu_tests::{scratch, tool, workspace};

use crate::{output, package, packages, succeed};

/// A virtual environment in `place`. (Debian's Python has pip for one with python3-venv.)
fn environment(place: &Path) -> PathBuf {
    let venv = place.join("venv");
    succeed(Command::new(tool("python3")).args(["-m", "venv"]).arg(&venv));
    venv.join("bin")
}

#[test]
fn installed_by_pip_it_serves_python_and_goes_again() {
    let Some(packages) = packages() else { return };
    let place = scratch();
    let bin = environment(place.path());
    let wheel = package(packages, "masu-", ".whl");
    let before = succeed(Command::new(bin.join("pip")).args(["list", "--format=freeze"]));
    let mut pip = Command::new(bin.join("pip"));
    succeed(pip.args(["install", "--quiet", "--no-index"]).arg(&wheel));

    let program = place.path().join("app.py");
    fs::write(
        &program,
        "import sys\nprint('libmasu' in open('/proc/self/maps').read(), sys.argv[1:])\n",
    )
    .expect("written");
    let python = bin.join("python");
    for mut masu in [Command::new(bin.join("masu")), {
        let mut command = Command::new(&python);
        command.args(["-m", "masu"]);
        command
    }] {
        let said = succeed(masu.arg("run").arg(&python).arg(&program).arg("-x"));
        assert_eq!(said, "True ['-x']\n");
    }
    // A program where a verb would be.
    let mut short = Command::new(&python);
    let said = succeed(short.args(["-m", "masu"]).arg(&program).arg("-x"));
    assert_eq!(said, "True ['-x']\n");
    let mut direct = Command::new(&python);
    let path = succeed(direct.args(["-c", "import masu; print(masu.library())"]));
    let mut preloaded = Command::new("env");
    preloaded.arg(format!("LD_PRELOAD={}", path.trim())).arg(&python).arg(&program);
    assert_eq!(succeed(&mut preloaded), "True []\n");
    let mut bench = Command::new(bin.join("masu"));
    succeed(bench.args(["bench", "--rounds", "1", "--against", "none", "--", "true"]));
    // The exit status is the program's.
    let mut fails = Command::new(bin.join("masu"));
    let done = output(fails.args(["run", "--", "sh", "-c", "exit 7"]));
    assert_eq!(done.status.code(), Some(7));

    succeed(Command::new(bin.join("pip")).args(["uninstall", "--quiet", "--yes", "masu"]));
    let after = succeed(Command::new(bin.join("pip")).args(["list", "--format=freeze"]));
    assert_eq!(before, after);
    let mut find = Command::new("find");
    assert_eq!(succeed(find.arg(place.path()).args(["-mindepth", "1", "-iname", "*masu*"])), "");
}

/// The name must not promise an older glibc than the files need.
#[test]
fn its_name_says_which_glibc_it_needs() {
    let Some(packages) = packages() else { return };
    let wheel = package(packages, "masu-", ".whl");
    let name = wheel.file_name().expect("a name").to_string_lossy().into_owned();
    let promised = name.split("manylinux_2_").nth(1).expect("a platform");
    let promised: u32 = promised.split(['_', '.']).next().unwrap().parse().expect("a version");
    let command = crate::built().expect("built").join("masu");
    let versions = succeed(Command::new(tool("readelf")).arg("-VW").arg(command));
    let needed = versions.split("GLIBC_2.").skip(1).filter_map(|rest| {
        rest.split(|c: char| !c.is_ascii_digit())
            .next()
            .and_then(|number| number.parse::<u32>().ok())
    });
    let needed = needed.max().expect("the command is linked with glibc");
    assert_eq!(promised, needed.max(17), "{name}");
}

/// A static command and the library run on every C library that the page on platforms names, and no older one.
#[test]
fn without_glibc_it_is_for_every_c_library() {
    let page = fs::read_to_string(workspace().join("docs/platforms.md")).expect("a page");
    assert!(page.contains("glibc from 2.17 on, musl from 1.2 on"));
    let program = "import runpy, sys\n\
                   print(runpy.run_path(sys.argv[1], run_name='wheel')['tag']([], 'aarch64'))";
    let mut python = Command::new(tool("python3"));
    python.args(["-c", program]).arg(workspace().join("packaging/wheel"));
    assert_eq!(succeed(&mut python), "manylinux_2_17_aarch64.musllinux_1_2_aarch64\n");
}
