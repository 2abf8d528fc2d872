//! Has the guest send.

use std::time::Duration;

use warikomi_inject::{NETWORK_IP, NETWORK_MAC, UDP_PORT};
use warikomi_protocol::commands::{Pktgen, Transmit, TransmitTcp, mac_text};
use warikomi_target::{Target, TargetError};
use warikomi_wire::Responder;

use super::options::{Case, Options, Sender};
use crate::error::Error;

/// The port that pktgen sends to: discard (RFC 863).
const DISCARD_PORT: u16 = 9;
/// How long the guest may take for one run.
const LONGEST_RUN: Duration = Duration::from_secs(30);
const LONGEST_RUN_MS: u64 = LONGEST_RUN.as_millis() as u64;

/// What the guest says of a run.
struct Answer {
    sent: u64,
    errors: u64,
    timed_out: bool,
}

/// Has a case's messages sent; how many the guest says there were.
pub(super) fn send(
    target: &mut dyn Target,
    options: &Options,
    case: &Case,
    count: u64,
    run_id: u32,
) -> Result<u64, Error> {
    let answer = match case.sender {
        Sender::Pktgen => pktgen(target, case, count)?,
        Sender::Udp => udp(target, case, count, run_id, options.interval_us)?,
        Sender::Tcp => tcp(target, case, count)?,
    };
    let what = match answer {
        Answer { timed_out: true, sent, .. } => format!(
            "the guest has sent {sent} of {count} messages in {} s; give fewer (--count)",
            LONGEST_RUN.as_secs()
        ),
        Answer { errors: errors @ 1.., .. } => {
            format!("the guest's kernel refused {errors} of {count} messages")
        }
        Answer { sent, .. } => return Ok(sent),
    };
    Err(Error::NotSent { row: case.to_string(), what })
}

/// What the guest may take, and its answer besides.
fn allowance() -> Duration {
    LONGEST_RUN + Duration::from_secs(1)
}

fn pktgen(target: &mut dyn Target, case: &Case, count: u64) -> Result<Answer, TargetError> {
    let command = Pktgen {
        interface: None,
        count,
        payload_bytes: case.size_bytes,
        burst: case.burst.unwrap_or(1),
        destination: format!("{NETWORK_IP}:{DISCARD_PORT}"),
        destination_mac: mac_text(NETWORK_MAC),
        timeout_ms: LONGEST_RUN_MS,
    };
    let done = target.ask(command, allowance())?;
    Ok(Answer { sent: done.sent, errors: done.errors, timed_out: done.timed_out })
}

fn udp(
    target: &mut dyn Target,
    case: &Case,
    count: u64,
    run_id: u32,
    interval_us: u64,
) -> Result<Answer, TargetError> {
    let command = Transmit {
        count,
        payload_bytes: case.size_bytes,
        destination: format!("{NETWORK_IP}:{UDP_PORT}"),
        run_id,
        interval_us,
        vlan: None,
        timeout_ms: LONGEST_RUN_MS,
    };
    // A guest that is late for each of them takes longer than it was told.
    let paced = Duration::from_micros(interval_us.saturating_mul(count)).saturating_mul(2);
    let done = target.ask(command, allowance().saturating_add(paced))?;
    Ok(Answer { sent: done.sent, errors: done.errors, timed_out: done.timed_out })
}

fn tcp(target: &mut dyn Target, case: &Case, count: u64) -> Result<Answer, TargetError> {
    let command = TransmitTcp {
        count_bytes: count * u64::from(case.size_bytes),
        write_bytes: case.size_bytes,
        destination: format!("{NETWORK_IP}:{}", Responder::TCP_PORT),
        timeout_ms: LONGEST_RUN_MS,
    };
    let done = target.ask(command, allowance())?;
    // The last write may have been taken in part, after a time-out of the one before.
    let sent = done.sent_bytes / u64::from(case.size_bytes);
    Ok(Answer { sent, errors: 0, timed_out: sent < count })
}
