//! Dockerfiles, executed without docker: `FROM` a base that is made here, `RUN` inside it, `COPY`
//! from the context, a stage or the image `masu`. Their instructions are executed literally; base
//! images contain only the programs that the application needs.

use std::collections::HashMap;
use std::path::Path;
use std::process::Output;

use crate::image::Image;
use crate::{output, succeed};

/// Variables and their values.
pub type Environment = Vec<(String, String)>;

/// An image, and how a Dockerfile says to run it.
pub struct Built {
    pub image: Image,
    pub environment: Environment,
    directory: String,
    entry: Vec<String>,
    command: Vec<String>,
}

/// Builds the last stage. `base` makes the image that a name stands for.
pub fn build(
    file: &str,
    context: &Path,
    masu: &Path,
    base: impl Fn(&str) -> Option<(Image, Environment)>,
) -> Option<Built> {
    let mut stages: HashMap<String, Built> = HashMap::new();
    let mut current: Option<(String, Built)> = None;
    for (keyword, rest) in instructions(file) {
        if keyword == "FROM" {
            if let Some((name, built)) = current.take() {
                stages.insert(name, built);
            }
            let words: Vec<_> = rest.split_whitespace().collect();
            let name = words.get(2).unwrap_or(&"").to_string();
            let built = match stages.get(words[0]) {
                Some(stage) => stage.again(),
                None => {
                    let (image, environment) = base(words[0])?;
                    Built::new(image, environment)
                }
            };
            current = Some((name, built));
            continue;
        }
        let (_, stage) = current.as_mut().expect("FROM comes first");
        match keyword.as_str() {
            "WORKDIR" => stage.work_in(&rest),
            "ENV" => stage.environment.extend(assignments(&rest)),
            "RUN" => stage.run(&rest),
            "COPY" => stage.copy(&rest, context, masu),
            "ENTRYPOINT" => stage.entry = serde_json::from_str(&rest).expect("a list"),
            "CMD" => stage.command = serde_json::from_str(&rest).expect("a list"),
            "EXPOSE" => {}
            other => panic!("no such instruction here: {other}"),
        }
    }
    current.map(|(_, built)| built)
}

impl Built {
    fn new(image: Image, environment: Environment) -> Built {
        Built { image, environment, directory: "/".into(), entry: vec![], command: vec![] }
    }

    fn again(&self) -> Built {
        Built {
            image: self.image.copy(),
            environment: self.environment.clone(),
            directory: self.directory.clone(),
            entry: self.entry.clone(),
            command: self.command.clone(),
        }
    }

    fn work_in(&mut self, directory: &str) {
        self.directory = directory.into();
        succeed(self.image.mounted("mkdir -p \"$root/$1\"").arg(directory));
    }

    fn run(&self, script: &str) {
        let script = format!("cd {}; {script}", self.directory);
        let done = output(self.image.inside(&self.environment).args(["/bin/sh", "-c", &script]));
        let said = crate::text(&[done.stdout, done.stderr].concat());
        assert!(done.status.success(), "RUN {script}: {}\n{said}", done.status);
        for word in ["ld.so", "masu:"] {
            assert!(!said.contains(word), "RUN {script} said:\n{said}");
        }
    }

    fn copy(&self, words: &str, context: &Path, masu: &Path) {
        let (from, paths) = match words.strip_prefix("--from=masu ") {
            Some(rest) => (masu, rest.replace("/packages/", "")),
            None => (context, words.to_owned()),
        };
        let (sources, target) = paths.rsplit_once(' ').expect("sources and a target");
        let directory = if target.starts_with('/') { "" } else { &self.directory };
        // Patterns are expanded in the source directory; `.` stands for its contents.
        let script = format!(
            "cd \"$1\"; mkdir -p \"$root{directory}/{target}\"; \
             for source in {sources}; do case $source in .) source=./. ;; esac; \
             cp -a \"$source\" \"$root{directory}/{target}/\"; done"
        );
        succeed(self.image.mounted(&script).arg(from));
    }

    /// Starts a container as `docker run -e NAME=VALUE…` does.
    pub fn start(&self, more: &[(&str, &str)]) -> Output {
        let mut environment = self.environment.clone();
        for (name, value) in more {
            environment.retain(|(other, _)| other != name);
            environment.push((name.to_string(), value.to_string()));
        }
        let script = format!("cd {}; exec \"$@\"", self.directory);
        // The shell that changes the directory is not part of the container.
        let (loader, environment): (Vec<_>, Vec<_>) =
            environment.into_iter().partition(|(name, _)| name == "LD_PRELOAD");
        let mut command = self.image.inside(&environment);
        command.args(["/bin/sh", "-c", &script, "sh", "env"]);
        command.args(loader.iter().map(|(name, value)| format!("{name}={value}")));
        output(command.args(&self.entry).args(&self.command))
    }
}

/// The instructions: keyword and the rest, with continued lines joined.
fn instructions(file: &str) -> Vec<(String, String)> {
    let lines = file.lines().filter(|line| !line.trim_start().starts_with('#'));
    let joined = lines.fold(String::new(), |text, line| match line.strip_suffix('\\') {
        Some(begin) => text + begin,
        None => text + line + "\n",
    });
    let split = |line: &str| {
        let (keyword, rest) = line.trim().split_once(' ').expect("an instruction");
        (keyword.to_uppercase(), rest.trim().to_owned())
    };
    joined.lines().filter(|line| !line.trim().is_empty()).map(split).collect()
}

/// `NAME="value" …`; the values here contain no blanks.
fn assignments(words: &str) -> Environment {
    let pair = |word: &str| {
        let (name, value) = word.split_once('=').expect("NAME=value");
        (name.to_owned(), value.trim_matches('"').to_owned())
    };
    words.split_whitespace().map(pair).collect()
}
