//! The libc door: C's `malloc` family and C++'s `operator new` and `delete`, as a shared object to
//! preload or link (`libmasu.so`) and as an archive to link statically (`libmasu.a`).
//!
//! ```sh
//! LD_PRELOAD=/path/to/libmasu.so program
//! cc program.c /path/to/libmasu.so
//! cc -static program.c -Wl,-u,malloc /path/to/libmasu.a
//! ```
//!
//! The engine, `masu-core`, does the work. What is here is the contract: which argument is refused
//! with which `errno`, what glibc does where the standards are silent, and how memory that cannot
//! be had is reported in C++. Nothing is left that would reach the C library's own heap: whatever
//! glibc's allocator exports is exported here too, under `__libc_` names as well.
//!
//! - `malloc`, `aligned`: allocation in C. The fast paths of the engine are inlined; what happens
//!   behind them is in functions marked cold, reached by a tail call.
//! - `aliases`: the same functions under the names glibc also gives them.
//! - `operator_new`, `new_failed`: C++.
//! - `report`: `malloc_trim`, `mallinfo2`, `malloc_info` and their like.
//! - `process`: start, exit and fork.
//! - `jemalloc`: jemalloc's extended interface, `mallocx` to `mallctl`.
//! - `glibc`: blocks of glibc's own allocator that come here.
//! - `limit`: limits on memory, of `masu.h`.
//! - `host`, `errno`: what is asked of the C library.
//!
//! # Linking
//!
//! The same object code goes into both files and runs on glibc and musl. It needs
//! `__errno_location`, `getauxval`, the memory functions (`memcpy` and so on) and, when linked
//! statically, `pthread_key_create`, `pthread_setspecific` and `pthread_atfork`. A static C library
//! gives members only to those who insist, while a process that preloads the shared object may
//! have none of the three (glibc before 2.34 without libpthread) and must start all the same. So
//! they are plain references, and the shared object is linked with `--wrap`, which sends them to
//! functions that look whether the real one is there (`host`).
//!
//! That, `-z nodelete` (thread-exit and fork hooks point into the object), `-nostartfiles`, the
//! versions of symbols (`libmasu.map`) and the layout (`layout.ld`) are linker arguments, which only a
//! build script can pass for one kind of library. It does nothing else. A Rust program that uses the
//! engine as a crate does not run it.
//!
//! An archive gives its members to references that come *before* it, so a program whose own code
//! asks for `malloc` only through other libraries would get libc's; `-Wl,-u,malloc` asks for it
//! first. `-Wl,--whole-archive` does too, and also works.
//!
//! # Layout
//!
//! The kernel maps the 64 KiB around a page of a file that is touched, and all of it counts as the
//! program's memory: small programs had the whole library. So where Rust links with lld, what most
//! programs run lies in one segment, what few need in another, with the unwinding tables between
//! them, and the variables that every program writes lie side by side on two pages. Functions are
//! named by their modules; one that gets another name or module works as before, and lies with what
//! all run. Only x86-64 has it: elsewhere it could not be measured.
//!
//! # No unwinding, no panics
//!
//! A release build holds no panic path and no `core::fmt`. The panic handler and the personality
//! routine below exist for builds whose optimiser leaves checks in; neither is ever reached.

#![cfg_attr(not(test), no_std)]

mod aliases;
mod aligned;
mod errno;
mod glibc;
mod host;
mod infallible;
mod jemalloc;
mod limit;
mod malloc;
mod new_failed;
mod operator_new;
mod process;
mod report;

#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    masu_core::abort()
}

/// An instruction that every processor refuses.
#[cfg(all(not(test), target_arch = "x86_64"))]
macro_rules! trap {
    () => {
        "ud2"
    };
}

/// An instruction that every processor refuses.
#[cfg(all(not(test), target_arch = "aarch64"))]
macro_rules! trap {
    () => {
        "udf #0"
    };
}

/// An instruction that every processor refuses.
#[cfg(all(not(test), target_arch = "riscv64"))]
macro_rules! trap {
    () => {
        "unimp"
    };
}

// Builds without link-time optimisation refer to the personality routine from core's own frames,
// and would not load without one. Weak, so that a real one in the same program wins.
#[cfg(not(test))]
core::arch::global_asm!(
    ".weak rust_eh_personality",
    ".hidden rust_eh_personality",
    ".type rust_eh_personality, %function",
    "rust_eh_personality:",
    trap!(),
    ".size rust_eh_personality, . - rust_eh_personality",
);
