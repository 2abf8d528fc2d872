//! From a device's interrupt levels to the messages that reach the target.

use crate::vector::{MsiMessage, Vector};
use crate::{ConfigSpace, MsiState, MsixLayout, MsixState, Vectors, Width};

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

    /// The driver has work ahead outside of its handler: the link has changed, say, and it will ask the
    /// PHY about it from a thread. A target that cannot be interrupted everywhere is careful from now
    /// on, not only from the first access of that work.
    fn work_ahead(&mut self) {}

    /// What has been signalled shall interrupt the target now, also where the target would look for it by itself.
    fn interrupt_now(&mut self) {}

    /// Whether the target can be told that the card was pulled out or plugged in.
    fn has_hotplug(&self) -> bool {
        false
    }

    /// The card is in its slot from now on, or no longer. Only for a line that [has
    /// hotplug](Self::has_hotplug).
    fn set_present(&mut self, present: bool) {
        let _ = present;
    }
}

/// A line that is lent.
impl<L: IntrLine + ?Sized> IntrLine for &mut L {
    fn signal(&mut self, interrupt: Interrupt) {
        (**self).signal(interrupt);
    }

    fn signal_any_time(&mut self, interrupt: Interrupt) {
        (**self).signal_any_time(interrupt);
    }

    fn work_ahead(&mut self) {
        (**self).work_ahead();
    }

    fn interrupt_now(&mut self) {
        (**self).interrupt_now();
    }

    fn has_hotplug(&self) -> bool {
        (**self).has_hotplug()
    }

    fn set_present(&mut self, present: bool) {
        (**self).set_present(present);
    }
}

/// The levels of a function's interrupts, one a vector, and how they reach the target: as messages of
/// MSI-X or MSI when one of them is on, otherwise as the INTA# wire, which they share.
///
/// The device raises and lowers its levels after *every* register write. Doing so only once for a
/// batch of them hides the moment at which a handler masks and unmasks, no new message goes out, and
/// the driver waits for ever.
///
/// A rise that cannot go out (masked, or messages are off) stays pending while its level stays, and
/// goes out when the way opens (PCI 3.0, 6.8.3.5).
#[derive(Clone, Debug)]
pub struct InterruptState {
    vectors: Vec<VectorState>,
    /// Vectors whose level is high.
    high: u16,
    wire: bool,
    raised: u64,
    way: Way,
    /// The MSI-X table, as the driver's system sees it.
    table: Vec<u8>,
    layout: Option<MsixLayout>,
}

#[derive(Clone, Copy, Debug, Default)]
struct VectorState {
    level: bool,
    /// A message has gone out for this level.
    reported: bool,
}

/// How interrupts reach the target under the present configuration.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// By INTA#, if the function may assert it.
    Wire {
        disabled: bool,
    },
    /// Messages are on, of MSI-X or of MSI, but the function may not write to memory.
    Closed {
        msix: bool,
    },
    Msi(MsiState),
    Msix(MsixState),
}

/// Bytes of an entry of the MSI-X table: address, data, vector control (6.8.2.6 to 6.8.2.9).
const ENTRY: usize = 16;
const CONTROL: usize = 12;

impl InterruptState {
    /// All levels low, and every entry of the MSI-X table masked (6.8.2.9).
    pub fn new(config: &ConfigSpace) -> InterruptState {
        let Vectors { msix, .. } = config.vectors();
        let mut table = vec![0; ENTRY * usize::from(msix)];
        table.chunks_exact_mut(ENTRY).for_each(|entry| entry[CONTROL] = 1);
        InterruptState {
            vectors: vec![VectorState::default(); config.vectors().count().into()],
            high: 0,
            wire: false,
            raised: 0,
            way: Way::of(config),
            table,
            layout: config.msix_layout(),
        }
    }

    /// Sets a vector's level and tells the target what that means under the present configuration.
    /// Returns whether the level has just risen. A vector that the function does not have is none.
    #[inline]
    pub fn set_level(&mut self, vector: Vector, level: bool, line: &mut dyn IntrLine) -> bool {
        let Some(state) = self.vectors.get_mut(usize::from(vector.0)) else { return false };
        if state.level == level {
            return false;
        }
        state.level = level;
        if level {
            state.reported = false;
            (self.raised, self.high) = (self.raised + 1, self.high + 1);
            self.deliver(vector, line);
        } else {
            self.high -= 1;
        }
        self.drive_wire(line);
        level
    }

    /// Whether a vector's level is high.
    #[inline]
    pub fn is_high(&self, vector: Vector) -> bool {
        self.vectors.get(usize::from(vector.0)).is_some_and(|state| state.level)
    }

    /// Whether interrupts are messages of MSI-X.
    #[inline]
    pub fn is_msix(&self) -> bool {
        matches!(self.way, Way::Msix(_) | Way::Closed { msix: true })
    }

    /// Whether a message has gone out for a vector's level, which is high.
    #[inline]
    pub fn is_reported(&self, vector: Vector) -> bool {
        let state = self.vectors.get(usize::from(vector.0));
        state.is_some_and(|state| state.level && state.reported)
    }

    /// To be called when the configuration has changed: a pending level becomes a message or moves
    /// the wire as soon as the way for it is open.
    pub fn configure(&mut self, config: &ConfigSpace, line: &mut dyn IntrLine) {
        self.way = Way::of(config);
        if matches!(self.way, Way::Wire { .. } | Way::Closed { .. }) {
            self.vectors.iter_mut().for_each(|state| state.reported = false);
        }
        self.deliver_all(line);
        self.drive_wire(line);
    }

    /// The message for a vector; `None` while there is none, or it is masked.
    #[inline]
    pub fn message(&self, vector: Vector) -> Option<MsiMessage> {
        match &self.way {
            Way::Msi(msi) if !msi.is_masked(vector) => msi.message(vector),
            Way::Msix(msix) if !msix.masked => self.entry(vector),
            _ => None,
        }
    }

    /// What the MSI-X table says; `None` while the entry is masked.
    fn entry(&self, vector: Vector) -> Option<MsiMessage> {
        let at = ENTRY * usize::from(vector.0);
        let entry: &[u8; ENTRY] = self.table.get(at..)?.first_chunk()?;
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| entry[at + i]));
        let address = u64::from(word(4)) << 32 | u64::from(word(0));
        (entry[CONTROL] & 1 == 0).then_some(MsiMessage { address, data: word(8) })
    }

    #[inline]
    fn deliver(&mut self, vector: Vector, line: &mut dyn IntrLine) {
        let state = self.vectors[usize::from(vector.0)];
        if state.level
            && !state.reported
            && let Some(message) = self.message(vector)
        {
            self.vectors[usize::from(vector.0)].reported = true;
            line.signal(Interrupt::Msi(message));
        }
    }

    fn deliver_all(&mut self, line: &mut dyn IntrLine) {
        (0..self.vectors.len() as u16).for_each(|vector| self.deliver(Vector(vector), line));
    }

    #[inline]
    fn drive_wire(&mut self, line: &mut dyn IntrLine) {
        let wire = self.wants_wire() && matches!(self.way, Way::Wire { disabled: false });
        if wire != self.wire {
            self.wire = wire;
            line.signal(Interrupt::Intx(wire));
        }
    }

    /// Whether a message for this vector waits until it is unmasked.
    fn is_pending(&self, vector: Vector) -> bool {
        let state = self.vectors.get(usize::from(vector.0));
        matches!(self.way, Way::Msi(_) | Way::Msix(_))
            && state.is_some_and(|state| state.level && !state.reported)
    }

    /// Whether the function wants its INTx# asserted, even if the command register forbids it; never while
    /// messages are on.
    pub fn wants_wire(&self) -> bool {
        self.high > 0 && matches!(self.way, Way::Wire { .. })
    }

    /// The pending bits of the first vectors.
    pub fn pending(&self) -> u32 {
        let bit = |vector: u16| u32::from(self.is_pending(Vector(vector))) << vector;
        (0..32).map(bit).sum()
    }

    /// Reads the MSI-X table or the pending bits; `None` if an access at this place of a BAR goes to
    /// neither.
    pub fn msix_read(&self, bar: u8, offset: u64, width: Width) -> Option<u64> {
        let mut value = [0; 8];
        if let Some(at) = self.in_table(bar, offset, width) {
            value[..width.bytes()].copy_from_slice(&self.table[at..at + width.bytes()]);
        } else {
            let at = self.in_pending(bar, offset, width)?;
            for (i, byte) in value[..width.bytes()].iter_mut().enumerate() {
                let bit = |bit: usize| {
                    u8::from(self.is_pending(Vector((8 * (at + i) + bit) as u16))) << bit
                };
                *byte = (0..8).map(bit).sum();
            }
        }
        Some(u64::from_le_bytes(value))
    }

    /// Writes the MSI-X table, or the pending bits, which changes nothing; whether the access goes to
    /// one of them. What waited for the entry goes out.
    pub fn msix_write(
        &mut self,
        (bar, offset): (u8, u64),
        width: Width,
        value: u64,
        line: &mut dyn IntrLine,
    ) -> bool {
        let Some(at) = self.in_table(bar, offset, width) else {
            return self.in_pending(bar, offset, width).is_some();
        };
        let bytes = &value.to_le_bytes()[..width.bytes()];
        self.table[at..at + width.bytes()].copy_from_slice(bytes);
        self.deliver_all(line);
        true
    }

    fn in_table(&self, bar: u8, offset: u64, width: Width) -> Option<usize> {
        within(self.layout?.table, self.table.len(), (bar, offset), width)
    }

    fn in_pending(&self, bar: u8, offset: u64, width: Width) -> Option<usize> {
        let layout = self.layout?;
        let bytes = usize::from(layout.vectors).div_ceil(64) * 8;
        within(layout.pending, bytes, (bar, offset), width)
    }

    /// Whether any level is high.
    pub fn is_asserted(&self) -> bool {
        self.high > 0
    }

    /// How often levels have risen, all vectors together.
    pub fn raised(&self) -> u64 {
        self.raised
    }
}

/// Where in an area of so many bytes an access begins that is all inside it.
fn within(
    (bar, base): (u8, u32),
    bytes: usize,
    (at_bar, offset): (u8, u64),
    width: Width,
) -> Option<usize> {
    let at = usize::try_from(offset.checked_sub(base.into())?).ok()?;
    let inside = at.checked_add(width.bytes()).is_some_and(|end| end <= bytes);
    (bar == at_bar && inside).then_some(at)
}

impl Way {
    fn of(config: &ConfigSpace) -> Way {
        let (command, msi, msix) = (config.command(), config.msi(), config.msix());
        match () {
            () if !msi.enabled && !msix.enabled => Way::Wire { disabled: command.intx_disabled },
            // A message is a memory write by the function, so it needs bus mastering.
            () if !command.bus_master => Way::Closed { msix: msix.enabled },
            () if msix.enabled => Way::Msix(msix),
            () => Way::Msi(msi),
        }
    }
}

#[cfg(test)]
mod tests;
