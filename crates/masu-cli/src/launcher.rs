//! Commands that start another one: `nice ./server`, `sudo ./server`. The user means the other one;
//! the question is whether LD_PRELOAD reaches it.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::allocators::file_name;

/// A command whose arguments name another command.
struct Launcher {
    name: &'static str,
    /// Options whose value is a separate word.
    valued: &'static [&'static str],
    /// Words that come before the command: `timeout 5 ./server`.
    operands: usize,
    /// What happens to the environment.
    environment: Environment,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Environment {
    Passed,
    /// A new one, or one without LD_PRELOAD.
    Own,
    /// Passed on, with masu in front of LD_PRELOAD.
    Masu,
}

const fn passes(name: &'static str, valued: &'static [&'static str], operands: usize) -> Launcher {
    Launcher { name, valued, operands, environment: Environment::Passed }
}

const LAUNCHERS: &[Launcher] = &[
    passes("env", &["-u", "--unset", "-C", "--chdir"], 0),
    passes("nice", &["-n", "--adjustment"], 0),
    passes("nohup", &[], 0),
    passes("setsid", &[], 0),
    passes("ionice", &["-c", "--class", "-n", "--classdata"], 0),
    passes("stdbuf", &["-i", "--input", "-o", "--output", "-e", "--error"], 0),
    passes("time", &["-f", "--format", "-o", "--output"], 0),
    passes("timeout", &["-k", "--kill-after", "-s", "--signal"], 1),
    passes("taskset", &[], 1),
    Launcher {
        name: "masu",
        valued: &["--conf", "--limit", "--soft-limit", "--policy", "--lib"],
        // `run`.
        operands: 1,
        environment: Environment::Masu,
    },
    Launcher {
        name: "sudo",
        valued: &[
            "-u",
            "--user",
            "-g",
            "--group",
            "-h",
            "--host",
            "-p",
            "--prompt",
            "-C",
            "--close-from",
            "-D",
            "--chdir",
            "-R",
            "--chroot",
            "-T",
            "--command-timeout",
            "-r",
            "--role",
            "-t",
            "--type",
        ],
        operands: 0,
        environment: Environment::Own,
    },
    Launcher {
        name: "doas",
        valued: &["-u", "-C", "-a"],
        operands: 0,
        environment: Environment::Own,
    },
    Launcher { name: "pkexec", valued: &["--user"], operands: 0, environment: Environment::Own },
    Launcher {
        name: "systemd-run",
        valued: &[
            "-p",
            "--property",
            "-u",
            "--unit",
            "-E",
            "--setenv",
            "--uid",
            "--gid",
            "--slice",
        ],
        operands: 0,
        environment: Environment::Own,
    },
];

/// The command that runs in the end, and what happened to the environment on the way.
#[derive(Debug, PartialEq, Eq)]
pub struct Launched<'a> {
    /// Its words.
    pub command: &'a [OsString],
    /// What keeps the caller's LD_PRELOAD from it: the words that precede it.
    pub kept_by: Option<Vec<String>>,
    /// Whether `masu run` is the last to set LD_PRELOAD.
    pub by_masu: bool,
    /// The LD_PRELOAD that is set on the way.
    pub preload: Option<OsString>,
}

/// Follows commands that start others.
pub fn look_through(command: &[OsString]) -> Launched<'_> {
    let mut launched = Launched { command, kept_by: None, by_masu: false, preload: None };
    while let Some(rest) = launched.step() {
        launched.command = rest;
    }
    if let Some(kept) = &mut launched.kept_by {
        let before = &command[..command.len() - launched.command.len()];
        *kept = before.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    }
    launched
}

impl<'a> Launched<'a> {
    /// Returns the command that the first word starts; `None` if it does not start one.
    fn step(&mut self) -> Option<&'a [OsString]> {
        let (name, words) = self.command.split_first()?;
        let name = file_name(Path::new(name));
        let launcher = LAUNCHERS.iter().find(|launcher| launcher.name == name)?;
        let is_run = words.first().is_some_and(|word| word == OsStr::new("run"));
        if launcher.environment == Environment::Masu && !is_run {
            return None;
        }
        let (mut kept, mut preload) = (launcher.environment == Environment::Own, None);
        let mut operands = launcher.operands;
        let mut i = 0;
        while let Some(word) = words.get(i) {
            let text = word.to_string_lossy();
            i += 1;
            match text.split_once('=') {
                _ if text == "--" => break,
                // Its command is split at blanks, with quotes.
                _ if name == "env" && (text.starts_with("-S") || text.starts_with("--split")) => {
                    return None;
                }
                _ if text.starts_with('-') => {
                    let value = launcher.valued.contains(&&*text).then(|| words.get(i)).flatten();
                    i += usize::from(value.is_some());
                    kept |= name == "env"
                        && (matches!(&*text, "-" | "-i" | "--ignore-environment" | "-uLD_PRELOAD")
                            || value.is_some_and(|value| value == "LD_PRELOAD"));
                    // In a scope this process itself runs the command.
                    kept &= !(name == "systemd-run" && text == "--scope");
                }
                Some(("LD_PRELOAD", value)) => preload = Some(OsString::from(value)),
                Some(_) => {}
                None if operands > 0 => operands -= 1,
                None => {
                    i -= 1;
                    break;
                }
            }
        }
        let rest = words.get(i..).filter(|rest| !rest.is_empty())?;
        if launcher.environment == Environment::Masu {
            (self.by_masu, self.kept_by) = (true, None);
        }
        if kept {
            (self.by_masu, self.kept_by, self.preload) = (false, Some(Vec::new()), None);
        }
        if preload.is_some() {
            (self.by_masu, self.kept_by, self.preload) = (false, None, preload);
        }
        Some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(line: &str) -> (String, Option<String>, bool, Option<String>) {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let launched = look_through(&words);
        let rest: Vec<_> = launched.command.iter().map(|word| word.to_string_lossy()).collect();
        let kept = launched.kept_by.map(|words| words.join(" "));
        let preload = launched.preload.map(|value| value.into_string().unwrap());
        (rest.join(" "), kept, launched.by_masu, preload)
    }

    #[test]
    fn what_is_started_in_the_end() {
        for (line, rest) in [
            ("./server -p 1", "./server -p 1"),
            ("nice -n 5 ./server -n", "./server -n"),
            ("/usr/bin/env A=1 -u B timeout -k 3 5s ./server", "./server"),
            ("nice", "nice"),
            ("masu doctor", "masu doctor"),
            ("env -S ./server", "env -S ./server"),
            ("setsid -- ./server", "./server"),
        ] {
            assert_eq!(through(line), (rest.to_owned(), None, false, None), "{line}");
        }
    }

    #[test]
    fn what_becomes_of_the_environment() {
        let kept = |line: &str| through(line).1;
        assert_eq!(kept("sudo -u www ./server").as_deref(), Some("sudo -u www"));
        assert_eq!(kept("nice sudo A=1 -n ./server").as_deref(), Some("nice sudo A=1 -n"));
        assert_eq!(kept("env -i ./server").as_deref(), Some("env -i"));
        assert_eq!(kept("env -u LD_PRELOAD ./server").as_deref(), Some("env -u LD_PRELOAD"));
        assert_eq!(kept("systemd-run ./server").as_deref(), Some("systemd-run"));
        assert_eq!(kept("systemd-run --scope ./server"), None);
        let server = "./server".to_owned();
        assert_eq!(
            through("sudo masu run --conf a:b -- ./server"),
            (server.clone(), None, true, None)
        );
        assert!(!through("masu run sudo ./server").2);
        let preload = Some("/x.so".to_owned());
        assert_eq!(through("sudo LD_PRELOAD=/x.so ./server"), (server, None, false, preload));
    }
}
