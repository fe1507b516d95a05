//! `masu doctor --run -- COMMAND`, and what only a run can disprove.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::doctor::{Severity, finding, findings};
use common::{Fixture, masu, stdout};
use serde_json::Value;

/// A witness that prints what masu prints.
fn speaker(fixture: &Fixture) -> PathBuf {
    let speaks = "#include <stdio.h>\n#include <stdlib.h>\n\
        void *__libc_malloc(size_t); void *malloc(size_t n) { return __libc_malloc(n); }\n\
        __attribute__((constructor)) static void start(void) {\n\
        if (getenv(\"MASU_VERBOSE\")) fputs(\"masu: effective configuration\\n\", stderr); }";
    fixture.cc("libmasu.so", &["-shared", "-fPIC"], speaks)
}

/// What a trial of `program` under `library` finds.
fn trial(library: &Path, program: &Path, code: i32) -> Value {
    ask(&["--run"], library, program, code)
}

fn ask(options: &[&str], library: &Path, program: &Path, code: i32) -> Value {
    let mut command = masu();
    command.args(["doctor", "--json", "--lib"]).arg(library).args(options).arg("--").arg(program);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{}", stdout(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_trial_sees_masu_come_to_life_and_ends_what_it_started() {
    let fixture = Fixture::new();
    let library = speaker(&fixture);
    let source = "#include <unistd.h>\n#include <stdio.h>\nint main(int n, char **a) {\n\
        FILE *f = fopen(a[1], \"w\"); fprintf(f, \"%d\", getpid()); fclose(f); sleep(60); }";
    let program = fixture.cc("sleeper", &[], source);
    let id = fixture.path("id");
    let mut command = masu();
    command.args(["doctor", "--run", "--json", "--lib"]).arg(library);
    let output = command.arg("--").arg(program).arg(&id).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(finding(&json, "program.run").severity, Severity::Ok);
    let id = fs::read_to_string(id).unwrap_or_default();
    assert!(id.is_empty() || !Path::new(&format!("/proc/{id}")).exists(), "it still runs");
}

/// masu starts, and then the program crashes.
#[test]
fn a_trial_sees_a_crash_and_whose_it_is() {
    let fixture = Fixture::new();
    let library = speaker(&fixture);
    let only_under = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) {\n\
        if (getenv(\"LD_PRELOAD\")) { fputs(\"free(): invalid pointer\\n\", stderr); abort(); } }";
    let program = fixture.cc("only-under", &[], only_under);
    let seen = trial(&library, &program, 1);
    assert_eq!(seen["headline"], format!("`{}` would crash on masu.", program.display()));
    let found = finding(&seen, "program.run");
    assert_eq!(found.severity, Severity::Problem);
    let said =
        "ended with SIGABRT, which does not happen without masu. It said: free(): invalid pointer";
    assert!(found.sentence.ends_with(said), "{}", found.sentence);
    assert!(found.fix.contains("RTLD_DEEPBIND"), "{}", found.fix);

    // Through a shell, which passes the signal on as a number.
    let script = fixture.script("script", &format!("#!/bin/sh\n{}\nexit $?\n", program.display()));
    let found = finding(&trial(&library, &script, 1), "program.run");
    assert!(found.sentence.contains("ended with SIGABRT, which"), "{}", found.sentence);

    let always = fixture.cc("always", &["-O0"], "int main(void) { return *(volatile int *)0; }");
    let found = finding(&trial(&library, &always, 0), "program.run");
    assert_eq!(found.severity, Severity::Warning);
    assert!(found.sentence.contains("SIGSEGV, as it does without masu"), "{}", found.sentence);
}

/// The kernel does not start it, but `execvp` and `masu run` do, with a shell.
#[test]
fn a_trial_starts_a_script_without_a_first_line() {
    let fixture = Fixture::new();
    let script = fixture.script("bare", "exec sleep 60\n");
    let seen = trial(&speaker(&fixture), &script, 0);
    let found = finding(&seen, "program.run");
    assert_eq!(found.severity, Severity::Ok, "{}", found.sentence);
}

/// A PHP of this version, whose configuration is in the fixture's `conf.d`.
fn php(fixture: &Fixture, version: &str) -> PathBuf {
    let source = format!(
        "#include <stdio.h>\nint zend_load_extension(const char *p) {{ return p != 0; }}\n\
         int main(void) {{ puts(\"ok\"); return printf(\"X-Powered-By: PHP/{version}%s\", \"{}\") < 0; }}",
        fixture.path("conf.d").display()
    );
    fixture.cc(&format!("php{version}"), &["-rdynamic"], &source)
}

/// Old versions of PHP load extensions so that they bypass preloaded libraries.
#[test]
fn php_with_extensions() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("conf.d")).unwrap();
    let old = php(&fixture, "8.2.29");
    let none = |program: &Path| {
        let seen = ask(&[], &fixture.witness(), program, 0);
        assert!(findings(&seen, "program.extensions").is_empty());
    };
    none(&old);
    let ini = fixture.path("conf.d/20-ctype.ini");
    fs::write(&ini, "; extension=ctype\n").unwrap();
    none(&old);
    fs::write(&ini, "; configuration\nextension = ctype.so\n").unwrap();
    let seen = ask(&[], &fixture.witness(), &old, 1);
    assert_eq!(seen["effect"], false);
    let name = old.display();
    assert_eq!(seen["headline"], format!("`{name}` would crash on masu."));
    assert!(findings(&seen, "environment.preload").is_empty(), "{seen}");
    let found = finding(&seen, "program.extensions");
    assert_eq!(found.severity, Severity::Problem);
    assert!(
        found.sentence.contains("is PHP 8.2.29, which loads its extensions with RTLD_DEEPBIND")
    );
    assert!(found.fix.starts_with("use PHP 8.5 or later"), "{}", found.fix);
    none(&php(&fixture, "8.5.0"));
    none(&php(&fixture, "10.0"));

    // It starts all the same, since it may be called with -n; a trial's result counts for more.
    let output = fixture.run().arg("--").arg(&old).output().unwrap();
    assert!(output.status.success() && stdout(&output).starts_with("ok\n"), "{output:?}");
    assert!(fixture.stderr(&output).contains("RTLD_DEEPBIND"), "{}", fixture.stderr(&output));
    let seen = trial(&speaker(&fixture), &old, 0);
    assert!(findings(&seen, "program.extensions").is_empty());
    assert_eq!(finding(&seen, "program.run").severity, Severity::Ok);
    assert_eq!(seen["effect"], true);
    assert!(finding(&seen, "environment.preload").fix.contains("masu run -- "));
}
