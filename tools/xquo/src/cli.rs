//! The command line.

use clap::{Parser, ValueEnum};

use crate::quote::Quoting;

/// Printed instead of waiting for somebody to type NULs.
pub const EXAMPLES: &str = "\
xquo reads NUL-separated records from standard input and writes each one quoted for the shell.

EXAMPLES:
    find . -type f -print0 | xquo
    find . -type f -print0 | xquo --workers 2 | sed 's/^/rm -- /' | sh
    printf 'a\\0b c\\0' | xquo --out-delimiter null | tr '\\0' ' '

To type records into a terminal all the same, say --input-from-tty. --help lists all options.
";

const AFTER_HELP: &str = "\
Quoting: each record is put between single quotes; a single quote in it becomes '\"'\"', and unless
--no-escape is given a backspace becomes '$'\\b'', a line feed '$'\\n'' and a carriage return
'$'\\r''. All other bytes, whatever their encoding, stay as they are.

Exit status: 0 if everything was written, 1 if something could not be read or written, 2 if the
command line is wrong. Nothing is said of a reader that goes away, as `head` does.";

/// Quotes NUL-separated records for the shell.
///
/// Reads standard input, splits it at NUL bytes, and writes each record as one word that a shell
/// reads back as the same bytes. A last record without NUL counts too.
#[derive(Debug, Clone, Parser)]
#[command(
    version,
    after_long_help = AFTER_HELP,
    override_usage = "xquo [OPTIONS] < /path/to/file"
)]
pub struct Arguments {
    /// Do not escape non-printable characters (backspace, line feed, carriage return)
    ///
    /// Only the single quotes are put round the record and escaped in it.
    #[arg(short, long)]
    pub no_escape: bool,

    /// What is written after each record, the last one included
    #[arg(short, long, value_enum, default_value_t = Delimiter::Lf)]
    pub out_delimiter: Delimiter,

    /// How many threads quote; one more reads and one more writes
    #[arg(short, long, visible_short_alias = 'j', value_name = "N", default_value_t = 1)]
    pub workers: u8,

    /// How many records the bulk pipelines hand over at once
    ///
    /// Takes effect with --pipeline bulks and unordered. 0 counts as 1.
    #[arg(short, long, value_name = "N", default_value_t = 100)]
    pub bulk_lines: usize,

    /// Read standard input even if it is a terminal
    #[arg(short = 't', long)]
    pub input_from_tty: bool,

    /// How the work is handed from thread to thread
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Pipeline::Chunks)]
    pub pipeline: Pipeline,

    /// Say at the end, on standard error, which allocator served and what the run took
    #[arg(long)]
    pub stats: bool,
}

/// What ends a record of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Delimiter {
    /// The byte 0
    Null,
    /// A line feed
    Lf,
}

/// How the work is handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Pipeline {
    /// Pieces of the input in recycled buffers; order kept, memory bounded
    Chunks,
    /// Records, each in heap blocks of its own; order kept, memory bounded
    Bulks,
    /// As bulks, but whoever is ready writes first; reads further ahead
    Unordered,
}

impl Arguments {
    /// Threads that quote, at least one.
    pub fn workers(&self) -> usize {
        usize::from(self.workers.max(1))
    }

    /// Records in a bulk, at least one.
    pub fn bulk_lines(&self) -> usize {
        self.bulk_lines.max(1)
    }

    /// The rules that were asked for.
    pub fn quoting(&self) -> Quoting {
        let delimiter = match self.out_delimiter {
            Delimiter::Null => 0,
            Delimiter::Lf => b'\n',
        };
        Quoting { escape: !self.no_escape, delimiter }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Arguments {
        Arguments::try_parse_from([&["xquo"], words].concat()).unwrap()
    }

    #[test]
    fn the_defaults() {
        let arguments = parse(&[]);
        assert_eq!((arguments.workers(), arguments.bulk_lines()), (1, 100));
        assert_eq!(arguments.quoting(), Quoting { escape: true, delimiter: b'\n' });
        assert_eq!(arguments.pipeline, Pipeline::Chunks);
    }

    #[test]
    fn zero_counts_as_one() {
        let arguments = parse(&["-w", "0", "-b", "0"]);
        assert_eq!((arguments.workers(), arguments.bulk_lines()), (1, 1));
    }

    #[test]
    fn short_forms() {
        let arguments = parse(&["-n", "-o", "null", "-j", "3", "-b", "7", "-t"]);
        assert_eq!((arguments.workers(), arguments.bulk_lines()), (3, 7));
        assert_eq!(arguments.quoting(), Quoting { escape: false, delimiter: 0 });
        assert!(arguments.input_from_tty);
    }

    #[test]
    fn the_definition_is_sound() {
        <Arguments as clap::CommandFactory>::command().debug_assert();
    }
}
