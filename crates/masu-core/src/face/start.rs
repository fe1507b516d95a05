//! A process's start and end, as doors see them.

use super::{absent, guard, hardened, leaks, profile};
use crate::config::Config;
use crate::features;
use crate::region::GRANULE;
use crate::sys::{fatal, ptracer};
use crate::{heap, limit, prof, region, settings, sharing};
use core::ffi::c_char;

/// Reads the configuration from the environment. Called once, from a constructor.
///
/// # Safety
/// As for [`start_configured`].
pub unsafe fn start(envp: *const *const c_char, secure: bool) {
    // SAFETY: passed on.
    unsafe { start_configured(&Config::DEFAULT, envp, secure, false) }
}

/// Puts a configuration in force, under what the environment says. Blocks may exist already.
///
/// # Safety
/// `envp` must be null or the process's environment, which must not change meanwhile. `secure` means that the
/// process has more rights than its caller (`AT_SECURE`), and the environment is ignored. `whole` means that the
/// door resizes blocks within their size class by itself, so that they have that many bytes even if they are
/// hardened or guarded.
pub unsafe fn start_configured(
    program: &Config,
    envp: *const *const c_char,
    secure: bool,
    whole: bool,
) {
    let mut sink = fatal::write_stderr as fn(&[u8]);
    // SAFETY: passed on.
    let config = unsafe { program.under_environment(envp, secure, &mut sink) };
    absent::tell(&config);
    settings::apply(&config, secure);
    if settings::show_errors() {
        fatal::note_stderr();
    }
    if config.observe {
        ptracer::allow_any();
    }
    region::look_at_limits();
    limit::apply();
    heap::init_process();
    heap::set_ended(|| crate::purge::on_free(GRANULE));
    if settings::show_stats() {
        crate::stats::open(&config.stats_file);
    }
    if features::HARDENED && config.hardened {
        hardened::start_configured(&config, whole);
    } else if features::HARDENED {
        hardened::note_options(&config);
    }
    if features::GUARD && config.guard != 0 {
        guard::start_configured(&config, whole);
    }
    if features::PROF && (config.block_stacks || profile::is_configured(&config)) {
        profile::start_configured(&config);
    }
}

/// Has `hook` called once, before a second thread uses the engine: it registers the fork handlers,
/// [`fork_prepare`](crate::fork_prepare) and its like. A single thread needs them only if children have to be
/// observable, or draw random numbers of their own. The hook may allocate.
pub fn before_sharing(hook: fn()) {
    crate::sharing::set_hook(hook);
    if heap::counts().1 > 1 {
        sharing::begin();
    } else if settings::observe() || settings::hardened() {
        sharing::make_ready();
    }
}

/// Writes the statistics if the configuration asks for them. Called from a destructor.
pub fn exit_report() {
    if settings::show_stats() {
        crate::stats::report();
    }
    if prof::last_rate() != 0 {
        leaks::report();
        profile::report();
    }
}
