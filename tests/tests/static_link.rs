//! Linked in, not preloaded: static and dynamic, glibc and musl, C and C++.
//!
//! The core's `the_heap_of_libc_stays_untouched` proves that malloc is the library's: the libc's
//! own would have moved the program break.

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use masu_tests::running::masu;
use masu_tests::{
    Compile, Program, Run, archive, check_each_case, check_offered, is_masu, library, scratch,
};

/// Builds with the static library, if one is under test, and checks that it was linked in.
fn build_with_archive(compile: Compile) -> Program {
    let Some(archive) = archive() else { return compile.build() };
    // As pkg-config says, for glibc before 2.34.
    let all_of_pthread = "-Wl,--whole-archive,-lpthread,--no-whole-archive";
    let program = compile.file(archive).flag(all_of_pthread).build();
    let bytes = fs::read(program.path()).expect("the program was built");
    // Every message of the library begins like this.
    assert!(bytes.windows(6).any(|text| text == b"masu: "), "malloc came from elsewhere");
    program
}

fn static_core(compiler: &str, flag: &str) -> Program {
    let compile = Compile::with(compiler).flags(["-std=gnu11", flag]);
    build_with_archive(common::core(compile))
}

fn core_passes(program: &Program) {
    check_offered(common::core_run(program).bare().run());
}

#[test]
fn core_of_a_static_program() {
    core_passes(&static_core("gcc", "-static"));
}

#[test]
fn core_of_a_static_position_independent_program() {
    core_passes(&static_core("gcc", "-static-pie"));
}

#[test]
fn core_of_a_static_musl_program() {
    core_passes(&static_core("musl-gcc", "-static"));
}

#[test]
fn core_of_a_musl_program_with_the_library_preloaded() {
    let compile = Compile::with("musl-gcc").flag("-std=gnu11");
    let program = common::core(compile).build();
    check_offered(common::core_run(&program).run());
}

/// A musl program, with threads, which start and end by another libc's rules.
fn musl(name: &str, flags: &[&str]) -> Program {
    let compile = Compile::with("musl-gcc").flags(["-std=gnu11"]).flags(flags);
    let compile = compile.file("c/check_main.c").file(format!("c/{name}.c"));
    if flags.contains(&"-static") { build_with_archive(compile) } else { compile.build() }
}

#[test]
fn threads_of_a_static_musl_program() {
    check_each_case(&musl("threads", &["-static"]), Run::bare);
}

#[test]
fn tls_destructors_of_a_static_musl_program() {
    check_each_case(&musl("tls_destructors", &["-static"]), Run::bare);
}

#[test]
fn threads_of_a_musl_program_with_the_library_preloaded() {
    check_each_case(&musl("threads", &[]), |run| run);
}

#[test]
fn tls_destructors_of_a_musl_program_with_the_library_preloaded() {
    check_each_case(&musl("tls_destructors", &[]), |run| run);
}

#[test]
fn fork_in_a_static_musl_program() {
    check_each_case(&musl("fork", &["-static"]), |run| run.bare().env("MASU_TEST_SECONDS", "2"));
}

#[test]
fn locks_around_a_fork_in_a_static_musl_program() {
    check_each_case(&musl("fork_locks", &["-static"]), Run::bare);
}

#[test]
fn locks_around_a_fork_in_a_musl_program_with_the_library_preloaded() {
    check_each_case(&musl("fork_locks", &[]), |run| run);
}

/// A static program of one file of cases, all run in one process.
fn static_cases(name: &str) {
    let compile = Compile::c("c/check_main.c").file(format!("c/{name}.c")).flag("-static");
    check_each_case(&build_with_archive(compile), Run::bare);
}

#[test]
fn threads_of_a_static_program() {
    static_cases("threads");
}

#[test]
fn tls_destructors_of_a_static_program() {
    static_cases("tls_destructors");
}

#[test]
fn fork_and_spawn_in_a_static_program() {
    static_cases("spawn");
}

#[test]
fn locks_around_a_fork_in_a_static_program() {
    static_cases("fork_locks");
}

fn static_cxx(name: &str, flag: &str) -> Program {
    let frame = common::frame_object();
    let compile = Compile::cxx(&format!("cxx/{name}.cc")).flags([flag, "-xnone"]);
    build_with_archive(compile.file(frame.path()))
}

#[test]
fn operators_of_a_static_cxx_program() {
    check_each_case(&static_cxx("operators", "-static"), Run::bare);
}

#[test]
fn exhaustion_in_a_static_cxx_program() {
    if library().is_none() {
        println!("libstdc++'s own operators are not held to this");
        return;
    }
    check_each_case(&static_cxx("exhaustion", "-static"), Run::bare);
    check_each_case(&static_cxx("exhaustion", "-static-pie"), Run::bare);
}

#[test]
fn thread_local_objects_of_a_static_cxx_program() {
    check_each_case(&static_cxx("thread_local", "-static"), Run::bare);
}

/// `-L dir -lmasu`, found at run time by its directory, under its soname.
#[test]
fn core_of_a_program_linked_with_the_shared_library() {
    let Some(path) = library() else {
        println!("the system's malloc is not a library of its own");
        return;
    };
    // As it is installed.
    let installed = scratch();
    let directory = installed.path().to_str().expect("a directory");
    for name in [path.file_name().expect("a name"), "libmasu.so.0".as_ref()] {
        symlink(path, installed.path().join(name)).expect("a link");
    }
    let name = path.file_name().expect("a name").to_string_lossy();
    let compile = common::core(Compile::with("gcc").flag("-std=gnu11"));
    let program = compile
        .flag(format!("-L{directory}"))
        .flag(format!("-l:{name}"))
        .flag(format!("-Wl,-rpath,{directory}"))
        .build();
    check_offered(common::core_run(&program).bare().run());
}

/// Whoever starts a set-user-ID program does not configure it. (A preloaded library would not even be loaded.)
#[test]
fn a_program_with_special_rights_ignores_the_environment() {
    const SOURCE: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <sys/auxv.h>\n\
                          int main(void) { free(malloc(100)); printf(\"%lu\", getauxval(AT_SECURE)); }\n";
    // SAFETY: asks who we are.
    if !is_masu() || unsafe { libc::geteuid() } != 0 {
        return println!("only root can give a program special rights");
    }
    let place = scratch();
    let (source, program) = (place.path().join("source.c"), place.path().join("program"));
    fs::write(&source, SOURCE).expect("written");
    let built = build_with_archive(Compile::with("gcc").flag("-static").file(&source));
    // Not a copy: while another test forks, a file that was just written cannot be executed.
    fs::hard_link(built.path(), &program).expect("a second name");
    let parent = place.path().parent().expect("a directory");
    for directory in [parent, place.path()] {
        fs::set_permissions(directory, Permissions::from_mode(0o755)).expect("set");
    }
    let run_with = |mode: u32| {
        fs::set_permissions(&program, Permissions::from_mode(mode)).expect("set");
        let run = Run::new("setpriv").bare();
        let run = run.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
        run.env("MASU_SHOW_STATS", "1").env("MASU_CONF", "no_such_key:1").run().success()
    };
    let (plain, special) = (run_with(0o755), run_with(0o4755));
    assert!(plain.stdout == "0" && plain.stderr.contains("no_such_key"), "{}", plain.describe());
    if special.stdout == "0" {
        return println!("set-user-ID programs have no special rights here");
    }
    assert_eq!((&*special.stdout, &*special.stderr), ("1", ""));
}

/// The preloaded library writes its profile, which has nothing, into the same file.
#[test]
fn a_program_with_the_library_inside_has_a_profile() {
    if archive().is_none() {
        return;
    }
    let place = scratch();
    let source = place.path().join("grow.c");
    let text = "#include <stdlib.h>\nint main(void) { for (volatile int i = 0; i < 2000; i++) \
                if (!malloc(10000)) return 1; }";
    fs::write(&source, text).expect("written");
    let compile = Compile::with("cc").flags(["-O0", "-Wl,-u,malloc"]);
    let program = build_with_archive(compile.file(&source));
    let library = library().expect("masu").to_string_lossy().into_owned();
    let path = program.path().to_string_lossy();
    let output = masu(&["prof", "--rate", "4KiB", "--lib", &library, "--", &path]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("In use at the peak: 19 MiB ") || said.contains("20 MiB "), "{said}");
}
