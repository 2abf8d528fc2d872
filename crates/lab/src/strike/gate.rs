//! Where a kernel in virtual time holds interrupts back, and where it lets them in again.
//!
//! Elsewhere a signal that comes while interrupts are off waits for them to be on. With `time-travel=ext` User Mode
//! Linux looks at once what it is about, and then forgets all that is no event of its time (Linux,
//! arch/um/kernel/irq.c, `sigio_reg_handler`). So it is not signalled before it lets interrupts in.

use warikomi_debugger::{Place, Program, Tracee, TraceeError};

/// Whether signals are let in (arch/um/os-Linux/signal.c): an `int`.
const ENABLED: &str = "signals_enabled";
/// What lets them in.
const ENABLES: &str = "unblock_signals";

/// A kernel's interrupts, on or off.
pub(super) struct Gate {
    enabled: u64,
    enables: u64,
    /// The breakpoint behind which they may be on.
    awaited: Option<u64>,
}

impl Gate {
    /// Of a kernel with this code; `None` if it does not say where that is.
    pub(super) fn of(program: &Program) -> Option<Gate> {
        let enabled = program.parts.iter().find_map(|code| code.variable(ENABLED))?.address;
        let place = Place::Function { name: ENABLES.to_owned(), offset: 0 };
        let enables = *program.resolve(&place).ok()?.first()?;
        Some(Gate { enabled, enables, awaited: None })
    }

    /// Whether the breakpoint at this address is one of ours.
    pub(super) fn awaits(&self, address: u64) -> bool {
        self.awaited == Some(address)
    }

    /// The breakpoint of ours, which is no longer awaited.
    pub(super) fn take_awaited(&mut self) -> Option<u64> {
        self.awaited.take()
    }

    /// Whether interrupts are on in a target that stands still. If not, it stops again on the way to where they are:
    /// before they are let in, then behind.
    pub(super) fn is_open(&mut self, tracee: &mut Tracee) -> Result<bool, TraceeError> {
        let registers = tracee.registers()?;
        let is_on = tracee.word(self.enabled).is_some_and(|word| word as u32 != 0);
        // Where two strike, the second may come while the first waits: then both wait for the same.
        if !is_on && self.awaited.is_some_and(|address| address != registers.pc) {
            return Ok(false);
        }
        let stood_at = self.awaited.take();
        if let Some(address) = stood_at {
            tracee.clear_breakpoint(address)?;
        }
        if is_on {
            return Ok(true);
        }
        let next = match stood_at {
            Some(address) if address == self.enables => tracee.word(registers.sp),
            _ => Some(self.enables),
        };
        if let Some(address) = next {
            tracee.set_breakpoint(address)?;
            self.awaited = Some(address);
        }
        Ok(false)
    }
}
