//! `/init` of a kernel target: sets up the guest, then serves requests from its serial line.
//!
//! Everything that it prints goes to the console, and only while it starts or dies: a console
//! write costs a system call of the host, and a run must not pay for it.

mod agent;

fn main() -> std::process::ExitCode {
    agent::main()
}
