//! The libc door: C's `malloc` family and C++'s `operator new` and `delete`, as a shared object to
//! preload or link (`libmasu.so`) and as an archive to link statically (`libmasu.a`).
//!
//! ```sh
//! LD_PRELOAD=/path/to/libmasu.so program
//! cc program.c /path/to/libmasu.so
//! cc -static program.c -Wl,-u,malloc /path/to/libmasu.a
//! ```
//!
//! The engine, `masu-core`, does the work. This crate is the contract: which argument is refused
//! with which `errno`, what glibc does where the standards are silent, and how C++ reports that
//! memory is out. No path leads to the C library's own heap: everything that glibc's allocator
//! exports is exported here too, including the `__libc_` names.
//!
//! - `malloc`, `aligned`: allocation in C. The fast paths of the engine are inlined; slower paths
//!   are in cold functions, reached by a tail call.
//! - `aliases`: the same functions under the other names glibc gives them.
//! - `operator_new`, `new_failed`: C++.
//! - `report`: `malloc_trim`, `mallinfo2`, `malloc_info` and their like.
//! - `process`: start, exit and fork.
//! - `jemalloc`: jemalloc's extended interface, `mallocx` to `mallctl`.
//! - `glibc`: blocks of glibc's own allocator that are passed here.
//! - `limit`: the limits on memory of `masu.h`.
//! - `host`, `errno`: what is needed from the C library.
//!
//! # Linking
//!
//! The same object code goes into both files and runs on glibc and musl. It needs
//! `__errno_location`, `getauxval`, the memory functions (`memcpy` and so on) and, when linked
//! statically, `pthread_key_create`, `pthread_setspecific` and `pthread_atfork`. A static C library
//! supplies members only for strong references, while a process that preloads the shared object may
//! have none of the three (glibc before 2.34 without libpthread) and must start all the same. So
//! they are plain references, and the shared object is linked with `--wrap`, which sends them to
//! functions that check whether the real one exists (`host`).
//!
//! That, `-z nodelete` (thread-exit and fork hooks point into the object), `-nostartfiles`, the
//! versions of symbols (`libmasu.map`) and the layout (`layout.ld`) are linker arguments, which only a
//! build script can pass for one kind of library. It does nothing else. A Rust program that uses the
//! engine as a crate does not run it.
//!
//! An archive supplies its members only for references that come *before* it, so a program whose
//! own code calls `malloc` only through other libraries would get libc's; `-Wl,-u,malloc` requests
//! it first. `-Wl,--whole-archive` also works.
//!
//! # Layout
//!
//! The kernel maps the 64 KiB around a touched page of a file, and all of it counts as the
//! program's memory: small programs paid for the whole library. So where Rust links with lld, the
//! code that most programs run lies in one segment and rarely needed code in another, with the
//! unwinding tables between them, and the variables that every program writes lie side by side on
//! two pages. Functions are named by their modules; one that is renamed or moved still works, and
//! lies with the commonly run code. Only x86-64 has this layout: elsewhere it could not be
//! measured.
//!
//! # No unwinding, no panics
//!
//! A release build contains no panic path and no `core::fmt`. The panic handler and the personality
//! routine below exist for builds whose optimiser leaves checks in; neither is ever reached.
//!
//! # Invariants
//!
//! Invariants that hold for the whole object:
//!
//! 1. A symbol that is declared `extern`, or that `weak!` finds, has the type and the meaning that the
//!    manual of its library gives it: the C library's, the loader's, the C++ ABI's or jemalloc's.
//! 2. This object is never unloaded.
//! 3. The loader calls `process::start` once, with a valid environment, before `main`.
//! 4. The C library calls `prepare` on the thread that forks, and then, on the same thread, `parent` in
//!    the process and `child` in the new one.

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
// and would not load without one. It is weak, so that a real one in the same program wins.
#[cfg(not(test))]
core::arch::global_asm!(
    ".weak rust_eh_personality",
    ".hidden rust_eh_personality",
    ".type rust_eh_personality, %function",
    "rust_eh_personality:",
    trap!(),
    ".size rust_eh_personality, . - rust_eh_personality",
);
