//! The measured program: see [`masu_workloads::program`].

fn main() -> std::process::ExitCode {
    masu_workloads::program::main()
}
