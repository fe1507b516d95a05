//! The memalloc cells with masu as the global allocator.

#[global_allocator]
static GLOBAL: masu::Masu = masu::Masu;

fn main() -> std::process::ExitCode {
    masu_workloads::memalloc::cells::main()
}
