//! How long the driver's handler takes from the rise of its interrupt to its first look.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use warikomi_clock::{Span, Time};
use warikomi_measure::Samples;

use super::series::of_packets;
use crate::inject::Injected;

/// Percentiles in nanoseconds of all interrupts, and of those while both sides were running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Lag {
    p50_ns: Option<f64>,
    p99_ns: Option<f64>,
    quiet_p50_ns: Option<f64>,
    quiet_p99_ns: Option<f64>,
}

impl Lag {
    /// Of a run with this interval.
    pub(super) fn of(run: &Injected, requested: Span) -> Lag {
        let (mut all, mut quiet) = (Samples::new(), Samples::new());
        for record in of_packets(run, requested).filter(|record| record.handled != Time::NEVER) {
            let (from, until) = (record.raised, record.handled);
            all.record(until.since(from));
            if !run.hiccups.not_running(from, until).any() {
                quiet.record(until.since(from));
            }
        }
        let (all, quiet) = (all.summary(), quiet.summary());
        Lag {
            p50_ns: all.as_ref().map(|summary| summary.p50),
            p99_ns: all.as_ref().map(|summary| summary.p99),
            quiet_p50_ns: quiet.as_ref().map(|summary| summary.p50),
            quiet_p99_ns: quiet.as_ref().map(|summary| summary.p99),
        }
    }

    /// As figures of a result.
    pub(super) fn figures(&self) -> Map<String, Value> {
        let figures = [
            ("handler_lag_p50_ns", self.p50_ns),
            ("handler_lag_p99_ns", self.p99_ns),
            ("quiet_handler_lag_p50_ns", self.quiet_p50_ns),
            ("quiet_handler_lag_p99_ns", self.quiet_p99_ns),
        ];
        figures.into_iter().filter_map(|(name, ns)| Some((name.to_owned(), ns?.into()))).collect()
    }
}
