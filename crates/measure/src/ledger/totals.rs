//! The ledger's columns.

use serde::{Deserialize, Serialize};

use super::packet::Fate;

/// What became of a run's packets, counted.
///
/// `planned` = `injected` + `not_injected`;
/// `injected` = `no_descriptor` + `filtered` + `dma_error` + `not_completed` + `refused` +
/// `delivered` + `unclaimed` + `lost`;
/// `accepted` = `delivered` + `unclaimed` + `lost_in_stack`; `lost` = `lost_on_ring` + `lost_in_stack`.
/// [`Totals::adds_up`] says whether it is so, which matters where the figures come from a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Packets that the plan asked for.
    pub planned: u64,
    /// Packets that were given to the NIC.
    pub injected: u64,
    /// Packets that were not, because the run was cut short.
    #[serde(default)]
    pub not_injected: u64,
    /// Missed by the NIC, because no receive descriptor was free.
    pub no_descriptor: u64,
    /// Not let in by the NIC, because of its filter or because the receiver was off.
    pub filtered: u64,
    /// Of `filtered`: because the receiver was off.
    #[serde(default)]
    pub not_receiving: u64,
    /// Not written by the NIC, because descriptor or buffer could not be reached.
    pub dma_error: u64,
    /// Written by the NIC into a descriptor that it never completed.
    #[serde(default)]
    pub not_completed: u64,
    /// Refused by the driver for an error mark in the descriptor.
    #[serde(default)]
    pub refused: u64,
    /// Accepted by the driver.
    pub accepted: u64,
    /// Received by the application.
    pub delivered: u64,
    /// Accepted by the driver, and meant for no application.
    #[serde(default)]
    pub unclaimed: u64,
    /// Put on the ring by the NIC, and not received by the application that it was meant for.
    pub lost: u64,
    /// Of `lost`: never accepted by the driver.
    #[serde(default)]
    pub lost_on_ring: u64,
    /// Of `lost`: accepted by the driver.
    #[serde(default)]
    pub lost_in_stack: u64,
    /// Facts that contradict these columns. Anything but 0 is a bug in Warikomi.
    pub unaccounted: u64,
    /// Facts that contradict each other, by kind.
    #[serde(default, skip_serializing_if = "Contradictions::are_none")]
    pub contradictions: Contradictions,
}

/// Facts that contradict the ledger, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Contradictions {
    /// Packets injected twice, out of order, or beyond the plan.
    pub injected_out_of_order: u64,
    /// Frames of others that went on the ring at too many places to remember.
    pub foreign_not_placed: u64,
    /// Packets and counts of receive queues that the NIC does not have.
    pub queue_that_is_not_there: u64,
    /// Times that a count of accepted or abandoned frames went back.
    pub counter_went_back: u64,
    /// Frames accepted or abandoned beyond those on the ring.
    pub accepted_never_on_ring: u64,
    /// Sequence numbers delivered that no packet has.
    pub delivered_out_of_range: u64,
    /// Packets delivered that never went on the ring.
    pub delivered_never_on_ring: u64,
    /// Packets delivered again.
    pub delivered_twice: u64,
    /// By how much the driver's own counter differs from `accepted`.
    pub driver_counter_differs: u64,
    /// By how much the driver's own counter of errors differs from `refused`.
    pub driver_errors_differ: u64,
}

/// The ledger does not account for everything.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{count} facts do not fit the ledger, which is a bug in Warikomi, not in the driver; please \
     report it with the run's directory: {kinds}"
)]
pub struct Unaccounted {
    /// Number of facts.
    pub count: u64,
    /// Of which kinds, and how many of each.
    pub kinds: String,
}

impl Contradictions {
    /// Every kind with its name.
    pub fn by_kind(&self) -> [(&'static str, u64); 10] {
        [
            ("injected out of order", self.injected_out_of_order),
            ("frames of others at too many places", self.foreign_not_placed),
            ("of a receive queue that is not there", self.queue_that_is_not_there),
            ("a counter of the NIC went back", self.counter_went_back),
            ("accepted but never on the ring", self.accepted_never_on_ring),
            ("delivered but no such packet", self.delivered_out_of_range),
            ("delivered but never on the ring", self.delivered_never_on_ring),
            ("delivered twice", self.delivered_twice),
            ("difference from the driver's own counter", self.driver_counter_differs),
            ("difference from the driver's own counter of errors", self.driver_errors_differ),
        ]
    }

    /// The sum of all contradictions.
    pub fn sum(&self) -> u64 {
        self.by_kind().iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    fn are_none(&self) -> bool {
        *self == Contradictions::default()
    }
}

impl Totals {
    /// Counts a packet; [`summed`](Self::summed) fills the columns that are sums.
    pub(super) fn count(&mut self, fate: Fate) {
        let column = match fate {
            Fate::NotInjected => &mut self.not_injected,
            Fate::NoDescriptor => &mut self.no_descriptor,
            Fate::Filtered => &mut self.filtered,
            Fate::NotReceiving => &mut self.not_receiving,
            Fate::DmaError => &mut self.dma_error,
            Fate::NotCompleted => &mut self.not_completed,
            Fate::Refused => &mut self.refused,
            Fate::LostOnRing => &mut self.lost_on_ring,
            Fate::Unclaimed => &mut self.unclaimed,
            Fate::LostInStack => &mut self.lost_in_stack,
            Fate::Delivered => &mut self.delivered,
        };
        *column += 1;
        self.planned += 1;
    }

    pub(super) fn summed(mut self) -> Totals {
        self.filtered += self.not_receiving;
        self.injected = self.planned - self.not_injected;
        self.lost = self.lost_on_ring + self.lost_in_stack;
        self.accepted = self.delivered + self.unclaimed + self.lost_in_stack;
        self
    }

    pub(super) fn with(self, contradictions: Contradictions) -> Totals {
        Totals { unaccounted: contradictions.sum(), contradictions, ..self }
    }

    /// Packets that the NIC did not put on the ring as they were.
    pub fn missed(&self) -> u64 {
        let missed =
            [self.no_descriptor, self.filtered, self.dma_error, self.not_completed, self.refused];
        missed.into_iter().fold(0, u64::saturating_add)
    }

    /// Packets that went on the ring.
    pub fn on_ring(&self) -> u64 {
        self.delivered.saturating_add(self.unclaimed).saturating_add(self.lost)
    }

    /// Whether every packet is in exactly one column.
    pub fn adds_up(&self) -> bool {
        let sum = |columns: &[u64]| columns.iter().try_fold(0u64, |sum, &n| sum.checked_add(n));
        let missed =
            [self.no_descriptor, self.filtered, self.dma_error, self.not_completed, self.refused];
        let leaves = [sum(&missed), Some(self.delivered), Some(self.unclaimed), Some(self.lost)];
        let leaves: Option<Vec<u64>> = leaves.into_iter().collect();
        sum(&[self.injected, self.not_injected]) == Some(self.planned)
            && leaves.and_then(|leaves| sum(&leaves)) == Some(self.injected)
            && sum(&[self.delivered, self.unclaimed, self.lost_in_stack]) == Some(self.accepted)
            && sum(&[self.lost_on_ring, self.lost_in_stack]) == Some(self.lost)
            && self.not_receiving <= self.filtered
    }

    /// The same without what the driver's own counters say, which begin anew with each driver.
    pub fn without_driver(self) -> Totals {
        let contradictions = Contradictions {
            driver_counter_differs: 0,
            driver_errors_differ: 0,
            ..self.contradictions
        };
        self.with(contradictions)
    }

    /// An error if anything is unaccounted for.
    pub fn check(&self) -> Result<(), Unaccounted> {
        if self.unaccounted == 0 && self.adds_up() {
            return Ok(());
        }
        let mut kinds: Vec<String> = self
            .contradictions
            .by_kind()
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(kind, count)| format!("{kind}: {count}"))
            .collect();
        if !self.adds_up() {
            kinds.push("the columns do not add up".to_owned());
        }
        Err(Unaccounted { count: self.unaccounted.max(1), kinds: kinds.join("; ") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every column with a count of its own.
    fn consistent() -> Totals {
        Totals {
            planned: 55,
            injected: 54,
            not_injected: 1,
            no_descriptor: 2,
            filtered: 3,
            not_receiving: 3,
            dma_error: 4,
            not_completed: 5,
            refused: 6,
            accepted: 25,
            delivered: 7,
            unclaimed: 8,
            lost: 19,
            lost_on_ring: 9,
            lost_in_stack: 10,
            unaccounted: 0,
            contradictions: Contradictions::default(),
        }
    }

    #[test]
    fn one_column_that_is_wrong_is_found() {
        assert!(consistent().adds_up());
        assert_eq!(consistent().check(), Ok(()));
        assert_eq!((consistent().missed(), consistent().on_ring()), (20, 34));
        let columns: [fn(&mut Totals) -> &mut u64; 15] = [
            |totals| &mut totals.planned,
            |totals| &mut totals.injected,
            |totals| &mut totals.not_injected,
            |totals| &mut totals.no_descriptor,
            |totals| &mut totals.filtered,
            |totals| &mut totals.not_receiving,
            |totals| &mut totals.dma_error,
            |totals| &mut totals.not_completed,
            |totals| &mut totals.refused,
            |totals| &mut totals.accepted,
            |totals| &mut totals.delivered,
            |totals| &mut totals.unclaimed,
            |totals| &mut totals.lost,
            |totals| &mut totals.lost_on_ring,
            |totals| &mut totals.lost_in_stack,
        ];
        for (number, column) in columns.into_iter().enumerate() {
            for wrong in [|right: u64| right + 1, |_| u64::MAX] {
                let mut totals = consistent();
                *column(&mut totals) = wrong(*column(&mut totals));
                assert!(!totals.adds_up(), "column {number}: {totals:?}");
                let unaccounted = totals.check().unwrap_err();
                assert_eq!(unaccounted.kinds, "the columns do not add up");
                assert_eq!(unaccounted.count, 1);
            }
        }
    }

    #[test]
    fn a_driver_that_was_replaced_contradicts_nothing() {
        let contradictions =
            Contradictions { driver_counter_differs: 9, ..Contradictions::default() };
        let totals = consistent().with(contradictions);
        assert!(totals.check().is_err());
        assert_eq!(totals.without_driver().check(), Ok(()));
        let contradictions = Contradictions { delivered_twice: 1, ..contradictions };
        assert!(consistent().with(contradictions).without_driver().check().is_err());
    }

    #[test]
    fn contradictions_are_kept_if_there_are_any() {
        let kept = |totals| {
            let json = serde_json::to_value(totals).unwrap();
            json.get("contradictions").map(|kinds| kinds["delivered_twice"].as_u64())
        };
        assert_eq!(kept(consistent()), None);
        let contradictions = Contradictions { delivered_twice: 2, ..Contradictions::default() };
        assert_eq!(kept(consistent().with(contradictions)), Some(Some(2)));
    }
}
