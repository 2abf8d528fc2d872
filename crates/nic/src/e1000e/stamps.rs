//! System time and time stamps of frames (82574, 7.5 and 10.2.9), for the precision time protocol (IEEE 1588).
//!
//! The time counts up by what TIMINCA says, at each so many ticks of a clock of 25 MHz. A frame's stamp is that of
//! the moment at which it arrives, or has left. One stamp of each direction is kept until the driver has read its
//! upper half.

use warikomi_clock::{Span, Time};

use super::regs::{self, Registers};
use crate::checksum::{ETHER_TYPE, Network, UDP};

const TICK: Span = Span::from_ns(40);

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
pub(super) struct SystemTime {
    counted: u64,
    since: Time,
    increment: u64,
    period: Span,
}

impl SystemTime {
    pub(super) fn at(&self, now: Time) -> u64 {
        if self.period == Span::ZERO {
            return self.counted;
        }
        let ticks = now.since(self.since).as_ps() / self.period.as_ps();
        self.counted.wrapping_add(ticks.wrapping_mul(self.increment))
    }

    /// The driver writes TIMINCA.
    pub(super) fn set_increment(&mut self, now: Time, register: u32) {
        self.set(now, self.at(now));
        self.increment = (register & INCREMENT).into();
        self.period = TICK * u64::from(register >> PERIOD_SHIFT);
    }

    /// It writes the time.
    pub(super) fn set(&mut self, now: Time, time: u64) {
        (self.counted, self.since) = (time, now);
    }

    /// It writes TIMADJH, behind TIMADJL: sign in the highest bit.
    pub(super) fn adjust(&mut self, adjustment: u64) {
        let by = adjustment & !(1 << 63);
        self.counted = match adjustment >> 63 {
            0 => self.counted.wrapping_add(by),
            _ => self.counted.wrapping_sub(by),
        };
    }
}

/// A frame arrives that was let in; whether it has a stamp.
#[inline]
pub(super) fn received(file: &mut Registers, time: &SystemTime, now: Time, frame: &[u8]) -> bool {
    let control = file.get(regs::TSYNCRXCTL);
    control & (ENABLED | STAMPED) == ENABLED && stamp_received(file, time, now, frame)
}

#[cold]
fn stamp_received(file: &mut Registers, time: &SystemTime, now: Time, frame: &[u8]) -> bool {
    if !is_wanted(file, frame) {
        return false;
    }
    file.set_pair(regs::RXSTMPL, time.at(now));
    file.change(regs::TSYNCRXCTL, 0, STAMPED);
    true
}

/// A frame left for which the driver wants a stamp.
pub(super) fn sent(file: &mut Registers, time: &SystemTime, at: Time) {
    if file.get(regs::TSYNCTXCTL) & (ENABLED | STAMPED) == ENABLED {
        file.set_pair(regs::TXSTMPL, time.at(at));
        file.change(regs::TSYNCTXCTL, 0, STAMPED);
    }
}

/// The driver has read the upper half of a stamp, of which this is the control register.
pub(super) fn release(file: &mut Registers, control: u16) {
    file.change(control, STAMPED, 0);
}

fn is_wanted(file: &Registers, frame: &[u8]) -> bool {
    let kind = file.get(regs::TSYNCRXCTL) >> TYPE_SHIFT & TYPE;
    let [ether_low, ether_high, v1, v2] = file.get(regs::RXMTRL).to_le_bytes();
    let ether_type = [ether_high, ether_low];
    let ethernet = frame
        .get(ETHER_TYPE + 2..)
        .filter(|_| frame.get(ETHER_TYPE..ETHER_TYPE + 2) == Some(&ether_type));
    let udp = message_in_udp(file, frame);
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

/// What a datagram to the port of RXUDP holds; that register has the port as it stands in a frame.
fn message_in_udp<'a>(file: &Registers, frame: &'a [u8]) -> Option<&'a [u8]> {
    const HEADER: usize = 8;
    let network = Network::find(frame)?;
    let datagram = frame.get(network.payload..network.end)?;
    let port = (file.get(regs::RXUDP) as u16).to_le_bytes();
    let is_it = network.protocol == UDP && !network.fragment && datagram.get(2..4) == Some(&port);
    datagram.get(HEADER..).filter(|_| is_it)
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;

    use super::*;

    fn at(ns: u64) -> Time {
        Time::ZERO + Span::from_ns(ns)
    }

    #[test]
    fn the_time_counts_in_the_unit_of_the_driver() {
        let mut time = SystemTime::default();
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
        let (time, now) = (SystemTime::default(), at(5));
        let mut file = Registers::new(&regs::TABLE);
        let mut sync = vec![0; 60];
        sync[12..15].copy_from_slice(&[0x88, 0xf7, 0x00]);
        let mut other = sync.clone();
        other[14] = 0x0b;
        let mut udp = Vec::new();
        let builder =
            PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 9, 0, 1], [10, 9, 0, 2], 64);
        builder.udp(319, 319).write(&mut udp, &[0; 44]).unwrap();
        assert!(!received(&mut file, &time, now, &sync), "nothing is asked for");
        file.set(regs::RXMTRL, 0x88f7);
        file.set(regs::RXUDP, u32::from(319_u16.to_be()));
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
                assert_eq!(received(&mut file, &time, now, frame), stamped, "{kind}");
                assert!(!received(&mut file, &time, now, frame) || !stamped, "one at a time");
            }
        }
    }
}
