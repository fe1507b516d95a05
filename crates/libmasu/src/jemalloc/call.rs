//! One call of `mallctl`: where the old value goes and where the new one comes from.
//!
//! The rules, which every name follows:
//!
//! | name | given | answer |
//! |---|---|---|
//! | may not be written | a new value | `EPERM` |
//! | may not be read | a place for the old one | `EPERM` |
//! | any | an old or new value of another length | `EINVAL`; of the old one, what fits is copied |
//!
//! Invariants:
//!
//! 1. The pointers of a call are as [`Call::new`] requires, for as long as the call exists.
//! 2. If a call's name takes a pointer, its value points to what `mallctl` requires.

use core::cell::Cell;
use core::ffi::{CStr, c_char, c_int, c_void};
use masu_core::Hooks;

/// Why a call failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Error(pub c_int);

/// The name may not be written, or may not be read.
pub const EPERM: Error = Error(1);
/// There is no such name.
pub const ENOENT: Error = Error(2);
/// Memory is out.
pub const EAGAIN: Error = Error(11);
/// The request could not be carried out.
pub const EFAULT: Error = Error(14);
/// A value of the wrong length, or out of range.
pub const EINVAL: Error = Error(22);

/// How a call ended.
pub type Answer = Result<(), Error>;

/// Maximum count of numbers in a name.
pub const INDICES: usize = 2;

/// The type of the stored value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// None was stored.
    None,
    /// A `bool`.
    Flag,
    /// A number.
    Unsigned,
    /// A number that may be negative.
    Signed,
    /// A string.
    String,
}

/// jemalloc's `arena_config_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Settings {
    /// The table of hooks; null for none.
    pub hooks: *mut Hooks,
    /// Not 0 if the heap's metadata lies in their memory.
    pub metadata_use_hooks: u8,
}

/// A call's arguments.
pub struct Call {
    old: *mut u8,
    old_len: *mut usize,
    new: *const u8,
    new_len: usize,
    /// The numbers in the name, in order.
    pub index: [usize; INDICES],
    kind: Cell<Kind>,
}

impl Call {
    /// Takes the arguments as passed to the function.
    ///
    /// # Safety
    /// For as long as the call exists, `old_len` must be null or readable and writable; if it is not null, `old`
    /// must be null or writable for `*old_len` bytes. `new` must be null or readable for `new_len` bytes. What they
    /// hold must be what the name takes, as for [`mallctl`](super::ctl::mallctl).
    pub unsafe fn new(
        old: *mut c_void,
        old_len: *mut usize,
        new: *const c_void,
        new_len: usize,
        index: [usize; INDICES],
    ) -> Self {
        Call {
            old: old.cast(),
            old_len,
            new: new.cast(),
            new_len,
            index,
            kind: Cell::new(Kind::None),
        }
    }

    /// Whether the call passes a new value.
    pub fn writes(&self) -> bool {
        !self.new.is_null()
    }

    /// Whether the call asks for the old value.
    pub fn reads(&self) -> bool {
        !self.old.is_null() && !self.old_len.is_null()
    }

    /// Refuses a call that passes a new value.
    pub fn read_only(&self) -> Answer {
        if self.writes() || self.new_len != 0 { Err(EPERM) } else { Ok(()) }
    }

    /// Refuses a call that asks for the old value.
    pub fn write_only(&self) -> Answer {
        if self.old.is_null() && self.old_len.is_null() { Ok(()) } else { Err(EPERM) }
    }

    /// Refuses a call with any value.
    pub fn neither(&self) -> Answer {
        self.read_only()?;
        self.write_only()
    }

    /// Refuses a call that does not ask for an old value of `len` bytes: for names that make something, which
    /// would be lost.
    pub fn must_read(&self, len: usize) -> Answer {
        // SAFETY: invariant 1: null, or readable and writable.
        match unsafe { self.old_len.as_mut() } {
            Some(old_len) if self.old.is_null() || *old_len != len => {
                *old_len = 0;
                Err(EINVAL)
            }
            Some(_) => Ok(()),
            None => Err(EINVAL),
        }
    }

    /// Returns the type of the value that was stored.
    pub fn kind(&self) -> Kind {
        self.kind.get()
    }

    /// Stores the low `len` bytes of `value` as the old value.
    #[inline(never)]
    fn give(&self, kind: Kind, value: u64, len: usize) -> Answer {
        self.kind.set(kind);
        if !self.reads() {
            return Ok(());
        }
        let bytes = value.to_le_bytes();
        // SAFETY: invariant 1: both may be written; at most the 8 bytes of the value are copied.
        unsafe {
            let copied = len.min(*self.old_len);
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.old, copied);
            if *self.old_len != len {
                *self.old_len = copied;
                return Err(EINVAL);
            }
        }
        Ok(())
    }

    /// Stores a `bool` as the old value.
    pub fn flag(&self, value: bool) -> Answer {
        self.give(Kind::Flag, value.into(), 1)
    }

    /// Stores an `unsigned` or a `uint32_t` as the old value.
    pub fn unsigned(&self, value: u32) -> Answer {
        self.give(Kind::Unsigned, value.into(), 4)
    }

    /// Stores a `uint64_t` as the old value.
    pub fn word(&self, value: u64) -> Answer {
        self.give(Kind::Unsigned, value, 8)
    }

    /// Stores an `ssize_t` or an `int64_t` as the old value.
    pub fn signed(&self, value: i64) -> Answer {
        self.give(Kind::Signed, value as u64, 8)
    }

    /// Stores a `size_t` as the old value.
    pub fn size(&self, value: usize) -> Answer {
        self.give(Kind::Unsigned, value as u64, 8)
    }

    /// Stores a pointer as the old value.
    pub fn pointer<T>(&self, value: *const T) -> Answer {
        self.give(Kind::Unsigned, value as u64, 8)
    }

    /// Stores a string that lives for ever as the old value.
    pub fn string(&self, value: &'static CStr) -> Answer {
        self.give(Kind::String, value.as_ptr() as u64, 8)
    }

    /// The new value of `len` bytes, if there is one.
    #[inline(never)]
    fn take(&self, len: usize) -> Result<Option<u64>, Error> {
        if !self.writes() {
            return Ok(None);
        }
        if self.new_len != len {
            return Err(EINVAL);
        }
        let mut bytes = [0u8; 8];
        // SAFETY: invariant 1: `new` may be read for `len` bytes, of which at most 8 are.
        unsafe { core::ptr::copy_nonoverlapping(self.new, bytes.as_mut_ptr(), len.min(8)) };
        Ok(Some(u64::from_le_bytes(bytes)))
    }

    /// The new value, a `bool`.
    pub fn new_flag(&self) -> Result<Option<bool>, Error> {
        Ok(self.take(1)?.map(|n| n & 1 != 0))
    }

    /// The new value, an `unsigned`.
    pub fn new_unsigned(&self) -> Result<Option<u32>, Error> {
        Ok(self.take(4)?.map(|n| n as u32))
    }

    /// The new value, an `ssize_t`.
    pub fn new_signed(&self) -> Result<Option<i64>, Error> {
        Ok(self.take(8)?.map(|n| n as i64))
    }

    /// The new value, a `size_t`.
    pub fn new_size(&self) -> Result<Option<usize>, Error> {
        Ok(self.take(8)?.map(|n| n as usize))
    }

    /// The new value, a pointer.
    pub fn new_pointer(&self) -> Result<Option<*mut u8>, Error> {
        Ok(self.take(8)?.map(|n| n as *mut u8))
    }

    /// The new value, an `arena_config_t`.
    pub fn new_settings(&self) -> Result<Option<Settings>, Error> {
        if !self.writes() {
            return Ok(None);
        }
        if self.new_len != size_of::<Settings>() {
            return Err(EINVAL);
        }
        // SAFETY: invariant 1: `new` may be read for that many bytes, and any of them make these settings.
        Ok(Some(unsafe { self.new.cast::<Settings>().read_unaligned() }))
    }

    /// Returns the buffer whose address the old value's place holds.
    pub fn buffer(&self) -> Result<*mut c_char, Error> {
        self.must_read(size_of::<*mut c_char>())?;
        // SAFETY: invariants 1 and 2: `old` is as long as a pointer, and holds that of a buffer.
        Ok(unsafe { self.old.cast::<*mut c_char>().read_unaligned() })
    }
}
