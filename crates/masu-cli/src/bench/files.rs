//! The files of `masu bench`: opened before the first run, so that a mistake in a path does not
//! cost a whole race; written after the last.

use std::path::Path;

use masu_bench::race::results::Results;
use masu_bench::report::{Style, html, render};

use crate::cli::Bench;
use crate::failure::{Failure, REFUSED, USAGE};
use crate::standard::print;
use crate::writable;

/// The files for the results.
pub struct Files<'o> {
    json: Option<&'o Path>,
    html: Option<&'o Path>,
    markdown: Option<&'o Path>,
    /// The files that did not exist before.
    made: Vec<&'o Path>,
}

impl<'o> Files<'o> {
    /// Makes sure that the files can be written. Their old contents stay until there are new ones.
    pub fn reserve(order: &'o Bench) -> Result<Self, Failure> {
        let mut files = Files {
            json: order.json.as_deref(),
            html: order.html.as_deref(),
            markdown: order.md.as_deref(),
            made: Vec::new(),
        };
        let all = [files.json, files.html, files.markdown].into_iter().flatten();
        let (stdout, paths): (Vec<_>, Vec<_>) = all.partition(|path| is_stdout(path));
        if stdout.len() > 1 {
            let problem = "only one of --json, --html and --md can go to stdout";
            return Err(Failure::new(USAGE, problem).remedy("name a file in place of `-`"));
        }
        for path in paths {
            let is_new = writable::reserve(path).map_err(|error| {
                Failure::new(USAGE, format!("cannot write `{}`: {error}", path.display()))
                    .remedy("name a file in a directory that exists and is writable")
            })?;
            if is_new {
                files.made.push(path);
            }
        }
        Ok(files)
    }

    /// Whether one of them is stdout, which must then contain nothing else.
    pub fn take_stdout(&self) -> bool {
        [self.json, self.html, self.markdown].into_iter().flatten().any(is_stdout)
    }

    /// Writes the results, each file as the iterator comes to it. Stdout is the last one: if nobody reads it, SIGPIPE
    /// ends this process.
    pub fn write(&self, results: &Results) -> impl Iterator<Item = Result<(), Failure>> {
        let mut files = [
            (self.json, &(|| results.json()) as &dyn Fn() -> String),
            (self.html, &|| html::page(results)),
            (self.markdown, &|| render(results, Style::Markdown)),
        ];
        files.sort_by_key(|(path, _)| path.is_some_and(is_stdout));
        let texts = files.map(|(path, text)| path.map(|path| (path, text())));
        texts.into_iter().flatten().map(|(path, text)| write(path, &text))
    }
}

impl Drop for Files<'_> {
    /// A race without results leaves no empty files.
    fn drop(&mut self) {
        for path in &self.made {
            if path.metadata().is_ok_and(|file| file.len() == 0) {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if is_stdout(path) {
        return print(text);
    }
    std::fs::write(path, text).map_err(|error| {
        Failure::new(REFUSED, format!("cannot write `{}`: {error}", path.display()))
    })
}
