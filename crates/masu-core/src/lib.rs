#![no_std]
//! The engine.
