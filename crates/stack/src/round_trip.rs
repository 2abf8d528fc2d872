//! An application that sends a small message, waits for the answer, and sends the next: how long each takes from
//! the request to send until the application has the answer.
//!
//! It is told the time and reads no clock, so the same code runs above a driver's process and in virtual time.
//! One message is on its way at a time. What comes is untrusted: an answer is the message itself, byte for byte,
//! and anything else is counted and changes nothing.

use warikomi_clock::{Span, Time};
use warikomi_protocol::payload::{HEAD_BYTES, Head, filler};

use crate::datagram::{HEADER_BYTES, Station, headers};
use crate::entry::Destination;

/// The shortest frame in bytes, without check sequence: a shorter message is padded (IEEE 802.3, 3.2.8).
const LEAST_FRAME_BYTES: usize = 60;

/// What is to be sent, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTripPlan {
    /// Payload of each message in bytes.
    pub payload_bytes: u32,
    /// Run id in the payloads.
    pub run_id: u32,
    /// Messages at the beginning whose time is not kept.
    pub warmup: u64,
    /// Messages behind them.
    pub count: u64,
    /// A message whose answer has not come by then is lost, and the next one goes.
    pub timeout: Span,
}

impl RoundTripPlan {
    /// The longest payload: one frame of an MTU of 1,500 bytes.
    pub const MOST_PAYLOAD_BYTES: u32 = 1_472;
    /// The most messages of which the times are kept, and of the warm-up.
    pub const MOST_MESSAGES: u64 = 1_000_000;
    /// The longest wait for an answer.
    pub const LONGEST_TIMEOUT: Span = Span::from_ms(10_000);

    /// Refuses what cannot be.
    pub fn check(&self) -> Result<(), String> {
        let payloads = HEAD_BYTES as u32..=Self::MOST_PAYLOAD_BYTES;
        if !payloads.contains(&self.payload_bytes) {
            return Err(format!(
                "a message of {} bytes is not possible: choose {HEAD_BYTES} to {}",
                self.payload_bytes,
                Self::MOST_PAYLOAD_BYTES
            ));
        }
        if !(1..=Self::MOST_MESSAGES).contains(&self.count) || self.warmup > Self::MOST_MESSAGES {
            return Err(format!(
                "{} messages behind a warm-up of {} are not possible: choose 1 to {}, and a warm-up of no more",
                self.count,
                self.warmup,
                Self::MOST_MESSAGES
            ));
        }
        if self.timeout == Span::ZERO || self.timeout > Self::LONGEST_TIMEOUT {
            return Err(format!(
                "a message cannot be lost after {}: choose more than 0, up to {}",
                self.timeout,
                Self::LONGEST_TIMEOUT
            ));
        }
        Ok(())
    }
}

/// What became of the messages so far, those of the warm-up among them: all that were sent are answered, lost, or
/// one that is on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTripCounts {
    /// Messages sent.
    pub sent: u64,
    /// Messages whose answer came in time.
    pub answered: u64,
    /// Messages whose answer did not.
    pub lost: u64,
    /// Datagrams that were no answer to the message on its way: late ones, and changed ones.
    pub strays: u64,
}

/// The application.
#[derive(Debug)]
pub struct RoundTrips {
    plan: RoundTripPlan,
    /// The next message, or the one on its way, as a frame; behind the payload there may be padding.
    frame: Vec<u8>,
    /// When the one on its way was asked for.
    requested: Option<Time>,
    counts: RoundTripCounts,
    round_trips_ns: Vec<u32>,
}

impl RoundTrips {
    /// An application that has not begun; it sends to this destination, whose Ethernet address is `mac`.
    pub fn new(
        plan: RoundTripPlan,
        station: &Station,
        to: Destination,
        mac: [u8; 6],
    ) -> Result<RoundTrips, String> {
        plan.check()?;
        // It is in range.
        let payload_bytes = plan.payload_bytes as u16;
        let headers = headers(station, to, mac, payload_bytes)
            .ok_or_else(|| format!("{payload_bytes} bytes are no UDP datagram"))?;
        let mut frame = headers.to_vec();
        frame.extend((0..usize::from(payload_bytes)).map(filler));
        frame.resize(frame.len().max(LEAST_FRAME_BYTES), 0);
        Ok(RoundTrips {
            round_trips_ns: Vec::with_capacity(plan.count as usize),
            plan,
            frame,
            requested: None,
            counts: RoundTripCounts::default(),
        })
    }

    /// Whether the next message is to be sent.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.requested.is_none() && !self.is_over()
    }

    /// Whether every message is answered or lost.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.counts.answered + self.counts.lost == self.plan.warmup + self.plan.count
    }

    /// Asks for the next message to be sent, if it is due: its frame. Its time begins.
    #[inline]
    pub fn request(&mut self, now: Time) -> Option<&[u8]> {
        if !self.is_due() {
            return None;
        }
        let head = Head { run_id: self.plan.run_id, sequence: self.counts.sent };
        self.frame[HEADER_BYTES..][..HEAD_BYTES].copy_from_slice(&head.to_bytes());
        self.counts.sent += 1;
        self.requested = Some(now);
        Some(&self.frame)
    }

    /// Takes the payload of a datagram that has come; `now` is when the application has it.
    #[inline]
    pub fn take(&mut self, payload: &[u8], now: Time) {
        // Who slept sees it late, and it is late then.
        self.look(now);
        let message = &self.frame[HEADER_BYTES..][..self.plan.payload_bytes as usize];
        let Some(requested) = self.requested.filter(|_| payload == message) else {
            self.counts.strays += 1;
            return;
        };
        self.requested = None;
        self.counts.answered += 1;
        // The message on its way is the last that was sent.
        if self.counts.sent > self.plan.warmup {
            let ns = now.since(requested).as_ps().div_ceil(1_000);
            self.round_trips_ns.push(u32::try_from(ns).unwrap_or(u32::MAX));
        }
    }

    /// Gives up a message whose answer has not come in time.
    #[inline]
    pub fn look(&mut self, now: Time) {
        if let Some(requested) = self.requested
            && now.since(requested) > self.plan.timeout
        {
            self.requested = None;
            self.counts.lost += 1;
        }
    }

    /// When the message on its way is lost; never, if there is none.
    pub fn deadline(&self) -> Time {
        self.requested.map_or(Time::NEVER, |requested| requested + self.plan.timeout)
    }

    /// What became of the messages so far.
    pub fn counts(&self) -> RoundTripCounts {
        self.counts
    }

    /// Of each message that was answered, behind the warm-up, how long it took, in nanoseconds, in order.
    pub fn round_trips_ns(&self) -> &[u32] {
        &self.round_trips_ns
    }

    /// Bytes of a frame, without check sequence.
    pub fn frame_bytes(&self) -> usize {
        self.frame.len()
    }

    /// Bytes of a message.
    pub fn payload_bytes(&self) -> usize {
        self.plan.payload_bytes as usize
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const PLAN: RoundTripPlan = RoundTripPlan {
        payload_bytes: 32,
        run_id: 7,
        warmup: 1,
        count: 2,
        timeout: Span::from_us(100),
    };

    fn trips(plan: RoundTripPlan) -> Result<RoundTrips, String> {
        let station = Station { mac: [2; 6], address: Ipv4Addr::new(10, 9, 0, 1), prefix_bits: 24 };
        let to = Destination { address: Ipv4Addr::new(10, 9, 0, 2), port: 7, source_port: 5_001 };
        RoundTrips::new(plan, &station, to, [4; 6])
    }

    fn at(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    /// Asks at this time; the payload that goes out.
    fn ask(trips: &mut RoundTrips, us: u64) -> Vec<u8> {
        let frame = trips.request(at(us)).expect("it is due");
        frame[HEADER_BYTES..][..32].to_vec()
    }

    #[test]
    fn each_message_takes_from_its_request_to_its_answer_and_the_warm_up_is_not_kept() {
        let mut trips = trips(PLAN).unwrap();
        for (requested, answered) in [(0, 50), (60, 67), (70, 79)] {
            let message = ask(&mut trips, requested);
            assert_eq!(trips.request(at(requested)), None, "one at a time");
            trips.take(&message, at(answered));
        }
        assert!(trips.is_over() && !trips.is_due());
        assert_eq!(trips.round_trips_ns(), [7_000, 9_000]);
        let counts = RoundTripCounts { sent: 3, answered: 3, lost: 0, strays: 0 };
        assert_eq!(trips.counts(), counts);
    }

    #[test]
    fn an_answer_that_does_not_come_is_lost_and_one_that_is_late_or_changed_is_none() {
        let mut trips = trips(PLAN).unwrap();
        let late = ask(&mut trips, 0);
        trips.look(at(100));
        assert_eq!((trips.is_due(), trips.deadline()), (false, at(100)), "it may still come");
        trips.look(at(101));
        let mut changed = ask(&mut trips, 101);
        trips.take(&late, at(102));
        changed[31] ^= 1;
        trips.take(&changed, at(103));
        trips.take(&changed[..31], at(103));
        trips.take(&[], at(103));
        changed[31] ^= 1;
        trips.take(&changed, at(104));
        trips.take(&changed, at(105));
        assert_eq!(trips.round_trips_ns(), [3_000]);
        let counts = RoundTripCounts { sent: 2, answered: 1, lost: 1, strays: 5 };
        assert_eq!((trips.counts(), trips.is_due()), (counts, true));
    }

    #[test]
    fn an_answer_is_late_for_one_who_has_slept_meanwhile() {
        let mut trips = trips(PLAN).unwrap();
        let message = ask(&mut trips, 0);
        trips.take(&message, at(101));
        let counts = RoundTripCounts { sent: 1, answered: 0, lost: 1, strays: 1 };
        assert_eq!(trips.counts(), counts);
    }

    #[test]
    fn a_short_message_is_padded_to_a_whole_frame() {
        let short = trips(RoundTripPlan { payload_bytes: 16, ..PLAN }).unwrap();
        assert_eq!((short.frame_bytes(), trips(PLAN).unwrap().frame_bytes()), (60, 74));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = [
            RoundTripPlan { payload_bytes: 15, ..PLAN },
            RoundTripPlan { payload_bytes: 1_473, ..PLAN },
            RoundTripPlan { count: 0, ..PLAN },
            RoundTripPlan { count: u64::MAX, ..PLAN },
            RoundTripPlan { warmup: u64::MAX, ..PLAN },
            RoundTripPlan { timeout: Span::ZERO, ..PLAN },
            RoundTripPlan { timeout: Span::from_ms(10_001), ..PLAN },
        ];
        for plan in refused {
            let error = trips(plan).unwrap_err();
            assert!(error.contains("choose"), "{error}");
        }
    }
}
