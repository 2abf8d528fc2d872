//! System time and time stamps of frames (82574, 7.5 and 10.2.9; 82576, 7.9 and 8.16), for the precision time protocol
//! (IEEE 1588).
//!
//! The time counts up by what TIMINCA says, each time that the chip's clock has ticked so often. A frame's stamp is that of
//! the moment at which it arrives, or has left. One stamp of each direction is kept until the driver has read its
//! upper half.

use warikomi_clock::{Span, Time};

use super::regs::{self, Registers};
use crate::checksum::{ETHER_TYPE, Network, UDP};

// TIMINCA.
const INCREMENT: u32 = 0x00ff_ffff;
const PERIOD_SHIFT: u32 = 24;

// TSYNCRXCTL and TSYNCTXCTL.
const STAMPED: u32 = 1 << 0;
const ENABLED: u32 = 1 << 4;
const TYPE_SHIFT: u32 = 1;
const TYPE: u32 = 7;

// Which messages are stamped.
const V2_ON_ETHERNET: u32 = 0;
const V1_ON_UDP: u32 = 1;
const V2: u32 = 2;
const ALL: u32 = 4;
const V2_EVENTS: u32 = 5;

/// Where a message of version 1 says what it is (IEEE 1588-2002, table 18, control).
const V1_CONTROL: usize = 32;
/// Requests and answers of path delays (IEEE 1588-2008, table 19), which are stamped besides what is asked for.
const PATH_DELAYS: [u8; 2] = [2, 3];

/// The system's time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SystemTime {
    counted: u64,
    since: Time,
    increment: u64,
    period: Span,
    tick: Span,
}

impl SystemTime {
    /// It stands still at 0, and has a clock of this period.
    pub(crate) fn new(tick: Span) -> SystemTime {
        SystemTime { tick, ..SystemTime::default() }
    }

    pub(crate) fn at(&self, now: Time) -> u64 {
        if self.period == Span::ZERO {
            return self.counted;
        }
        let ticks = now.since(self.since).as_ps() / self.period.as_ps();
        self.counted.wrapping_add(ticks.wrapping_mul(self.increment))
    }

    /// The driver writes TIMINCA.
    pub(crate) fn set_increment(&mut self, now: Time, register: u32) {
        self.set(now, self.at(now));
        self.increment = (register & INCREMENT).into();
        self.period = self.tick * u64::from(register >> PERIOD_SHIFT);
    }

    /// It writes the time.
    pub(crate) fn set(&mut self, now: Time, time: u64) {
        (self.counted, self.since) = (time, now);
    }

    /// It writes TIMADJH, behind TIMADJL: sign in the highest bit.
    pub(crate) fn adjust(&mut self, adjustment: u64) {
        let by = adjustment & !(1 << 63);
        self.counted = match adjustment >> 63 {
            0 => self.counted.wrapping_add(by),
            _ => self.counted.wrapping_sub(by),
        };
    }
}

/// The messages that a driver may want stamps of, as far as that is not in TSYNCRXCTL.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Messages {
    /// The Ethernet type of those in frames of their own.
    pub(crate) ether_type: Option<u16>,
    /// The port to which those in UDP go.
    pub(crate) port: Option<u16>,
    /// What a message of version 1 is, and one of version 2.
    pub(crate) v1: u8,
    pub(crate) v2: u8,
}

/// A frame arrives that was let in; whether it has a stamp. `messages` reads what is wanted from the registers.
#[inline]
pub(crate) fn received(
    file: &mut Registers,
    time: &SystemTime,
    now: Time,
    frame: &[u8],
    messages: fn(&Registers) -> Messages,
) -> bool {
    let control = file.get(regs::TSYNCRXCTL);
    control & (ENABLED | STAMPED) == ENABLED && stamp_received(file, (time, now), frame, messages)
}

#[cold]
fn stamp_received(
    file: &mut Registers,
    (time, now): (&SystemTime, Time),
    frame: &[u8],
    messages: fn(&Registers) -> Messages,
) -> bool {
    let kind = file.get(regs::TSYNCRXCTL) >> TYPE_SHIFT & TYPE;
    if !is_wanted(kind, messages(file), frame) {
        return false;
    }
    file.set_pair(regs::RXSTMPL, time.at(now));
    file.change(regs::TSYNCRXCTL, 0, STAMPED);
    true
}

/// A frame left for which the driver wants a stamp.
pub(crate) fn sent(file: &mut Registers, time: &SystemTime, at: Time) {
    if file.get(regs::TSYNCTXCTL) & (ENABLED | STAMPED) == ENABLED {
        file.set_pair(regs::TXSTMPL, time.at(at));
        file.change(regs::TSYNCTXCTL, 0, STAMPED);
    }
}

/// The driver writes a register of the system's time, or of stamps. That a stamp is there is only to be read.
pub(crate) fn written(file: &mut Registers, time: &mut SystemTime, now: Time, at: u16, value: u32) {
    let is = time.at(now);
    let (low, high) = (is & 0xffff_ffff, is & !0xffff_ffff);
    match at {
        regs::SYSTIML => time.set(now, high | u64::from(value)),
        regs::SYSTIMH => time.set(now, low | u64::from(value) << 32),
        regs::TSYNCTXCTL | regs::TSYNCRXCTL => {
            let stamped = file.get(at) & STAMPED;
            file.set(at, value & !STAMPED | stamped);
        }
        _ => file.set(at, value),
    }
    match at {
        regs::TIMINCA => time.set_increment(now, value),
        regs::TIMADJH => time.adjust(file.pair(regs::TIMADJL)),
        _ => {}
    }
}

/// The driver has read the upper half of a stamp, of which this is the control register.
pub(crate) fn release(file: &mut Registers, control: u16) {
    file.change(control, STAMPED, 0);
}

fn is_wanted(kind: u32, messages: Messages, frame: &[u8]) -> bool {
    let Messages { ether_type, port, v1, v2 } = messages;
    let found = frame.get(ETHER_TYPE..ETHER_TYPE + 2);
    let ethernet = frame
        .get(ETHER_TYPE + 2..)
        .filter(|_| ether_type.is_some_and(|wanted| found == Some(&wanted.to_be_bytes())));
    let udp = port.and_then(|port| message_in_udp(frame, port));
    let is_v2 = |message: &&[u8]| {
        let kind = message.first().map(|first| first & 0xf);
        kind.is_some_and(|kind| kind == v2 & 0xf || PATH_DELAYS.contains(&kind))
    };
    match kind {
        ALL => true,
        V2_ON_ETHERNET => ethernet.filter(is_v2).is_some(),
        V1_ON_UDP => udp.and_then(|message| message.get(V1_CONTROL)) == Some(&v1),
        V2 => ethernet.or(udp).filter(is_v2).is_some(),
        V2_EVENTS => ethernet.or(udp).and_then(<[u8]>::first).is_some_and(|first| first & 8 == 0),
        _ => false,
    }
}

/// What a datagram to this port holds.
fn message_in_udp(frame: &[u8], port: u16) -> Option<&[u8]> {
    const HEADER: usize = 8;
    let network = Network::find(frame)?;
    let datagram = frame.get(network.payload..network.end)?;
    let to_it = datagram.get(2..4) == Some(&port.to_be_bytes());
    let is_it = network.protocol == UDP && !network.fragment && to_it;
    datagram.get(HEADER..).filter(|_| is_it)
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;

    use super::*;
    use crate::e1000e::regs::TABLE;

    const PTP: Messages = Messages { ether_type: Some(0x88f7), port: Some(319), v1: 0, v2: 0 };

    fn at(ns: u64) -> Time {
        Time::ZERO + Span::from_ns(ns)
    }

    #[test]
    fn the_time_counts_in_the_unit_of_the_driver() {
        let mut time = SystemTime::new(Span::from_ns(40));
        assert_eq!(time.at(at(1_000)), 0);
        // What Linux writes: 40 ns in units of 2^-18 ns, at each tick.
        time.set_increment(at(1_400), 1 << 24 | 40 << 18);
        assert_eq!(time.at(at(1_439)), 0);
        assert_eq!(time.at(at(2_400)) >> 18, 1_000);
        time.adjust(1 << 63 | 5 << 18);
        assert_eq!(time.at(at(2_400)) >> 18, 995);
    }

    #[test]
    fn what_is_stamped_is_what_was_asked_for_and_one_at_a_time() {
        let (time, now) = (SystemTime::new(Span::from_ns(40)), at(5));
        let mut file = Registers::new(&TABLE);
        let mut sync = vec![0; 60];
        sync[12..15].copy_from_slice(&[0x88, 0xf7, 0x00]);
        let mut other = sync.clone();
        other[14] = 0x0b;
        let mut udp = Vec::new();
        let builder =
            PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 9, 0, 1], [10, 9, 0, 2], 64);
        builder.udp(319, 319).write(&mut udp, &[0; 44]).unwrap();
        assert!(!received(&mut file, &time, now, &sync, |_| PTP), "nothing is asked for");
        for (kind, stamped) in [
            (V2_ON_ETHERNET, [true, false, false]),
            (V1_ON_UDP, [false, false, true]),
            (V2, [true, false, true]),
            (ALL, [true, true, true]),
            (V2_EVENTS, [true, false, true]),
            (3, [false, false, false]),
        ] {
            let frames = [&sync, &other, &udp];
            for (frame, stamped) in frames.into_iter().zip(stamped) {
                file.set(regs::TSYNCRXCTL, ENABLED | kind << TYPE_SHIFT);
                assert_eq!(received(&mut file, &time, now, frame, |_| PTP), stamped, "{kind}");
                assert!(
                    !received(&mut file, &time, now, frame, |_| PTP) || !stamped,
                    "one at a time"
                );
            }
        }
    }
}
