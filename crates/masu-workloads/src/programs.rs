//! Real programs as timed workloads: interpreters, compilers, a database, a server.
//!
//! Each does a fixed piece of work on input that is made once, outside the measurement, in a
//! directory of its own, and prints something that depends on all of it and on nothing
//! else; the runner compares what it prints on every allocator. The scripts are in this
//! crate's `programs` directory and become part of the binary. A program that is not installed is
//! left out with a line that says so ([`Program::missing`]).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

/// One program and its work.
#[derive(Debug)]
pub struct Program {
    /// The name on the command line and in tables.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// Commands it cannot do without, by name or path.
    needs: &'static [&'static str],
    /// Its script or source, by the name it gets in the directory.
    files: &'static [(&'static str, &'static str)],
    /// A shell script that makes the input in the directory.
    prepare: &'static str,
    /// The command and its arguments; `@` stands for the directory.
    command: &'static [&'static str],
}

/// A command that can be measured, as often as one likes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// The file to execute.
    pub program: PathBuf,
    /// Its arguments, its own name first.
    pub arguments: Vec<OsString>,
}

macro_rules! file {
    ($name:literal) => {
        ($name, include_str!(concat!("../programs/", $name)))
    };
}

macro_rules! script {
    ($name:literal) => {
        include_str!(concat!("../programs/", $name))
    };
}

/// Not a shim that first looks for the real one.
const PYTHON: &str = "/usr/bin/python3";

/// Every program, in the order of the table.
pub const ALL: &[Program] = &[
    Program {
        name: "python",
        about: "JSON, pickle, regular expressions, a tree of objects, on python's own arenas",
        needs: &[PYTHON],
        files: &[file!("work.py")],
        prepare: "",
        command: &["env", "PYTHONHASHSEED=0", PYTHON, "@/work.py"],
    },
    Program {
        name: "python-malloc",
        about: "the same with every object from malloc",
        needs: &[PYTHON],
        files: &[file!("work.py")],
        prepare: "",
        command: &["env", "PYTHONHASHSEED=0", "PYTHONMALLOC=malloc", PYTHON, "@/work.py"],
    },
    Program {
        name: "ruby",
        about: "words grouped, JSON, substitution, 8 threads of strings",
        needs: &["ruby"],
        files: &[file!("work.rb")],
        prepare: "",
        command: &["ruby", "@/work.rb"],
    },
    Program {
        name: "node",
        about: "JSON, buffers replaced at random, gzip, 2 worker threads",
        needs: &["node"],
        files: &[file!("work.js")],
        prepare: "",
        command: &["node", "@/work.js"],
    },
    Program {
        name: "perl",
        about: "words, hashes, substitution, strings replaced at random",
        needs: &["perl"],
        files: &[file!("work.pl")],
        prepare: "",
        command: &["env", "PERL_HASH_SEED=0", "perl", "@/work.pl"],
    },
    Program {
        name: "lua",
        about: "strings, nested tables, coroutines",
        needs: &["lua5.4"],
        files: &[file!("work.lua")],
        prepare: "",
        command: &["lua5.4", "@/work.lua"],
    },
    Program {
        name: "bash",
        about: "associative arrays, here-strings, substitution",
        needs: &["bash", "sort"],
        files: &[file!("bash.sh")],
        prepare: "",
        command: &["env", "LC_ALL=C", "bash", "@/bash.sh"],
    },
    Program {
        name: "git",
        about: "log with patches, renames, blame, archive of 1,500 commits",
        needs: &["git", "bash", "awk", "md5sum"],
        files: &[file!("git.sh")],
        prepare: script!("git.prepare.sh"),
        command: &["bash", "@/git.sh", "@"],
    },
    Program {
        name: "gcc",
        about: "1,260 lines of C compiled with -O2",
        needs: &["gcc", "awk", "md5sum"],
        files: &[],
        prepare: script!("c.prepare.sh"),
        command: &["sh", "-c", "gcc -O2 -S -o - \"$0/source.c\" | md5sum", "@"],
    },
    Program {
        name: "g++",
        about: "C++ containers of containers instantiated, -O1",
        needs: &["g++", "md5sum"],
        files: &[file!("work.cc")],
        prepare: "",
        command: &["sh", "-c", "g++ -std=c++17 -O1 -S -o - \"$0/work.cc\" | md5sum", "@"],
    },
    Program {
        name: "clang",
        about: "1,260 lines of C compiled with -O2",
        needs: &["clang", "awk", "md5sum"],
        files: &[],
        prepare: script!("c.prepare.sh"),
        command: &["sh", "-c", "clang -w -O2 -S -o - \"$0/source.c\" | md5sum", "@"],
    },
    Program {
        name: "make",
        about: "33,000 rules and as many words, by text functions and eval",
        needs: &["make"],
        files: &[file!("work.mk")],
        prepare: "",
        command: &["make", "-rR", "--no-print-directory", "-f", "@/work.mk", "all"],
    },
    Program {
        name: "sqlite",
        about: "160,000 rows in memory: insert, index, aggregate, delete",
        needs: &["sqlite3"],
        files: &[file!("work.sql")],
        prepare: "",
        command: &["sqlite3", ":memory:", ".read @/work.sql"],
    },
    Program {
        name: "redis",
        about: "a server filled with 128,000 values and emptied by half; its own jemalloc as system's",
        needs: &["redis-server", "redis-cli", "bash"],
        files: &[file!("redis.sh")],
        prepare: "",
        command: &["bash", "@/redis.sh", "@"],
    },
    Program {
        name: "jq",
        about: "30,000 JSON objects grouped",
        needs: &["jq", "awk"],
        files: &[],
        prepare: script!("jq.prepare.sh"),
        command: &[
            "jq",
            "-c",
            "group_by(.tags[0]) | map({tag: .[0].tags[0], n: length, mean: (map(.score) | add)})",
            "@/data.json",
        ],
    },
    Program {
        name: "ghostscript",
        about: "4 pages of text and shapes rendered",
        needs: &["gs", "md5sum"],
        files: &[file!("work.ps")],
        prepare: "",
        command: &[
            "sh",
            "-c",
            "gs -q -dBATCH -dNOPAUSE -dSAFER -r72 -dTextAlphaBits=4 -dGraphicsAlphaBits=4 \
             -sDEVICE=ppmraw -sOutputFile=- \"$0/work.ps\" | md5sum",
            "@",
        ],
    },
    Program {
        name: "archive",
        about: "400 files through tar with xz and zstd, there and back",
        needs: &["tar", "xz", "zstd", "md5sum"],
        files: &[file!("archive.sh")],
        prepare: script!("archive.prepare.sh"),
        command: &["sh", "@/archive.sh", "@"],
    },
    Program {
        name: "sort",
        about: "1.5 million lines on 2 threads",
        needs: &["sort", "awk", "md5sum"],
        files: &[],
        prepare: script!("sort.prepare.sh"),
        command: &["sh", "-c", "LC_ALL=C sort --parallel=2 \"$0/lines\" | md5sum", "@"],
    },
];

/// The program called `name`.
pub fn named(name: &str) -> Option<&'static Program> {
    ALL.iter().find(|program| program.name == name)
}

impl Program {
    /// A command it needs that is not installed.
    pub fn missing(&self) -> Option<&'static str> {
        self.needs.iter().copied().find(|need| locate(need).is_none())
    }

    /// Makes its input in `directory`, which must exist, be empty and stay there as long as
    /// the command is run.
    ///
    /// # Errors
    ///
    /// What is needed is not there, or the input cannot be made.
    pub fn prepare(&self, directory: &Path) -> io::Result<Prepared> {
        if let Some(missing) = self.missing() {
            let message = format!("{} needs {missing}, which is not installed", self.name);
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        }
        for (name, content) in self.files {
            fs::write(directory.join(name), content)?;
        }
        let made = Command::new("sh")
            .args(["-e", "-c", self.prepare])
            .current_dir(directory)
            .env_remove("LD_PRELOAD")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()?;
        if !made.success() {
            return Err(io::Error::other(format!("the input of {} cannot be made", self.name)));
        }
        let place = directory.to_string_lossy();
        let arguments: Vec<OsString> =
            self.command.iter().map(|word| word.replace('@', &place).into()).collect();
        let program = locate(self.command[0]).ok_or(io::ErrorKind::NotFound)?;
        Ok(Prepared { program, arguments })
    }
}

/// The file that a command's name or path means.
fn locate(command: &str) -> Option<PathBuf> {
    if command.contains('/') {
        return Some(PathBuf::from(command)).filter(|path| path.is_file());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|place| place.join(command)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that goes with its contents.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let place = env::temp_dir().join(format!("masu-{name}-{}", std::process::id()));
            fs::create_dir(&place).unwrap();
            Place(place)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            // Left behind if it cannot be removed; no test depends on that.
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn names_are_unique_and_no_workload_has_them() {
        let mut names: Vec<_> = ALL.iter().map(|program| program.name).collect();
        names.extend(crate::ALL.iter().map(|workload| workload.name));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn the_work_prints_the_same_twice_and_ends_well() {
        let run = |prepared: &Prepared| {
            let mut command = Command::new(&prepared.program);
            let output = command.args(&prepared.arguments[1..]).output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{:?} {errors}", prepared.arguments);
            assert_eq!(errors, "", "{:?}", prepared.arguments);
            output.stdout
        };
        // One that needs its input made, one with a script, one through a shell; `./check` has
        // the same programs under the library in its own suite.
        for name in ["jq", "bash", "sort", "make", "archive"] {
            let program = named(name).unwrap();
            if let Some(missing) = program.missing() {
                eprintln!("{name} is left out: {missing} is not installed");
                continue;
            }
            let place = Place::new(name);
            let prepared = program.prepare(&place.0).unwrap();
            let first = run(&prepared);
            assert!(first.len() > 30, "{name} printed almost nothing");
            assert_eq!(run(&prepared), first, "{name}");
        }
    }

    #[test]
    fn what_is_not_installed_is_named() {
        let program = Program {
            name: "fiction",
            about: "",
            needs: &["sh", "no-such-command"],
            files: &[],
            prepare: "",
            command: &["sh"],
        };
        assert_eq!(program.missing(), Some("no-such-command"));
        let error = program.prepare(&env::temp_dir()).unwrap_err().to_string();
        assert_eq!(error, "fiction needs no-such-command, which is not installed");
    }

    #[test]
    fn input_that_cannot_be_made_is_an_error() {
        let place = Place::new("input");
        let program = Program {
            name: "fiction",
            about: "",
            needs: &[],
            files: &[("file", "text")],
            prepare: "test -s file; exit 3",
            command: &["sh", "@/file"],
        };
        assert!(program.prepare(&place.0).is_err());
        let program = Program { prepare: "test -s file", ..program };
        let prepared = program.prepare(&place.0).unwrap();
        assert_eq!(prepared.arguments[1], place.0.join("file").into_os_string());
    }
}
