//! `operator new` when memory is out: the new-handler, then an exception or null.
//!
//! C++ requires this: as long as there is a new-handler, call it and try again. It may free
//! something, install another handler, end the program, or throw. Without one, `new` throws
//! `std::bad_alloc`. The nothrow forms do the same and turn any exception into null.
//!
//! Exceptions have to pass through here, and Rust code compiled to abort on panic stops them. So
//! the loop is in assembly with its own unwind tables, a naked function per form. The functions of
//! `operator_new` reach it by a tail call; where the optimiser makes that an ordinary call, their
//! frames have nothing to clean up and are unwound through. The functions that the loop itself
//! calls never unwind.
//!
//! The nothrow form needs a `catch (...)` around the handler: a table for the C++ personality
//! routine that says so, and a landing pad. If the C++ runtime was loaded by `dlopen`, the
//! personality routine is not known here and a throwing handler's exception passes through the
//! nothrow form.
//!
//! The process need not contain any C++. The runtime's functions are weak references; in a runtime
//! loaded by `dlopen` they are looked up by name. The exception is built from the parts that the
//! C++ ABI names: any program that can catch it has all of them linked, whereas a static program
//! may lack the library's own function for throwing it. Without these parts no code could catch the
//! exception, and `new` ends the process with a message.
//!
//! Invariants:
//!
//! 1. An exception that leaves these functions passes only through frames of `operator_new` that have
//!    nothing to clean up: they return what they called returns, and own nothing.

use crate::aligned::try_aligned;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::transmute;

#[cfg_attr(target_arch = "x86_64", path = "new_failed/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "new_failed/aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "new_failed/riscv64.rs")]
mod arch;

pub use arch::{new_or_null, new_or_throw};

/// The table that puts `catch (...)` around the call between `.Lmasu_new_try` and
/// `.Lmasu_new_tried`, with the landing pad `.Lmasu_new_catch`, in the function that starts at
/// `.Lmasu_new_begin`; and the place that holds the address of the personality routine.
macro_rules! catch_table {
    () => {
        "
        .pushsection .gcc_except_table.masu_new, \"a\", %progbits
        .balign 4
    .Lmasu_new_lsda:
        .byte 0xff                                      // landing pads count from the function
        .byte 0x03                                      // types are 4-byte words
        .uleb128 .Lmasu_new_types - .Lmasu_new_calls
    .Lmasu_new_calls:
        .byte 0x01                                      // call sites are uleb128
        .uleb128 .Lmasu_new_actions - .Lmasu_new_sites
    .Lmasu_new_sites:
        .uleb128 .Lmasu_new_try - .Lmasu_new_begin
        .uleb128 .Lmasu_new_tried - .Lmasu_new_try
        .uleb128 .Lmasu_new_catch - .Lmasu_new_begin
        .uleb128 1                                      // the action at offset 0
    .Lmasu_new_actions:
        .byte 1                                         // catch type 1
        .byte 0                                         // no further action
        .balign 4
        .long 0                                         // type 1: anything
    .Lmasu_new_types:
        .popsection

        .pushsection .data.rel.ro.masu_new, \"aw\", %progbits
        .balign 8
        .weak __gxx_personality_v0
    .Lmasu_new_personality:
        .quad __gxx_personality_v0
        .popsection
        "
    };
}
use catch_table;
use masu_core::weak;

/// The address of a symbol of the C++ runtime, null if there is none.
macro_rules! runtime {
    ($name:literal) => {{
        let address = weak!($name);
        const NAME: &CStr = match CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!("a name without zeros"),
        };
        if address.is_null() { runtime_symbol(NAME) } else { address }
    }};
}

/// Tries once more. An alignment of 0 means the natural one.
extern "C" fn allocate(size: usize, align: usize) -> *mut u8 {
    try_aligned(size, align)
}

/// Returns the new-handler in force, null if there is none.
extern "C" fn new_handler() -> *const c_void {
    let get = runtime!("_ZSt15get_new_handlerv");
    if get.is_null() {
        return get;
    }
    // SAFETY: invariant 1 of `libmasu`: this is `std::get_new_handler()`.
    unsafe { transmute::<*const c_void, unsafe extern "C" fn() -> *const c_void>(get)() }
}

/// An exception ready to be thrown: the arguments of `__cxa_throw`, and the function itself.
#[repr(C)]
struct Throw {
    exception: *mut c_void,
    type_info: *const c_void,
    destructor: *const c_void,
    throw: *const c_void,
}

/// Where nobody can catch anything. A static, so that it has a symbol name that says where it belongs.
static LINE: [u8; 58] = *b"masu: operator new: out of memory, and nobody to catch it\n";

/// Makes a `std::bad_alloc` and writes to `place` how to throw it. Does not return if no code in
/// this process could catch it.
///
/// # Safety
/// `place` must be writable.
unsafe extern "C" fn bad_alloc(place: *mut Throw) {
    let allocate = runtime!("__cxa_allocate_exception");
    let throw = runtime!("__cxa_throw");
    let vtable = runtime!("_ZTVSt9bad_alloc");
    let type_info = runtime!("_ZTISt9bad_alloc");
    let destructor = runtime!("_ZNSt9bad_allocD1Ev");
    if [allocate, throw, vtable, type_info, destructor].iter().any(|part| part.is_null()) {
        masu_core::write_stderr(&LINE);
        masu_core::abort();
    }
    // SAFETY: as the caller says, `place` is writable. The rest is invariant 1 of `libmasu`, the C++ ABI: a
    // `bad_alloc` is a pointer to its virtual table, past the two words before the first function; allocation does
    // not return null.
    unsafe {
        let exception = transmute::<*const c_void, unsafe extern "C" fn(usize) -> *mut c_void>(
            allocate,
        )(size_of::<*const c_void>());
        exception.cast::<*const c_void>().write(vtable.cast::<*const c_void>().add(2).cast());
        place.write(Throw { exception, type_info, destructor, throw });
    }
}

/// Ends the exception `thrown` by a new-handler.
extern "C" fn swallow(thrown: *mut c_void) {
    let begin = runtime!("__cxa_begin_catch");
    let end = runtime!("__cxa_end_catch");
    if begin.is_null() || end.is_null() {
        return;
    }
    // SAFETY: invariant 1 of `libmasu`: the functions of the C++ ABI, called once in the required order, with the
    // exception that the personality routine passed to the landing pad.
    unsafe {
        transmute::<*const c_void, unsafe extern "C" fn(*mut c_void) -> *mut c_void>(begin)(thrown);
        transmute::<*const c_void, unsafe extern "C" fn()>(end)();
    }
}

/// Returns the address of `name` in a C++ runtime that was loaded after this library, null if there
/// is none. The runtime then stays loaded.
#[inline(never)]
fn runtime_symbol(name: &CStr) -> *const c_void {
    type Open = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;
    type Find = unsafe extern "C" fn(*mut c_void, *const c_char) -> *const c_void;
    const RTLD_DEFAULT: *mut c_void = core::ptr::null_mut();
    const RTLD_LAZY: c_int = 1;
    const RTLD_NOLOAD: c_int = 4;

    let find = weak!("dlsym");
    if find.is_null() {
        return core::ptr::null();
    }
    // SAFETY: invariant 1 of `libmasu`: `dlsym` has this type.
    let find = unsafe { transmute::<*const c_void, Find>(find) };
    // By name, because linkers warn about any static program that refers to `dlopen`.
    // SAFETY: invariant 1 of `libmasu`: `dlsym` takes this handle and a string.
    let open = unsafe { find(RTLD_DEFAULT, c"dlopen".as_ptr()) };
    if open.is_null() {
        return open;
    }
    // SAFETY: invariant 1 of `libmasu`: `dlopen` has this type.
    let open = unsafe { transmute::<*const c_void, Open>(open) };
    for library in [c"libstdc++.so.6", c"libc++.so.1"] {
        // SAFETY: invariant 1 of `libmasu`: `dlopen` takes a string, and with `RTLD_NOLOAD` loads nothing.
        let library = unsafe { open(library.as_ptr(), RTLD_LAZY | RTLD_NOLOAD) };
        if library.is_null() {
            continue;
        }
        // SAFETY: invariant 1 of `libmasu`: `dlsym` takes the handle just obtained and a string.
        let symbol = unsafe { find(library, name.as_ptr()) };
        if !symbol.is_null() {
            return symbol;
        }
    }
    core::ptr::null()
}
