//! What descriptors ask for before a frame goes out: VLAN tag, checksums, segmentation, a time stamp (82574, 7.2).

use super::descriptor::Words;
use crate::intel::offload::{Request, Sum, Work};
use crate::intel::tx_ring::{STATUS, TxWords};
use crate::segment::Headers;
use crate::strict::{FindingKind, Misuse};

// Commands of a legacy descriptor (7.2.10.1), and of a data descriptor (7.2.10.3).
const INSERT_FCS: u32 = 1 << 25;
const INSERT_CHECKSUM: u32 = 1 << 26;
const SEGMENT: u32 = 1 << 26;
const ADD_TAG: u32 = 1 << 30;
/// Of a context descriptor (7.2.10.2).
const CONTEXT_TCP: u32 = 1 << 24;
const CONTEXT_IPV4: u32 = 1 << 25;
const CONTEXT_SEGMENT: u32 = 1 << 26;
// The fourth word of a data descriptor.
const STAMP: u32 = 1 << 4;
const IP_CHECKSUM: u32 = 1 << 8;
const TRANSPORT_CHECKSUM: u32 = 1 << 9;
/// Kind of a data descriptor.
const TYPE: u32 = 0xf << 20;
const TYPE_DATA: u32 = 1 << 20;

/// What a context descriptor says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Context {
    ip: Sum,
    transport: Sum,
    tcp: bool,
    ipv4: bool,
    mss: usize,
}

impl Context {
    pub(super) fn new(Words([ip, transport, command, last]): Words) -> Context {
        Context {
            ip: Sum::new(ip),
            transport: Sum::new(transport),
            tcp: command & CONTEXT_TCP != 0,
            ipv4: command & CONTEXT_IPV4 != 0,
            mss: (last >> 16) as usize,
        }
    }
}

impl Context {
    /// Where the headers of a packet to be segmented are (82583V, 7.3.6.2: IPCSS and TUCSS).
    fn headers(&self) -> Headers {
        let (ip, transport) = (self.ip.start, self.transport.start);
        Headers { ip, ip_end: transport, ipv4: self.ipv4, transport }
    }

    /// Reads a frame's first and last descriptor: the tag and the check sequence are asked for in the last.
    pub(super) fn request(&self, first: Words, last: Words) -> Request {
        let [.., command, options] = first.0;
        let [.., last_command, last_options] = last.0;
        let tag =
            (last_command & ADD_TAG != 0).then(|| ((last_options >> 16) as u16).to_be_bytes());
        Request {
            tag,
            work: work(first, command, options, self),
            has_fcs: last_command & INSERT_FCS == 0,
            stamp: !first.is_legacy() && options & STAMP != 0,
        }
    }
}

fn work(first: Words, command: u32, options: u32, context: &Context) -> Work {
    if first.is_legacy() {
        if command & INSERT_CHECKSUM == 0 {
            return Work::Nothing;
        }
        let (start, field) = (options >> 8 & 0xff, command >> 16 & 0xff);
        let sum = Sum { start: start as usize, field: field as usize, end: 0 };
        return Work::Checksums { ip: None, transport: Some(sum), udp: false };
    }
    if command & SEGMENT != 0 {
        return match context.tcp {
            true => Work::Segment { headers: context.headers(), mss: context.mss, udp: false },
            false => Work::Impossible,
        };
    }
    let ip = (options & IP_CHECKSUM != 0).then_some(context.ip);
    let transport = (options & TRANSPORT_CHECKSUM != 0).then_some(context.transport);
    match (ip, transport) {
        (None, None) => Work::Nothing,
        _ => Work::Checksums { ip, transport, udp: !context.tcp },
    }
}

impl TxWords for Words {
    const SOURCE: &'static str = "82574 (317694), section 7.2, transmit descriptors";

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
    const SOURCE: &str = "82574 (317694), section 7.2.10, transmit descriptor formats";
    let [_, _, command, last] = words.0;
    let found = |kind, what| Some(Misuse { kind, what, source: SOURCE });
    let flags = |what| found(FindingKind::OffloadFlags, what);
    if last & STATUS != 0 && !words.is_context() {
        return found(FindingKind::ReservedBits, "has bits of its status set, which is the card's");
    }
    if words.is_context() {
        let context = Context::new(words);
        return match () {
            () if before.is_some() => {
                found(FindingKind::Descriptor, "is a context within a frame that is not at its end")
            }
            () if command & CONTEXT_SEGMENT == 0 => None,
            () if context.mss == 0 => flags("is for segments of 0 bytes"),
            () if context.transport.start < LEAST_TRANSPORT => {
                flags("is for segments whose TCP header would begin within the IP header")
            }
            () => None,
        };
    }
    match before {
        Some(before) if before.is_legacy() != words.is_legacy() => {
            flags("is of another kind than the one before it in its frame")
        }
        Some(Words([_, _, earlier, _])) if (earlier ^ command) & SEGMENT != 0 => {
            flags("has other requests than the one before it in its frame")
        }
        _ if !words.is_legacy() && command & TYPE != TYPE_DATA => {
            found(FindingKind::ReservedBits, "is neither a context nor data")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::{self, judge};
    use crate::intel::offload::insert;
    use crate::segment::testing::{checked, tcp};
    use proptest::prelude::*;

    /// As Linux asks for it (e1000_tx_csum): the field holds the sum of the pseudo header.
    fn partly_summed(v6: bool, payload: &[u8]) -> (Vec<u8>, usize) {
        let (mut frame, transport) = tcp(v6, 0, payload);
        let network = checksum::Network::find(&frame).unwrap();
        let bytes = network.end - transport;
        let pseudo = checksum::fold(network.pseudo_sum(&frame, checksum::TCP, bytes));
        frame[transport + 16..transport + 18].copy_from_slice(&pseudo.to_le_bytes());
        (frame, transport)
    }

    proptest! {
        #[test]
        fn a_context_says_where_the_checksum_goes(
            v6: bool, payload in prop::collection::vec(any::<u8>(), 0..3_000),
        ) {
            let (mut frame, transport) = partly_summed(v6, &payload);
            let start = transport as u32;
            let context = Context::new(Words([0, start | (start + 16) << 8, 1 << 24, 0]));
            let data = Words([0, 0, 1 << 29 | 1 << 25 | 1 << 24 | TYPE_DATA, TRANSPORT_CHECKSUM]);
            let Work::Checksums { ip, transport, udp } = context.request(data, data).work else {
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
            context: [u32; 4], first: [u32; 4], last: [u32; 4],
        ) {
            let context = Context::new(Words(context));
            let work = context.request(Words(first), Words(last)).work;
            if let Work::Checksums { ip, transport, udp } = work {
                insert(&mut frame, ip, transport, udp);
            }
            misuse(Words(first), Some(Words(last)));
            misuse(Words(last), None);
        }
    }
}
