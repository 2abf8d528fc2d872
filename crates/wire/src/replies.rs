//! A wire around a wire that notes which echo requests were answered.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use smoltcp::wire::{
    EthernetFrame, EthernetProtocol, Icmpv4Message, Icmpv4Packet, IpProtocol, Ipv4Packet,
};
use warikomi_clock::Time;

use super::{Wire, WireCounters};

/// Replies kept until they are taken; more are dropped.
const KEPT: usize = 1 << 16;

/// Bytes of the number that the payload of an echo request begins with, least significant byte first.
pub const ECHO_NUMBER_BYTES: usize = 8;

/// One echo reply (ICMP, RFC 792) that the target has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoReply {
    /// The number in its payload.
    pub number: u64,
    /// When it was sent.
    pub at: Time,
}

/// The replies that were seen, for the sender of the requests.
#[derive(Clone, Debug, Default)]
pub struct EchoReplies(Arc<Mutex<Vec<EchoReply>>>);

impl EchoReplies {
    /// Takes those that have come since the last time, in order.
    pub fn take(&self) -> Vec<EchoReply> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, reply: EchoReply) {
        let mut replies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if replies.len() < KEPT {
            replies.push(reply);
        }
    }
}

/// A wire around a wire that notes echo replies as they pass.
pub struct EchoWatch {
    wire: Box<dyn Wire>,
    replies: EchoReplies,
}

impl EchoWatch {
    /// Around this wire, and what is seen.
    pub fn around(wire: Box<dyn Wire>) -> (EchoWatch, EchoReplies) {
        let replies = EchoReplies::default();
        (EchoWatch { wire, replies: replies.clone() }, replies)
    }
}

impl Wire for EchoWatch {
    fn transmit(&mut self, now: Time, frame: &[u8]) {
        match reply_in(frame) {
            Some(number) => self.replies.note(EchoReply { number, at: now }),
            None => self.wire.transmit(now, frame),
        }
    }

    fn next_arrival(&self) -> Time {
        self.wire.next_arrival()
    }

    fn receive(&mut self, now: Time) -> Option<Vec<u8>> {
        self.wire.receive(now)
    }

    fn counters(&self) -> WireCounters {
        self.wire.counters()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.wire.finish()
    }
}

/// The number in an echo reply with good checksums; `None` in any other frame.
fn reply_in(frame: &[u8]) -> Option<u64> {
    let ethernet = EthernetFrame::new_checked(frame).ok()?;
    if ethernet.ethertype() != EthernetProtocol::Ipv4 {
        return None;
    }
    let ip = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
    if ip.next_header() != IpProtocol::Icmp || !ip.verify_checksum() {
        return None;
    }
    let icmp = Icmpv4Packet::new_checked(ip.payload()).ok()?;
    if icmp.msg_type() != Icmpv4Message::EchoReply || !icmp.verify_checksum() {
        return None;
    }
    icmp.data().first_chunk().map(|number| u64::from_le_bytes(*number))
}

#[cfg(test)]
mod tests {
    use etherparse::{IcmpEchoHeader, Icmpv4Type, PacketBuilder};
    use proptest::prelude::*;

    use super::*;
    use crate::CountedSink;

    fn frame(kind: Icmpv4Type, payload: &[u8]) -> Vec<u8> {
        let builder =
            PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 9, 0, 1], [10, 9, 0, 2], 64);
        let mut bytes = Vec::new();
        builder.icmpv4(kind).write(&mut bytes, payload).unwrap();
        bytes
    }

    #[test]
    fn replies_are_noted_and_everything_else_goes_on() {
        let (mut wire, replies) = EchoWatch::around(Box::new(CountedSink::new()));
        let header = IcmpEchoHeader { id: 1, seq: 2 };
        let mut payload = 77_u64.to_le_bytes().to_vec();
        payload.extend([9; 100]);
        wire.transmit(Time::from_ps(5), &frame(Icmpv4Type::EchoReply(header), &payload));
        wire.transmit(Time::ZERO, &frame(Icmpv4Type::EchoRequest(header), &payload));
        wire.transmit(Time::ZERO, &[0; 60]);
        assert_eq!(replies.take(), [EchoReply { number: 77, at: Time::from_ps(5) }]);
        assert_eq!(replies.take(), []);
        assert_eq!(wire.counters().tx_frames, 2);
    }

    #[test]
    fn a_reply_that_is_damaged_is_none() {
        let header = IcmpEchoHeader { id: 1, seq: 2 };
        let good = frame(Icmpv4Type::EchoReply(header), &77_u64.to_le_bytes());
        assert_eq!(reply_in(&good), Some(77));
        for at in 14..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(reply_in(&bad), None, "byte {at}");
        }
    }

    proptest! {
        #[test]
        fn no_frame_is_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            reply_in(&bytes);
        }
    }
}
