//! What the driver itself counts.

use std::time::Duration;

use serde_json::{Map, Value};
use warikomi_clock::Clock;
use warikomi_protocol::answers;
use warikomi_protocol::commands::Counters;
use warikomi_target::TargetError;

use warikomi_session::Session;

/// Counts that drivers of ours keep, with the names that they have in a result.
const OWN: [(&str, &str); 7] = [
    ("interrupts", "driver_interrupts"),
    ("polls", "driver_polls"),
    ("empty_polls", "driver_empty_polls"),
    ("sleeps", "driver_sleeps"),
    ("slept_ns", "driver_slept_ns"),
    ("hiccups", "driver_hiccups"),
    ("hiccup_ns", "driver_hiccup_ns"),
];

/// How much longer the counters may take than another answer. The driver reads registers for each of
/// an interface's two dozen counters, and on a busy machine each read waits until our side has its
/// core back.
pub(super) const READS_MAY_TAKE: Duration = Duration::from_secs(25);

/// What the driver itself counts.
#[derive(Clone, Debug)]
pub(super) struct DriverCounts {
    counters: answers::Counters,
    /// Whether it is a driver of ours: a kernel's has counts of its own kind.
    ours: bool,
}

impl DriverCounts {
    /// Asks for them; `None` if nothing in the target can be asked.
    pub(super) fn ask(session: &mut Session) -> Result<Option<DriverCounts>, TargetError> {
        if session.target.agent().is_none() {
            return Ok(None);
        }
        let counters = session.target.ask(Counters { interface: None }, READS_MAY_TAKE)?;
        Ok(Some(DriverCounts { counters, ours: !session.has_kernel() }))
    }

    /// Frames that it has received.
    pub(super) fn received(&self) -> u64 {
        self.of_interface("rx_packets")
    }

    /// Frames that it has refused for an error.
    pub(super) fn errors(&self) -> u64 {
        self.of_interface("rx_errors")
    }

    fn of_interface(&self, name: &str) -> u64 {
        self.counters.interface.get(name).copied().unwrap_or(0)
    }

    /// What a driver of ours has done since `before`, as figures of a result.
    pub(super) fn figures_since(&self, before: &DriverCounts, clock: Clock) -> Map<String, Value> {
        let mut figures = Map::new();
        if !self.ours {
            return figures;
        }
        let of = |counts: &DriverCounts, name: &str| counts.counters.driver.get(name).copied();
        for (name, figure) in OWN {
            if let (Some(now), Some(then)) = (of(self, name), of(before, name)) {
                figures.insert(figure.into(), now.saturating_sub(then).into());
            }
        }
        if let Some(poll_ns) = of(self, "poll_ns").filter(|&poll_ns| poll_ns > 0) {
            figures.insert("driver_poll_ns".into(), poll_ns.into());
        }
        let span_ns = clock.at(self.counters.tsc).since(clock.at(before.counters.tsc)).as_ns();
        if let Some(slept_ns) = figures.get("driver_slept_ns").and_then(Value::as_f64)
            && span_ns > 0.0
        {
            let awake = (1.0 - slept_ns / span_ns).clamp(0.0, 1.0);
            figures.insert("driver_awake_share".into(), awake.into());
        }
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use warikomi_protocol::answers::InterruptKind;

    fn counts(tsc: u64, own: &[(&str, u64)], ours: bool) -> DriverCounts {
        let driver = own.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        let counters = answers::Counters {
            tsc,
            interface: BTreeMap::from([("rx_packets".to_owned(), tsc / 10)]),
            driver,
            interrupts: Vec::new(),
            interrupt_kind: InterruptKind::Msi,
            softnet_processed: 0,
            softnet_dropped: 0,
            softnet_squeezed: 0,
            protocol: BTreeMap::new(),
        };
        DriverCounts { counters, ours }
    }

    #[test]
    fn figures_are_of_the_run_alone() {
        let clock = Clock::Real(warikomi_clock::TscClock::with_frequency(0, 1e9));
        let before = counts(1_000, &[("sleeps", 5), ("slept_ns", 100)], true);
        let after = counts(2_000, &[("sleeps", 8), ("slept_ns", 350), ("poll_ns", 7)], true);
        let figures = after.figures_since(&before, clock);
        assert_eq!((after.received(), after.errors()), (200, 0));
        assert_eq!(figures["driver_sleeps"], 3);
        assert_eq!(figures["driver_poll_ns"], 7);
        let awake = figures["driver_awake_share"].as_f64().unwrap();
        assert!((awake - 0.75).abs() < 1e-6, "{awake}");
        let kernels = counts(3_000, &[("sleeps", 9)], false);
        assert!(kernels.figures_since(&after, clock).is_empty());
    }
}
