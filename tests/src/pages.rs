//! The documentation's pages, and the fenced blocks in them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::workspace;

/// A fenced block.
#[derive(Debug)]
pub struct Block {
    /// What stands after the opening fence.
    pub language: String,
    /// What stands between the fences, with an end of line after each line.
    pub text: String,
}

impl Block {
    /// Whether its lines are commands for a shell.
    pub fn is_commands(&self) -> bool {
        ["sh", "bash", "console"].contains(&&*self.language)
    }

    /// The commands of a block for a shell. In a block of `console`, they follow `$ `.
    pub fn commands(&self) -> String {
        if self.language != "console" {
            return self.text.clone();
        }
        self.text.lines().filter_map(|line| line.strip_prefix("$ ")).collect::<Vec<_>>().join("\n")
    }
}

/// All blocks of a page, given by its path in the workspace.
#[track_caller]
pub fn blocks(page: &str) -> Vec<Block> {
    let text = fs::read_to_string(workspace().join(page)).expect(page);
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else { continue };
        assert!(line.starts_with("```"), "{page}: a fence does not begin its line: {line}");
        let body: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
        let text = body.iter().map(|line| format!("{line}\n")).collect();
        blocks.push(Block { language: language.to_owned(), text });
    }
    blocks
}

/// The page's only block that has `part` in it.
#[track_caller]
pub fn block(page: &str, part: &str) -> Block {
    let mut found = blocks(page);
    found.retain(|block| block.text.contains(part));
    assert_eq!(found.len(), 1, "blocks of {page} with {part}: {found:?}");
    found.remove(0)
}

/// All pages below a directory, except for built and hidden ones.
pub fn pages(place: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(place).expect("a directory").map(|file| file.unwrap().path());
    let of = |path: PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match () {
            _ if name == "target" || name.starts_with('.') => Vec::new(),
            _ if path.is_dir() => pages(&path),
            _ if name.ends_with(".md") => vec![path],
            _ => Vec::new(),
        }
    };
    files.flat_map(of).collect()
}
