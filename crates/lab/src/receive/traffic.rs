//! The traffic: bursts on a line.

use serde::Serialize;
use warikomi_clock::{Seed, Span};
use warikomi_inject::{Arrival, Burst, Plan};
use warikomi_measure::ms;
use warikomi_nic::LONGEST_FRAME_BYTES;

use crate::Error;

/// What arrives, the same for every strategy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Traffic {
    /// Lengths of bursts in bytes of frames; one after the other, not mixed.
    pub bursts_bytes: Vec<usize>,
    /// Length of a full frame in bytes, without check sequence.
    pub frame_bytes: usize,
    /// The line, in bit/s.
    pub line_rate_bps: u64,
    /// The shares of the line (each above 0, up to 1) that bursts take up in the mean; one after the other.
    pub loads: Vec<f64>,
    /// Exponentially distributed times between bursts, rather than one time.
    pub poisson: bool,
    /// Where the randomness starts from.
    pub seed: Seed,
    /// How long bursts come, for each row.
    #[serde(rename = "duration_ms", serialize_with = "ms")]
    pub duration: Span,
}

impl Default for Traffic {
    /// Bursts as published: mostly 50 KB, at 100 MB/s.
    fn default() -> Self {
        Traffic {
            bursts_bytes: vec![50_000],
            frame_bytes: 1_514,
            line_rate_bps: 800_000_000,
            loads: vec![0.25],
            poisson: false,
            seed: Seed(1),
            duration: Span::from_ms(2_000),
        }
    }
}

impl Traffic {
    /// Each length of a burst with each load.
    pub(super) fn each(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        let loads = |bytes| self.loads.iter().map(move |&load| (bytes, load));
        self.bursts_bytes.iter().flat_map(move |&bytes| loads(bytes))
    }

    /// Refuses what cannot be carried out.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.each().try_for_each(|(bytes, load)| self.plan(bytes, load).map(drop))
    }

    /// The plan for bursts of this length and this load: whole bursts, as many as fit into the duration, at least
    /// one.
    pub fn plan(&self, burst_bytes: usize, load: f64) -> Result<Plan, Error> {
        if !(load > 0.0 && load <= 1.0) {
            return Err(Error::impossible(format!(
                "a load of {load} is not possible: choose more than 0 and at most 1, such as 0.25"
            )));
        }
        let burst = Burst::cut(burst_bytes, self.frame_bytes);
        let interval = burst.interval_at_load(self.line_rate_bps, load);
        let bursts = (self.duration.as_ps() / interval.as_ps().max(1)).max(1);
        let plan = Plan {
            size_bytes: self.frame_bytes,
            interval,
            count: bursts.saturating_mul(burst.frames()),
            arrival: if self.poisson { Arrival::PoissonBursts } else { Arrival::Bursts },
            seed: self.seed,
            line_rate_bps: Some(self.line_rate_bps),
            burst_bytes: Some(burst_bytes),
            ..Plan::default()
        };
        // Whoever has the card knows how long a frame may be.
        plan.validate_for(LONGEST_FRAME_BYTES).map_err(|why| {
            Error::impossible(format!("bursts of {burst_bytes} bytes cannot be: {why}"))
        })?;
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Traffic {
        fn usual(&self, burst_bytes: usize) -> Result<Plan, Error> {
            self.plan(burst_bytes, self.loads[0])
        }
    }

    #[test]
    fn bursts_take_up_their_share_of_the_line() {
        let traffic = Traffic { loads: vec![0.5], ..Traffic::default() };
        let plan = traffic.usual(50_000).unwrap();
        let burst = plan.burst().unwrap();
        let share = burst.line_time(800_000_000).as_secs() / plan.interval.as_secs();
        assert!((share - 0.5).abs() < 1e-6, "{share}");
        assert_eq!(plan.count % burst.frames(), 0);
        let left = traffic.duration.as_secs() - plan.duration().as_secs();
        assert!((0.0..=plan.interval.as_secs()).contains(&left), "{left}");
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        for load in [0.0, -1.0, 1.5, f64::NAN] {
            let refused = Traffic::default().plan(50_000, load).unwrap_err();
            assert!(refused.to_string().contains("at most 1"), "{refused}");
        }
        assert!(Traffic::default().usual(0).unwrap_err().to_string().contains("such as 50000"));
        let one = Traffic { duration: Span::ZERO, ..Traffic::default() }.usual(1_000).unwrap();
        assert_eq!(one.count, 1);
        let line = Traffic { line_rate_bps: 5, ..Traffic::default() }.usual(1_000).unwrap_err();
        assert!(line.to_string().contains("bursts of 1000 bytes"), "{line}");
    }
}
