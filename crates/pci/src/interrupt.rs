//! From a device's interrupt level to what the target is told.

use warikomi_clock::Time;

use crate::{Command, MsiState};

/// A message-signalled interrupt: a memory write that the function makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MsiMessage {
    /// Where the write goes, as the driver's system programmed it.
    pub address: u64,
    /// What is written: the low 16 bits that PCI defines for MSI.
    pub data: u32,
}

/// What a function tells the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// One message; it has no level and needs no answer.
    Msi(MsiMessage),
    /// The INTA# wire is now asserted (`true`) or not.
    Intx(bool),
}

/// Where a function's interrupts go.
pub trait IntrLine {
    /// Takes one interrupt; never blocks. What cannot go out at once is kept and goes out later.
    fn signal(&mut self, interrupt: Interrupt);

    /// Takes one interrupt that may come at any moment of the driver's work, as those of a healthy
    /// device do not: a driver has interrupts masked from its handler to the write that answers it. A
    /// target that cannot be interrupted everywhere waits for a moment at which it can.
    fn signal_any_time(&mut self, interrupt: Interrupt) {
        self.signal(interrupt);
    }
}

/// The level of a function's one interrupt, and how it reaches the target: as messages when MSI is
/// on, otherwise as the INTA# wire.
///
/// The device calls [`set_level`](Self::set_level) after *every* register write. Doing so only
/// once for a batch of them hides the moment at which a handler masks and unmasks, no new message
/// goes out, and the driver waits for ever.
#[derive(Clone, Copy, Debug, Default)]
pub struct InterruptState {
    level: bool,
    wire: bool,
    raised: u64,
    raised_at: Time,
}

impl InterruptState {
    /// Sets the level and tells the target what that means under the present configuration.
    /// Returns whether the level has just risen.
    #[inline]
    pub fn set_level(
        &mut self,
        level: bool,
        now: Time,
        command: Command,
        msi: MsiState,
        line: &mut dyn IntrLine,
    ) -> bool {
        let rose = level && !self.level;
        self.level = level;
        if rose {
            self.raised += 1;
            self.raised_at = now;
            // A message is a memory write by the function, so it needs bus mastering.
            if let (Some(message), true) = (msi.message(), command.bus_master) {
                line.signal(Interrupt::Msi(message));
            }
        }
        self.drive_wire(command, msi, line);
        rose
    }

    /// To be called when the configuration has changed: a pending level becomes a message or moves
    /// the wire as soon as the way for it is open.
    pub fn reconfigured(
        &mut self,
        (old_command, old_msi): (Command, MsiState),
        (command, msi): (Command, MsiState),
        line: &mut dyn IntrLine,
    ) {
        let could = old_msi.message().is_some() && old_command.bus_master;
        if let (Some(message), true, false, true) =
            (msi.message(), command.bus_master, could, self.level)
        {
            line.signal(Interrupt::Msi(message));
        }
        self.drive_wire(command, msi, line);
    }

    #[inline]
    fn drive_wire(&mut self, command: Command, msi: MsiState, line: &mut dyn IntrLine) {
        let wire = self.level && !msi.enabled && !command.intx_disabled;
        if wire != self.wire {
            self.wire = wire;
            line.signal(Interrupt::Intx(wire));
        }
    }

    /// The device's present level.
    pub fn level(&self) -> bool {
        self.level
    }

    /// How often the level has risen.
    pub fn raised(&self) -> u64 {
        self.raised
    }

    /// When it last rose.
    pub fn raised_at(&self) -> Time {
        self.raised_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Recorder(Vec<Interrupt>);
    impl IntrLine for Recorder {
        fn signal(&mut self, interrupt: Interrupt) {
            self.0.push(interrupt);
        }
    }

    const MASTER: Command = Command { memory: true, bus_master: true, intx_disabled: false };
    const MSI: MsiState = MsiState { enabled: true, address: 0xfee0_0000, data: 7 };
    const NO_MSI: MsiState = MsiState { enabled: false, address: 0, data: 0 };

    #[test]
    fn a_message_for_each_rise_and_none_while_the_level_stays() {
        let (mut state, mut line) = (InterruptState::default(), Recorder::default());
        for level in [true, true, false, true] {
            state.set_level(level, Time::ZERO, MASTER, MSI, &mut line);
        }
        let message = Interrupt::Msi(MsiMessage { address: 0xfee0_0000, data: 7 });
        assert_eq!(line.0, [message, message]);
        assert_eq!(state.raised(), 2);
    }

    #[test]
    fn the_wire_follows_the_level_and_the_disable_bit() {
        let (mut state, mut line) = (InterruptState::default(), Recorder::default());
        state.set_level(true, Time::ZERO, MASTER, NO_MSI, &mut line);
        let disabled = Command { intx_disabled: true, ..MASTER };
        state.reconfigured((MASTER, NO_MSI), (disabled, NO_MSI), &mut line);
        state.reconfigured((disabled, NO_MSI), (MASTER, NO_MSI), &mut line);
        state.set_level(false, Time::ZERO, MASTER, NO_MSI, &mut line);
        let wire: Vec<_> = [true, false, true, false].map(Interrupt::Intx).into();
        assert_eq!(line.0, wire);
    }

    #[test]
    fn a_level_that_was_pending_goes_out_when_msi_is_enabled() {
        let (mut state, mut line) = (InterruptState::default(), Recorder::default());
        let quiet = Command { intx_disabled: true, ..MASTER };
        state.set_level(true, Time::ZERO, quiet, NO_MSI, &mut line);
        assert!(line.0.is_empty());
        state.reconfigured((quiet, NO_MSI), (quiet, MSI), &mut line);
        assert_eq!(line.0.len(), 1);
        state.reconfigured((quiet, MSI), (quiet, MSI), &mut line);
        assert_eq!(line.0.len(), 1, "an unchanged configuration sends nothing again");
    }

    #[test]
    fn no_message_without_bus_mastering() {
        let (mut state, mut line) = (InterruptState::default(), Recorder::default());
        let slave = Command { bus_master: false, ..MASTER };
        state.set_level(true, Time::ZERO, slave, MSI, &mut line);
        assert!(line.0.is_empty());
        state.reconfigured((slave, MSI), (MASTER, MSI), &mut line);
        assert_eq!(line.0.len(), 1);
    }
}
