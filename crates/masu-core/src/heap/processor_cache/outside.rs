//! Where the caches and depots have what readers from outside look at.

use super::{Cache, CachePadded, Depot, Magazine, Pair};
use core::mem::{offset_of, size_of};

pub use super::{AT, DEPOTS, IN_USE, PROCESSOR_CACHES};

/// Bytes of a cache, of a depot, of a class's pair in a cache, and of a magazine.
pub const BYTES: [usize; 4] =
    [size_of::<CachePadded<Cache>>(), size_of::<Depot>(), size_of::<Pair>(), size_of::<Magazine>()];
/// In a cache, the pairs, two magazines each; the counters of blocks taken, and of bytes allocated and freed.
pub const CACHE: [usize; 4] = [
    offset_of!(Cache, pairs) + offset_of!(Pair, loaded),
    offset_of!(Cache, taken),
    offset_of!(Cache, allocated),
    offset_of!(Cache, deallocated),
];
/// In a depot, the magazines; in a magazine, the first block.
pub const MAGAZINES: [usize; 2] = [offset_of!(Depot, full), offset_of!(Magazine, first)];
