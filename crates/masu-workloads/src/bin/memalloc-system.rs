//! The memalloc cells on the system's allocator.

fn main() -> std::process::ExitCode {
    masu_workloads::memalloc::cells::main()
}
