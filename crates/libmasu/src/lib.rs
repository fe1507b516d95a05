#![no_std]
//! The libc door.
