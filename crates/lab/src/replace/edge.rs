//! The edge at which frames begin to find no descriptor: predicted from the gap, and measured.
//!
//! While no driver serves the device, each frame that arrives takes a descriptor. So nothing is lost as long as
//!
//! > free receive descriptors × interval between frames > gap.
//!
//! The gap is measured with as many descriptors as there are; then there are fewer and fewer.

use serde::{Deserialize, Serialize};
use warikomi_clock::Span;
use warikomi_live::Way;

use super::places::Places;
use super::plan::{MOST_DESCRIPTORS, Options};
use super::row::Row;
use super::tally::Tally;
use super::workload::{Bench, Turn};
use crate::error::Error;
use crate::watch::Watch;

/// A smaller ring is of no use.
const LEAST_DESCRIPTORS: u64 = 4;
/// Replacements with each number of descriptors.
const REPLACEMENTS: u64 = 10;

/// What one number of descriptors led to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct EdgeRow {
    /// See [`Row`].
    pub(super) way: String,
    /// Receive buffers, and so descriptors that are in use.
    pub(super) buffers: u64,
    /// Free ones when a replacement began, at the least.
    pub(super) free_descriptors: u64,
    /// Interval between arriving frames, in nanoseconds.
    pub(super) interval_ns: f64,
    /// The gap that these descriptors bridge.
    pub(super) bridged_us: f64,
    /// The longest gap that there was on receive.
    pub(super) longest_receive_gap_us: Option<f64>,
    /// Frames that found no descriptor.
    pub(super) no_descriptor: u64,
    /// Frames that were lost although they had one.
    pub(super) lost: u64,
}

/// Where the edge is, for one way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Edge {
    /// See [`Row`].
    pub(super) way: String,
    /// Interval between arriving frames, in nanoseconds.
    pub(super) interval_ns: f64,
    /// The longest gap with as many descriptors as there are.
    pub(super) longest_receive_gap_us: Option<f64>,
    /// So many must be free for that gap.
    pub(super) predicted_descriptors: Option<u64>,
    /// The most with which frames were lost; none were lost with any number if absent.
    pub(super) most_with_loss: Option<u64>,
    /// The least from which on none were.
    pub(super) least_without_loss: Option<u64>,
    /// What was tried.
    pub(super) tried: Vec<EdgeRow>,
}

/// Looks for the edge of a way.
pub(super) fn find(options: &Options, way: Way, watch: &mut Watch) -> Result<Edge, Error> {
    let interval_ns = options.plan.interval_ns;
    let mut edge = Edge { way: way.to_string(), interval_ns, ..Edge::default() };
    let ample = attempt(options, way, MOST_DESCRIPTORS, watch)?;
    edge.longest_receive_gap_us = ample.longest_receive_gap_us;
    edge.predicted_descriptors =
        ample.longest_receive_gap_us.map(|us| (us * 1e3 / interval_ns).ceil() as u64);
    let ample_lost = ample.no_descriptor > 0;
    edge.tried.push(ample);
    if ample_lost {
        edge.most_with_loss = Some(MOST_DESCRIPTORS);
        return Ok(edge);
    }
    // Halves until some are lost, then the middle between the two until they are neighbours.
    let (mut good, mut bad) = (MOST_DESCRIPTORS, None);
    while good > LEAST_DESCRIPTORS && bad.is_none_or(|bad| good - bad > (good / 16).max(1)) {
        let next = bad.map_or(good / 2, |bad| (good + bad) / 2);
        let row = attempt(options, way, next, watch)?;
        if row.no_descriptor > 0 {
            bad = Some(next);
        } else {
            good = next;
        }
        edge.tried.push(row);
    }
    edge.least_without_loss = Some(good);
    edge.most_with_loss = bad;
    Ok(edge)
}

/// Some replacements with this many buffers, while frames arrive and nothing else goes on.
fn attempt(options: &Options, way: Way, buffers: u64, watch: &mut Watch) -> Result<EdgeRow, Error> {
    let plan = &options.plan;
    let case = plan.edge_case(way);
    let mut bench = Bench::start(options, &case, buffers, false)?;
    bench.known_to(watch)?;
    let mut tally = Tally::new(plan, &case);
    let mut places = Places::new(plan.seed, buffers);
    for _ in 0..REPLACEMENTS {
        let turn = Turn::of(&places.some(1), Span::from_ms(20), false);
        tally.with(bench.run(&turn)?);
    }
    let row = tally.row(bench.failures().len());
    bench.shown_to(watch);
    bench.stop()?;
    Ok(EdgeRow::of(row, buffers))
}

impl EdgeRow {
    fn of(row: Row, buffers: u64) -> EdgeRow {
        EdgeRow {
            way: row.way,
            buffers,
            free_descriptors: row.free_descriptors.unwrap_or_default(),
            interval_ns: row.interval_ns.unwrap_or_default(),
            bridged_us: row.bridged_us.unwrap_or_default(),
            longest_receive_gap_us: row.longest_receive_gap_us,
            no_descriptor: row.no_descriptor,
            lost: row.lost,
        }
    }
}
