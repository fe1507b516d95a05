//! Memory limits, as C programs set and read them: `masu_set_limits`, `masu_get_limits` and
//! `masu_set_limit_callback` of `masu.h`.

use core::ffi::c_void;
use masu_core::control::{self, LimitCallback};

/// Has `callback` called with `data` when the soft limit is passed; null removes it. See `masu.h`.
#[unsafe(no_mangle)]
pub extern "C" fn masu_set_limit_callback(callback: Option<LimitCallback>, data: *mut c_void) {
    control::set_limit_callback(callback, data);
}

/// Sets the soft and the hard limit, in bytes in use; 0 means none. See `masu.h`.
#[unsafe(no_mangle)]
pub extern "C" fn masu_set_limits(soft: usize, hard: usize) {
    control::set_limit_soft(soft);
    control::set_limit_hard(hard);
}

/// Stores the soft and the hard limit, in bytes in use, in the places that are not null. See
/// `masu.h`.
///
/// # Safety
/// Each place must be null or writable.
#[unsafe(no_mangle)]
#[unsafe(link_section = "masu_door")]
pub unsafe extern "C" fn masu_get_limits(soft: *mut usize, hard: *mut usize) {
    // SAFETY: as the caller says, null or writable places.
    unsafe {
        if let Some(soft) = soft.as_mut() {
            *soft = control::limit_soft();
        }
        if let Some(hard) = hard.as_mut() {
            *hard = control::limit_hard();
        }
    }
}
