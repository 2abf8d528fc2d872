//! A driver at work in a process of its own, or in virtual time.
//!
//! One loop, a machine of steps ([`DriverLoop`]): take the interrupts that have come, look at the ring,
//! transmit, ask the strategy what comes next. A pass that finds nothing looks at the interrupt's count, the
//! first descriptor, and the time, and nothing else. What takes longer (a register read, a system call) waits
//! for an idle moment, because while the driver waits, interrupts that follow each other closely would become
//! one.
//!
//! A device whose drivers can be replaced is driven in turns: wait for the baton, go on where the
//! predecessor stopped, serve until the orders name a successor, hand over, and wait again. Whose turn
//! it is, and what must be known for it, is `succession`'s. Any other device is driven in one turn.
//!
//! [`serve`] runs the machine against a clock and real bells; virtual time runs the same machine on a calendar.

mod attachment;
mod counted;
mod error;
mod look;
mod machine;
mod pass;
mod rest;
mod step;
pub mod store;
mod succession;
mod turn;

use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use warikomi_pci::attach::layout::{orders, report, state};

pub use self::attachment::{Attachment, Lineage};
pub use self::error::RunError;
pub use self::machine::{DriverLoop, Parts, Step};
pub use self::rest::HEARTBEAT;
use crate::device::Device;
use crate::{NicDriver, OwnPool, Upper};

/// Buffers of a driver alone, unless the orders say otherwise.
const POOL_BUFFERS: usize = 256;

/// The program of a driver alone: attaches to the device that the environment names, and drives it with
/// the driver called `name` until it is told to stop. Errors go to the standard error.
pub fn main(name: &str) -> ExitCode {
    match alone(name) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("driver {name}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn alone(name: &str) -> Result<(), RunError> {
    let mut driver =
        crate::by_name(name).ok_or_else(|| RunError::UnknownDriver(name.to_owned()))?;
    let mut device = Device::from_environment()?;
    let mut pool = match own_pool(&device, driver.as_ref()) {
        Ok(pool) => pool,
        Err(error) => return Err(fail(&device, error)),
    };
    serve(&mut device, driver.as_mut(), &mut pool)
}

/// The buffers that the orders ask for, behind the rings.
pub fn own_pool(device: &Device, driver: &dyn NicDriver) -> Result<OwnPool, RunError> {
    let (address, bytes) = device.dma();
    let info = driver.info();
    let needed = info.ring_bytes;
    let room = bytes.checked_sub(needed as u64).ok_or(RunError::NoRoom { needed, bytes })?;
    let longest = info.max_buffer_bytes as u64;
    let buffer_bytes = match device.order(orders::BUFFER_BYTES) {
        0 => longest as u32,
        bytes => bytes.min(longest) as u32,
    };
    let fit = room / u64::from(buffer_bytes.max(1)).next_multiple_of(64);
    let buffers = match device.order(orders::BUFFERS) {
        0 => (fit as usize).min(POOL_BUFFERS),
        buffers => usize::try_from(buffers).unwrap_or(usize::MAX),
    };
    let mut pool = OwnPool::new(address + needed as u64, room, buffers, buffer_bytes)?;
    if let Some(state) = device.state() {
        pool.count_in(Rc::new(state.clone()));
    }
    Ok(pool)
}

/// The weakest claim on a processor.
const LEAST_PRIORITY: i32 = 19;

/// Drives the device, with `upper` above, until the orders say stop. The report page says how it went,
/// too.
pub fn serve<U: Upper>(
    device: &mut Device,
    driver: &mut dyn NicDriver,
    upper: &mut U,
) -> Result<(), RunError> {
    device.report(report::STATE, state::STARTING);
    run(device, driver, upper).map_err(|error| fail(device, error))
}

/// The loop, against the real clock and real bells.
fn run<U: Upper>(
    device: &mut Device,
    driver: &mut dyn NicDriver,
    upper: &mut U,
) -> Result<(), RunError> {
    let memory = device.memory();
    let mut on = Parts { device, memory: &memory, driver, upper };
    let now = on.device.now();
    let mut driving = DriverLoop::new(&mut on, now)?;
    loop {
        let now = on.device.now();
        match driving.step(&mut on, now)? {
            Step::Again => {}
            Step::Yield => std::thread::yield_now(),
            Step::Sleep { longest } => {
                let longest = Duration::from_nanos(longest.as_ps() / 1_000);
                driving.woke(on.device.wait(on.upper.wakeup(), longest));
            }
            Step::AwaitBaton { generation } => on.device.wait_for_baton(generation, HEARTBEAT),
            Step::Ended { waiting } => {
                if waiting {
                    // Giving memory back takes long, and must not keep whoever has the device waiting.
                    let _ = rustix::process::setpriority_process(None, LEAST_PRIORITY);
                }
                return Ok(());
            }
        }
    }
}

/// Leaves the last words.
fn fail(device: &Device, error: RunError) -> RunError {
    device.last_words(&error.to_string());
    device.report(report::STATE, state::FAILED);
    error
}
