//! What a service says of itself.

use crate::{Event, Program, Replacement, Service, Status, Way};
use serde::{Deserialize, Serialize};
use warikomi_clock::{Span, Time};
use warikomi_wire::{Echoes, WireCounters};

/// A replacement, as the service reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplacementReport {
    /// `planned` or `recovery`.
    pub kind: String,
    /// The generation that was replaced.
    pub from: u32,
    /// The one that followed.
    pub to: u32,
    /// The device was reset.
    pub reset: bool,
    /// From the request (of a recovery: from the failure's being seen) to its result, a new process included, in
    /// microseconds.
    pub replace_us: f64,
    /// From the order (of a recovery: as above) to the first pass, in microseconds.
    pub swap_us: f64,
    /// How long no driver served the device, in microseconds.
    pub outage_us: f64,
}

impl ReplacementReport {
    pub(super) fn of(replacement: &Replacement) -> ReplacementReport {
        ReplacementReport {
            kind: replacement.kind.name().to_owned(),
            from: replacement.from,
            to: replacement.to,
            reset: replacement.reset,
            replace_us: replacement.replace().as_us(),
            swap_us: replacement.swap().as_us(),
            outage_us: replacement.outage().as_us(),
        }
    }
}

/// What the client at the other end of the cable has seen, since the service began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EchoReport {
    /// Connections that were opened.
    pub tcp_connections: u64,
    /// Connections that ended; the client ends none.
    pub tcp_lost: u64,
    /// Bytes sent over TCP.
    pub tcp_sent_bytes: u64,
    /// Bytes that the echo service sent back.
    pub tcp_back_bytes: u64,
    /// Of these, bytes that are not those that were sent in their place.
    pub tcp_wrong_bytes: u64,
    /// Datagrams sent.
    pub udp_sent: u64,
    /// Datagrams that came back.
    pub udp_back: u64,
    /// Datagrams that were overtaken, or have not come back.
    pub udp_missing: u64,
    /// Datagrams that came back late, or twice.
    pub udp_repeated: u64,
    /// Datagrams that came back changed.
    pub udp_wrong: u64,
    /// The longest time from a datagram's start to its return, in microseconds.
    pub longest_round_trip_us: f64,
}

impl EchoReport {
    pub(super) fn of(echoes: &Echoes, longest_round_trip: Span) -> EchoReport {
        EchoReport {
            tcp_connections: echoes.tcp_connections(),
            tcp_lost: echoes.tcp_lost(),
            tcp_sent_bytes: echoes.tcp_sent_bytes(),
            tcp_back_bytes: echoes.tcp_back_bytes(),
            tcp_wrong_bytes: echoes.tcp_wrong_bytes(),
            udp_sent: echoes.udp_sent(),
            udp_back: echoes.udp_back(),
            udp_missing: echoes.udp_missing(),
            udp_repeated: echoes.udp_repeated(),
            udp_wrong: echoes.udp_wrong(),
            longest_round_trip_us: longest_round_trip.as_us(),
        }
    }
}

/// The state of the service, as `warikomi live status` prints it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusReport {
    /// `running`, `replacing`, `waiting` (for the next start) or `given-up`.
    pub service: String,
    /// Why it was given up, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How drivers are replaced.
    pub way: String,
    /// The generation that is served.
    pub generation: u32,
    /// Name of the driver.
    pub driver: String,
    /// Process id of the driver.
    pub process_id: u32,
    /// Since when it runs, in seconds.
    pub running_for_s: f64,
    /// The driver that a rollback would go to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The generation that is kept ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare: Option<u32>,
    /// Planned replacements that succeeded.
    pub planned: u64,
    /// Recoveries that succeeded.
    pub recovered: u64,
    /// Planned replacements that were called off.
    pub rolled_back: u64,
    /// Failures in a row.
    pub failures_in_a_row: u32,
    /// Accesses of replaced drivers, which had no effect.
    pub fenced_accesses: u64,
    /// Frames that the NIC has sent.
    pub transmitted_frames: u64,
    /// Frames for the NIC.
    pub received_frames: u64,
    /// The echoes.
    pub echo: EchoReport,
    /// The last replacement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<ReplacementReport>,
}

impl StatusReport {
    pub(super) fn of(
        now: Time,
        way: Way,
        status: &Status,
        wire: WireCounters,
        echo: EchoReport,
        last: Option<&Replacement>,
        name: impl Fn(&Program) -> String,
    ) -> StatusReport {
        let (service, why) = match &status.service {
            Service::Running => ("running", None),
            Service::Replacing(_) => ("replacing", None),
            Service::Waiting(_) => ("waiting", None),
            Service::GivenUp(why) => ("given-up", Some(why.clone())),
        };
        StatusReport {
            service: service.to_owned(),
            why,
            way: way.name().to_owned(),
            generation: status.generation,
            driver: name(&status.program),
            process_id: status.process_id,
            running_for_s: now.since(status.since).as_secs(),
            before: status.before.as_ref().map(name),
            spare: status.spare,
            planned: status.planned,
            recovered: status.recovered,
            rolled_back: status.rolled_back,
            failures_in_a_row: status.failures,
            fenced_accesses: status.fenced_accesses,
            transmitted_frames: wire.tx_frames,
            received_frames: wire.rx_frames,
            echo,
            last: last.map(ReplacementReport::of),
        }
    }
}

/// What has happened, for people.
pub(super) fn line(event: &Event) -> String {
    match event {
        Event::Replaced(replacement) => {
            let ReplacementReport { kind, from, to, replace_us, outage_us, reset, .. } =
                ReplacementReport::of(replacement);
            let reset = if reset { "; the device was reset" } else { "" };
            format!(
                "{kind}: generation {to} follows {from} after {replace_us:.1} µs, {outage_us:.1} µs of \
                 them without a driver{reset}"
            )
        }
        Event::RolledBack { kept, refused, why } => {
            format!("rolled back: generation {refused} was refused, and {kept} goes on: {why}")
        }
        Event::Failed { generation, why, next_after } => {
            format!(
                "failed: generation {generation}: {why}; the next is started after {next_after}"
            )
        }
        Event::SpareFailed { why, next_after } => {
            let next = next_after.map_or_else(
                || "the next is started after a replacement".to_owned(),
                |delay| format!("the next is started after {delay}"),
            );
            format!("no driver is ready to follow: {why}; {next}")
        }
        Event::GivenUp { why } => format!(
            "given up: {why}; no driver is started any more until 'warikomi live replace' names one"
        ),
    }
}
