//! jemalloc's options as they apply here, for programs that print them.

use super::key::keys;
use super::options;

keys! {
    "masu::ctl::opt";

    /// `opt.abort`: whether a warning ends the process. It never does: bad options are reported and
    /// ignored.
    abort, abort_mib: "opt.abort" => bool {
        read: || false,
    }

    /// `opt.background_thread`: whether a background thread may run.
    background_thread, background_thread_mib: "opt.background_thread" => bool {
        read: || options::background_thread::read() == Ok(true),
    }

    /// `opt.dss`: whether memory comes from `sbrk`. It never does.
    dss, dss_mib: "opt.dss" => &'static str {
        read: || "disabled",
    }

    /// `opt.junk`: whether blocks are filled with junk. They are not.
    junk, junk_mib: "opt.junk" => &'static str {
        read: || "false",
    }

    /// `opt.tcache`: whether threads keep freed blocks for their next requests. They do.
    tcache, tcache_mib: "opt.tcache" => bool {
        read: || true,
    }

    /// `opt.lg_tcache_max`: the binary logarithm of the largest block that a thread keeps, 1 MiB.
    lg_tcache_max, lg_tcache_max_mib: "opt.lg_tcache_max" => usize {
        read: || 20,
    }

    /// `opt.zero`: whether all blocks are zeroed. They are not.
    zero, zero_mib: "opt.zero" => bool {
        read: || false,
    }
}
