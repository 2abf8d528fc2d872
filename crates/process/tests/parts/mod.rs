//! The parts of a packet's way as processes: a test binary runs itself again as each of them.

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::time::Duration;

use warikomi_stack::StackError;

/// Says which part a process is to be.
const PART: &str = "WARIKOMI_TEST_PART";
/// Here.
pub(crate) const GUEST: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
/// Over there.
pub(crate) const NETWORK: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
/// Where datagrams come from and go to.
pub(crate) const PORT: u16 = 5_001;
/// Longer than a busy machine can make anybody wait; nothing is measured with it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What a part runs.
pub(crate) type Program = fn() -> Result<(), StackError>;

/// Runs the part that this process is to be, and ends with it; returns if it is to be none. To be called by
/// a test that is named `part`.
pub(crate) fn run_if_asked(programs: &[(&str, Program)]) {
    let Ok(part) = std::env::var(PART) else { return };
    let program = programs.iter().find(|(name, _)| *name == part);
    let (_, program) = program.unwrap_or_else(|| panic!("no part {part}"));
    let outcome = program();
    if let Err(error) = &outcome {
        eprintln!("{part}: {error}");
    }
    std::process::exit(if outcome.is_ok() { 0 } else { 3 });
}

/// This binary again, as the part of that name.
pub(crate) fn command(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "part", "--ignored", "--nocapture"])
        .env(PART, name)
        .stdout(Stdio::null());
    command
}
