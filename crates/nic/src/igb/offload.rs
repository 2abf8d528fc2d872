//! What descriptors ask for before a frame goes out (82576, 7.2.2.2 and 7.2.2.3): VLAN tag, checksums, segmentation, a
//! time stamp.

use super::descriptor::Words;
use crate::intel::offload::{Request, Sum, Work};
use crate::intel::tx_ring::{STATUS, TxWords};
use crate::segment::Headers;
use crate::strict::{FindingKind, Misuse};

// Commands of legacy and data descriptors, in the third word.
const STAMP: u32 = 1 << 19;
const INSERT_FCS: u32 = 1 << 25;
const INSERT_CHECKSUM: u32 = 1 << 26;
const ADD_TAG: u32 = 1 << 30;
const SEGMENT: u32 = 1 << 31;
// Options of a data descriptor, in the fourth word.
const CONTEXT_SHIFT: u32 = 4;
const IP_CHECKSUM: u32 = 1 << 8;
const TRANSPORT_CHECKSUM: u32 = 1 << 9;
// A context descriptor, third word.
const IPV4: u32 = 1 << 10;
const TRANSPORT_SHIFT: u32 = 11;

/// Contexts that a queue keeps.
pub(super) const CONTEXTS: usize = 2;

/// The protocol above IP (L4T).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Transport {
    #[default]
    Udp,
    Tcp,
    Sctp,
    Reserved,
}

/// What a context descriptor says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Context {
    /// As its two bytes stand in a frame.
    tag: [u8; 2],
    /// Bytes in front of the IP header, and of that with its options.
    mac: usize,
    ip: usize,
    ipv4: bool,
    transport: Transport,
    mss: usize,
}

/// The contexts of a queue.
pub(super) type Contexts = [Context; CONTEXTS];

impl Context {
    fn new(Words([lengths, _, command, last]): Words) -> Context {
        Context {
            tag: ((lengths >> 16) as u16).to_be_bytes(),
            mac: (lengths >> 9 & 0x7f) as usize,
            ip: (lengths & 0x1ff) as usize,
            ipv4: command & IPV4 != 0,
            transport: match command >> TRANSPORT_SHIFT & 3 {
                0 => Transport::Udp,
                1 => Transport::Tcp,
                2 => Transport::Sctp,
                _ => Transport::Reserved,
            },
            mss: (last >> 16) as usize,
        }
    }

    /// Where the transport's header begins.
    fn transport_start(&self) -> usize {
        self.mac + self.ip
    }

    /// Where the headers of a packet to be segmented are (i210, 7.2.4.7: MACLEN, IPLEN and TUCMD.IPV4). Between the IP
    /// header and the transport's there may be others, as of a tunnel (Linux igb_tso).
    fn headers(&self) -> Headers {
        let transport = self.transport_start();
        Headers { ip: self.mac, ip_end: transport, ipv4: self.ipv4, transport }
    }

    fn work(&self, command: u32, options: u32) -> Work {
        let transport = self.transport_start();
        if command & SEGMENT != 0 {
            return match self.transport {
                Transport::Tcp | Transport::Udp => {
                    let udp = self.transport == Transport::Udp;
                    Work::Segment { headers: self.headers(), mss: self.mss, udp }
                }
                _ => Work::Impossible,
            };
        }
        let sum = |start, field, end| Sum { start, field: start + field, end };
        let ip = (options & IP_CHECKSUM != 0 && self.ipv4)
            .then(|| sum(self.mac, 10, transport.saturating_sub(1)));
        if options & TRANSPORT_CHECKSUM == 0 {
            return match ip {
                None => Work::Nothing,
                ip => Work::Checksums { ip, transport: None, udp: false },
            };
        }
        let (field, udp) = match self.transport {
            Transport::Udp => (6, true),
            Transport::Tcp => (16, false),
            Transport::Sctp => return Work::Crc32c { ip, start: transport },
            Transport::Reserved => return Work::Impossible,
        };
        Work::Checksums { ip, transport: Some(sum(transport, field, 0)), udp }
    }
}

/// Takes over what a context descriptor says.
pub(super) fn keep(contexts: &mut Contexts, words: Words) {
    contexts[index(words)] = Context::new(words);
}

/// Which context a descriptor is, or means.
fn index(Words([.., last]): Words) -> usize {
    (last >> CONTEXT_SHIFT) as usize % CONTEXTS
}

/// What a frame's descriptors ask for, with the contexts that stand: all of it is in the first.
pub(super) fn request(first: Words, contexts: &Contexts) -> Request {
    let [.., command, options] = first.0;
    let context = &contexts[index(first)];
    let tagged = command & ADD_TAG != 0;
    let (tag, work) = match first.is_legacy() {
        true => (((options >> 16) as u16).to_be_bytes(), legacy_work(command, options)),
        false if first.is_data() => (context.tag, context.work(command, options)),
        false => ([0; 2], Work::Impossible),
    };
    Request {
        tag: tagged.then_some(tag),
        work,
        has_fcs: command & INSERT_FCS == 0,
        stamp: !first.is_legacy() && command & STAMP != 0,
    }
}

fn legacy_work(command: u32, options: u32) -> Work {
    if command & INSERT_CHECKSUM == 0 {
        return Work::Nothing;
    }
    let (start, field) = (options >> 8 & 0xff, command >> 16 & 0xff);
    let sum = Sum { start: start as usize, field: field as usize, end: 0 };
    Work::Checksums { ip: None, transport: Some(sum), udp: false }
}

impl TxWords for Words {
    const SOURCE: &'static str = "82576 (321027), section 7.2.2, transmit descriptors";

    fn new(words: [u32; 4]) -> Words {
        Words(words)
    }

    fn words(self) -> [u32; 4] {
        self.0
    }

    fn is_context(self) -> bool {
        Words::is_context(self)
    }

    fn bytes(self) -> usize {
        Words::bytes(self)
    }

    fn misuse(self, before: Option<Words>) -> Option<Misuse> {
        misuse(self, before)
    }
}

/// Where an IP header can end at the earliest: a frame's header, and 20 bytes.
const LEAST_TRANSPORT: usize = 34;

/// What a driver must not write into a descriptor. `before` is the one before it in its frame.
fn misuse(words: Words, before: Option<Words>) -> Option<Misuse> {
    const SOURCE: &str = "82576 (321027), section 7.2.2, transmit descriptors";
    let [_, _, command, last] = words.0;
    let found = |kind, what| Some(Misuse { kind, what, source: SOURCE });
    let flags = |what| found(FindingKind::OffloadFlags, what);
    if words.is_context() {
        let context = Context::new(words);
        return match () {
            () if before.is_some() => {
                found(FindingKind::Descriptor, "is a context within a frame that is not at its end")
            }
            () if context.mss != 0 && context.transport_start() < LEAST_TRANSPORT => {
                flags("is for segments whose transport header would begin within the IP header")
            }
            () => None,
        };
    }
    if last & STATUS != 0 {
        return found(FindingKind::ReservedBits, "has bits of its status set, which is the card's");
    }
    if !words.is_legacy() && !words.is_data() {
        return found(FindingKind::ReservedBits, "is neither a context nor data");
    }
    match before {
        Some(before) if before.is_legacy() != words.is_legacy() => {
            flags("is of another kind than the one before it in its frame")
        }
        Some(Words([_, _, earlier, _]))
            if !words.is_legacy() && (earlier ^ command) & SEGMENT != 0 =>
        {
            flags("has other requests than the one before it in its frame")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::descriptor::{CONTEXT, DATA};
    use super::*;
    use crate::checksum::{self, judge};
    use crate::intel::offload::insert;
    use crate::segment::testing::{checked, tcp};

    proptest! {
        #[test]
        fn a_context_says_where_the_checksum_goes(
            v6: bool, payload in prop::collection::vec(any::<u8>(), 0..3_000),
        ) {
            // As Linux asks for it (igb_tx_csum): the field holds the sum of the pseudo header.
            let (mut frame, transport) = tcp(v6, 0, &payload);
            let network = checksum::Network::find(&frame).unwrap();
            let bytes = network.end - transport;
            let pseudo = checksum::fold(network.pseudo_sum(&frame, checksum::TCP, bytes));
            frame[transport + 16..transport + 18].copy_from_slice(&pseudo.to_le_bytes());
            let ip = transport as u32 - 14;
            let lengths = 14 << 9 | ip;
            let mut contexts = Contexts::default();
            keep(&mut contexts, Words([lengths, 0, CONTEXT | 1 << TRANSPORT_SHIFT, 1 << 4]));
            let first = Words([0, 0, DATA | INSERT_FCS, TRANSPORT_CHECKSUM | 1 << 4]);
            let Work::Checksums { ip, transport, udp } = request(first, &contexts).work else {
                panic!("checksums")
            };
            prop_assert!(ip.is_none() && !udp);
            insert(&mut frame, ip, transport, udp);
            prop_assert_eq!(checked(&frame).2, payload);
            prop_assert!(judge(&frame).unwrap().is_good());
        }

        #[test]
        fn no_frame_and_no_request_panics(
            mut frame in prop::collection::vec(any::<u8>(), 0..300),
            context: [u32; 4], first: [u32; 4],
        ) {
            let mut contexts = Contexts::default();
            keep(&mut contexts, Words(context));
            if let Work::Checksums { ip, transport, udp } = request(Words(first), &contexts).work {
                insert(&mut frame, ip, transport, udp);
            }
            misuse(Words(first), Some(Words(context)));
            misuse(Words(context), None);
        }
    }
}
