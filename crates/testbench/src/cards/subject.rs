//! A card with its options: what a suite is given.

use warikomi_nic::bus::PRESETS;
use warikomi_nic::{Nic, NicOptions};
use warikomi_wire::{HEADER_BYTES, Wire};

use super::test_card::TestCard;
use crate::bench::Bench;

/// A card and its options: what a suite is given.
#[derive(Clone)]
pub struct Subject {
    /// The card.
    pub card: &'static dyn TestCard,
    /// Options of the card.
    pub options: NicOptions,
}

impl Subject {
    /// The card as it is.
    pub fn of(card: &'static dyn TestCard) -> Subject {
        Subject { card, options: NicOptions::of(card.name()) }
    }

    /// On the first of the buses.
    pub fn on_a_bus(card: &'static dyn TestCard) -> Subject {
        let options = NicOptions { bus: Some(PRESETS[0].bus), ..NicOptions::of(card.name()) };
        Subject { card, options }
    }

    /// With transfers and a line that take their time, and packets of up to 9,000 bytes, if it can.
    pub fn slow(card: &'static dyn TestCard) -> Subject {
        let most = Subject::of(card).bench().nic.info().max_frame_bytes - HEADER_BYTES;
        let options = NicOptions {
            bus: Some("pci-64-66,mapping=200ns".parse().expect("a bus")),
            line_rate_bps: Some(100_000_000),
            mtu: Some(most.min(9_000) as u32),
            ..NicOptions::of(card.name())
        };
        Subject { card, options }
    }

    /// The same, naming the steps that a driver must not take.
    pub fn strict(self) -> Subject {
        let options = NicOptions { strict: true, ..self.options };
        Subject { options, ..self }
    }

    /// Whether its transfers take time.
    pub fn is_paced(&self) -> bool {
        let NicOptions { bus, line_rate_bps, .. } = &self.options;
        bus.is_some() || line_rate_bps.is_some() || self.card.is_paced()
    }

    /// The card, cabled to `wire`.
    pub fn build(&self, wire: Box<dyn Wire>) -> Box<dyn Nic> {
        self.card.build(&self.options, wire)
    }

    /// The card on a bench, cabled to a wire that keeps what is sent.
    pub fn bench(&self) -> Bench {
        Bench::cabled(|wire| self.build(wire))
    }
}
