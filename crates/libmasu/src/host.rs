//! What the door needs from the C library and the C++ runtime beyond `errno`.
//!
//! Most of it may be absent: a C program has no C++ runtime, musl has no `__register_atfork`, and a
//! process under an old glibc may have no threads. [`weak!`] reads the address of such a function,
//! null if it is undefined.
//!
//! Three functions are wrapped in the shared object (see "Linking" in the crate's description): the
//! engine and the door call them plainly, and the linker sends the calls to the `__wrap_` functions
//! here. These call the real function, known to them as `__real_…`, if the process has it. In the
//! archive nothing is wrapped or refers to the `__wrap_` functions, and the linker fetches the real
//! ones from the C library.

use crate::errno::ENOSYS;
use core::ffi::{c_int, c_void};
use masu_core::weak;

// A static C library supplies a function only for a strong reference, which weak ones are not. This
// is another name for a symbol in the same object file, so the linker fetches that file; nothing
// uses the name, and the loader of the shared object does not look for it.
core::arch::global_asm!(".globl __getauxval");

/// A fork handler.
pub type ForkHandler = unsafe extern "C" fn();

unsafe extern "C" {
    fn pthread_atfork(prepare: ForkHandler, parent: ForkHandler, child: ForkHandler) -> c_int;
}

/// Whether the process runs with more rights than its caller, who must then not configure it.
pub fn is_secure() -> bool {
    const AT_SECURE: usize = 23;
    let getauxval = weak!("getauxval");
    if getauxval.is_null() {
        return false;
    }
    // SAFETY: invariant 1 of `libmasu`: `getauxval` has this type.
    let getauxval = unsafe {
        core::mem::transmute::<*const c_void, unsafe extern "C" fn(usize) -> usize>(getauxval)
    };
    // SAFETY: invariant 1 of `libmasu`: `getauxval` accepts any type of value.
    unsafe { getauxval(AT_SECURE) != 0 }
}

/// Whether fork handlers may be registered at any later moment. A C library that runs handlers
/// under the lock that registration takes does not allow it: a handler may make the first
/// allocation of a thread. glibc has not held it since version 2.36, which introduced this
/// function.
pub fn registers_late() -> bool {
    !weak!("pidfd_getfd").is_null()
}

/// Has `prepare` called before every fork, and one of the others after it. A process without the
/// function has no second thread either, and its forks need no handlers.
///
/// # Safety
/// The handlers must be callable at any future fork, on any thread.
pub unsafe fn at_fork(prepare: ForkHandler, parent: ForkHandler, child: ForkHandler) {
    // SAFETY: passed on.
    unsafe { pthread_atfork(prepare, parent, child) };
}

/// The jump to the `__real_` function of `$name`, or `ENOSYS` if there is none.
#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    ($name:literal) => {
        concat!(
            "mov rax, qword ptr [rip + __real_",
            $name,
            "@GOTPCREL]\n test rax, rax\n je 2f\n jmp rax\n 2: mov eax, {enosys}\n ret"
        )
    };
}

/// The jump to the `__real_` function of `$name`, or `ENOSYS` if there is none.
#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    ($name:literal) => {
        concat!(
            "adrp x16, :got:__real_",
            $name,
            "\n ldr x16, [x16, :got_lo12:__real_",
            $name,
            "]\n cbz x16, 2f\n br x16\n 2: mov w0, #{enosys}\n ret"
        )
    };
}

/// The jump to the `__real_` function of `$name`, or `ENOSYS` if there is none.
#[cfg(target_arch = "riscv64")]
macro_rules! jump {
    ($name:literal) => {
        concat!("lga t0, __real_", $name, "\n beqz t0, 2f\n jr t0\n 2: li a0, {enosys}\n ret")
    };
}

/// Defines the `__wrap_` function of `$name`: a jump to `__real_`, or `ENOSYS` if there is none.
/// `$first` are instructions before it.
macro_rules! wrap {
    ($name:literal $(, $first:literal)*) => {
        core::arch::global_asm!(
            ".pushsection .text.masu_wrap, \"ax\", %progbits",
            concat!(".weak __real_", $name),
            concat!(".globl __wrap_", $name),
            concat!(".hidden __wrap_", $name),
            concat!(".type __wrap_", $name, ", %function"),
            concat!("__wrap_", $name, ":"),
            $($first,)*
            jump!($name),
            concat!(".size __wrap_", $name, ", . - __wrap_", $name),
            ".popsection",
            enosys = const ENOSYS,
        );
    };
}

wrap!("pthread_key_create");
wrap!("pthread_setspecific");

// glibc keeps `pthread_atfork` in the part that is always linked statically. It exports
// `__register_atfork`, which takes the handle of the registering library as a fourth argument; null
// means that no unloading ever removes the handlers.
#[cfg(target_arch = "x86_64")]
wrap!(
    "pthread_atfork",
    ".weak __register_atfork",
    "mov rax, qword ptr [rip + __register_atfork@GOTPCREL]",
    "test rax, rax\n je 3f\n xor ecx, ecx\n jmp rax\n 3:"
);
#[cfg(target_arch = "aarch64")]
wrap!(
    "pthread_atfork",
    ".weak __register_atfork",
    "adrp x16, :got:__register_atfork",
    "ldr x16, [x16, :got_lo12:__register_atfork]",
    "cbz x16, 3f\n mov x3, xzr\n br x16\n 3:"
);
#[cfg(target_arch = "riscv64")]
wrap!(
    "pthread_atfork",
    ".weak __register_atfork",
    "lga t0, __register_atfork",
    "beqz t0, 3f\n li a3, 0\n jr t0\n 3:"
);
