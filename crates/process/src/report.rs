//! What the driver tells in its page of the region. None of it is believed to make sense.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use warikomi_clock::read_tsc;
use warikomi_pci::attach::layout::{self, report};
use warikomi_protocol::answers::{Counters, InterruptKind, LinkState};
use warikomi_shared::SharedWords;

/// The names by which counts go, as Linux has them where it has them.
const INTERFACE: [(&str, usize); 7] = [
    ("rx_packets", report::RX_PACKETS),
    ("rx_bytes", report::RX_BYTES),
    ("rx_errors", report::RX_ERRORS),
    ("rx_dropped", report::RX_DROPPED),
    ("tx_packets", report::TX_PACKETS),
    ("tx_bytes", report::TX_BYTES),
    ("tx_errors", report::TX_ERRORS),
];

/// What only drivers of ours count.
const DRIVER: [(&str, usize); 8] = [
    ("interrupts", report::INTERRUPTS),
    ("polls", report::POLLS),
    ("empty_polls", report::EMPTY_POLLS),
    ("sleeps", report::SLEEPS),
    ("slept_ns", report::SLEPT_NS),
    ("poll_ns", report::POLL_NS),
    ("hiccups", report::HICCUPS),
    ("hiccup_ns", report::HICCUP_NS),
];

/// The driver's report.
#[derive(Clone, Debug)]
pub(super) struct Report {
    words: SharedWords,
}

impl Report {
    pub(super) fn new(words: SharedWords) -> Report {
        Report { words }
    }

    /// See [`layout::state`].
    pub(super) fn state(&self) -> u64 {
        self.words[report::STATE].load(Acquire)
    }

    /// How often the driver's loop has told that it lives.
    pub(super) fn heartbeat(&self) -> u64 {
        self.words[report::HEARTBEAT].load(Acquire)
    }

    /// Whether the driver sleeps, as far as it says.
    pub(super) fn sleeps(&self) -> bool {
        self.words[report::ASLEEP].load(Acquire) != 0
    }

    /// Frames received and transmitted.
    pub(super) fn packets(&self) -> u64 {
        let [received, transmitted] = [report::RX_PACKETS, report::TX_PACKETS];
        self.words[received].load(Relaxed).wrapping_add(self.words[transmitted].load(Relaxed))
    }

    /// The link's speed in Mbit/s; 0 if it is down.
    pub(super) fn link_mbps(&self) -> u64 {
        self.words[report::LINK_MBPS].load(Relaxed)
    }

    /// Why it failed, fit for a terminal.
    pub(super) fn last_words(&self) -> String {
        let len = self.words[report::LAST_WORDS_LEN].load(Acquire);
        let len = (len as usize).min(layout::LAST_WORDS_BYTES);
        let words = (0..layout::LAST_WORDS_BYTES / size_of::<u64>())
            .flat_map(|at| self.words[report::LAST_WORDS + at].load(Relaxed).to_le_bytes());
        let bytes: Vec<u8> = words.take(len).collect();
        let text: String =
            String::from_utf8_lossy(&bytes).chars().filter(|c| !c.is_control()).collect();
        if text.is_empty() { "it did not say why".to_owned() } else { text }
    }

    /// The counts, as an agent would give them.
    pub(super) fn counters(&self) -> Counters {
        let count = |(name, at): (&str, usize)| (name.to_owned(), self.words[at].load(Relaxed));
        Counters {
            tsc: read_tsc(),
            interface: INTERFACE.map(count).into(),
            driver: DRIVER.map(count).into(),
            interrupts: Vec::new(),
            interrupt_kind: InterruptKind::Msi,
            softnet_processed: 0,
            softnet_dropped: 0,
            softnet_squeezed: 0,
            protocol: BTreeMap::new(),
        }
    }

    /// The link, as an agent would give it.
    pub(super) fn link(&self) -> LinkState {
        let mbps = self.link_mbps();
        LinkState {
            up: self.state() == layout::state::READY,
            carrier: mbps != 0,
            speed_mbps: u32::try_from(mbps).ok().filter(|&mbps| mbps != 0),
            duplex: None,
            carrier_changes: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::for_tests;

    #[test]
    fn last_words_are_bounded_and_fit_for_a_terminal() {
        let words = for_tests().0.words;
        let report = Report::new(words.clone());
        assert_eq!(report.last_words(), "it did not say why");
        words[report::LAST_WORDS].store(u64::from_le_bytes(*b"\x1b[31mred"), Relaxed);
        words[report::LAST_WORDS_LEN].store(8, Relaxed);
        assert_eq!(report.last_words(), "[31mred");
        words[report::LAST_WORDS_LEN].store(u64::MAX, Relaxed);
        for at in 0..64 {
            words[report::LAST_WORDS + at].store(u64::from_le_bytes([b'x'; 8]), Relaxed);
        }
        assert_eq!(report.last_words().len(), layout::LAST_WORDS_BYTES);
    }

    #[test]
    fn counts_have_the_names_that_experiments_look_for() {
        let words = for_tests().0.words;
        words[report::RX_PACKETS].store(5, Relaxed);
        words[report::RX_ERRORS].store(2, Relaxed);
        words[report::LINK_MBPS].store(1_000, Relaxed);
        let report = Report::new(words);
        let counters = report.counters();
        assert_eq!((counters.interface["rx_packets"], counters.interface["rx_errors"]), (5, 2));
        assert_eq!((report.link().carrier, report.link().speed_mbps), (true, Some(1_000)));
    }
}
