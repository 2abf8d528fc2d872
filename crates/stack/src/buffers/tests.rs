use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use proptest::prelude::*;
use warikomi_clock::Time;
use warikomi_driver::transmit::Work;
use warikomi_pci::SharedMemory;

use super::*;
use crate::checksum::plain;
use crate::datagram::{HEADER_BYTES, Station};
use crate::entry::Destination;
use crate::fragment::Cut;

const BASE: u64 = 0x3_0000_0000;

/// Headers of a datagram of this length in bytes.
fn headers(bytes: usize) -> Headers {
    let ours = Ipv4Addr::new(10, 9, 0, 1);
    let station = Station { mac: [2, 0, 0, 0, 0, 1], address: ours, prefix_bits: 24 };
    let address = Ipv4Addr::new(10, 9, 0, 2);
    let to = Destination { address, port: 5_001, source_port: 7 };
    Headers::new(&station, to, [4; 6], bytes as u16).unwrap()
}

/// The frame of a message, with checksums that are made word by word.
fn frame(message: &[u8], checksum: bool) -> Vec<u8> {
    let mut frame = [&headers(message.len()).bytes()[..], message].concat();
    let ip = plain(&frame[14..34]);
    frame[24..26].copy_from_slice(&ip);
    if checksum {
        let pseudo = [&frame[26..34], &[0, 17], &frame[38..40], &frame[34..]].concat();
        let udp = match plain(&pseudo) {
            [0, 0] => [0xff; 2],
            udp => udp,
        };
        frame[40..42].copy_from_slice(&udp);
    }
    frame
}

/// Counts what is spent.
#[derive(Default)]
struct Spent {
    taken: usize,
    freed: usize,
    copied: usize,
    summed: usize,
    summed_in_copy: usize,
    visited: usize,
}

impl CostClock for Spent {
    fn now(&mut self) -> Time {
        Time::ZERO
    }

    fn spend(&mut self, work: Work) {
        match work {
            Work::Take { buffers } => self.taken += buffers,
            Work::Free { buffers } => self.freed += buffers,
            Work::Copy { bytes } => self.copied += bytes,
            Work::Sum { bytes } => self.summed += bytes,
            Work::SumCopied { bytes } => self.summed_in_copy += bytes,
            Work::Visit { buffers } => self.visited += buffers,
            other => panic!("{other:?} is not the buffers'"),
        }
    }
}

/// Buffers in memory of just the size that they ask for.
struct Bench {
    buffers: Buffers,
    memory: SharedMemory,
    spent: Spent,
    checksum: bool,
}

impl Bench {
    fn new(kind: BufferKind, sizes: &[u32], packets: usize, bytes: u64) -> Bench {
        Bench::over(65_535, kind, sizes, packets, bytes)
    }

    /// The same over a link with this MTU.
    fn over(mtu_bytes: u32, kind: BufferKind, sizes: &[u32], packets: usize, bytes: u64) -> Bench {
        let demand = Demand { sizes_bytes: sizes, packets, bytes, mtu_bytes, segment_bytes: None };
        let len = Buffers::dma_bytes(kind, demand) as usize;
        Bench {
            buffers: Buffers::new(kind, demand, BASE),
            memory: SharedMemory::anonymous(BASE, len.max(4_096).next_multiple_of(4_096)).unwrap(),
            spent: Spent::default(),
            checksum: true,
        }
    }

    /// A message as a packet with its headers.
    fn fill(&mut self, message: &[u8]) -> Option<u32> {
        let (memory, checksum) = (&self.memory, self.checksum);
        let token = self.buffers.fill(&mut self.spent, memory, message, checksum).unwrap()?;
        let headers = headers(message.len());
        self.buffers.output(&mut self.spent, memory, token, headers, checksum).unwrap();
        Some(token)
    }

    fn pieces(&mut self, token: u32) -> Result<Vec<(u64, u32)>, BufferError> {
        let mut pieces = vec![(1, 1)];
        self.buffers.gather(&mut self.spent, &self.memory, token, &mut pieces).map(|()| pieces)
    }

    fn free(&mut self, token: u32) -> bool {
        self.buffers.free(&mut self.spent, &self.memory, token).unwrap()
    }

    /// The bytes of all pieces, put together.
    fn bytes(&mut self, token: u32) -> Vec<u8> {
        let mut whole = Vec::new();
        for (address, bytes) in self.pieces(token).unwrap() {
            let mut piece = vec![0; bytes as usize];
            self.memory.read(address, &mut piece).unwrap();
            whole.extend(piece);
        }
        whole
    }
}

fn message(bytes: u32, salt: usize) -> Vec<u8> {
    (0..bytes as usize).map(|at| ((at + salt) % 251) as u8).collect()
}

fn lengths(kind: BufferKind, bytes: u32) -> (Vec<u32>, usize) {
    let mut bench = Bench::new(kind, &[bytes], 1, bytes.into());
    let token = bench.fill(&message(bytes, 0)).unwrap();
    let pieces = bench.pieces(token).unwrap().iter().map(|piece| piece.1).collect();
    (pieces, bench.spent.taken)
}

#[test]
fn mbufs_are_cut_as_in_bsd() {
    let kind = BufferKind::Mbuf { cluster_bytes: MCLBYTES };
    let rule = |bytes: u32, pieces: &[u32], buffers: usize| {
        assert_eq!(lengths(kind, bytes), (pieces.to_vec(), buffers), "{bytes} bytes");
    };
    // Headers in front of the data while there is room, 44 bytes with the alignment.
    rule(16, &[58], 1);
    rule(HEADERS_FIT_BYTES, &[42 + 168], 1);
    rule(169, &[42, 169], 2);
    rule(MHLEN, &[42, 212], 2);
    // From MINCLSIZE on clusters, each held by a small mbuf.
    rule(MINCLSIZE, &[42, 213], 3);
    rule(2_048, &[42, 2_048], 3);
    rule(2_048 + 212, &[42, 2_048, 212], 4);
    rule(2_048 + 213, &[42, 2_048, 213], 5);
    rule(4_096, &[42, 2_048, 2_048], 5);
    let (pieces, buffers) = lengths(kind, 65_507);
    assert_eq!((pieces.len(), pieces[32], buffers), (33, 2_019, 1 + 2 * 32));
    let (pieces, _) = lengths(BufferKind::Mbuf { cluster_bytes: 4_096 }, 65_507);
    assert_eq!((pieces.len(), pieces[16]), (17, 4_067));
}

#[test]
fn a_contiguous_packet_is_one_piece() {
    for bytes in [16, 64, 65, 4_032, 4_033, 65_507] {
        assert_eq!(lengths(BufferKind::Contiguous, bytes), (vec![42 + bytes], 1));
    }
    assert_eq!(
        [64, 65, 4_032, 4_033].map(|bytes| {
            let demand = Demand {
                sizes_bytes: &[bytes],
                packets: 1,
                bytes: bytes.into(),
                mtu_bytes: 65_535,
                segment_bytes: None,
            };
            ContiguousBuffers::dma_bytes(demand)
        }),
        [128, 256, 4_096, 8_192]
    );
}

#[test]
fn data_in_small_mbufs_is_aligned() {
    for bytes in 1..=MHLEN {
        let mut bench =
            Bench::new(BufferKind::Mbuf { cluster_bytes: MCLBYTES }, &[bytes], 1, bytes.into());
        let token = bench.fill(&message(bytes, 0)).unwrap();
        let &(address, length) = bench.pieces(token).unwrap().last().unwrap();
        assert!((address + u64::from(length - bytes)).is_multiple_of(4), "{bytes} bytes");
    }
}

#[test]
fn a_token_that_is_no_packets_is_refused_and_counted() {
    for kind in [BufferKind::Contiguous, BufferKind::Mbuf { cluster_bytes: MCLBYTES }] {
        let mut bench = Bench::new(kind, &[1_000], 2, 2_000);
        let token = bench.fill(&message(1_000, 0)).unwrap();
        assert!(bench.free(token) && !bench.free(token) && !bench.free(u32::MAX));
        assert_eq!(bench.buffers.refused(), 2);
        assert!(bench.pieces(token).is_err() && bench.buffers.is_full());
    }
}

#[test]
fn memory_that_is_not_there_takes_nothing() {
    for kind in [BufferKind::Contiguous, BufferKind::Mbuf { cluster_bytes: MCLBYTES }] {
        let mut bench = Bench::new(kind, &[5_000], 1, 5_000);
        bench.memory = SharedMemory::anonymous(0, 4_096).unwrap();
        let filled = bench.buffers.fill(&mut bench.spent, &bench.memory, &message(5_000, 0), true);
        assert!(filled.is_err() && bench.buffers.is_full());
    }
}

/// The frames of a message that is cut: of each its headers of Ethernet and IP, and what is behind them.
fn frames(bench: &mut Bench, token: u32, cut: Cut) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut whole = &bench.bytes(token)[..];
    let frame = |index| {
        let (frame, rest) = whole.split_at(14 + cut.ip_bytes(index));
        whole = rest;
        let (headers, data) = frame.split_at(34);
        (headers.to_vec(), data.to_vec())
    };
    let frames = (0..cut.count()).map(frame).collect();
    assert!(whole.is_empty());
    frames
}

proptest! {
    #[test]
    fn a_message_longer_than_the_mtu_is_cut_as_rfc_791_has_it(
        kind in any_kind(), bytes in 16u32..65_508, mtu in 68u32..20_000, checksum: bool,
    ) {
        let mut bench = Bench::over(mtu, kind, &[bytes], 1, bytes.into());
        let message = message(bytes, 3);
        let memory = &bench.memory;
        let token = bench.buffers.fill(&mut bench.spent, memory, &message, checksum).unwrap();
        let token = token.expect("there is memory for one");
        let headers = headers(message.len()).over(mtu, 0xbeef);
        bench.buffers.output(&mut bench.spent, memory, token, headers, checksum).unwrap();
        let cut = Cut::new(message.len(), mtu);
        let expected = frame(&message, checksum);
        let mut data = Vec::new();
        for (index, (headers, part)) in frames(&mut bench, token, cut).into_iter().enumerate() {
            prop_assert_eq!(&headers[..14], &expected[..14]);
            prop_assert_eq!(plain(&headers[14..]), [0, 0], "the checksum of packet {}", index);
            let word = |at: usize| u16::from_be_bytes([headers[at], headers[at + 1]]);
            prop_assert_eq!(usize::from(word(16)), 20 + part.len());
            prop_assert!(20 + part.len() <= mtu as usize);
            if cut.count() > 1 {
                prop_assert_eq!(word(18), 0xbeef);
                let more = if index + 1 < cut.count() { 0x2000 } else { 0 };
                prop_assert_eq!(usize::from(word(20)), more | (data.len() / 8));
            }
            prop_assert_eq!(&headers[26..34], &expected[26..34]);
            data.extend(part);
        }
        prop_assert_eq!(&data, &expected[34..], "UDP's header and the message");
        prop_assert!(bench.free(token) && bench.buffers.is_full());
        prop_assert_eq!(bench.spent.taken, bench.spent.freed);
    }
}

fn any_kind() -> impl Strategy<Value = BufferKind> {
    prop_oneof![
        Just(BufferKind::Contiguous),
        (9u32..=16).prop_map(|exponent| BufferKind::Mbuf { cluster_bytes: 1 << exponent }),
    ]
}

fn any_size() -> impl Strategy<Value = u32> {
    prop_oneof![1u32..300, 1u32..9_000, 1u32..65_508]
}

proptest! {
    /// Whatever is demanded fits, whatever is filled is there unharmed until it is freed, and in the end
    /// everything is in its pool.
    #[test]
    fn packets_are_whole_and_buffers_come_back(
        kind in any_kind(),
        sizes in prop::collection::vec(any_size(), 1..4),
        packets in 1usize..12,
        bytes in 1u64..300_000,
        checksum in any::<bool>(),
        steps in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 1..60),
    ) {
        let largest = u64::from(*sizes.iter().max().unwrap());
        let bytes = bytes.max(largest);
        let mut bench = Bench { checksum, ..Bench::new(kind, &sizes, packets, bytes) };
        let mut there: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        let mut used = 0;
        for (salt, (index, free)) in steps.into_iter().enumerate() {
            let size = *index.get(&sizes);
            let fits = there.len() < packets && used + u64::from(size) <= bytes;
            if free && !there.is_empty() {
                let token = *index.get(&there.keys().copied().collect::<Vec<_>>());
                let expected = there.remove(&token).unwrap();
                prop_assert_eq!(bench.bytes(token), expected.clone());
                used -= (expected.len() - HEADER_BYTES) as u64;
                prop_assert!(bench.free(token) && !bench.free(token));
            } else if fits {
                let message = message(size, salt);
                let token = bench.fill(&message).expect("there is enough for what is demanded");
                used += u64::from(size);
                let whole = frame(&message, checksum);
                prop_assert!(there.insert(token, whole).is_none());
            }
        }
        let mut ranges = BTreeSet::new();
        for (&token, expected) in &there {
            prop_assert_eq!(&bench.bytes(token), expected);
            for (address, length) in bench.pieces(token).unwrap() {
                prop_assert!(length > 0 && ranges.insert((address, address + u64::from(length))));
            }
        }
        let apart = ranges.iter().zip(ranges.iter().skip(1)).all(|(one, next)| one.1 <= next.0);
        prop_assert!(apart, "two packets have the same bytes");
        for token in there.into_keys() {
            prop_assert!(!bench.buffers.is_full() && bench.free(token));
        }
        prop_assert!(bench.buffers.is_full());
        prop_assert_eq!(bench.spent.taken, bench.spent.freed);
    }

    /// A pool that is empty gives nothing, and takes nothing.
    #[test]
    fn what_is_not_there_is_not_given(kind in any_kind(), size in any_size(), packets in 1usize..6) {
        let mut bench = Bench::new(kind, &[size], packets, u64::from(size) * packets as u64);
        let message = message(size, 0);
        let tokens: Vec<u32> = (0..packets).map(|_| bench.fill(&message).unwrap()).collect();
        prop_assert_eq!(bench.fill(&message), None);
        prop_assert_eq!(bench.spent.copied, size as usize * packets);
        prop_assert!(tokens.into_iter().all(|token| bench.free(token)));
        prop_assert!(bench.buffers.is_full() && bench.buffers.refused() == 0);
    }
}

/// The bus addresses of a packet's mbufs, by their links.
fn chain(bench: &Bench, first: u64) -> Vec<u64> {
    let mut all = vec![first];
    loop {
        match bench.memory.load_u32(all[all.len() - 1]).unwrap() {
            0 => return all,
            next => all.push(BASE + u64::from(next) - 4_096),
        }
    }
}

/// A packet of 5,000 bytes in mbufs: headers, two clusters, and a cluster that is not full.
fn long_packet(packets: usize) -> (Bench, u32, Vec<u64>) {
    let kind = BufferKind::Mbuf { cluster_bytes: MCLBYTES };
    let mut bench = Bench::new(kind, &[5_000], packets, 5_000 * packets as u64);
    let token = bench.fill(&message(5_000, 1)).unwrap();
    let headers = bench.pieces(token).unwrap()[0].0;
    let chain = chain(&bench, headers - headers % u64::from(MSIZE));
    assert_eq!(chain.len(), 4);
    (bench, token, chain)
}

/// The driver finds this wrong with it, and all buffers come back all the same.
fn assert_damaged(mut bench: Bench, token: u32, what: &str) {
    let gathered = bench.pieces(token).unwrap_err().to_string();
    assert!(gathered.contains(what), "{gathered}");
    let freed = bench.buffers.free(&mut bench.spent, &bench.memory, token);
    assert!(matches!(freed, Ok(true) | Err(BufferError::Damaged { .. })), "{freed:?}");
    assert!(bench.buffers.is_full() && bench.spent.taken == bench.spent.freed);
}

#[test]
fn a_chain_lies_in_memory_with_its_links_and_lengths() {
    let (bench, _, chain) = long_packet(1);
    let words = |mbuf: u64| bench.memory.load_descriptor(mbuf).unwrap().words();
    let lengths: Vec<u32> = chain.iter().map(|&mbuf| words(mbuf)[3]).collect();
    assert_eq!(lengths, [42, 2_048, 2_048, 904]);
    for (at, &mbuf) in chain.iter().enumerate() {
        let flags = bench.memory.load_u32(mbuf + 16).unwrap();
        assert_eq!(flags, if at == 0 { 1 } else { 0x0001_0001 }, "mbuf {at}");
        let [ext, _, size, users] = bench.memory.load_descriptor(mbuf + 44).unwrap().words();
        let [_, queue, data, _] = words(mbuf);
        assert_eq!(queue, 0);
        assert!(at == 0 || (ext, size, users) == (data, 2_048, 1), "mbuf {at}");
    }
}

#[test]
fn a_chain_that_is_cut_is_damaged() {
    let (bench, token, chain) = long_packet(1);
    bench.memory.store_u32(chain[1], 0).unwrap();
    assert_damaged(bench, token, "ends before its last byte");
}

#[test]
fn a_chain_in_a_circle_is_damaged_and_ends() {
    let (bench, token, chain) = long_packet(1);
    bench.memory.store_u32(chain[3], (chain[0] - BASE) as u32 + 4_096).unwrap();
    assert_damaged(bench, token, "in a circle");
    let (bench, token, chain) = long_packet(1);
    bench.memory.store_u32(chain[1], (chain[1] - BASE) as u32 + 4_096).unwrap();
    assert_damaged(bench, token, "in a circle");
}

#[test]
fn a_link_to_no_mbuf_of_the_packet_is_damage() {
    for link in [1, 4_095, 4_096, 4_097, u32::MAX, u32::MAX - 255] {
        let (bench, token, chain) = long_packet(1);
        bench.memory.store_u32(chain[2], link).unwrap();
        assert_damaged(bench, token, "no mbuf of it");
    }
    // Another packet's mbuf, and what lies in the middle of one.
    let (mut bench, token, chain) = long_packet(2);
    let other = bench.fill(&message(5_000, 2)).unwrap();
    let theirs = bench.pieces(other).unwrap()[0].0;
    for at in [theirs - theirs % u64::from(MSIZE), chain[3] + 4] {
        bench.memory.store_u32(chain[2], (at - BASE) as u32 + 4_096).unwrap();
        let error = bench.pieces(token).unwrap_err().to_string();
        assert!(error.contains("no mbuf of it"), "{error}");
    }
    let error = bench.buffers.free(&mut bench.spent, &bench.memory, token).unwrap_err();
    assert!(error.to_string().contains("no mbuf of it"), "{error}");
    assert_eq!(bench.bytes(other), frame(&message(5_000, 2), true), "the other is whole");
    assert!(bench.free(other) && bench.buffers.is_full());
}

#[test]
fn a_length_beyond_its_piece_is_damage() {
    for (mbuf, length) in [(0, 43), (1, 2_049), (3, u32::MAX)] {
        let (bench, token, chain) = long_packet(1);
        bench.memory.store_u32(chain[mbuf] + 12, length).unwrap();
        assert_damaged(bench, token, "neither in it nor in a cluster");
    }
    // Within the piece, but more than the packet has.
    let (bench, token, chain) = long_packet(1);
    bench.memory.store_u32(chain[3] + 12, 905).unwrap();
    assert_damaged(bench, token, "longer than the packet");
}

#[test]
fn data_outside_of_the_packets_buffers_is_damage() {
    for data in [0, 4_095, u32::MAX, u32::MAX - 2_048] {
        let (bench, token, chain) = long_packet(1);
        bench.memory.store_u32(chain[1] + 8, data).unwrap();
        assert_damaged(bench, token, "neither in it nor in a cluster");
    }
    // An mbuf's own header.
    let (bench, token, chain) = long_packet(1);
    bench.memory.store_u32(chain[0] + 8, (chain[0] - BASE) as u32 + 4_096 + 16).unwrap();
    assert_damaged(bench, token, "neither in it nor in a cluster");
}

#[test]
fn a_cluster_that_is_not_the_packets_is_not_given_back() {
    let (mut bench, token, chain) = long_packet(2);
    let other = bench.fill(&message(5_000, 2)).unwrap();
    let theirs = bench.pieces(other).unwrap()[1].0;
    bench.memory.store_u32(chain[2] + 44, (theirs - BASE) as u32 + 4_096).unwrap();
    let error = bench.buffers.free(&mut bench.spent, &bench.memory, token).unwrap_err();
    assert!(error.to_string().contains("a cluster that is not the packet's"), "{error}");
    assert_eq!(bench.bytes(other), frame(&message(5_000, 2), true));
    assert!(bench.free(other) && bench.buffers.is_full());
}

#[test]
fn an_mbuf_without_data_is_walked_and_is_no_piece() {
    let (mut bench, token, chain) = long_packet(1);
    let before = bench.pieces(token).unwrap();
    // As much more in the last.
    bench.memory.store_u32(chain[0] + 12, 0).unwrap();
    bench.memory.store_u32(chain[3] + 12, 904 + 42).unwrap();
    let visited = bench.spent.visited;
    let pieces = bench.pieces(token).unwrap();
    assert_eq!(bench.spent.visited, visited + 4);
    assert_eq!((&pieces[..2], pieces[2].1), (&before[1..3], 946));
    assert!(bench.free(token) && bench.buffers.is_full());
}

proptest! {
    /// Bytes in any mbuf, as a card that writes where it should not: an error or a packet of the right length within
    /// the packet's own buffers, and all buffers come back.
    #[test]
    fn whatever_is_written_into_mbufs_stays_the_packets_own_harm(
        writes in prop::collection::vec((0usize..4, 0u64..64, any::<u32>(), any::<bool>()), 1..6),
    ) {
        let (mut bench, token, chain) = long_packet(2);
        let other = bench.fill(&message(5_000, 2)).unwrap();
        for (mbuf, word, value, near) in writes {
            let value = if near { value % 32_768 } else { value };
            bench.memory.store_u32(chain[mbuf] + 4 * word, value).unwrap();
        }
        if let Ok(pieces) = bench.pieces(token) {
            prop_assert_eq!(pieces.iter().map(|piece| piece.1).sum::<u32>(), 5_042);
            let theirs = bench.pieces(other).unwrap();
            let apart = pieces.iter().all(|&(at, bytes)| {
                let ends = at + u64::from(bytes);
                theirs.iter().all(|&(their, length)| ends <= their || their + u64::from(length) <= at)
            });
            prop_assert!(apart, "{pieces:?} {theirs:?}");
        }
        let _ = bench.buffers.free(&mut bench.spent, &bench.memory, token);
        prop_assert_eq!(bench.bytes(other), frame(&message(5_000, 2), true));
        prop_assert!(bench.free(other) && bench.buffers.is_full());
        prop_assert_eq!(bench.spent.taken, bench.spent.freed);
    }
}
