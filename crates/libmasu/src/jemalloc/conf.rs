//! `MALLOC_CONF` and the program's `malloc_conf`: what jemalloc's options mean here.
//!
//! | key | here |
//! |---|---|
//! | `dirty_decay_ms` | the option `decay`; -1 means never |
//! | `background_thread` | the option `background_thread`, on or off |
//! | `stats_print` | the option `show_stats` |
//! | `prof`, `prof_active`, `lg_prof_sample` | the options `prof` and `prof_rate` |
//! | `prof_thread_active_init` | whether threads are sampled from their start on |
//! | `lg_prof_interval`, `prof_gdump`, `prof_final`, `prof_prefix` | files in jemalloc's format |
//! | `prof_leak`, `prof_leak_error` | a message at exit, and the exit code |
//! | `experimental_infallible_new` | [`crate::infallible`] |
//!
//! All other keys tune parts that do not exist, and are ignored. A key set here overrides a policy,
//! and is reported as set by that string. The environment overrides the program's own string, and
//! `MASU_…` overrides both. Only this file knows about these two sources.

use crate::process::Environment;
use core::ffi::{CStr, c_char};
use masu_core::config::{BackgroundThread, Config, Origin, Statistics};
use masu_core::weak;

/// Returns the configuration that the two strings make of the defaults. Called once, at start.
///
/// # Safety
/// `environment` must be null or an environment that does not change meanwhile. In a `secure`
/// process it is not read.
pub unsafe fn read(environment: Environment, secure: bool) -> Config {
    let mut config = Config::DEFAULT;
    let program = weak!("malloc_conf").cast::<*const c_char>();
    // SAFETY: invariant 1 of `libmasu`: if the program has jemalloc's variable, it is a pointer to a string, or null.
    // The environment is as the caller says.
    unsafe {
        if !program.is_null() && !(*program).is_null() {
            apply(&mut config, CStr::from_ptr(*program).to_bytes(), Origin::Program);
        }
        if !secure && let Some(value) = find(environment) {
            apply(&mut config, value, Origin::MallocConf);
        }
    }
    config
}

/// Returns the value of `MALLOC_CONF`.
///
/// # Safety
/// As for [`read`].
unsafe fn find(mut environment: Environment) -> Option<&'static [u8]> {
    if environment.is_null() {
        return None;
    }
    // SAFETY: as the caller says, an array of strings, terminated by null.
    unsafe {
        while !(*environment).is_null() {
            if (**environment) as u8 == b'M'
                && let Some(value) =
                    CStr::from_ptr(*environment).to_bytes().strip_prefix(b"MALLOC_CONF=")
            {
                return Some(value);
            }
            environment = environment.add(1);
        }
    }
    None
}

#[cold]
#[inline(never)]
#[unsafe(link_section = "masu_door")]
fn apply(config: &mut Config, list: &[u8], origin: Origin) {
    let mut profiles = false;
    for pair in list.split(|&b| b == b',') {
        let mut parts = pair.splitn(2, |&b| b == b':');
        let (Some(key), Some(value)) = (parts.next(), parts.next()) else { continue };
        match key {
            b"dirty_decay_ms" => {
                if let Some(Ok(decay)) = integer(value).map(super::tree::milliseconds) {
                    config.decay = decay;
                    config.origins.decay = origin;
                }
            }
            b"background_thread" => {
                config.background_thread = match value {
                    b"true" => BackgroundThread::On,
                    b"false" => BackgroundThread::Off,
                    _ => continue,
                };
                config.origins.background_thread = origin;
            }
            b"stats_print" => {
                config.show_stats =
                    if value == b"true" { Statistics::Text } else { Statistics::Off };
                config.origins.show_stats = origin;
            }
            b"experimental_infallible_new" => crate::infallible::set(value == b"true"),
            _ => profiles |= super::prof::set(key, value),
        }
    }
    if profiles {
        super::prof::configure(config, origin);
    }
}

fn integer(digits: &[u8]) -> Option<i64> {
    match digits {
        b"-1" => Some(-1),
        _ => super::names::decimal(digits).and_then(|n| i64::try_from(n).ok()),
    }
}
