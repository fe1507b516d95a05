//! What is where in the records, for `outside`.

use super::chunk::{Chunk, Pages};
use super::span::Span;

pub const CHUNK: [usize; 5] = Chunk::FIELDS;
pub const CHUNK_LEN: usize = size_of::<Chunk>();
pub const PAGES: [usize; 2] = Pages::FIELDS;
pub const PAGES_LEN: usize = size_of::<Pages>();
pub const SPAN: [usize; 2] = Span::FIELDS;
pub const SPAN_LEN: usize = size_of::<Span>();
