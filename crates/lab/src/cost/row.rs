//! What one frame length costs, and how it is taken apart.

use serde::Serialize;
use warikomi_measure::published;

use super::fit::Line;

/// What one frame length costs, in nanoseconds a packet. What could not be measured soundly is
/// absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// Frame length in bytes.
    pub size_bytes: usize,
    /// Mean time to send, calls 1,000 to 2,000 of 3,000, while the driver polls.
    pub send_ns: Option<f64>,
    /// Half of these calls took no longer.
    pub send_p50_ns: Option<f64>,
    /// 99 of 100 took no longer.
    pub send_p99_ns: Option<f64>,
    /// The published mean.
    pub published_send_ns: Option<f64>,
    /// Mean time to send when the driver waits, so that its interrupt has to be signalled: with the write that tells
    /// the target.
    pub send_signalled_ns: Option<f64>,
    /// Half of these calls took no longer.
    pub send_signalled_p50_ns: Option<f64>,
    /// 99 of 100 took no longer.
    pub send_signalled_p99_ns: Option<f64>,
    /// By how much this mean is more than that of a driver that polls: what telling adds.
    pub telling_ns: Option<f64>,
    /// Interrupts for each of these calls: 1 if all of them told the target.
    pub interrupts_per_send: Option<f64>,
    /// What the saturated driver needs.
    pub receive_ns: Option<f64>,
    /// Of that, what grows with the length: copying.
    pub copy_ns: Option<f64>,
    /// What does not: the driver's own work.
    pub rest_ns: Option<f64>,
    /// Copying by the functions that `perf` sampled.
    pub sampled_copy_ns: Option<f64>,
    /// The rest by these.
    pub sampled_rest_ns: Option<f64>,
    /// What the saturated target needs until its application has the packet.
    pub end_to_end_ns: Option<f64>,
    /// Of that, what grows with the length.
    pub end_to_end_copy_ns: Option<f64>,
    /// What does not.
    pub end_to_end_rest_ns: Option<f64>,
    /// With an application that receives: copying by the functions that `perf` sampled.
    pub path_copy_ns: Option<f64>,
    /// Protocol processing by these: what lies between the driver and the socket.
    pub path_protocol_ns: Option<f64>,
    /// What both leave of `end_to_end_ns`: driver, scheduling, system calls and the application.
    pub path_rest_ns: Option<f64>,
    /// The published time to copy.
    pub published_copy_ns: Option<f64>,
    /// The published time of protocol processing.
    pub published_protocol_ns: Option<f64>,
}

impl Row {
    pub(super) fn published(size_bytes: usize) -> Row {
        let published = published::injection();
        let breakdown = published.receive_breakdown(size_bytes);
        Row {
            size_bytes,
            published_send_ns: published.send_ns(size_bytes),
            published_copy_ns: breakdown.map(|parts| parts.copy_us * 1e3),
            published_protocol_ns: breakdown.map(|parts| parts.protocol_us * 1e3),
            ..Row::default()
        }
    }
}

/// Fits the lines through the rows (send, receive, end to end), and takes the costs of receiving
/// apart by theirs.
pub(super) fn split(rows: &mut [Row]) -> [Option<Line>; 3] {
    let through = |of: fn(&Row) -> Option<f64>| {
        let point = |row: &Row| Some((row.size_bytes as f64, of(row)?));
        Line::through(&rows.iter().filter_map(point).collect::<Vec<_>>())
    };
    let fits = [
        through(|row| row.send_ns),
        through(|row| row.receive_ns),
        through(|row| row.end_to_end_ns),
    ];
    for row in rows {
        let parts = |whole: Option<f64>, line: Option<Line>| {
            let copy = line.map(|line| line.bytes_ns(row.size_bytes));
            // Where the line says more than the whole, or less than nothing, it says nothing.
            let parts = whole.zip(copy).filter(|(whole, copy)| (0.0..=*whole).contains(copy));
            parts.map(|(whole, copy)| (copy, whole - copy)).unzip()
        };
        let (driver, all) = (parts(row.receive_ns, fits[1]), parts(row.end_to_end_ns, fits[2]));
        (row.copy_ns, row.rest_ns) = driver;
        (row.end_to_end_copy_ns, row.end_to_end_rest_ns) = all;
    }
    fits
}
