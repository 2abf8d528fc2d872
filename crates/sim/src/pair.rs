//! A card and a driver for it.

use warikomi_driver::NicDriver;
use warikomi_driver::run::Lineage;
use warikomi_nic::{Nic, NicOptions};
use warikomi_wire::{CountedSink, Wire};

use crate::session::Session;

type MakeCard = Box<dyn Fn(Box<dyn Wire>) -> Box<dyn Nic>>;
type MakeDriver = Box<dyn Fn() -> Box<dyn NicDriver>>;
/// What is wrong with a channel that has just given back what a dead driver had: so many buffers.
pub(crate) type ChannelBug = fn(&Session, u64);
/// What is wrong with what a driver sees of those before and after it.
pub(crate) type LineageBug = fn(Lineage) -> Lineage;

/// A card, and a driver for it: what makes them, again and again.
pub struct Pair {
    card: MakeCard,
    driver: MakeDriver,
    pub(crate) channel_bug: Option<ChannelBug>,
    pub(crate) lineage_bug: Option<LineageBug>,
}

impl Pair {
    /// A card that `card` makes, cabled to the wire that it is given, and drivers that `driver` makes.
    pub fn new(
        card: impl Fn(Box<dyn Wire>) -> Box<dyn Nic> + 'static,
        driver: impl Fn() -> Box<dyn NicDriver> + 'static,
    ) -> Pair {
        Pair {
            card: Box::new(card),
            driver: Box::new(driver),
            channel_bug: None,
            lineage_bug: None,
        }
    }

    /// The NIC model of that name as it is, with the driver of the same name; `None` if there is no such pair.
    pub fn by_name(name: &str) -> Option<Pair> {
        warikomi_driver::by_name(name)?;
        let options = NicOptions::of(name);
        warikomi_nic::build(&options, Box::new(CountedSink::new())).ok()?;
        let name = name.to_owned();
        Some(Pair::new(
            move |wire| warikomi_nic::build(&options, wire).expect("it was made a moment ago"),
            move || warikomi_driver::by_name(&name).expect("it was there a moment ago"),
        ))
    }

    /// The same card, with drivers that `driver` makes of this pair's.
    pub(crate) fn with(
        self,
        driver: impl Fn(Box<dyn NicDriver>) -> Box<dyn NicDriver> + 'static,
    ) -> Pair {
        let make = self.driver;
        Pair { driver: Box::new(move || driver(make())), ..self }
    }

    /// The same, with drivers that see their predecessors so.
    pub(crate) fn with_lineage(self, bug: LineageBug) -> Pair {
        Pair { lineage_bug: Some(bug), ..self }
    }

    /// The same, below a channel with a bug.
    #[cfg(test)]
    pub(crate) fn with_channel(self, bug: ChannelBug) -> Pair {
        Pair { channel_bug: Some(bug), ..self }
    }

    /// A card at power-on.
    pub(crate) fn card(&self, wire: Box<dyn Wire>) -> Box<dyn Nic> {
        (self.card)(wire)
    }

    /// A new driver for the card.
    pub(crate) fn driver(&self) -> Box<dyn NicDriver> {
        (self.driver)()
    }
}
