//! The four transmit descriptors of the C mode, which are registers (TSD and TSAD), used in turn.

use warikomi_clock::Time;
use warikomi_pci::DmaError;

use super::regs;
use crate::NicContext;
use crate::queue::{Found, TxDescriptor, TxFormat};
use crate::strict::{FindingKind, Look, Misuse};

/// How many there are.
pub(super) const SLOTS: usize = 4;
/// The longest frame: a longer one makes the queue invalid (RTL8139C Rev. 1.4, section 5.2).
pub(super) const MAX_BYTES: usize = 0x700;

/// One of them.
#[derive(Clone, Copy, Debug)]
struct Slot {
    status: u32,
    address: u32,
    /// When the driver gave it to the chip.
    since: Time,
}

/// Nothing to send.
const EMPTY: Slot = Slot { status: regs::TX_OWN, address: 0, since: Time::ZERO };

/// All of them.
#[derive(Debug)]
pub(super) struct Slots {
    slots: [Slot; SLOTS],
}

impl Slots {
    pub(super) fn new() -> Slots {
        Slots { slots: [EMPTY; SLOTS] }
    }

    /// Nothing is to be sent; the addresses stay.
    pub(super) fn reset(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.status = regs::TX_OWN);
    }

    /// TSD of slot `index`, below [`SLOTS`].
    pub(super) fn status(&self, index: usize) -> u32 {
        self.slots[index].status
    }

    /// The driver writes TSD: whether it has given the slot to the chip.
    pub(super) fn set_status(&mut self, index: usize, status: u32, now: Time) -> bool {
        let slot = &mut self.slots[index];
        (slot.status, slot.since) = (status & regs::TX_WRITTEN, now);
        slot.status & regs::TX_OWN == 0
    }

    /// The driver writes TSAD.
    pub(super) fn set_address(&mut self, index: usize, address: u32) {
        self.slots[index].address = address;
    }

    /// TSAD at 0x60: for each slot whether it is the driver's, was aborted, has underrun, and went well.
    pub(super) fn summary(&self) -> u16 {
        let bits = [regs::TX_OWN, regs::TX_ABORTED, regs::TX_UNDERRUN, regs::TX_STATUS_OK];
        let mut summary = 0;
        for (number, bit) in bits.into_iter().enumerate() {
            for (index, slot) in self.slots.iter().enumerate() {
                summary |= u16::from(slot.status & bit != 0) << (SLOTS * number + index);
            }
        }
        summary
    }
}

fn bytes(status: u32) -> usize {
    (status & regs::TX_SIZE) as usize
}

fn behind(place: u8) -> u8 {
    (place + 1) % SLOTS as u8
}

impl TxFormat for Slots {
    type Place = u8;
    type Words = ();

    const SOURCE: &'static str = "RTL8139C Rev. 1.4, section 5.2";
    const DESCRIPTORS: usize = SLOTS;
    const IN_MEMORY: bool = false;
    const WHOLE_FRAMES: bool = true;
    const MAX_BYTES: usize = MAX_BYTES;

    #[inline]
    fn load(&self, _cx: &mut NicContext<'_>, place: u8) -> Found<TxDescriptor<u8, ()>> {
        let Slot { status, address, since } = self.slots[usize::from(place)];
        Ok((status & regs::TX_OWN == 0).then(|| TxDescriptor {
            place,
            next: behind(place),
            buffer: address.into(),
            bytes: bytes(status),
            first: true,
            last: true,
            since,
            words: (),
        }))
    }

    fn look(&self, _cx: &NicContext<'_>, place: u8) -> Option<Look<u8>> {
        let Slot { status, address, .. } = self.slots[usize::from(place)];
        (status & regs::TX_OWN == 0).then(|| Look {
            next: behind(place),
            buffer: address.into(),
            bytes: bytes(status),
            first: true,
            last: true,
            words: [status, address, 0, 0],
        })
    }

    fn misuse(look: &Look<u8>, _before: Option<[u32; 4]>) -> Option<Misuse> {
        let (kind, source) = (FindingKind::Descriptor, Self::SOURCE);
        let what = "is longer than 1,792 bytes";
        (look.bytes > MAX_BYTES).then_some(Misuse { kind, what, source })
    }

    fn is_set(&self) -> bool {
        true
    }

    /// A frame that did not go out is one that was aborted because there was no carrier.
    #[inline]
    fn give_back(
        &mut self,
        _cx: &mut NicContext<'_>,
        found: &TxDescriptor<u8, ()>,
        frames: usize,
    ) -> Result<(), DmaError> {
        let outcome =
            if frames > 0 { regs::TX_STATUS_OK } else { regs::TX_ABORTED | regs::TX_CARRIER_LOST };
        self.slots[usize::from(found.place)].status |= regs::TX_OWN | outcome;
        Ok(())
    }
}
