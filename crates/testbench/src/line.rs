//! Interrupt lines.

use std::collections::BTreeMap;

use warikomi_pci::{Interrupt, IntrLine};

/// An interrupt, and how it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// The interrupt that was sent.
    pub interrupt: Interrupt,
    /// It may come at any moment of the driver's work ([`IntrLine::signal_any_time`]).
    pub any_time: bool,
}

/// A line that keeps what a card tells its target.
#[derive(Clone, Debug, Default)]
pub struct Line {
    signals: Vec<Signal>,
    messages: u64,
    by_data: BTreeMap<u32, u64>,
    level: bool,
    rises: u64,
    work_ahead: u64,
    presence: Vec<bool>,
    messages_only: bool,
}

impl Line {
    /// A line on which asserting the INTA# wire is an error: a driver has disabled it.
    pub fn messages_only() -> Line {
        Line { messages_only: true, ..Line::default() }
    }

    /// What was signalled since the last [`take`](Self::take), in order.
    pub fn signals(&self) -> &[Signal] {
        &self.signals
    }

    /// The same without how it was sent.
    pub fn interrupts(&self) -> Vec<Interrupt> {
        self.signals.iter().map(|signal| signal.interrupt).collect()
    }

    /// Takes what was signalled since the last time. Counts and level stay.
    pub fn take(&mut self) -> Vec<Interrupt> {
        std::mem::take(&mut self.signals).into_iter().map(|signal| signal.interrupt).collect()
    }

    /// Messages so far, of all vectors.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Messages so far of the vector whose messages carry `data`.
    pub fn count(&self, data: u32) -> u64 {
        self.by_data.get(&data).copied().unwrap_or_default()
    }

    /// Times that the INTA# wire was asserted.
    pub fn rises(&self) -> u64 {
        self.rises
    }

    /// The INTA# wire, as it was left.
    pub fn level(&self) -> bool {
        self.level
    }

    /// How often the card has said that the driver has work ahead ([`IntrLine::work_ahead`]).
    pub fn work_ahead(&self) -> u64 {
        self.work_ahead
    }

    /// Whether the card was plugged in, each time that the target was told of it.
    pub fn presence(&self) -> &[bool] {
        &self.presence
    }

    fn keep(&mut self, interrupt: Interrupt, any_time: bool) {
        match interrupt {
            Interrupt::Msi(message) => {
                self.messages += 1;
                *self.by_data.entry(message.data).or_default() += 1;
            }
            Interrupt::Intx(level) => {
                assert!(!(level && self.messages_only), "INTx is disabled");
                self.rises += u64::from(level && !self.level);
                self.level = level;
            }
        }
        self.signals.push(Signal { interrupt, any_time });
    }
}

impl IntrLine for Line {
    fn signal(&mut self, interrupt: Interrupt) {
        self.keep(interrupt, false);
    }

    fn signal_any_time(&mut self, interrupt: Interrupt) {
        self.keep(interrupt, true);
    }

    fn work_ahead(&mut self) {
        self.work_ahead += 1;
    }

    fn has_hotplug(&self) -> bool {
        true
    }

    fn set_present(&mut self, present: bool) {
        self.presence.push(present);
    }
}

/// A line that ends nowhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nowhere;

impl IntrLine for Nowhere {
    fn signal(&mut self, _interrupt: Interrupt) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use warikomi_pci::MsiMessage;

    fn message(data: u32) -> Interrupt {
        Interrupt::Msi(MsiMessage { address: 0xfee0_0000, data })
    }

    #[test]
    fn messages_are_kept_in_order_and_counted_by_vector() {
        let mut line = Line::default();
        line.signal(message(1));
        line.signal_any_time(message(2));
        line.signal(Interrupt::Intx(true));
        line.signal(message(1));
        assert_eq!(line.signals().iter().filter(|signal| signal.any_time).count(), 1);
        assert_eq!(line.take(), [message(1), message(2), Interrupt::Intx(true), message(1)]);
        assert!(line.signals().is_empty() && line.level());
        assert_eq!((line.messages(), line.count(1), line.count(2), line.count(3)), (3, 2, 1, 0));
    }

    #[test]
    #[should_panic(expected = "INTx is disabled")]
    fn a_line_for_messages_refuses_the_wire() {
        let mut line = Line::messages_only();
        line.signal(Interrupt::Intx(false));
        line.signal(Interrupt::Intx(true));
    }
}
