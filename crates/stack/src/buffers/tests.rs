use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use warikomi_clock::Time;
use warikomi_driver::transmit::Work;
use warikomi_pci::SharedMemory;

use super::*;

const BASE: u64 = 0x3_0000_0000;
const HEADERS: [u8; HEADER_BYTES] = [0xa5; HEADER_BYTES];

/// Counts what is spent.
#[derive(Default)]
struct Spent {
    taken: usize,
    freed: usize,
    copied: usize,
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
            other => panic!("{other:?} is not the buffers'"),
        }
    }
}

/// Buffers in memory of just the size that they ask for.
struct Bench {
    buffers: Buffers,
    memory: SharedMemory,
    spent: Spent,
}

impl Bench {
    fn new(kind: BufferKind, sizes: &[u32], packets: usize, bytes: u64) -> Bench {
        let demand = Demand { sizes_bytes: sizes, packets, bytes };
        let len = Buffers::dma_bytes(kind, demand) as usize;
        Bench {
            buffers: Buffers::new(kind, demand, BASE),
            memory: SharedMemory::anonymous(BASE, len.max(4_096).next_multiple_of(4_096)).unwrap(),
            spent: Spent::default(),
        }
    }

    fn fill(&mut self, message: &[u8]) -> Option<u32> {
        self.buffers.fill(&mut self.spent, &self.memory, &HEADERS, message).unwrap()
    }

    fn free(&mut self, token: u32) -> bool {
        self.buffers.free(&mut self.spent, token)
    }

    /// The bytes of all pieces, put together.
    fn bytes(&self, token: u32) -> Vec<u8> {
        let mut whole = Vec::new();
        for &(address, bytes) in self.buffers.pieces(token) {
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
    let pieces = bench.buffers.pieces(token).iter().map(|piece| piece.1).collect();
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
            let demand = Demand { sizes_bytes: &[bytes], packets: 1, bytes: bytes.into() };
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
        let &(address, length) = bench.buffers.pieces(token).last().unwrap();
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
        assert!(bench.buffers.pieces(token).is_empty() && bench.buffers.is_full());
    }
}

#[test]
fn memory_that_is_not_there_takes_nothing() {
    for kind in [BufferKind::Contiguous, BufferKind::Mbuf { cluster_bytes: MCLBYTES }] {
        let mut bench = Bench::new(kind, &[5_000], 1, 5_000);
        bench.memory = SharedMemory::anonymous(0, 4_096).unwrap();
        let filled =
            bench.buffers.fill(&mut bench.spent, &bench.memory, &HEADERS, &message(5_000, 0));
        assert!(filled.is_err() && bench.buffers.is_full());
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
        steps in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 1..60),
    ) {
        let largest = u64::from(*sizes.iter().max().unwrap());
        let bytes = bytes.max(largest);
        let mut bench = Bench::new(kind, &sizes, packets, bytes);
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
                let whole = [&HEADERS[..], &message].concat();
                prop_assert!(there.insert(token, whole).is_none());
            }
        }
        let mut ranges = BTreeSet::new();
        for (&token, expected) in &there {
            prop_assert_eq!(&bench.bytes(token), expected);
            for &(address, length) in bench.buffers.pieces(token) {
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
