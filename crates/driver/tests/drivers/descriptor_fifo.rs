//! What only cards with a FIFO of descriptors have: long frames, a FIFO, and a ring of completions.

use proptest::prelude::*;
use warikomi_driver::{DriverError, Hardware, Segments, TxFrame};
use warikomi_nic::{RxFault, RxOutcome};
use warikomi_pci::DmaMemory;
use warikomi_testbench::{GE10, LyingRegister, OC48, RTL8168, Rig, Subject, frame};

const TX_REMAINING: u64 = 0x40;

fn open(buffers: usize, bytes: u32) -> Rig {
    Rig::open(&Subject::of(OC48), buffers, bytes)
}

#[test]
fn the_longest_frame_goes_out_in_pieces_and_one_byte_more_is_refused() {
    let mut rig = open(4, 2_048);
    let whole = frame(65_549, 3);
    rig.memory.write(Rig::TX_BUFFERS, &whole).unwrap();
    let mut pieces: Vec<_> = (0..33).map(|n| (Rig::TX_BUFFERS + 2_000 * n, 2_000)).collect();
    pieces[32].1 = 65_549 - 32 * 2_000;
    let put = |rig: &mut Rig, pieces: &[(u64, u32)]| {
        rig.with(|driver, hw| driver.transmit(hw, TxFrame { pieces, token: 1, segments: None }))
    };
    assert_eq!(put(&mut rig, &pieces), Ok(true));
    assert_eq!(rig.driver.tx_room(), 256 - 33);
    rig.bench.settle();
    assert_eq!(rig.bench.sent(), [whole]);
    pieces[32].1 += 1;
    let refused = put(&mut rig, &pieces).unwrap_err().to_string();
    assert!(refused.contains("33 pieces and 65550 bytes"), "{refused}");
    assert!(put(&mut rig, &[(Rig::TX_BUFFERS, 1); 257]).is_err());
}

/// An empty TCP header behind Ethernet's and IPv4's, and a payload that makes the frame as long as this.
fn tcp(bytes: usize) -> Vec<u8> {
    let mut whole = frame(bytes, 3);
    whole[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
    (whole[14 + 9], whole[34 + 12]) = (6, 5 << 4);
    whole
}

#[test]
fn cards_that_cut_segments_are_asked_to_and_others_refuse() {
    let most = warikomi_driver::MOST_UNCUT_BYTES;
    for (card, can) in [(GE10, true), (RTL8168, true), (OC48, false)] {
        let mut rig = Rig::open(&Subject::of(card), 4, 2_048);
        rig.memory.write(Rig::TX_BUFFERS, &tcp(most)).unwrap();
        let mut put = |bytes: usize, segments: Option<Segments>| {
            let pieces = [(Rig::TX_BUFFERS, bytes as u32)];
            let put = rig.with(|driver, hw| {
                let put = driver.transmit(hw, TxFrame { pieces: &pieces, token: 1, segments });
                driver.kick(hw).and(put)
            });
            rig.bench.settle();
            (put.is_ok(), rig.bench.sent().len())
        };
        let segments = |bytes| Some(Segments { tcp_offset: 34, bytes });
        let count = (most - 54).div_ceil(1_460);
        assert_eq!(put(most, segments(1_460)), (can, if can { count } else { 0 }));
        let before = put(most + 1, segments(1_460));
        assert!(!before.0, "one byte more is refused");
        assert!(!put(most, segments(0)).0, "segments have bytes");
        let whole = put(1_000, None);
        assert!(whole.0, "the next frame goes out as it is");
        assert_eq!(whole.1, before.1 + 1);
    }
}

#[test]
fn a_part_of_a_frame_that_is_transferred_frees_nothing_yet() {
    let mut rig = open(4, 2_048);
    let pieces = [(Rig::TX_BUFFERS, 1_000); 3];
    let put = rig.with(|driver, hw| {
        driver.transmit(hw, TxFrame { pieces: &pieces, token: 7, segments: None })
    });
    assert_eq!(put, Ok(true));
    let mut seen = Vec::new();
    while rig.bench.step() {
        let found = rig.with(|driver, hw| driver.reclaim(hw, &mut |token| assert_eq!(token, 7)));
        seen.push((found.unwrap(), rig.driver.tx_room()));
    }
    seen.dedup();
    assert_eq!(seen, [(0, 254), (0, 255), (1, 256), (0, 256)][..seen.len()]);
    assert!(seen.contains(&(1, 256)));
}

#[test]
fn a_frame_longer_than_its_buffer_is_refused_once_and_its_buffer_comes_back() {
    let mut rig = open(8, 512);
    assert_eq!(rig.bench.receive(&frame(1_514, 1)), RxOutcome::OnRing);
    assert_eq!(rig.bench.receive(&frame(512, 2)), RxOutcome::OnRing);
    assert_eq!(rig.poll(64), Ok(2));
    assert_eq!(rig.frames(), [frame(512, 2)]);
    assert_eq!((rig.driver.rx_errors(), rig.sink.returned, rig.sink.out()), (1, 1, 8));
}

#[test]
fn lengths_that_lie_are_refused_and_counted() {
    let mut rig = open(8, 256);
    for (number, length) in [0, 257, 0xffff].into_iter().enumerate() {
        rig.bench.receive_faulty(&frame(100, 3), RxFault::Length(length));
        assert_eq!(rig.poll(64), Ok(1));
        assert_eq!((rig.frames().len(), rig.driver.rx_errors()), (0, number as u64 + 1));
    }
}

proptest! {
    #[test]
    fn garbage_in_completions_is_survived_and_every_buffer_is_accounted_for(
        buffers in 1usize..30,
        steps in prop::collection::vec((0u64..30, any::<u32>(), 0usize..40, any::<bool>()), 1..60),
    ) {
        let mut rig = open(buffers, 700);
        for (index, entry, budget, hold) in steps {
            rig.memory.store_u32(Rig::RINGS + 4 * index, entry).unwrap();
            if hold { rig.sink.hold = true } else { rig.sink.release() }
            prop_assert!(rig.poll(budget).unwrap() <= budget);
            for (buffer, frame) in rig.sink.frames.drain(..) {
                prop_assert!(frame.bytes <= buffer.bytes());
            }
            let elsewhere = rig.sink.free.len() + rig.sink.held.len();
            prop_assert_eq!(rig.sink.out() + elsewhere, buffers);
        }
        rig.sink.release();
        prop_assert_eq!(rig.quiesce().0, Ok(()));
        prop_assert_eq!((rig.sink.out(), rig.sink.free.len()), (0, buffers));
    }

    /// More descriptors than were pushed are an error; otherwise each name comes back once, in order.
    #[test]
    fn a_fifo_that_lies_gives_every_name_back_once(
        steps in prop::collection::vec((0usize..5, 0u64..12), 1..60),
    ) {
        let mut rig = open(2, 700);
        let (mut names, mut back, mut pushed) = (0, Vec::new(), 0);
        for (pieces, remaining) in steps {
            let places = vec![(Rig::TX_BUFFERS, 20); pieces];
            let frame = TxFrame { pieces: &places, token: names, segments: None };
            let (put, reclaimed) = rig.with(|driver, hw| {
                let device = &mut *hw.mmio;
                let mut lies = LyingRegister { device, offset: TX_REMAINING, value: remaining };
                let mut hw = Hardware { mmio: &mut lies, memory: hw.memory };
                let put = driver.transmit(&mut hw, frame);
                (put, driver.reclaim(&mut hw, &mut |token| back.push(token)))
            });
            if put == Ok(true) {
                names += 1;
                pushed += pieces as u64;
            }
            match reclaimed {
                Ok(_) if pushed == 0 => {}
                Ok(_) => {
                    prop_assert!(remaining <= pushed);
                    pushed = remaining;
                }
                Err(error) => {
                    prop_assert!(matches!(error, DriverError::Invalid(_)) && remaining > pushed);
                }
            }
        }
        let (quiesced, mut rest) = rig.quiesce();
        back.append(&mut rest);
        prop_assert_eq!((quiesced, back), (Ok(()), (0..names).collect::<Vec<_>>()));
    }
}
