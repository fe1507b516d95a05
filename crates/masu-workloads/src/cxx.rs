//! C++'s `operator new` and its sized `operator delete`, as a C++ program would reach them.
//!
//! An allocator that replaces them is called through them and is told the size of what it
//! gets back. With one that does not, they are `malloc` and `free`, which is what the C++
//! library's own operators come down to.

use std::ffi::c_void;
use std::mem::transmute;
use std::sync::OnceLock;

use super::block::{SMALLEST, Source};

type New = unsafe extern "C" fn(usize) -> *mut c_void;
type SizedDelete = unsafe extern "C" fn(*mut c_void, usize);

struct Operators {
    new: New,
    delete: SizedDelete,
}

/// Blocks that come from `operator new(size)` and go to `operator delete(block, size)`.
pub struct Cxx;

impl Source for Cxx {
    fn allocate(length: usize) -> *mut u8 {
        assert!(length >= SMALLEST);
        // SAFETY: the operator takes any size.
        unsafe { (operators().new)(length).cast() }
    }

    unsafe fn release(start: *mut u8, length: usize) {
        // SAFETY: the caller passes a block of `allocate` with its length.
        unsafe { (operators().delete)(start.cast(), length) }
    }
}

fn operators() -> &'static Operators {
    static OPERATORS: OnceLock<Operators> = OnceLock::new();
    OPERATORS.get_or_init(|| {
        // SAFETY: both calls only read the linker's tables.
        let symbol =
            |name: &std::ffi::CStr| unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        let (new, delete) = (symbol(c"_Znwm"), symbol(c"_ZdlPvm"));
        if new.is_null() || delete.is_null() {
            return Operators { new: libc::malloc, delete: unsized_delete };
        }
        // SAFETY: these two names have these signatures in the platform's C++ ABI.
        unsafe {
            Operators {
                new: transmute::<*mut c_void, New>(new),
                delete: transmute::<*mut c_void, SizedDelete>(delete),
            }
        }
    })
}

unsafe extern "C" fn unsized_delete(start: *mut c_void, _: usize) {
    // SAFETY: a block from malloc, see `operators`.
    unsafe { libc::free(start) }
}
