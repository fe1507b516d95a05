//! The documentation is true: its commands run and print what it says, its code compiles, its figures are the measured
//! ones, and its links lead somewhere.
//!
//! - `run`: how a page's commands are executed, in the order of the page.
//! - `commands`: the pages that are executed here.
//! - `code`: blocks of code, each in a program of its own.
//! - `elsewhere`: the blocks that are not executed here, each with the test that does it, or the reason. A block that is
//!   neither fails.
//! - `figures`, `links`: what the pages say, and where they lead.

mod code;
mod commands;
mod elsewhere;
mod figures;
mod links;
mod run;
