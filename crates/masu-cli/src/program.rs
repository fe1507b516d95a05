//! Which file the kernel will load: `PATH`, `#!` lines, and `env` in them.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::failure::{Failure, NOT_EXECUTABLE, NOT_FOUND, REFUSED};
use crate::near;

/// The kernel reads this much of a `#!` line, and follows this many of them.
const LINE: usize = 256;
const LEVELS: usize = 5;

/// Returns the program that `name` stands for, as `execvp` finds it: a path, or a word to look up
/// in `PATH`.
pub fn find(name: &OsStr) -> Result<PathBuf, Failure> {
    let path = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let by_word = !name.as_bytes().contains(&b'/') && !name.is_empty();
    let candidates: Vec<PathBuf> = if by_word {
        // An empty entry means the current directory, and "./" keeps it from being looked up again.
        let directory = |dir: PathBuf| if dir.as_os_str().is_empty() { ".".into() } else { dir };
        env::split_paths(&path).map(directory).map(|dir| dir.join(name)).collect()
    } else {
        vec![name.into()]
    };

    let shown = name.to_string_lossy();
    let mut why = Failure::new(NOT_FOUND, format!("`{shown}`: no such program"));
    if by_word {
        why = why.remedy(match meant(&shown, &path) {
            Some(meant) => format!("did you mean {meant}?"),
            None => "it is not in any directory of PATH; give its path, like ./program".into(),
        });
    }
    for candidate in candidates {
        match executable(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(error) if absent(&error) => {}
            Err(error) => {
                let problem = format!("`{}` cannot be executed: {error}", candidate.display());
                why = Failure::new(NOT_EXECUTABLE, problem);
            }
        }
    }
    Err(why)
}

/// This command by its path, for whoever starts it without our `PATH`.
pub fn this() -> String {
    env::current_exe().map_or_else(|_| "masu".to_owned(), |path| path.display().to_string())
}

/// The program in a directory of `path` that was probably meant by `name`, one change
/// away from it. Short names are near to too many.
fn meant(name: &str, path: &OsStr) -> Option<String> {
    const SHORTEST: usize = 4;
    if name.len() < SHORTEST {
        return None;
    }
    let entries = env::split_paths(path).filter_map(|dir| dir.read_dir().ok()).flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let names: std::collections::BTreeSet<String> =
        names.filter(|one| one.len().abs_diff(name.len()) <= 1).collect();
    near::by_one(name, names.iter().map(String::as_str)).map(String::from)
}

fn executable(path: &Path) -> io::Result<()> {
    let metadata = path.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    // Opening a pipe would wait for its writer.
    if !metadata.is_file() {
        return Err(io::Error::other("is not a regular file"));
    }
    Ok(access(path, Access::EXEC_OK)?)
}

fn absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns the program that runs in the end when `path` is executed: itself, or the script's
/// interpreter, or what `env` starts for it.
pub fn interpreter(path: &Path) -> Result<PathBuf, Failure> {
    let mut path = path.to_path_buf();
    for _ in 0..LEVELS {
        let Some(line) = Line::of(&path) else { return Ok(path) };
        let next = PathBuf::from(&line.interpreter);
        if let Err(error) = executable(&next) {
            let (script, next) = (path.display(), next.display());
            let problem = format!("`{script}` asks for the interpreter `{next}`: {error}");
            return Err(Failure::new(NOT_EXECUTABLE, problem)
                .remedy("install it, or correct the first line of the script"));
        }
        path = if next.file_name() == Some(OsStr::new("env")) {
            line.through_env(&path)?
        } else {
            next
        };
    }
    Err(Failure::new(NOT_EXECUTABLE, format!("`{}`: too many #! lines in a row", path.display()))
        .remedy(
            "its interpreter is a script, and so is that one's: name a program in the first line",
        ))
}

/// A `#!` line.
struct Line {
    interpreter: OsString,
    argument: OsString,
}

impl Line {
    /// Reads the line of the script at `path`; `None` if it has none.
    fn of(path: &Path) -> Option<Line> {
        let mut start = Vec::with_capacity(LINE);
        File::open(path).ok()?.take(LINE as u64).read_to_end(&mut start).ok()?;
        Self::parse(&start)
    }

    fn parse(start: &[u8]) -> Option<Line> {
        let line = start.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?.trim_ascii();
        let blank = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
        let (interpreter, argument) = line.split_at(blank);
        let text = |bytes: &[u8]| OsStr::from_bytes(bytes.trim_ascii()).to_owned();
        (!interpreter.is_empty())
            .then(|| Line { interpreter: text(interpreter), argument: text(argument) })
    }

    /// Returns what `env` starts. The kernel passes it the rest of the line as one argument, which
    /// it splits only after `-S`.
    fn through_env(&self, script: &Path) -> Result<PathBuf, Failure> {
        let argument = self.argument.to_string_lossy();
        let split = argument.strip_prefix("-S").or(argument.strip_prefix("--split-string="));
        let mut words = split.unwrap_or(&argument).split_ascii_whitespace();
        let mut command = None;
        while let Some(word) = words.next() {
            match word {
                "-i" | "-" | "--ignore-environment" => {
                    let problem =
                        format!("`{}` clears the environment with `env -i`", script.display());
                    return Err(Failure::new(
                        REFUSED,
                        format!("{problem}, and LD_PRELOAD with it"),
                    )
                    .remedy("name the interpreter on the command line, before the script"));
                }
                "-u" | "--unset" | "-C" | "--chdir" => drop(words.next()),
                word if word.starts_with('-') || word.contains('=') => {}
                word => {
                    command = Some(word);
                    break;
                }
            }
        }
        command.map_or(Ok(PathBuf::from(&self.interpreter)), |word| find(OsStr::new(word)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(start: &[u8]) -> Option<(String, String)> {
        let line = Line::parse(start)?;
        Some((line.interpreter.into_string().unwrap(), line.argument.into_string().unwrap()))
    }

    #[test]
    fn lines_are_read_as_the_kernel_does() {
        let two = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(line(b"#!/bin/sh\necho"), two("/bin/sh", ""));
        assert_eq!(line(b"#! /usr/bin/env python3 \n"), two("/usr/bin/env", "python3"));
        assert_eq!(line(b"#!/bin/sh -e -u\n"), two("/bin/sh", "-e -u"));
        assert_eq!(line(b"#!\n/bin/sh"), None);
        assert_eq!(line(b"\x7fELF"), None);
        assert_eq!(line(b""), None);
    }

    #[test]
    fn env_is_looked_through() {
        let through = |argument: &str| {
            let line = Line { interpreter: "/usr/bin/env".into(), argument: argument.into() };
            line.through_env(Path::new("script"))
        };
        let sh = find(OsStr::new("sh")).unwrap();
        assert_eq!(through("sh").unwrap(), sh);
        assert_eq!(through("-S sh -e").unwrap(), sh);
        assert_eq!(through("-S A=1 -u B sh").unwrap(), sh);
        assert_eq!(through("").unwrap(), Path::new("/usr/bin/env"));
        assert!(through("-S -i sh").is_err());
    }
}
