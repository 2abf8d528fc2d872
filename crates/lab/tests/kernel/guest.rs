//! A guest with cards of a test's own, and what tests ask of it.

use std::time::Duration;

use warikomi_nic::{Nic, NicOptions};
use warikomi_protocol::Command;
use warikomi_protocol::commands::{Counters, LoadDriver, ReadFile, WaitInterface};
use warikomi_session::SessionOptions;
use warikomi_target::{CardId, Target};
use warikomi_wire::Wire;

use crate::bring::{by_the_bridge, try_kernel_with};

const WITHIN: Duration = Duration::from_secs(5);

/// A kernel that our bridge attaches cards to.
pub(crate) struct Guest {
    pub(crate) target: Box<dyn Target>,
}

impl Guest {
    /// A guest with these cards, whose drivers are not loaded.
    pub(crate) fn start(options: SessionOptions, nics: Vec<Box<dyn Nic>>) -> Guest {
        let target = try_kernel_with(options, by_the_bridge(), nics);
        Guest { target: target.unwrap_or_else(|error| panic!("{error}")) }
    }

    #[track_caller]
    pub(crate) fn ask<C: Command>(&mut self, command: C) -> C::Answer {
        self.target.ask(command, WITHIN).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn load(&mut self, module: &str, parameters: &[&str]) {
        let params = parameters.iter().map(|&parameter| parameter.to_owned()).collect();
        self.ask(LoadDriver { name: module.into(), params });
    }

    /// The interface that a driver made for a card.
    pub(crate) fn interface_of(&mut self, driver: &str, card: CardId) -> String {
        let pci_address = Some(card.pci_address());
        self.ask(WaitInterface { driver: driver.into(), pci_address, timeout_ms: 5_000 }).interface
    }

    pub(crate) fn read(&mut self, path: &str) -> String {
        self.ask(ReadFile { path: path.into() }).text.trim().to_owned()
    }

    /// One of the counters that every interface has.
    pub(crate) fn counter(&mut self, interface: &str, name: &str) -> u64 {
        self.ask(Counters { interface: Some(interface.into()) }).interface[name]
    }

    #[track_caller]
    pub(crate) fn wait_until(&mut self, what: &str, mut done: impl FnMut(&mut Guest) -> bool) {
        for _ in 0..500 {
            if done(self) {
                return;
            }
            self.target.serve_for(Duration::from_millis(10)).unwrap();
        }
        panic!("waited 5 s in vain until {what}; {}", self.target.console());
    }

    /// Ends it, unless it has come to harm.
    pub(crate) fn stop(mut self) {
        let counters = self.target.counters();
        assert_eq!((counters.malformed, counters.corrupt_rings), (0, 0), "{counters:?}");
        let console = self.target.console().to_string();
        assert!(!console.contains("------------[ cut here ]"), "{console}");
        self.target.stop().unwrap();
    }
}

/// A card of this model on this wire.
pub(crate) fn nic(model: &str, wire: impl Wire + 'static) -> Box<dyn Nic> {
    warikomi_nic::build(&NicOptions::of(model), Box::new(wire)).unwrap()
}
