//! `masu unit`, over a directory that stands for the machine.

mod common;

use std::fs;
use std::path::PathBuf;

use common::{Fixture, masu, stdout};

/// A machine with these unit files, and a library.
struct Machine {
    fixture: Fixture,
}

impl Machine {
    fn new(files: &[(&str, &str)]) -> Self {
        let machine = Self { fixture: Fixture::new() };
        for (path, text) in files {
            let path = machine.at(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        machine
    }

    fn at(&self, path: &str) -> PathBuf {
        self.fixture.path("root").join(path)
    }

    /// Expects it to exit with `code`; returns its output without the paths of this machine.
    #[track_caller]
    fn unit(&self, arguments: &[&str], code: i32) -> String {
        let mut command = masu();
        command.arg("unit").arg("--root").arg(self.fixture.path("root"));
        if !arguments.contains(&"--remove") {
            command.arg("--lib").arg(self.fixture.witness());
        }
        let output = command.args(arguments).output().expect("runs");
        let said = stdout(&output) + &String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        self.fixture.plain(&said)
    }

    fn text(&self, path: &str) -> String {
        self.fixture.plain(&fs::read_to_string(self.at(path)).unwrap_or_default())
    }
}

const NGINX: (&str, &str) =
    ("lib/systemd/system/nginx.service", "[Unit]\n[Service]\nExecStart=/usr/sbin/nginx\n");
const DROP_IN: &str = "etc/systemd/system/nginx.service.d/zz-masu.conf";

#[test]
fn it_is_written_and_taken_away() {
    let machine = Machine::new(&[NGINX]);
    insta::assert_snapshot!(machine.unit(&["nginx"], 0), @r"
    /etc/systemd/system/nginx.service.d/zz-masu.conf is written. For it to take effect:
      systemctl daemon-reload && systemctl restart nginx.service
      masu doctor -p $(systemctl show -P MainPID nginx.service)
    ");
    insta::assert_snapshot!(machine.text(DROP_IN), @r"
    # Written by `masu unit nginx`; `masu unit --remove nginx` removes it.
    [Service]
    Environment=LD_PRELOAD=libwitness.so
    ");
    // Again, with options: the file follows the last command.
    machine.unit(
        &["nginx.service", "--policy", "container", "--conf", "decay:2s,stats_file:/run/a.%p"],
        0,
    );
    insta::assert_snapshot!(machine.text(DROP_IN), @r"
    # Written by `masu unit nginx`; `masu unit --remove nginx` removes it.
    [Service]
    Environment=LD_PRELOAD=libwitness.so
    Environment=MASU_DECAY=2s
    Environment=MASU_STATS_FILE=/run/a.%%p
    Environment=MASU_POLICY=container
    ");
    assert!(machine.unit(&["--remove", "nginx"], 0).contains("is removed"));
    assert!(!machine.at("etc/systemd/system/nginx.service.d").exists());
    assert!(machine.unit(&["--remove", "nginx"], 0).contains("nothing to remove"));
}

#[test]
fn what_a_service_that_is_gone_left_is_taken_away() {
    let machine = Machine::new(&[NGINX]);
    machine.unit(&["nginx"], 0);
    fs::remove_file(machine.at(NGINX.0)).unwrap();
    assert!(machine.unit(&["--remove", "nginx"], 0).contains("is removed"));
    assert!(!machine.at("etc/systemd/system/nginx.service.d").exists());
    assert!(machine.unit(&["--remove", "nginx"], 2).contains("there is no service nginx"));
}

#[test]
fn print_writes_nothing() {
    let machine = Machine::new(&[NGINX]);
    let said = machine.unit(&["--print", "nginx"], 0);
    assert!(said.starts_with("# /etc/systemd/system/nginx.service.d/zz-masu.conf\n"), "{said}");
    assert!(said.contains("Environment=LD_PRELOAD=libwitness.so\n"), "{said}");
    assert!(!machine.at("etc").exists());
}

#[test]
fn what_is_preloaded_already_stays_behind_masu() {
    let machine = Machine::new(&[
        ("lib/systemd/system/mariadb.service", "[Service]\nExecStart=/usr/sbin/mariadbd\n"),
        (
            "etc/systemd/system/mariadb.service.d/override.conf",
            "[Service]\nEnvironment=\"LD_PRELOAD=/usr/lib/libmasu.so.0 /usr/lib/libfoo.so\" A=b\n",
        ),
    ]);
    let said = machine.unit(&["--print", "mariadb"], 0);
    assert!(said.contains("Environment=LD_PRELOAD=libwitness.so:/usr/lib/libfoo.so\n"), "{said}");
    // systemd's specifiers are as they were: `%h` is still a home, and `%%` a percent sign.
    let path = machine.at("etc/systemd/system/mariadb.service.d/override.conf");
    fs::write(path, "[Service]\nEnvironment=LD_PRELOAD=%h/foo.so:/50%%.so\n").unwrap();
    let said = machine.unit(&["--print", "mariadb"], 0);
    assert!(said.contains("LD_PRELOAD=libwitness.so:%h/foo.so:/50%%.so\n"), "{said}");
    // Drop-ins of others stay.
    machine.unit(&["mariadb"], 0);
    machine.unit(&["--remove", "mariadb"], 0);
    assert!(machine.at("etc/systemd/system/mariadb.service.d/override.conf").exists());
}

#[test]
fn a_drop_in_hides_those_of_its_name_in_later_places() {
    let machine = Machine::new(&[
        ("lib/systemd/system/a@.service", "[Service]\nExecStart=/a\n"),
        (
            "lib/systemd/system/a@1.service.d/lib.conf",
            "[Service]\nEnvironment=LD_PRELOAD=/usr/lib/libpackaged.so\n",
        ),
        (
            "etc/systemd/system/a@.service.d/lib.conf",
            "[Service]\nEnvironment=LD_PRELOAD=/usr/lib/libtemplate.so\n",
        ),
        (
            "etc/systemd/system/a@1.service.d/lib.conf",
            "[Service]\nEnvironment=LD_PRELOAD=/usr/lib/libown.so\n",
        ),
    ]);
    let said = machine.unit(&["--print", "a@1"], 0);
    assert!(said.contains("Environment=LD_PRELOAD=libwitness.so:/usr/lib/libown.so\n"), "{said}");
}

#[test]
fn drop_ins_for_several_services_count() {
    let machine = Machine::new(&[
        ("lib/systemd/system/my-own-app.service", "[Service]\nExecStart=/a\n"),
        (
            "usr/lib/systemd/system/service.d/10-all.conf",
            "[Service]\nEnvironment=LD_PRELOAD=/usr/lib/liball.so\n",
        ),
        ("lib/systemd/system/b@.service", "[Service]\nExecStart=/b\n"),
    ]);
    for name in ["my-own-app", "b@1"] {
        let said = machine.unit(&["--print", name], 0);
        assert!(said.contains("LD_PRELOAD=libwitness.so:/usr/lib/liball.so\n"), "{said}");
    }
    for (directory, library) in [("my-", "libmy.so"), ("my-own-", "libown.so")] {
        let at = machine.at(&format!("etc/systemd/system/{directory}.service.d/10-all.conf"));
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, format!("[Service]\nEnvironment=LD_PRELOAD={library}\n")).unwrap();
        let said = machine.unit(&["--print", "my-own-app"], 0);
        assert!(said.contains(&format!("LD_PRELOAD=libwitness.so:{library}\n")), "{said}");
    }
}

#[test]
fn a_generated_unit_hides_that_of_a_package() {
    let machine = Machine::new(&[
        (
            "usr/lib/systemd/system/both.service",
            "[Service]\nExecStart=/a\nEnvironment=LD_PRELOAD=/usr/lib/libpackaged.so\n",
        ),
        (
            "run/systemd/generator/both.service",
            "[Service]\nExecStart=/a\nEnvironment=LD_PRELOAD=/usr/lib/libmade.so\n",
        ),
    ]);
    let said = machine.unit(&["--print", "both"], 0);
    assert!(said.contains("LD_PRELOAD=libwitness.so:/usr/lib/libmade.so\n"), "{said}");
}

#[test]
fn a_service_with_a_script_in_init_d_is_one() {
    let machine = Machine::new(&[(
        "run/systemd/generator.late/old.service",
        "[Service]\nExecStart=/etc/init.d/old start\n",
    )]);
    let said = machine.unit(&["--print", "old"], 0);
    assert!(said.starts_with("# /etc/systemd/system/old.service.d/zz-masu.conf\n"), "{said}");
}

#[test]
fn aliases_instances_and_wrappers() {
    let machine = Machine::new(&[
        ("lib/systemd/system/redis-server.service", "[Service]\nExecStart=/usr/bin/redis-server\n"),
        ("lib/systemd/system/postgresql.service", "[Service]\nType=oneshot\nExecStart=/bin/true\n"),
        (
            "lib/systemd/system/postgresql@.service",
            "[Service]\nExecStart=-/usr/bin/pg_ctlcluster %i start\n",
        ),
        ("etc/systemd/system/multi-user.target.wants/postgresql@15-main.service", ""),
        ("usr/lib/systemd/user/pipewire.service", "[Service]\nExecStart=/usr/bin/pipewire\n"),
    ]);
    let alias = machine.at("etc/systemd/system/redis.service");
    std::os::unix::fs::symlink("/lib/systemd/system/redis-server.service", &alias).unwrap();
    std::os::unix::fs::symlink("/dev/null", machine.at("etc/systemd/system/nginx.service"))
        .unwrap();
    // A link that is valid only on that machine still names the unit.
    for name in ["redis", "redis-server"] {
        let said = machine.unit(&["--print", name], 0);
        assert!(said.contains("/redis-server.service.d/"), "{said}");
    }
    assert!(machine.unit(&["nginx"], 2).contains("nginx.service is masked"));
    let said = machine.unit(&["--print", "postgresql@15-main"], 0);
    assert!(said.contains("/postgresql@15-main.service.d/"), "{said}");
    insta::assert_snapshot!(machine.unit(&["postgresql"], 2), @r"
    masu: postgresql.service runs nothing itself
      name the one that runs: postgresql@15-main
    ");
    insta::assert_snapshot!(machine.unit(&["valkey"], 2), @r"
    masu: there is no service valkey
      did you mean redis?
    ");
    insta::assert_snapshot!(machine.unit(&["redis-sever"], 2), @r"
    masu: there is no service redis-sever
      did you mean redis-server?
    ");
    assert!(machine.unit(&["../x"], 2).contains("is not the name of a service"));
    let said = machine.unit(&["pipewire"], 2);
    assert!(said.starts_with("masu: pipewire is a service of users"), "{said}");
    // A template cannot be restarted.
    insta::assert_snapshot!(machine.unit(&["postgresql@"], 0), @r"
    /etc/systemd/system/postgresql@.service.d/zz-masu.conf is written. For it to take effect:
      systemctl daemon-reload && systemctl restart 'postgresql@*.service'
      masu doctor -p PID, of each: systemctl show -P MainPID 'postgresql@*.service'
    ");
}

/// The library lies in a directory that is its owner's own, as a home is.
#[test]
fn a_user_who_may_not_read_the_library_is_named() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    let service = |name: &str, more: &str| {
        (format!("lib/systemd/system/{name}.service"), format!("[Service]\nExecStart=/a\n{more}\n"))
    };
    let services = [
        service("stranger", "User=app"),
        service("by-number", "User=4711"),
        service("owner", "User=me"),
        service("root", ""),
        service("unknown", "User=%i"),
    ];
    let files: Vec<_> = services.iter().map(|(path, text)| (&path[..], &text[..])).collect();
    let machine = Machine::new(&files);
    let home = machine.fixture.path("");
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    let owner = fs::metadata(&home).unwrap().uid();
    let users = format!("app:x:4711:4711::/:/bin/sh\nme:x:{owner}:4712::/:/bin/sh\n");
    fs::create_dir_all(machine.at("etc")).unwrap();
    fs::write(machine.at("etc/passwd"), users).unwrap();
    for (name, user) in [("stranger", "app"), ("by-number", "4711")] {
        let said = machine.unit(&["--print", name], 0);
        let expected = format!("runs as {user}, who may not read libwitness.so: ");
        assert!(said.contains(&expected), "{said}");
    }
    for name in ["owner", "root", "unknown"] {
        let said = machine.unit(&["--print", name], 0);
        assert!(!said.contains("may not read"), "{said}");
    }
}

#[test]
fn what_would_not_take_effect_is_refused() {
    let machine = Machine::new(&[
        (
            "lib/systemd/system/a.service",
            "[Service]\nExecStart=/a\nEnvironmentFile=-/etc/default/a\n",
        ),
        ("etc/default/a", "LD_PRELOAD=/usr/lib/libfoo.so\n"),
        (
            "lib/systemd/system/f@.service",
            "[Service]\nExecStart=/f\nEnvironmentFile=-/etc/default/%p-%i\n",
        ),
        ("etc/default/f-1", "LD_PRELOAD=/usr/lib/libfoo.so\n"),
        (
            "etc/systemd/system/f@2.service.d/none.conf",
            "[Service]\nEnvironmentFile=/etc/default/a\nEnvironmentFile=\n",
        ),
        ("lib/systemd/system/b.service", "[Service]\nExecStart=/b\nRootDirectory=/srv/b\n"),
        ("lib/systemd/system/c.service", "[Service]\nExecStart=/c\nPrivateTmp=true\n"),
        ("lib/systemd/system/d.service", "[Service]\nExecStart=/d\nPrivateTmp=disconnected\n"),
        ("lib/systemd/system/e.service", "[Service]\nExecStart=/e\nDynamicUser=Yes\n"),
        (
            "lib/systemd/system/g.service",
            "[Service]\nExecStart=/g\nUnsetEnvironment=LANG LD_PRELOAD\n",
        ),
        NGINX,
        (DROP_IN, "[Service]\nEnvironment=MINE=1\n"),
    ]);
    assert!(machine.unit(&["a"], 125).contains("sets LD_PRELOAD in /etc/default/a"));
    assert!(machine.unit(&["f@1"], 125).contains("sets LD_PRELOAD in /etc/default/f-1"));
    machine.unit(&["--print", "f@2"], 0);
    assert!(machine.unit(&["b"], 125).contains("RootDirectory is set"));
    assert!(machine.unit(&["g"], 125).contains("takes LD_PRELOAD away with UnsetEnvironment"));
    if machine.fixture.witness().starts_with("/tmp") {
        assert!(machine.unit(&["c"], 125).contains("PrivateTmp is set"));
        assert!(machine.unit(&["d"], 125).contains("PrivateTmp is set"));
        assert!(machine.unit(&["e"], 125).contains("DynamicUser is set"));
    }
    for arguments in [&["nginx"][..], &["--remove", "nginx"]] {
        assert!(machine.unit(arguments, 125).contains("was not written by masu"));
    }
    assert_eq!(machine.text(DROP_IN), "[Service]\nEnvironment=MINE=1\n");
    assert!(machine.unit(&["nginx", "--policy", "fast"], 2).contains("fast"));
}

#[test]
fn paths_that_are_hidden_are_those_nearest_to_the_library() {
    let machine = Machine::new(&[NGINX]);
    let own = machine.fixture.witness().parent().unwrap().display().to_string();
    let override_file = machine.at("etc/systemd/system/nginx.service.d/override.conf");
    fs::create_dir_all(override_file.parent().unwrap()).unwrap();
    for (lines, hidden_by) in [
        ("InaccessiblePaths=-/none -@", Some("does not see libwitness.so: InaccessiblePaths")),
        ("InaccessiblePaths=@\nInaccessiblePaths=", None),
        ("InaccessiblePaths=/\nBindReadOnlyPaths=@", None),
        ("TemporaryFileSystem=@:ro", Some("does not see libwitness.so: TemporaryFileSystem")),
        ("TemporaryFileSystem=/:ro\nBindPaths=/else:@", None),
        ("TemporaryFileSystem=@\nBindPaths=@:/else", Some("TemporaryFileSystem is set")),
        ("NoExecPaths=/", Some("may not run code of libwitness.so: NoExecPaths is set")),
        ("NoExecPaths=/\nExecPaths=/usr/sbin/nginx @", None),
    ] {
        fs::write(&override_file, format!("[Service]\n{}\n", lines.replace('@', &own))).unwrap();
        let said = machine.unit(&["--print", "nginx"], if hidden_by.is_some() { 125 } else { 0 });
        assert!(said.contains(hidden_by.unwrap_or("LD_PRELOAD=")), "{lines}: {said}");
    }
    // As Debian's redis has it, under which /usr/local is no place for a library.
    let text = "[Service]\nNoExecPaths=/\nExecPaths=/usr/bin/nginx /usr/lib -/lib\n";
    fs::write(&override_file, text).unwrap();
    let said = machine.unit(&["--print", "nginx"], 125);
    assert!(said.contains("\n  name a copy below /usr/lib or /lib with --lib\n"), "{said}");
}

/// systemd reads the drop-ins of all names of a service.
#[test]
fn drop_ins_of_an_alias_count() {
    let machine = Machine::new(&[
        ("lib/systemd/system/ssh.service", "[Service]\nExecStart=/usr/sbin/sshd -D\n"),
        (
            "etc/systemd/system/sshd.service.d/own.conf",
            "[Service]\nEnvironment=LD_PRELOAD=/usr/lib/libfoo.so\n",
        ),
    ]);
    let alias = machine.at("etc/systemd/system/sshd.service");
    std::os::unix::fs::symlink("/lib/systemd/system/ssh.service", alias).unwrap();
    for name in ["ssh", "sshd"] {
        let said = machine.unit(&["--print", name], 0);
        assert!(said.contains("LD_PRELOAD=libwitness.so:/usr/lib/libfoo.so\n"), "{said}");
    }
}

#[test]
fn an_empty_unit_file_masks_its_service() {
    let machine = Machine::new(&[NGINX, ("etc/systemd/system/nginx.service", "")]);
    assert!(machine.unit(&["nginx"], 2).contains("nginx.service is masked"));
}
