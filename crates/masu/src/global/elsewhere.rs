//! The system's allocator as the global allocator.

use super::{Configured, DEFAULT, Masu};
use crate::process;
use core::alloc::{GlobalAlloc, Layout};
use std::alloc::System;

/// Implements the allocator; `$config` is the program's configuration.
macro_rules! global_alloc {
    ($type:ty, $self:ident => $config:expr) => {
        // SAFETY: invariants 1 and 2 of `global`: every call is passed on unchanged to the system's allocator, which
        // keeps them.
        unsafe impl GlobalAlloc for $type {
            #[inline]
            unsafe fn alloc(&$self, layout: Layout) -> *mut u8 {
                process::ensure($config);
                // SAFETY: passed on.
                unsafe { System.alloc(layout) }
            }

            #[inline]
            unsafe fn alloc_zeroed(&$self, layout: Layout) -> *mut u8 {
                process::ensure($config);
                // SAFETY: passed on.
                unsafe { System.alloc_zeroed(layout) }
            }

            #[inline]
            unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
                // SAFETY: passed on.
                unsafe { System.dealloc(p, layout) }
            }

            #[inline]
            unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
                // SAFETY: passed on.
                unsafe { System.realloc(p, layout, size) }
            }
        }
    };
}

global_alloc!(Masu, self => &DEFAULT);
global_alloc!(Configured, self => &self.0);
