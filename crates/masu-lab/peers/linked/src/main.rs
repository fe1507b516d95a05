//! `masu-work` with an allocator linked in: the one that the enabled feature names.

#[cfg(any(feature = "mimalloc2", feature = "mimalloc3"))]
mod mimalloc;
#[cfg(feature = "rusty_alloc")]
mod rusty;

#[cfg(feature = "dlmalloc-rs")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[cfg(feature = "masu")]
#[global_allocator]
static ALLOCATOR: masu::Masu = masu::Masu;

#[cfg(any(feature = "mimalloc2", feature = "mimalloc3"))]
#[global_allocator]
static ALLOCATOR: mimalloc::Mimalloc = mimalloc::Mimalloc;

#[cfg(feature = "rpmalloc")]
#[global_allocator]
static ALLOCATOR: rpmalloc::RpMalloc = rpmalloc::RpMalloc;

#[cfg(feature = "rusty_alloc")]
#[global_allocator]
static ALLOCATOR: rusty::Rusty = rusty::Rusty;

#[cfg(feature = "snmalloc")]
#[global_allocator]
static ALLOCATOR: snmalloc_rs::SnMalloc = snmalloc_rs::SnMalloc;

#[cfg(feature = "stoolap-jemalloc")]
#[global_allocator]
static ALLOCATOR: stoolap_jemalloc::Jemalloc = stoolap_jemalloc::Jemalloc::new();

#[cfg(feature = "tcmalloc")]
#[global_allocator]
static ALLOCATOR: tcmalloc_better::TCMalloc = tcmalloc_better::TCMalloc;

fn main() -> std::process::ExitCode {
    masu_workloads::program::main()
}
