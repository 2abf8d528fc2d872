//! Drivers that take a step which they must not take, as far as cards have them in common.

use warikomi_nic::strict::FindingKind;
use warikomi_pci::Width;

use super::step::{BUFFER, RX_RING, Step};

/// Where a card has what a handler needs.
pub(super) struct Handler {
    pub(super) bar: u8,
    pub(super) status: u64,
    pub(super) mask: u64,
    pub(super) width: Width,
    /// The cause of a frame that was received.
    pub(super) received: u64,
    pub(super) all: u64,
}

/// A card that an orderly driver has opened, with as many receive buffers, all the same one.
pub(super) fn opened(length: u64) -> Step {
    Step::Open { length, size: 2_000 }
}

/// A frame for everybody.
pub(crate) fn frame() -> Step {
    let mut bytes = vec![0xff; 60];
    bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
    Step::Frame { bytes, fault: None }
}

impl Handler {
    fn read(&self) -> Step {
        Step::Read { bar: self.bar, offset: self.status, width: self.width }
    }

    fn acknowledge(&self) -> Step {
        Step::write(self.bar, self.status, self.width, self.received)
    }

    /// A write at which nothing happens, but that a strict card looks at its descriptors.
    pub(super) fn look(&self) -> Step {
        self.set_mask(self.all)
    }

    fn set_mask(&self, mask: u64) -> Step {
        Step::write(self.bar, self.mask, self.width, mask)
    }

    /// What handlers do wrong.
    pub(super) fn missteps(&self) -> Vec<(FindingKind, Vec<Step>)> {
        // A PHY negotiates first.
        let begun = [opened(1), Step::Wait { us: 50_000 }, frame()];
        let after = |steps: &[Step]| [&begun, steps].concat();
        vec![
            (
                FindingKind::MaskOpened,
                after(&[self.read(), self.set_mask(0), self.set_mask(self.all)]),
            ),
            (
                FindingKind::AcknowledgedTwice,
                after(&[self.read(), self.acknowledge(), self.acknowledge()]),
            ),
            (FindingKind::NotAcknowledged, after(&[Step::Wait { us: 2_000_000 }])),
        ]
    }

    /// The same buffer in two descriptors, of any card.
    pub(super) fn given_twice(&self) -> (FindingKind, Vec<Step>) {
        (FindingKind::GivenTwice, vec![opened(2), self.look()])
    }

    /// The buffer of a queue in a descriptor of another, which these steps give to the card.
    pub(super) fn given_to_two(&self, other: Vec<Step>) -> (FindingKind, Vec<Step>) {
        (FindingKind::GivenTwice, [vec![opened(1)], other, vec![self.look()]].concat())
    }

    /// Another buffer in a receive descriptor that is the card's, of cards whose descriptors are four words.
    pub(super) fn changed(&self) -> (FindingKind, Vec<Step>) {
        let change = Step::Memory { address: RX_RING + 8, word: BUFFER as u32 + 0x1000 };
        (FindingKind::DescriptorChanged, vec![opened(1), self.look(), change, self.look()])
    }
}
