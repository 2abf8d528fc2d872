//! Mistakes between the injector or the wire and the driver, so that it is known that the checkers find them.

use std::fmt;
use std::ops::Range;

use warikomi_clock::Time;
use warikomi_inject::{Planned, Source};
use warikomi_nic::Frame;
use warikomi_wire::{Wire, WireCounters};

use super::line::{ANY_ACCESS, Kind, Line, PLACE};
use crate::transmit::kernel::JudgingHost;

/// What goes wrong, and nothing says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::soak) enum Bug {
    /// With packets that come.
    Receiving(Receiving),
    /// With frames that are sent.
    Sending(Carried, Sending),
    /// An interrupt does not come that belongs to what strikes at a place.
    Striking,
}

/// With every 16th packet that comes, or once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::soak) enum Receiving {
    /// It is lost: a frame of another run comes in its place.
    Loses,
    /// It comes twice, and the next one not at all.
    Doubles,
    /// It changes places with the next.
    Swaps,
    /// An interrupt never comes.
    ForgetsInterrupt,
    /// A descriptor is never completed.
    ForgetsDescriptor,
}

/// What the frames carry that it happens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::soak) enum Carried {
    /// Datagrams.
    Udp,
    /// Segments with data.
    Tcp,
}

/// With every 16th of these frames that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::soak) enum Sending {
    /// It is lost.
    Loses,
    /// It goes out twice.
    Doubles,
    /// It changes places with the next.
    Swaps,
    /// Its last bytes are others, and its checksum is right.
    Changes,
    /// Its checksum is wrong, and its bytes are right.
    SumsWrong,
}

/// Accesses of the driver, by number, that are struck until one shows what is planted.
const ACCESSES: [&str; 8] = ["1", "2", "3", "4", "5", "6", "7", "8"];

impl Bug {
    pub(in crate::soak) const ALL: [Bug; 16] = [
        Bug::Receiving(Receiving::Loses),
        Bug::Receiving(Receiving::Doubles),
        Bug::Receiving(Receiving::Swaps),
        Bug::Receiving(Receiving::ForgetsInterrupt),
        Bug::Receiving(Receiving::ForgetsDescriptor),
        Bug::Sending(Carried::Udp, Sending::Loses),
        Bug::Sending(Carried::Udp, Sending::Doubles),
        Bug::Sending(Carried::Udp, Sending::Swaps),
        Bug::Sending(Carried::Udp, Sending::Changes),
        Bug::Sending(Carried::Udp, Sending::SumsWrong),
        Bug::Sending(Carried::Tcp, Sending::Loses),
        Bug::Sending(Carried::Tcp, Sending::Doubles),
        Bug::Sending(Carried::Tcp, Sending::Swaps),
        Bug::Sending(Carried::Tcp, Sending::Changes),
        Bug::Sending(Carried::Tcp, Sending::SumsWrong),
        Bug::Striking,
    ];

    /// Plain histories, of which it shows in one at least. Of a fault among their flags the checkers are not told.
    pub(super) fn lines(self) -> Vec<Line> {
        let fault = match self {
            Bug::Receiving(Receiving::ForgetsInterrupt) => Some("interrupt-dropped:at=500us"),
            Bug::Receiving(Receiving::ForgetsDescriptor) => {
                Some("descriptor-never-completed:at=500us")
            }
            _ => None,
        };
        match self {
            Bug::Receiving(_) => {
                let mut flags = vec![("seed", "1"), ("count", "100"), ("interval", "20us")];
                flags.extend(fault.map(|fault| ("fault", fault)));
                vec![Line::of(Kind::Receives, &flags)]
            }
            Bug::Sending(carried, _) => {
                let of_sender = match carried {
                    Carried::Udp => &[("senders", "udp"), ("sizes", "200")][..],
                    // Several segments are on their way at a time: behind one that is lost comes another.
                    Carried::Tcp => &[("senders", "tcp"), ("sizes", "4000"), ("tso", "off")],
                };
                let flags = [("seed", "1"), ("count", "100"), ("repeat", "1")];
                let flags = [&flags, of_sender, &[("interrupts", "napi")]];
                vec![Line::of(Kind::Sends, &flags.concat())]
            }
            // A driver may make up for what is dropped at an access, if it looks at its rings behind that.
            Bug::Striking => ACCESSES
                .map(|nth| {
                    let flags =
                        [(PLACE, ANY_ACCESS), ("nth", nth), ("deliver", "fault:interrupt-dropped")];
                    Line::of(Kind::Strikes, &flags)
                })
                .into(),
        }
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bug::Receiving(Receiving::Loses) => "a card that loses a packet",
            Bug::Receiving(Receiving::Doubles) => "a card that doubles a packet",
            Bug::Receiving(Receiving::Swaps) => "a card that swaps two packets",
            Bug::Receiving(Receiving::ForgetsInterrupt) => "a card that forgets an interrupt",
            Bug::Receiving(Receiving::ForgetsDescriptor) => "a card that forgets a descriptor",
            Bug::Sending(Carried::Udp, bug) => return write!(f, "{bug}"),
            Bug::Sending(Carried::Tcp, bug) => return write!(f, "{bug}, of TCP"),
            Bug::Striking => "a card that forgets the interrupt of what strikes at a place",
        })
    }
}

impl fmt::Display for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sending::Loses => "a card that does not send a frame",
            Sending::Doubles => "a card that sends a frame twice",
            Sending::Swaps => "a card that sends two frames in the wrong order",
            Sending::Changes => "a card that changes a frame that it sends",
            Sending::SumsWrong => "a card that puts a wrong checksum into a frame",
        })
    }
}

const EVERY: u64 = 16;

/// The packets of a plan, with a mistake.
pub(super) struct Planted {
    pub(super) packets: Planned,
    /// The same of another run.
    pub(super) others: Planned,
    pub(super) bug: Receiving,
}

impl Source for Planted {
    fn count(&self) -> u64 {
        self.packets.count()
    }

    fn packets_per_deadline(&self) -> u32 {
        self.packets.packets_per_deadline()
    }

    fn due(&self) -> Time {
        self.packets.due()
    }

    fn advance(&mut self) {
        self.packets.advance();
    }

    fn frame(&mut self, sequence: u64) -> Frame<'_> {
        let last = self.count() - 1;
        match (self.bug, sequence % EVERY) {
            (Receiving::Loses, 1) => self.others.frame(sequence),
            (Receiving::Doubles | Receiving::Swaps, 2) => self.packets.frame(sequence - 1),
            (Receiving::Swaps, 1) if sequence < last => self.packets.frame(sequence + 1),
            _ => self.packets.frame(sequence),
        }
    }

    fn paced(&self) -> bool {
        self.packets.paced()
    }
}

/// Where a frame says what it carries (RFC 894), and where IPv4 says how long it is, and what it carries (RFC 791).
const ETHER_TYPE: Range<usize> = 12..14;
const IP_BYTES: Range<usize> = 16..18;
const PROTOCOL: usize = 23;
const IPV4: [u8; 2] = [8, 0];
const UDP: u8 = 17;
const TCP: u8 = 6;
/// Where TCP has the length of its header, in words of four bytes (RFC 9293), behind an IPv4 header without options.
const TCP_WORDS: usize = 46;
const IPV4_HEADER_BYTES: usize = 20;
/// Where UDP and TCP have their checksums, behind such a header.
const UDP_CHECKSUM: usize = 40;
const TCP_CHECKSUM: usize = 50;

impl Carried {
    fn is_in(self, frame: &[u8]) -> bool {
        let is_ipv4 = frame.get(ETHER_TYPE).is_some_and(|kind| kind == IPV4);
        let protocol = frame.get(PROTOCOL).filter(|_| is_ipv4);
        match self {
            Carried::Udp => protocol == Some(&UDP),
            Carried::Tcp => protocol == Some(&TCP) && has_data(frame).unwrap_or(false),
        }
    }

    fn checksum(self) -> usize {
        match self {
            Carried::Udp => UDP_CHECKSUM,
            Carried::Tcp => TCP_CHECKSUM,
        }
    }
}

/// Whether a segment has more than its header; `None` if it has not even that.
fn has_data(frame: &[u8]) -> Option<bool> {
    let ip_bytes = frame.get(IP_BYTES)?.iter().fold(0, |word, byte| word << 8 | usize::from(*byte));
    let header_bytes = usize::from(frame.get(TCP_WORDS)? >> 4) * 4;
    Some(ip_bytes > IPV4_HEADER_BYTES + header_bytes)
}

/// A cable on which a mistake is made.
pub(super) struct PlantedWire {
    host: JudgingHost,
    carried: Carried,
    bug: Sending,
    frames: u64,
    /// The one that changes places with the next.
    held: Option<Vec<u8>>,
}

impl PlantedWire {
    /// In front of this host.
    pub(super) fn new(host: JudgingHost, carried: Carried, bug: Sending) -> PlantedWire {
        PlantedWire { host, carried, bug, frames: 0, held: None }
    }

    /// Makes the mistake with a frame.
    fn mistake(&mut self, now: Time, frame: &[u8]) {
        match self.bug {
            Sending::Loses => {}
            Sending::Doubles => {
                self.host.transmit(now, frame);
                self.host.transmit(now, frame);
            }
            Sending::Swaps => self.held = Some(frame.to_vec()),
            Sending::Changes => {
                let mut changed = frame.to_vec();
                // A sum of words is the same in any order (RFC 1071).
                if let Some((_, [a, b, c, d])) = changed.split_last_chunk_mut() {
                    (*a, *b, *c, *d) = (*c, *d, *a, *b);
                }
                self.host.transmit(now, &changed);
            }
            Sending::SumsWrong => {
                let mut wrong = frame.to_vec();
                let checksum = wrong.get_mut(self.carried.checksum());
                checksum.into_iter().for_each(|byte| *byte ^= 1);
                self.host.transmit(now, &wrong);
            }
        }
    }
}

impl Wire for PlantedWire {
    fn transmit(&mut self, now: Time, frame: &[u8]) {
        let is_carried = self.carried.is_in(frame);
        self.frames += u64::from(is_carried);
        if is_carried && self.frames % EVERY == 1 {
            return self.mistake(now, frame);
        }
        self.host.transmit(now, frame);
        if let Some(held) = self.held.take_if(|_| is_carried) {
            self.host.transmit(now, &held);
        }
    }

    fn next_arrival(&self) -> Time {
        self.host.next_arrival()
    }

    fn receive(&mut self, now: Time) -> Option<Vec<u8>> {
        self.host.receive(now)
    }

    fn counters(&self) -> WireCounters {
        self.host.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strikes_is_planted_at_one_access_after_another() {
        let lines = Bug::Striking.lines();
        let at = |nth: usize| lines[nth - 1].words().join(" ");
        for nth in 1..=lines.len() {
            let expected =
                format!("--virtual any access --nth {nth} --deliver fault:interrupt-dropped");
            assert_eq!(at(nth), expected);
        }
        assert_eq!(lines.len(), 8);
        let others = Bug::ALL.iter().filter(|bug| **bug != Bug::Striking);
        assert!(others.into_iter().all(|bug| bug.lines().len() == 1));
    }
}
