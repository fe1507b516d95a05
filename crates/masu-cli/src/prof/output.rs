//! The output files of a profile.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use masu_profile::{Profile, Symbols, View, pprof, stacks};

use super::{Prof, text, timeline};
use crate::columns::fit;
use crate::failure::{Failure, REFUSED, USAGE};
use crate::{standard, writable};

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The report.
    Text,
    /// A flame graph.
    Flame,
    /// For pprof.
    Pprof,
    /// One line for each stack.
    Folded,
    /// As the library writes it.
    Raw,
}

impl Form {
    fn option(self) -> &'static str {
        match self {
            Form::Text => "--text",
            Form::Flame => "--flame",
            Form::Pprof => "--pprof",
            Form::Folded => "--folded",
            Form::Raw => "--raw",
        }
    }

    /// Returns the format of a file's name.
    fn of(file: &Path) -> Result<Form, Failure> {
        let name = file.to_string_lossy();
        let forms = [
            (".pb.gz", Form::Pprof),
            (".pprof", Form::Pprof),
            (".html", Form::Flame),
            (".svg", Form::Flame),
            (".folded", Form::Folded),
            (".prof", Form::Raw),
            (".txt", Form::Text),
        ];
        let found = forms.iter().find(|(ending, _)| name.ends_with(ending));
        found.map(|&(_, form)| form).ok_or_else(|| {
            Failure::new(USAGE, format!("-o: `{name}` does not end in the name of a format"))
                .remedy("names end in .pb.gz, .html, .svg, .folded, .prof or .txt; --pprof FILE and its like take any name")
        })
    }
}

/// A file that a profile goes to.
pub struct Output {
    form: Form,
    /// `-`: stdout.
    file: PathBuf,
    /// The option that names it.
    option: &'static str,
}

/// Returns the requested outputs, and a report on stdout if nothing but raw profiles was requested. Stdout comes last: if
/// nobody reads it, SIGPIPE ends this process.
pub fn of(order: &Prof) -> Result<Vec<Output>, Failure> {
    let mut outputs = Vec::new();
    for (form, file) in [
        (Form::Raw, &order.raw),
        (Form::Pprof, &order.pprof),
        (Form::Folded, &order.folded),
        (Form::Flame, &order.flame),
        (Form::Text, &order.text),
    ] {
        let option = form.option();
        outputs.extend(file.iter().map(|file| Output { form, file: file.clone(), option }));
    }
    for file in &order.output {
        outputs.push(Output { form: Form::of(file)?, file: file.clone(), option: "-o" });
    }
    if outputs.iter().all(|output| output.form == Form::Raw) {
        let form = Form::Text;
        outputs.push(Output { form, file: "-".into(), option: form.option() });
    }
    for output in &outputs {
        check(output.option, &output.file)?;
    }
    outputs.sort_by_key(Output::is_stdout);
    Ok(outputs)
}

impl Output {
    /// Whether it goes to stdout.
    pub fn is_stdout(&self) -> bool {
        self.file == Path::new("-")
    }

    /// Writes a profile: as it is `taken`, or what is shown of it.
    pub fn write(
        &self,
        taken: &Profile,
        profile: &Profile,
        symbols: &Symbols,
        view: View,
    ) -> Result<(), Failure> {
        let folded = || stacks::folded(profile, symbols, view);
        let bytes = match self.form {
            Form::Raw => taken.text().into_bytes(),
            Form::Text => {
                let text = text::report(profile, symbols, view);
                if self.is_stdout() { fit(&text) } else { text }.into_bytes()
            }
            Form::Pprof => {
                pprof::encode(profile, symbols, view).map_err(|error| Failure::output(&error))?
            }
            Form::Folded => {
                let mut lines = folded().join("\n");
                lines.push('\n');
                lines.into_bytes()
            }
            Form::Flame => {
                let is_page = self.file.extension().is_none_or(|kind| kind != "svg");
                let above = timeline::chart(profile);
                stacks::flame(&folded(), view, is_page.then_some(&*above)).map_err(|error| {
                    Failure::new(REFUSED, format!("there is no data for a flame graph: {error}"))
                        .remedy("a smaller --rate takes more samples")
                })?
            }
        };
        put(self.option, &self.file, &bytes)
    }
}

/// Writes a file, or to stdout for `-`.
fn put(option: &str, file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if file == Path::new("-") {
        return standard::put(bytes);
    }
    fs::write(file, bytes).map_err(|error| unwritable(REFUSED, option, file, &error))
}

fn unwritable(code: u8, option: &str, file: &Path, error: &io::Error) -> Failure {
    let problem = format!("{option}: `{}` cannot be written: {error}", file.display());
    Failure::new(code, problem)
}

/// Makes sure, before anything is measured, that a file can be written. What it holds stays.
pub fn check(option: &str, file: &Path) -> Result<(), Failure> {
    if file == Path::new("-") {
        return Ok(());
    }
    let wrong = |error| {
        unwritable(USAGE, option, file, &error)
            .remedy(format!("{option} takes a file in a directory that exists and is writable"))
    };
    if writable::reserve(file).map_err(wrong)? {
        let _ = fs::remove_file(file);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_the_form() {
        assert_eq!(Form::of(Path::new("heap.pb.gz")).unwrap(), Form::Pprof);
        assert_eq!(Form::of(Path::new("/tmp/x.svg")).unwrap(), Form::Flame);
        assert!(Form::of(Path::new("heap.gz")).is_err());
    }

    #[test]
    fn a_check_leaves_what_was_there() {
        let place = tempfile::tempdir().unwrap();
        let path = |name| place.path().join(name);
        std::os::unix::fs::symlink(path("target"), path("link")).unwrap();
        fs::write(path("old"), "x").unwrap();
        for name in ["link", "old", "new"] {
            check("-o", &path(name)).unwrap();
        }
        assert!(path("link").is_symlink() && !path("new").exists());
        assert_eq!(fs::read_to_string(path("old")).unwrap(), "x");
        assert!(check("-o", &path("none/file")).is_err());
    }
}
