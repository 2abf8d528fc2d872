//! An application at work, wherever it runs: what it computes, what it sends, and what it notes.

use std::hint::black_box;

use crate::answers::{SendTime, WorkTotals};
use crate::commands::{WorkDatagrams, WorkStart};
use crate::payload::{FILLER_PERIOD, HEAD_BYTES, Head, MOST_BYTES, filler};

/// Sends whose times are kept: their answer fits into a line.
pub const MOST_SEND_TIMES: usize = 8_000;

const SEND_BYTES: std::ops::RangeInclusive<u32> = 1..=65_536;
const PAYLOAD_BYTES: std::ops::RangeInclusive<u32> = HEAD_BYTES as u32..=MOST_BYTES;

/// Whether the command's numbers are in their ranges; otherwise what is wrong.
pub fn check(command: &WorkStart) -> Result<(), String> {
    if !SEND_BYTES.contains(&command.send_bytes) {
        return Err(format!("send_bytes must be 1 to 65536, not {}", command.send_bytes));
    }
    match &command.datagrams {
        Some(beside) if !PAYLOAD_BYTES.contains(&beside.payload_bytes) => {
            Err(format!("payload_bytes must be 16 to 65507, not {}", beside.payload_bytes))
        }
        _ => Ok(()),
    }
}

/// Bytes of the connection's stream from byte number `from` on.
pub fn stream_bytes(from: u64, into: &mut [u8]) {
    // The remainder is small: nothing is cut off.
    let first = (from % FILLER_PERIOD as u64) as usize;
    for (at, byte) in into.iter_mut().enumerate() {
        *byte = filler(first + at);
    }
}

/// The payload of a datagram; its head is to be written for each.
pub fn payload(command: &WorkDatagrams) -> Vec<u8> {
    (0..command.payload_bytes as usize).map(filler).collect()
}

/// The head of the datagram with this sequence number.
pub fn head(command: &WorkDatagrams, sequence: u64) -> [u8; HEAD_BYTES] {
    Head { run_id: command.run_id, sequence }.to_bytes()
}

/// A loop that computes for a time that was measured before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Computing {
    steps_per_us: f64,
}

/// Steps of a piece that is measured: some ten microseconds.
const STEPS: u64 = 10_000;
/// Pieces that are measured. The shortest counts: in the others, somebody else ran.
const PIECES: u32 = 50;

impl Computing {
    /// Measures with a clock of nanoseconds: about a millisecond.
    pub fn calibrate(ns: impl Fn() -> u64) -> Computing {
        let measure = |_| {
            let begun = ns();
            Computing::run(STEPS);
            ns().saturating_sub(begun)
        };
        let shortest_ns = (0..PIECES).map(measure).min().unwrap_or(1).max(1);
        Computing { steps_per_us: STEPS as f64 * 1_000.0 / shortest_ns as f64 }
    }

    /// Steps that take so many microseconds when nothing else runs.
    pub fn steps(&self, us: u64) -> u64 {
        (us as f64 * self.steps_per_us) as u64
    }

    /// Computes so many steps, in registers only.
    pub fn run(steps: u64) {
        let mut state = black_box(0x9e37_79b9_7f4a_7c15_u64);
        for _ in 0..steps {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        black_box(state);
    }
}

/// Notes a send in the totals: when it began, as the time stamp counter has it, and how long it took.
pub fn note_send(totals: &mut WorkTotals, tsc: u64, took_ns: u64, bytes: u32) {
    totals.sends += 1;
    totals.sent_bytes += u64::from(bytes);
    if totals.send_times.len() < MOST_SEND_TIMES {
        totals.send_times.push(SendTime(tsc, took_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn command(send_bytes: u32, payload_bytes: u32) -> WorkStart {
        WorkStart {
            destination: "10.9.0.2:5001".to_owned(),
            sends: 1,
            send_bytes,
            compute_us: 0,
            datagrams: Some(WorkDatagrams {
                destination: "10.9.0.2:9".to_owned(),
                payload_bytes,
                run_id: 1,
                interval_us: 0,
            }),
            timeout_ms: 1,
        }
    }

    #[test]
    fn numbers_out_of_range_are_named() {
        assert_eq!(check(&command(1, 16)), Ok(()));
        assert_eq!(check(&command(65_536, 65_507)), Ok(()));
        for (wrong, what) in [
            (command(0, 16), "send_bytes"),
            (command(65_537, 16), "send_bytes"),
            (command(1, 15), "payload_bytes"),
            (command(1, 65_508), "payload_bytes"),
        ] {
            assert!(check(&wrong).unwrap_err().contains(what));
        }
    }

    #[test]
    fn a_stream_goes_on_where_it_was() {
        let (mut whole, mut parts) = ([0; 600], [0; 600]);
        stream_bytes(u64::MAX - 1_000, &mut whole);
        for (number, part) in parts.chunks_mut(7).enumerate() {
            stream_bytes(u64::MAX - 1_000 + 7 * number as u64, part);
        }
        assert_eq!(whole, parts);
        stream_bytes(0, &mut whole);
        assert_eq!((whole[0], whole[250], whole[251]), (0, 250, 0));
    }

    #[test]
    fn steps_are_those_of_the_shortest_piece() {
        // A clock by which every third piece takes 20 microseconds, the others 30.
        let (ns, asked) = (Cell::new(0_u64), Cell::new(0));
        let computing = Computing::calibrate(|| {
            asked.set(asked.get() + 1);
            ns.set(ns.get() + if asked.get() % 6 == 0 { 20_000 } else { 30_000 });
            ns.get()
        });
        assert!((computing.steps_per_us - 500.0).abs() < 1e-9);
        assert_eq!(computing.steps(1_000), 500_000);
    }

    #[test]
    fn only_the_first_sends_have_times() {
        let mut totals = WorkTotals::default();
        for send in 0..MOST_SEND_TIMES as u64 + 2 {
            note_send(&mut totals, send, 5, 10);
        }
        assert_eq!(totals.send_times.len(), MOST_SEND_TIMES);
        assert_eq!((totals.sends, totals.sent_bytes), (8_002, 80_020));
    }
}
