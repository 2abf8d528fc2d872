//! Mistakes between the injector and the driver, so that it is known that the checkers find them.

use std::fmt;

use warikomi_clock::Time;
use warikomi_inject::{Planned, Source};
use warikomi_nic::Frame;

/// What goes wrong, and nothing says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::soak) enum Bug {
    /// Every 16th packet is lost: a frame of another run comes in its place.
    Loses,
    /// Every 16th packet comes twice, and the next one not at all.
    Doubles,
    /// Every 16th packet changes places with the next.
    Swaps,
    /// An interrupt never comes.
    ForgetsInterrupt,
    /// A descriptor is never completed.
    ForgetsDescriptor,
}

impl Bug {
    pub(in crate::soak) const ALL: [Bug; 5] =
        [Bug::Loses, Bug::Doubles, Bug::Swaps, Bug::ForgetsInterrupt, Bug::ForgetsDescriptor];

    /// The fault that the checkers are not told of.
    pub(super) fn fault(self) -> Option<&'static str> {
        match self {
            Bug::ForgetsInterrupt => Some("interrupt-dropped:at=500us"),
            Bug::ForgetsDescriptor => Some("descriptor-never-completed:at=500us"),
            Bug::Loses | Bug::Doubles | Bug::Swaps => None,
        }
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bug::Loses => "a card that loses a packet",
            Bug::Doubles => "a card that doubles a packet",
            Bug::Swaps => "a card that swaps two packets",
            Bug::ForgetsInterrupt => "a card that forgets an interrupt",
            Bug::ForgetsDescriptor => "a card that forgets a descriptor",
        })
    }
}

const EVERY: u64 = 16;

/// The packets of a plan, with a mistake.
pub(super) struct Planted {
    pub(super) packets: Planned,
    /// The same of another run.
    pub(super) others: Planned,
    pub(super) bug: Bug,
}

impl Source for Planted {
    fn count(&self) -> u64 {
        self.packets.count()
    }

    fn packets_per_deadline(&self) -> u32 {
        self.packets.packets_per_deadline()
    }

    fn due(&self) -> Time {
        self.packets.due()
    }

    fn advance(&mut self) {
        self.packets.advance();
    }

    fn frame(&mut self, sequence: u64) -> Frame<'_> {
        let last = self.count() - 1;
        match (self.bug, sequence % EVERY) {
            (Bug::Loses, 1) => self.others.frame(sequence),
            (Bug::Doubles | Bug::Swaps, 2) => self.packets.frame(sequence - 1),
            (Bug::Swaps, 1) if sequence < last => self.packets.frame(sequence + 1),
            _ => self.packets.frame(sequence),
        }
    }

    fn paced(&self) -> bool {
        self.packets.paced()
    }
}
