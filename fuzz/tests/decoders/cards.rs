//! What a driver writes to a card: registers, and the descriptors of its rings. A target for each card.
//!
//! What must hold after each step is the suite's for random histories: the account adds up, and one call does a
//! bounded number of transfers.

use arbitrary::{Result, Unstructured};
use warikomi_clock::Span;
use warikomi_nic::{Link, RxError, RxFault};
use warikomi_pci::Width;
use warikomi_testbench::cards::step::{BASE, BUFFER, MEMORY, RX_RING, Step, TX_RING, TxRequest};
use warikomi_testbench::history::live_through;
use warikomi_testbench::{
    DUO, E1000E, GE10, IGB, OC48, OC192, RTL8139, RTL8139CP, RTL8168, Subject, TestCard,
};

use crate::harness::{bounded, number, once_in, steps};

/// Steps of one input.
const MOST_STEPS: usize = 80;

fn width(from: &mut Unstructured<'_>) -> Result<Width> {
    from.choose(&[Width::B1, Width::B2, Width::B4, Width::B8]).copied()
}

/// An address: at something known, anywhere in memory, or anywhere.
fn address(from: &mut Unstructured<'_>) -> Result<u64> {
    let known = [BASE, RX_RING, TX_RING, BUFFER, BASE + MEMORY as u64 - 16, 0, u64::MAX - 15];
    Ok(match from.int_in_range(0..=5u8)? {
        0..=2 => *from.choose(&known)?,
        3 => BASE + 256 * from.int_in_range(0..=MEMORY as u64 / 256)?,
        4 => BASE + from.int_in_range(0..=MEMORY as u64)?,
        _ => number(from)?,
    })
}

/// The first word of a descriptor: every mark, lengths mostly small.
fn first_word(from: &mut Unstructured<'_>) -> Result<u32> {
    let marks = *from.choose(&[0x8_u32, 0xb, 0xa, 0x9, 0xf, 0x0, 0xc])?;
    let length = match from.int_in_range(0..=4u8)? {
        0 => 0,
        1 => 0xffff,
        2 => from.arbitrary::<u32>()? & 0x0fff_ffff,
        _ => from.int_in_range(0..=2_000)?,
    };
    Ok(marks << 28 | length)
}

fn frame_bytes(from: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    const BEGINNINGS: [&[u8]; 4] = [
        &[0xff; 6],
        &[2, 0x57, 0x4b, 0, 0, 1, 2, 2, 2, 2, 2, 2, 8, 0, 0x45],
        &[2, 0x57, 0x4b, 0, 0, 1, 2, 2, 2, 2, 2, 2, 0x81, 0, 0, 1, 0x86, 0xdd, 0x60],
        &[],
    ];
    let length =
        if once_in(from, 4)? { number(from)? % 20_000 } else { from.int_in_range(0..=300)? };
    let mut bytes = vec![from.arbitrary()?; length as usize];
    let beginning = *from.choose(&BEGINNINGS)?;
    bytes.iter_mut().zip(beginning).for_each(|(byte, known)| *byte = *known);
    Ok(bytes)
}

fn frame(from: &mut Unstructured<'_>) -> Result<Step> {
    let bytes = frame_bytes(from)?;
    let fault = match from.int_in_range(0..=9u8)? {
        0 => Some(RxFault::Crc),
        1 => Some(RxFault::Alignment),
        2 => Some(RxFault::Reported(*from.choose(&[
            RxError::Crc,
            RxError::Runt,
            RxError::TooLong,
        ])?)),
        3 => Some(RxFault::Length(from.arbitrary()?)),
        4 => Some(RxFault::NeverCompleted),
        5 => Some(RxFault::CompletedLate(Span::from_us(from.int_in_range(0..=5_000)?))),
        _ => None,
    };
    Ok(Step::Frame { bytes, fault })
}

fn step(from: &mut Unstructured<'_>, bars: &[u8]) -> Result<Step> {
    let bar = *from.choose(bars)?;
    let offset = if once_in(from, 10)? { number(from)? } else { from.int_in_range(0..=0x108)? };
    Ok(match from.int_in_range(0..=18u8)? {
        0..=3 => Step::write(bar, offset, width(from)?, number(from)?),
        4 | 5 => Step::write(bar, offset, Width::B8, address(from)?),
        6 => Step::Read { bar, offset, width: width(from)? },
        7 => Step::Config { offset: from.arbitrary()?, width: width(from)?, value: number(from)? },
        8 => Step::Config { offset: 4, width: Width::B2, value: 0x0406 },
        9 => Step::Memory { address: address(from)? & !3, word: from.arbitrary()? },
        10 => {
            let at = address(from)?;
            let words = [first_word(from)?, from.arbitrary()?, at as u32, (at >> 32) as u32];
            let (address, length) = (address(from)?, from.int_in_range(1..=1_100)?);
            Step::Ring { address, words, length, end: from.arbitrary()? }
        }
        11 => frame(from)?,
        12 => Step::Open {
            length: from.int_in_range(1..=300)?,
            size: *from.choose(&[2_048, 16_383, 100, 0])?,
        },
        13 => Step::GiveBack,
        14 => Step::Transmit(TxRequest {
            opts: [from.arbitrary::<u32>()? & 0x07ff_0000, from.arbitrary()?],
            pieces: from.int_in_range(1..=20)?,
            bytes: from.int_in_range(0..=0xffff)?,
        }),
        15 => Step::Wait { us: from.int_in_range(0..=5_000)? },
        16 => from
            .choose(&[Step::PowerOn, Step::Plug(Link::Down), Step::Plug(Link::Up { mbps: 1_000 })])?
            .clone(),
        17 => Step::Burst {
            bytes: frame_bytes(from)?,
            frames: from.int_in_range(0..=40)?,
            announced: from.int_in_range(0..=40)?,
        },
        _ => Step::Next,
    })
}

fn lives_through_anything(card: &'static dyn TestCard, input: &[u8]) {
    let mut from = Unstructured::new(input);
    let subject = match from.int_in_range(0..=2u8) {
        Ok(1) => Subject::slow(card),
        Ok(2) => Subject::of(card).strict(),
        _ => Subject::of(card),
    };
    let bars: Vec<u8> = subject.bench().nic.bars().iter().map(|bar| bar.index).collect();
    let mut all = vec![Step::Open { length: 32, size: 2_048 }];
    steps(&mut from, MOST_STEPS, |from| {
        all.push(step(from, &bars)?);
        Ok(())
    });
    bounded(|| live_through(&subject, &all).expect("the account adds up"));
}

macro_rules! targets {
    ($($name:ident: $card:expr),+ $(,)?) => {
        $(#[test]
        fn $name() {
            bolero::check!()
                .with_max_len(1_024)
                .for_each(|input: &[u8]| lives_through_anything($card, input));
        })+
    };
}

targets! {
    rtl8168: RTL8168,
    rtl8139: RTL8139,
    rtl8139cp: RTL8139CP,
    e1000e: E1000E,
    igb: IGB,
    oc48: OC48,
    oc192: OC192,
    ge10: GE10,
    duo: DUO,
}
