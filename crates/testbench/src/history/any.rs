//! Any step: what a driver that knows the card does, and what none would.

use proptest::prelude::*;
use warikomi_clock::Span;
use warikomi_nic::{Link, RxError, RxFault};
use warikomi_pci::Width;

use crate::cards::step::{BASE, MEMORY, Step, TxRequest};
use crate::cards::{Subject, TestCard};

fn width() -> impl Strategy<Value = Width> {
    prop::sample::select(vec![Width::B1, Width::B2, Width::B4, Width::B8])
}

/// Addresses: mostly inside memory, at its edges, and anywhere.
fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => (0..MEMORY as u64 / 256).prop_map(|page| BASE + 256 * page),
        1 => Just(BASE + MEMORY as u64 - 256),
        1 => BASE..BASE + MEMORY as u64,
        1 => any::<u64>(),
    ]
}

/// First words of descriptors: every mark, sizes mostly small.
fn opts1() -> impl Strategy<Value = u32> {
    (
        prop::sample::select(vec![0x8, 0xb, 0xa, 0x9, 0xf, 0x0, 0xc]),
        any::<u16>(),
        0u32..2_000,
        0u32..8,
    )
        .prop_map(|(marks, high, size, kind): (u32, u16, u32, u32)| {
            let middle = if kind == 0 { u32::from(high & 0x0fff) << 16 } else { 0 };
            let length = match kind {
                1 => 0,
                2 => 0xffff,
                _ => size,
            };
            marks << 28 | middle | length
        })
}

fn descriptor() -> impl Strategy<Value = [u32; 4]> {
    (opts1(), prop_oneof![3 => Just(0), 1 => any::<u32>()], address())
        .prop_map(|(opts1, opts2, at)| [opts1, opts2, at as u32, (at >> 32) as u32])
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 60..300),
        1 => prop::collection::vec(any::<u8>(), 0..60),
        1 => (60usize..20_000).prop_map(|length| vec![0x11; length]),
    ];
    let start = prop::sample::select(vec![
        vec![],
        vec![0x02, 0x57, 0x4b, 0, 0, 1],
        vec![0xff; 6],
        vec![2, 0x57, 0x4b, 0, 0, 1, 2, 2, 2, 2, 2, 2, 8, 0, 0x45],
        vec![2, 0x57, 0x4b, 0, 0, 1, 2, 2, 2, 2, 2, 2, 0x81, 0, 0, 1, 0x86, 0xdd, 0x60],
    ]);
    (bytes, start).prop_map(|(mut bytes, start)| {
        for (byte, with) in bytes.iter_mut().zip(start) {
            *byte = with;
        }
        bytes
    })
}

fn fault() -> impl Strategy<Value = RxFault> {
    let errors = prop::sample::select(vec![RxError::Crc, RxError::Runt, RxError::TooLong]);
    prop_oneof![
        Just(RxFault::Crc),
        Just(RxFault::Alignment),
        errors.prop_map(RxFault::Reported),
        any::<u16>().prop_map(RxFault::Length),
        Just(RxFault::NeverCompleted),
        (0u64..5_000).prop_map(|us| RxFault::CompletedLate(Span::from_us(us))),
    ]
}

/// Mostly a BAR that the card has, or any.
fn bar(card: &'static dyn TestCard) -> impl Strategy<Value = u8> {
    let nic = Subject::of(card).bench().nic;
    let bars: Vec<u8> = nic.bars().iter().map(|bar| bar.index).collect();
    prop_oneof![19 => prop::sample::select(bars), 1 => any::<u8>()]
}

/// Accesses at which something happens, besides any access.
fn write(card: &'static dyn TestCard) -> impl Strategy<Value = Step> {
    let offset = prop_oneof![9 => 0u64..0x108, 1 => any::<u64>()];
    let any_write = (bar(card), offset, width(), any::<u64>());
    prop_oneof![1 => any_write, 4 => card.writes(address().boxed())]
        .prop_map(|(bar, offset, width, value)| Step::Write { bar, offset, width, value })
}

/// One of them, for this card.
pub(super) fn step(card: &'static dyn TestCard) -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => write(card),
        3 => (bar(card), 0u64..0x1010, width())
            .prop_map(|(bar, offset, width)| Step::Read { bar, offset, width }),
        1 => (any::<u16>(), width(), any::<u64>())
            .prop_map(|(offset, width, value)| Step::Config { offset, width, value }),
        1 => Just(Step::Config { offset: 4, width: Width::B2, value: 0x0406 }),
        3 => (address(), any::<u32>()).prop_map(|(at, word)| Step::Memory { address: at & !3, word }),
        4 => (address(), descriptor(), 1u64..1_100, any::<bool>())
            .prop_map(|(address, words, length, end)| Step::Ring { address, words, length, end }),
        8 => (frame(), prop::option::weighted(0.3, fault()))
            .prop_map(|(bytes, fault)| Step::Frame { bytes, fault }),
        6 => (0u64..5_000).prop_map(|us| Step::Wait { us }),
        8 => Just(Step::Next),
        1 => prop::sample::select(vec![
            Link::Down, Link::Up { mbps: 10 }, Link::Up { mbps: 1_000 }, Link::Up { mbps: 0 },
        ]).prop_map(Step::Plug),
        1 => any::<usize>().prop_map(|limit| Step::Progress { limit }),
        1 => any::<usize>().prop_map(|limit| Step::Free { limit }),
        1 => Just(Step::PowerOn),
        6 => open(),
        6 => Just(Step::GiveBack),
        8 => transmit(),
    ]
}

/// One of them, or a burst, of which a strict card does not do the same if a frame goes to where descriptors are: the
/// other one has read them before.
pub(super) fn step_or_burst(card: &'static dyn TestCard) -> impl Strategy<Value = Step> {
    let burst = (frame(), 0usize..40, 0usize..40);
    prop_oneof![
        15 => step(card),
        2 => burst.prop_map(|(bytes, frames, announced)| Step::Burst { bytes, frames, announced }),
    ]
}

fn open() -> impl Strategy<Value = Step> {
    let size = prop::sample::select(vec![2_048, 16_383, 100, 0]);
    (1u64..300, size).prop_map(|(length, size)| Step::Open { length, size })
}

/// Plain, checksums, tags, large sends with all kinds of segment sizes and offsets.
fn transmit() -> impl Strategy<Value = Step> {
    let opts = prop_oneof![
        3 => Just([0, 0]),
        1 => Just([0, 0x6002_0500 | 34 << 18]),
        3 => (prop::sample::select(vec![34_u32, 54, 14, 0, 127]), 0u32..0x7ff)
            .prop_map(|(offset, mss)| [1 << 26 | offset << 18, mss << 18]),
        1 => any::<[u32; 2]>().prop_map(|[a, b]| [a & 0x07ff_0000, b]),
    ];
    let bytes = prop_oneof![4 => 1u32..3_000, 1 => 0u32..0x1_0000];
    (opts, 1u64..20, bytes)
        .prop_map(|(opts, pieces, bytes)| Step::Transmit(TxRequest { opts, pieces, bytes }))
}
