//! Packets that the target's kernel forwards from one card to another: where they are addressed to, and what of them
//! leaves the other card.

use std::net::Ipv4Addr;

use etherparse::Ipv4HeaderSlice;
use serde::{Deserialize, Serialize};
use warikomi_clock::Time;
use warikomi_protocol::payload::Head;
use warikomi_wire::peer::{Fate, Judge};
use warikomi_wire::{FAR_IP, FAR_MAC, PAYLOAD_OFFSET, UDP_HEADER_BYTES};

use crate::{Addresses, Plan, PlanError, Planned, Source};

/// Bytes of the headers that forwarding may change: Ethernet's and IP's.
const CHANGED_BYTES: usize = PAYLOAD_OFFSET - UDP_HEADER_BYTES;
const ETHERNET_BYTES: usize = 14;
/// Where a frame has its time to live, and the checksum of its IP header (RFC 791, 3.1).
const TIME_TO_LIVE_OFFSET: usize = ETHERNET_BYTES + 8;
const CHECKSUM_OFFSET: usize = ETHERNET_BYTES + 10;

/// How a kernel forwards packets from one card to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Forwarding {
    /// As an IP router: with other hardware addresses, and one hop less to live.
    Route,
    /// As an Ethernet bridge: unchanged.
    Bridge,
    /// As an IP router whose only interface is a bond of both cards, each of which sends every packet. The bond, and so
    /// each card, has the hardware address of the first.
    Bond,
}

impl Forwarding {
    /// As it is written on the command line and in a result.
    pub fn name(self) -> &'static str {
        match self {
            Forwarding::Route => "route",
            Forwarding::Bridge => "bridge",
            Forwarding::Bond => "bond",
        }
    }

    /// From the network side of the card with this hardware address to the host behind the other card.
    pub fn addresses(self, first_card: [u8; 6]) -> Addresses {
        let destination_mac = match self {
            Forwarding::Route | Forwarding::Bond => first_card,
            Forwarding::Bridge => FAR_MAC,
        };
        Addresses { destination_ip: FAR_IP, ..Addresses::to_guest(destination_mac) }
    }

    /// What a frame is to begin with when it leaves the other card, if it came in like this.
    fn forwarded(self, frame: &[u8], second_card: [u8; 6]) -> Vec<u8> {
        let mut head = frame.get(..CHANGED_BYTES).unwrap_or_default().to_vec();
        if self == Forwarding::Bridge || head.len() < CHANGED_BYTES {
            return head;
        }
        match self {
            // It came to the address of the first card, which is the bond's, too.
            Forwarding::Bond => head.copy_within(..6, 6),
            _ => head[6..12].copy_from_slice(&second_card),
        }
        head[..6].copy_from_slice(&FAR_MAC);
        head[TIME_TO_LIVE_OFFSET] = head[TIME_TO_LIVE_OFFSET].saturating_sub(1);
        let checksum = Ipv4HeaderSlice::from_slice(&head[ETHERNET_BYTES..])
            .map_or(0, |header| header.to_header().calc_header_checksum());
        head[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].copy_from_slice(&checksum.to_be_bytes());
        head
    }
}

/// The host that the second card's network has, as its neighbour.
pub const FAR_HOST: (Ipv4Addr, [u8; 6]) = (FAR_IP, FAR_MAC);

/// Frames that have left the second card since a run began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Departed {
    /// Packets of the run, each counted once.
    pub packets: u64,
    /// Packets of the run that left again.
    pub again: u64,
    /// Frames with a packet of the run in which more is changed than forwarding must change.
    pub altered: u64,
    /// Frames of others: of the kernel's own protocols, or of an earlier run.
    pub others: u64,
}

/// Holds what leaves the second card against what was injected into the first. Every frame goes on to the wire within.
#[derive(Default)]
pub struct Departures {
    run: Option<Run>,
    seen: Departed,
}

struct Run {
    run_id: u32,
    count: u64,
    /// What was injected, by its number.
    injected: Planned,
    /// What each frame of it is to begin with.
    head: Vec<u8>,
    /// A bit for each number that has left.
    left: Vec<u64>,
    /// When each number left; empty if times are not kept.
    times: Vec<Time>,
}

impl Departures {
    /// From now on packets of this plan are expected that come in for `addresses` and leave the card with the hardware
    /// address `second_card`. When each left is kept, if `keep_times`.
    pub fn begin(
        &mut self,
        plan: &Plan,
        (forwarding, addresses, second_card): (Forwarding, &Addresses, [u8; 6]),
        run_id: u32,
        keep_times: bool,
    ) -> Result<(), PlanError> {
        let mut injected = Planned::new(plan, addresses, run_id, Time::ZERO)?;
        let head = forwarding.forwarded(injected.frame(0).bytes, second_card);
        let count = plan.count;
        let left = vec![0; count.div_ceil(64) as usize];
        let times = if keep_times { vec![Time::NEVER; count as usize] } else { Vec::new() };
        self.run = Some(Run { run_id, count, injected, head, left, times });
        self.seen = Departed::default();
        Ok(())
    }

    /// What has left since then.
    pub fn seen(&self) -> Departed {
        self.seen
    }

    /// The numbers of the packets that have left, in order, and when each did if that was kept.
    pub fn packets(&self) -> impl Iterator<Item = (u64, Option<Time>)> + '_ {
        self.run.iter().flat_map(|run| {
            let left = (0..run.count).filter(|&sequence| run.has_left(sequence));
            left.map(|sequence| (sequence, run.times.get(sequence as usize).copied()))
        })
    }
}

impl Judge for Departures {
    fn frame(&mut self, now: Time, frame: &[u8]) -> Fate {
        let Some(run) = &mut self.run else { return Fate::Passed };
        match run.number(frame) {
            None => self.seen.others += 1,
            Some(sequence) if !run.is_forwarded(sequence, frame) => self.seen.altered += 1,
            Some(sequence) if run.has_left(sequence) => self.seen.again += 1,
            Some(sequence) => {
                run.leave(sequence, now);
                self.seen.packets += 1;
            }
        }
        Fate::Passed
    }
}

impl Run {
    /// The number in a frame, if it has one of this run.
    fn number(&self, frame: &[u8]) -> Option<u64> {
        let head = Head::from_bytes(frame.get(PAYLOAD_OFFSET..)?)?;
        let ours = head.run_id == self.run_id && head.sequence < self.count;
        ours.then_some(head.sequence)
    }

    /// Whether it is what was injected, but for what forwarding must change.
    fn is_forwarded(&mut self, sequence: u64, frame: &[u8]) -> bool {
        let injected = self.injected.frame(sequence).bytes;
        frame.len() == injected.len()
            && frame.starts_with(&self.head)
            && frame[CHANGED_BYTES..] == injected[CHANGED_BYTES..]
    }

    fn has_left(&self, sequence: u64) -> bool {
        let word = self.left.get((sequence / 64) as usize).copied().unwrap_or_default();
        word >> (sequence % 64) & 1 != 0
    }

    fn leave(&mut self, sequence: u64, now: Time) {
        if let Some(word) = self.left.get_mut((sequence / 64) as usize) {
            *word |= 1 << (sequence % 64);
        }
        if let Some(at) = self.times.get_mut(sequence as usize) {
            *at = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use warikomi_clock::Span;

    use super::*;

    const WAYS: [Forwarding; 3] = [Forwarding::Route, Forwarding::Bridge, Forwarding::Bond];
    const FIRST: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const SECOND: [u8; 6] = [2, 0, 0, 0, 0, 2];
    const RUN: u32 = 7;

    fn plan() -> Plan {
        Plan { size_bytes: 100, count: 10, flows: 3, ..Plan::default() }
    }

    fn begun(forwarding: Forwarding, keep_times: bool) -> (Departures, Planned) {
        let addresses = forwarding.addresses(FIRST);
        let mut departures = Departures::default();
        departures.begin(&plan(), (forwarding, &addresses, SECOND), RUN, keep_times).unwrap();
        (departures, Planned::new(&plan(), &addresses, RUN, Time::ZERO).unwrap())
    }

    /// As it leaves the other card.
    fn leaving(forwarding: Forwarding, frame: &[u8]) -> Vec<u8> {
        match forwarding {
            Forwarding::Route => routed(frame, SECOND),
            Forwarding::Bridge => frame.to_vec(),
            Forwarding::Bond => routed(frame, FIRST),
        }
    }

    /// As a router sends it on, worked out by other code: the checksum is updated, not computed (RFC 1624).
    fn routed(frame: &[u8], sender: [u8; 6]) -> Vec<u8> {
        let mut frame = frame.to_vec();
        frame[..6].copy_from_slice(&FAR_MAC);
        frame[6..12].copy_from_slice(&sender);
        frame[22] -= 1;
        let sum = u32::from(u16::from_be_bytes([frame[24], frame[25]])) + 0x100;
        let sum = (sum & 0xffff) + (sum >> 16);
        frame[24..26].copy_from_slice(&(sum as u16).to_be_bytes());
        frame
    }

    #[test]
    fn what_is_forwarded_as_it_must_be_has_left_once_and_when() {
        for forwarding in WAYS {
            let (mut departures, mut injected) = begun(forwarding, true);
            for (us, sequence) in [(3, 4), (5, 0), (6, 4)] {
                let out = leaving(forwarding, injected.frame(sequence).bytes);
                let fate = departures.frame(Time::ZERO + Span::from_us(us), &out);
                assert_eq!(fate, Fate::Passed);
            }
            let seen = Departed { packets: 2, again: 1, ..Departed::default() };
            assert_eq!(departures.seen(), seen, "{forwarding:?}");
            let at = |us| Some(Time::ZERO + Span::from_us(us));
            assert_eq!(departures.packets().collect::<Vec<_>>(), [(0, at(5)), (4, at(3))]);
        }
    }

    #[test]
    fn what_leaves_as_another_way_would_send_it_is_altered() {
        for wanted in WAYS {
            for other in WAYS.into_iter().filter(|other| *other != wanted) {
                let (mut departures, mut injected) = begun(wanted, false);
                departures.frame(Time::ZERO, &leaving(other, injected.frame(1).bytes));
                let altered = Departed { altered: 1, ..Departed::default() };
                assert_eq!(departures.seen(), altered, "{other:?} for {wanted:?}");
                assert_eq!(departures.packets().count(), 0);
            }
        }
    }

    #[test]
    fn frames_of_others_are_no_packets_of_the_run() {
        let (mut departures, _) = begun(Forwarding::Bridge, false);
        let addresses = Forwarding::Bridge.addresses(FIRST);
        let mut earlier = Planned::new(&plan(), &addresses, !RUN, Time::ZERO).unwrap();
        departures.frame(Time::ZERO, earlier.frame(1).bytes);
        departures.frame(Time::ZERO, &[0xff; 60]);
        departures.frame(Time::ZERO, &[]);
        let longer = Plan { count: 11, ..plan() };
        let mut beyond = Planned::new(&longer, &addresses, RUN, Time::ZERO).unwrap();
        departures.frame(Time::ZERO, beyond.frame(10).bytes);
        assert_eq!(departures.seen(), Departed { others: 4, ..Departed::default() });
    }

    /// Packets of one flow differ in nothing but their numbers.
    #[test]
    fn a_packet_with_the_number_of_another_is_that_other() {
        let (mut departures, mut injected) = begun(Forwarding::Bridge, false);
        let mut out = injected.frame(1).bytes.to_vec();
        out[PAYLOAD_OFFSET + 8] ^= 1 ^ 4;
        assert_eq!(out, injected.frame(4).bytes);
        departures.frame(Time::ZERO, &out);
        assert_eq!(departures.seen(), Departed { packets: 1, ..Departed::default() });
        assert_eq!(departures.packets().collect::<Vec<_>>(), [(4, None)]);
    }

    proptest! {
        #[test]
        fn a_byte_that_is_changed_is_noticed(
            forwarding in prop::sample::select(&WAYS[..]),
            at in any::<prop::sample::Index>(),
            change in 1u8..,
            sequence in 0u64..10,
        ) {
            let (mut departures, mut injected) = begun(forwarding, false);
            let mut out = leaving(forwarding, injected.frame(sequence).bytes);
            let at = at.index(out.len());
            out[at] ^= change;
            departures.frame(Time::ZERO, &out);
            let another =
                (0..10).any(|number| leaving(forwarding, injected.frame(number).bytes) == out);
            let seen = departures.seen();
            prop_assert!(!another || at == PAYLOAD_OFFSET + 8, "at {}", at);
            let counts = (seen.packets, seen.altered + seen.others);
            prop_assert_eq!(counts, (another.into(), (!another).into()));
        }
    }
}
