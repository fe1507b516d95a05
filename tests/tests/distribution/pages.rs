//! What the pages on installing say, word for word, from one package to the next.
//!
//! What is built is the build under test: `make` and `packaging/…` on these pages take it instead of building anew. What
//! a registry, a service or a network would serve has a stand-in here, which each test names.

use std::fs;
use std::path::Path;
use std::process::Command;

use masu_tests::pages::block;
use masu_tests::{scratch, tool, workspace};

use crate::image::{Image, TO_RUN, search_path};
use crate::make::on_another_machine;
use crate::{built, package, packages, script, succeed};

/// A page's commands for this machine.
fn commands(page: &str, part: &str) -> String {
    block(page, part).commands().replace("x86_64", std::env::consts::ARCH)
}

/// `make` on the pages: with this build, without cargo.
fn make(from: &Path) -> String {
    let (make, root) = (tool("make"), workspace());
    let (make, root, from) = (make.display(), root.display(), from.display());
    format!(
        "sudo() {{ \"$@\"; }}; make() {{ {make} -s -C {root} CARGO=true BUILT={from} \"$@\"; }}; "
    )
}

/// A script of that name in `place`, as at the root of the sources: the real one, with these arguments in addition.
fn real(place: &Path, name: &str, more: &str) {
    fs::create_dir_all(place.join(name).parent().expect("a directory")).expect("made");
    let real = workspace().join(name);
    script(place, name, &format!("exec {} \"$@\" {more}", real.display()));
}

/// Runs a script by bash in `place`, with `place` as home and the programs of `bin` before all others.
#[track_caller]
fn bash(place: &Path, bin: &Path, text: &str) -> String {
    let path = std::env::var("PATH").expect("PATH");
    let mut bash = Command::new("bash");
    bash.args(["-euc", text]).current_dir(place).env("HOME", place);
    // What rustup, cargo and pyenv keep is not below this home.
    let home = std::env::var("HOME").expect("HOME");
    for (variable, name) in
        [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo"), ("PYENV_ROOT", ".pyenv")]
    {
        let kept = std::env::var(variable).unwrap_or_else(|_| format!("{home}/{name}"));
        bash.env(variable, kept);
    }
    succeed(bash.env("PATH", format!("{}:{path}", bin.display())))
}

/// `docs/installing.md` and the README, as root of a machine of its own.
#[test]
fn from_source_with_make() {
    let Some(from) = built() else { return };
    let page = commands("docs/installing.md", "sudo make uninstall");
    let lines: Vec<_> = page.lines().map(|line| line.replace("/tmp/image", "$PWD/image")).collect();
    let [build, install, elsewhere, uninstall] = &lines[..] else { panic!("{page}") };
    let readme = block("README.md", "sudo make install").text;
    let check = "/usr/local/bin/masu run -- grep -c libmasu /proc/self/maps";
    let said = on_another_machine(&format!(
        "{}{build}\n{install}\n{check}\n{elsewhere}\n{uninstall}\n\
         test -x image/opt/masu/bin/masu; test ! -e /usr/local/bin/masu; {readme}\n{check}\necho all of them",
        make(from)
    ));
    assert!(said.is_none_or(|said| said.ends_with("all of them\n")));
}

/// `docs/jemalloc.md`. Debian's redis says what it runs on and ends, instead of serving.
#[test]
fn under_jemallocs_name() {
    let Some(from) = built() else { return };
    let [running, building, copying] = ["redis-server", "pkg-config", "private-archive"]
        .map(|part| commands("docs/jemalloc.md", part));
    let place = scratch();
    real(place.path(), "crates/libmasu/install", &format!("--from {}", from.display()));
    real(place.path(), "crates/libmasu/private-archive", "");
    fs::create_dir(place.path().join("target")).expect("made");
    std::os::unix::fs::symlink(from, place.path().join("target/release")).expect("a link");
    let redis = tool("redis-server");
    script(
        place.path(),
        "redis-server",
        &format!(
            "{} --port 0 --unixsocket ./redis --save '' --daemonize no >/dev/null & for i in 1 2 3 4 5 6 7 8 9; do sleep 0.3; \
             grep -q ' r-x.*libmasu' /proc/$!/maps && echo served && break; done; kill $!",
            redis.display()
        ),
    );
    let program = "echo 'int main(void) { return 0; }' >program.c";
    let said = on_another_machine(&format!(
        "{}make install JEMALLOC=yes; cd {}; PATH=$PWD:$PATH\n{running}\n{program}\n{building}\n./a.out\n\
         {copying}\nnm libje_arrow.a | grep -c ' T je_arrow_malloc$'",
        make(from),
        place.path().display()
    ));
    let Some(said) = said else { return };
    assert_eq!(said.matches("served").count(), 2, "{said}");
    assert!(said.ends_with("\n1\n"), "{said}");
}

/// `docs/installing.md`, in an image of this system.
#[test]
fn as_debian_packages() {
    let Some(packages) = packages() else { return };
    let Some(image) = Image::of_this_system() else { return };
    let place = scratch();
    for name in TO_RUN {
        let file = package(packages, name, ".deb");
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        image.put(&file, &format!("/src/target/packages/{name}"));
    }
    // The packages are those that it has made.
    image.put(&script(place.path(), "deb", "ls target/packages"), "/src/packaging/deb");
    let install = commands("docs/installing.md", "sudo apt install");
    let said = image.shell(
        &search_path(),
        &format!(
            "cd /src; sudo() {{ \"$@\"; }}\n{install}\nLD_PRELOAD=libmasu.so.0 cat /proc/self/maps; masu run -- echo served"
        ),
    );
    assert!(said.contains("/libmasu.so.0\n") && said.ends_with("served\n"), "{said}");
}

/// What says whether it runs on masu.
const ON_MASU: &str = "grep -q libmasu /proc/self/maps && echo served";

/// `docs/installing.md`, then the gem's own page. Rust's target is there, `gem install masu` takes the file, and
/// `bundle exec puma` says what it runs on.
#[test]
fn as_a_gem() {
    let Some(from) = built() else { return };
    tool("gem");
    let (place, bin) = (scratch(), scratch());
    let files =
        format!("--machine {} {1}/libmasu.so {1}/masu", std::env::consts::ARCH, from.display());
    real(place.path(), "packaging/gem", &format!("--out \"$PWD/target/packages\" {files}"));
    script(bin.path(), "rustup", "[ \"$1 $2\" = 'target add' ]");
    script(bin.path(), "bundle", &format!("[ \"$*\" = 'exec puma' ] && {ON_MASU}"));
    let app = "puts(File.read('/proc/self/maps').include?('libmasu') ? 'served' : '')";
    fs::write(place.path().join("app.rb"), app).expect("written");
    let set = "export GEM_HOME=$HOME/gems GEM_PATH=$HOME/gems PATH=$HOME/gems/bin:$PATH; cd ~; ";
    let installed = commands("docs/installing.md", "gem install");
    let said = bash(place.path(), bin.path(), &format!("{set}{installed}"));
    assert!(said.contains("Successfully installed masu") && said.ends_with("served\n"), "{said}");
    let own = commands("packaging/ruby/README.md", "gem install");
    let registry = format!(
        "gem() {{ [ \"$*\" = 'install masu' ] && command gem install target/packages/masu-*.gem; }}; {}",
        running(from, "sleep 9")
    );
    let said = bash(place.path(), bin.path(), &format!("{set}{registry}{own}"));
    assert_eq!(said.matches("served\n").count(), 2, "{said}");
    assert!(said.contains("libmasu.so"), "what the doctor says of ruby: {said}");
}

/// A `pidof` that finds a new process of that language, on masu. The doctor's exit status is ignored: the machine may
/// have faults of its own.
fn running(from: &Path, waits: &str) -> String {
    format!(
        "masu() {{ command masu \"$@\" || [ \"$1\" = doctor ]; }}; npx() {{ command npx \"$@\" || [ \"$2\" = doctor ]; }}; \
         pidof() {{ LD_PRELOAD={}/libmasu.so \"$1\" -e '{waits}' >/dev/null 2>&1 & echo $!; sleep 1; }}; ",
        from.display()
    )
}

/// `docs/installing.md`, then the package's own page. `npm install masu` takes the file.
#[test]
fn as_an_npm_package() {
    let Some(from) = built() else { return };
    tool("npm");
    let (home, bin) = (scratch(), scratch());
    let (place, app) = (home.path().join("masu"), home.path().join("app"));
    fs::create_dir(&app).expect("made");
    let files =
        format!("--machine {} {1}/libmasu.so {1}/masu", std::env::consts::ARCH, from.display());
    real(&place, "packaging/npm", &format!("--out \"$PWD/target/packages\" {files}"));
    script(bin.path(), "rustup", "[ \"$1 $2\" = 'target add' ]");
    let program = "if (require('fs').readFileSync('/proc/self/maps', 'utf8').includes('libmasu')) console.log('served')";
    fs::write(app.join("app.js"), program).expect("written");
    let start = r#"{"name": "app", "version": "0.0.0", "scripts": {"start": "node app.js"}}"#;
    fs::write(app.join("package.json"), start).expect("written");
    let set = "export npm_config_offline=true npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false; ";
    let installed = commands("docs/installing.md", "npm install");
    let said = bash(home.path(), bin.path(), &format!("{set}cd masu; {installed}"));
    assert!(said.ends_with("served\n"), "{said}");
    let own = commands("packaging/node/README.md", "npm install");
    let registry = "npm() { [ \"$*\" = 'install masu' ] && command npm install ~/masu/target/packages/masu-*.tgz; }; ";
    let running = running(from, "setTimeout(() => {}, 9000)");
    let text = format!("{set}cd app; rm -r node_modules; {registry}{running}{own}");
    let said = bash(home.path(), bin.path(), &text);
    assert_eq!(said.matches("served\n").count(), 3, "{said}");
    assert!(said.contains("libmasu.so"), "what the doctor says of node: {said}");
}

/// `docs/installing.md`, then the wheel's own page. `pip install masu` takes the file, and gunicorn says what it runs on.
#[test]
fn as_a_wheel() {
    let Some(from) = built() else { return };
    let (place, bin) = (scratch(), scratch());
    real(
        place.path(),
        "packaging/wheel",
        &format!("--from {} --out \"$PWD/target/packages\"", from.display()),
    );
    script(bin.path(), "gunicorn", &format!("[ \"$*\" = app:server ] && {ON_MASU}"));
    // It prints the same on every allocator: `masu bench` compares that.
    let app =
        "if 'libmasu' in open('/proc/self/maps').read(): print('served', file=open('said', 'a'))\n";
    fs::write(place.path().join("app.py"), app).expect("written");
    let python = tool("python3");
    let set = format!(
        "{} -m venv --clear venv; export PATH=$PWD/venv/bin:$PATH PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1; ",
        python.display()
    );
    let installed = commands("docs/installing.md", "pip install");
    let said = bash(place.path(), bin.path(), &format!("{set}{installed}\ncat said; rm said"));
    assert!(said.contains("-py3-none-manylinux_2_") && said.ends_with("served\n"), "{said}");
    let own = commands("packaging/python/README.md", "pip install");
    let own = own.replace("masu bench", "cat said; masu bench");
    let registry = "pip() { [ \"$*\" = 'install masu' ] && command pip install target/packages/masu-*.whl; }; ";
    let said = bash(place.path(), bin.path(), &format!("{set}{registry}{own}"));
    assert_eq!(said.matches("served\n").count(), 3, "{said}");
}
