//! What the driver does so that another one can go on where it stops, and to go on where another one has
//! stopped. docs/replacement.md has the order of it.

use warikomi_pci::DmaMemory;

use super::rx::Receiver;
use super::tx::{self, Transmitter};
use super::{COUNTERS_OFFSET, INFO, RING_ALIGNMENT, Rtl8168, TX_RING_OFFSET, regs};
use crate::DriverError;
use crate::state::{
    Held, InUse, Predecessor, Record, Settings, Shown, Slots, StateArea, StateError,
};

/// Where a ring is noted, and the count that it begins with.
type Noted = (Option<Slots>, u64);

impl Rtl8168 {
    fn area(&self) -> Result<&StateArea, DriverError> {
        let none = || DriverError::Invalid("the driver was told of no state area".to_owned());
        self.state.as_ref().map(|state| &state.0).ok_or_else(none)
    }

    /// No driver can continue from here, until the device is set up again.
    pub(super) fn forget_state(&self) {
        if let Some((area, _)) = &self.state {
            area.forget();
        }
    }

    /// The slots of rings that are set up, receive and transmit.
    pub(super) fn new_slots(&self, descriptors: usize) -> (Noted, Noted) {
        match &self.state {
            Some((area, shown)) => (
                (Some(area.rx_slots(descriptors)), shown.given),
                (Some(area.tx_slots(tx::DESCRIPTORS)), shown.sent),
            ),
            None => ((None, 0), (None, 0)),
        }
    }

    /// From here on another driver can go on.
    pub(super) fn write_settings(&self, rings: u64, descriptors: usize) {
        if let Some((area, _)) = &self.state {
            let settings = Settings {
                device: INFO.devices[0],
                rings,
                rx_slots: descriptors,
                tx_slots: tx::DESCRIPTORS,
                mac_address: self.mac_address,
            };
            area.write_settings(&settings, INFO.name);
        }
    }

    /// Takes note of what a predecessor has left; nothing is stored but in the driver's own memory, and
    /// there only if all of it makes sense.
    pub(super) fn take_over_rings(
        &mut self,
        memory: &dyn DmaMemory,
        predecessor: Predecessor,
        shown: Shown,
    ) -> Result<(), DriverError> {
        let area = self.area()?;
        let settings = area.settings()?;
        check(&settings)?;
        let [mut rx, mut tx] = area.in_use(predecessor, &settings, shown)?;
        let (rx_slots, tx_slots) =
            (area.rx_slots(settings.rx_slots), area.tx_slots(settings.tx_slots));
        let tx_ring = settings.rings + TX_RING_OFFSET;
        if predecessor == Predecessor::Died {
            leave_out_begun(&mut rx, "receive", settings.rings, settings.rx_slots, memory)?;
            leave_out_begun(&mut tx, "transmit", tx_ring, settings.tx_slots, memory)?;
        }
        let rx = Receiver::take_over(settings.rings, rx_slots, rx);
        let tx = Transmitter::take_over(tx_ring, tx_slots, tx);
        *self = Rtl8168 {
            mac_address: settings.mac_address,
            counters_address: settings.rings + COUNTERS_OFFSET,
            rx,
            tx,
            state: self.state.take(),
            link_changed: true,
            armed: false,
            transmit_interrupts: false,
        };
        Ok(())
    }

    /// The buffers that are on the rings.
    pub(super) fn held(&self) -> Held {
        Held {
            posted: self.rx.tokens(),
            sending: self.tx.tokens(),
            posts_taken: self.rx.progress().taken,
            transmits_taken: self.tx.progress().taken,
        }
    }

    pub(super) fn write_record(&self, generation: u32) -> Result<(), DriverError> {
        let area = self.area()?;
        let (Some(rx), Some(tx)) = (self.rx.slots(), self.tx.slots()) else {
            return Err(DriverError::Invalid("the driver has no rings to hand over".to_owned()));
        };
        let record = Record { generation, rx: self.rx.progress(), tx: self.tx.progress() };
        area.write_record(&record, rx, tx);
        Ok(())
    }
}

/// Leaves out what a driver that died was putting on a ring of `descriptors`: its descriptor is still empty. Only the
/// last can be.
fn leave_out_begun(
    in_use: &mut InUse,
    name: &str,
    ring: u64,
    descriptors: usize,
    memory: &dyn DmaMemory,
) -> Result<(), DriverError> {
    let count = in_use.tokens.len();
    for number in 0..count {
        let index = (in_use.index + number) % descriptors;
        let at = ring + index as u64 * regs::DESCRIPTOR_BYTES;
        if memory.load_u32(at)? & !regs::RING_END != 0 {
            continue;
        }
        if number + 1 < count {
            return Err(StateError::not_the_last(name, index).into());
        }
        in_use.tokens.pop();
    }
    Ok(())
}

/// Whether these are rings of this device.
fn check(settings: &Settings) -> Result<(), DriverError> {
    let &Settings { device: (vendor, device), rings, tx_slots, .. } = settings;
    if !INFO.devices.contains(&(vendor, device)) {
        return Err(DriverError::WrongDevice { driver: INFO.name, vendor, device });
    }
    let inside = rings.checked_add(INFO.ring_bytes as u64).is_some();
    if !inside || !rings.is_multiple_of(RING_ALIGNMENT) || tx_slots != tx::DESCRIPTORS {
        return Err(StateError::Nonsense(format!(
            "rings at {rings:#x} with {tx_slots} transmit descriptors; they begin at a multiple of \
             {RING_ALIGNMENT}, and there are {}",
            tx::DESCRIPTORS
        ))
        .into());
    }
    Ok(())
}
