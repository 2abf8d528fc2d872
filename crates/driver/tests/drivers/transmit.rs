use proptest::prelude::*;
use warikomi_driver::{DriverError, TxFrame};
use warikomi_pci::DmaMemory;

use crate::bench::{Bench, CARDS, TX_BUFFERS, frame};

fn put(bench: &mut Bench, pieces: &[&[u8]], token: u32) -> Result<bool, DriverError> {
    let mut at = TX_BUFFERS + u64::from(token % 64) * 0x8000;
    let mut places = Vec::new();
    for piece in pieces {
        bench.memory.write(at, piece).unwrap();
        places.push((at, piece.len() as u32));
        at += piece.len() as u64 + 3;
    }
    bench.with(|driver, hw| driver.transmit(hw, TxFrame { pieces: &places, token }))
}

/// Rings the doorbell, and lets the device do its work.
fn kick(bench: &mut Bench) {
    bench.with(|driver, hw| driver.kick(hw)).unwrap();
    bench.device.settle();
}

fn reclaim(bench: &mut Bench) -> Vec<u32> {
    let mut sent = Vec::new();
    let count = bench.with(|driver, hw| driver.reclaim(hw, &mut |token| sent.push(token))).unwrap();
    assert_eq!(count, sent.len());
    sent
}

#[test]
fn frames_go_out_when_the_bell_is_rung_and_their_names_come_back() {
    for card in CARDS {
        let mut bench = Bench::open(card, 4, 2_048);
        let (one, other) = (frame(60, 0), frame(16_000, 1));
        assert_eq!(put(&mut bench, &[&one], 7), Ok(true));
        assert_eq!(
            put(&mut bench, &[&other[..14], &other[14..4_000], &other[4_000..]], 8),
            Ok(true)
        );
        assert!(bench.device.sent().is_empty() && reclaim(&mut bench).is_empty());
        kick(&mut bench);
        assert_eq!(bench.device.sent(), [one, other]);
        assert_eq!(reclaim(&mut bench), [7, 8]);
        assert!(reclaim(&mut bench).is_empty());
    }
}

#[test]
fn a_full_ring_takes_no_more_until_frames_have_gone() {
    for card in CARDS {
        let mut bench = Bench::open(card, 4, 2_048);
        let bytes = frame(60, 0);
        let descriptors = bench.driver.info().tx_descriptors as u32;
        for round in 0..3 {
            assert_eq!(bench.driver.tx_room(), descriptors as usize);
            for token in 0..descriptors {
                assert_eq!(put(&mut bench, &[&bytes], token), Ok(true), "{round} {token}");
            }
            assert_eq!((put(&mut bench, &[&bytes], 9), bench.driver.tx_room()), (Ok(false), 0));
            kick(&mut bench);
            assert_eq!(put(&mut bench, &[&bytes], 9), Ok(false), "not reclaimed");
            assert_eq!(reclaim(&mut bench), (0..descriptors).collect::<Vec<_>>());
            assert_eq!(bench.device.sent().len(), descriptors as usize);
        }
    }
}

#[test]
fn what_is_no_frame_is_refused() {
    for card in CARDS {
        let mut bench = Bench::open(card, 4, 2_048);
        for pieces in [&[][..], &[&[][..]], &[&[1, 2][..], &[]], &[&[0; 65_550]]] {
            assert!(matches!(put(&mut bench, pieces, 1), Err(DriverError::Invalid(_))));
        }
        kick(&mut bench);
        assert!(bench.device.sent().is_empty() && reclaim(&mut bench).is_empty());
    }
}

#[test]
fn an_armed_device_tells_a_sleeper_that_its_frame_is_gone() {
    for card in CARDS {
        let mut bench = Bench::open(card, 4, 2_048);
        assert_eq!(put(&mut bench, &[&frame(60, 0)], 1), Ok(true));
        bench.with(|driver, hw| driver.arm(hw)).unwrap();
        kick(&mut bench);
        assert_eq!(bench.device.interrupts(), 1);
        assert!(bench.with(|driver, hw| driver.on_interrupt(hw, 0)).unwrap().transmit);
        assert_eq!(reclaim(&mut bench), [1]);
        bench.with(|driver, hw| driver.arm(hw)).unwrap();
        assert_eq!(bench.device.interrupts(), 1);
    }
}

#[test]
fn while_transmissions_interrupt_neither_handler_nor_disarming_masks_them() {
    for card in CARDS {
        let mut bench = Bench::open(card, 4, 2_048);
        let send = |bench: &mut Bench| {
            assert_eq!(put(bench, &[&frame(60, 0)], 1), Ok(true));
            kick(bench);
            bench.device.interrupts()
        };
        assert_eq!(send(&mut bench), 0, "masked after init");
        bench.with(|driver, hw| driver.transmit_interrupts(hw, true)).unwrap();
        assert_eq!(bench.device.interrupts(), 0, "what had gone before does not interrupt");
        assert_eq!((send(&mut bench), send(&mut bench)), (1, 1), "one until it is acknowledged");
        let reads = bench.device.reads;
        assert!(bench.with(|driver, hw| driver.acknowledge(hw, 0)).unwrap().transmit);
        assert_eq!(send(&mut bench), 2);
        bench.with(|driver, hw| driver.on_interrupt(hw, 0)).unwrap();
        assert_eq!(bench.device.reads, reads, "a handler that only writes");
        assert_eq!(send(&mut bench), 3);
        bench.with(|driver, hw| driver.arm(hw)).unwrap();
        bench.with(|driver, hw| driver.disarm(hw)).unwrap();
        assert_eq!(send(&mut bench), 4);
        bench.with(|driver, hw| driver.transmit_interrupts(hw, false)).unwrap();
        bench.with(|driver, hw| driver.acknowledge(hw, 0)).unwrap();
        assert_eq!(send(&mut bench), 4);
        assert_eq!(reclaim(&mut bench).len(), 7);
    }
}

#[test]
fn quiesce_gives_back_what_was_not_sent() {
    for card in CARDS {
        let mut bench = Bench::open(card, 4, 2_048);
        for token in 0..5 {
            put(&mut bench, &[&frame(60, 0)[..20], &frame(60, 0)[20..]], token).unwrap();
        }
        assert_eq!(bench.quiesce(), (Ok(()), (0..5).collect()));
        assert_eq!(bench.sink.out(), 0);
    }
}

proptest! {
    #[test]
    fn any_cutting_of_a_frame_sends_the_same_frame(
        card in prop::sample::select(&CARDS[..]),
        frames in prop::collection::vec((60usize..3_000, prop::collection::vec(1usize..500, 0..6)), 1..60),
    ) {
        let mut bench = Bench::open(card, 2, 2_048);
        for (token, (bytes, cuts)) in frames.into_iter().enumerate() {
            let whole = frame(bytes, token);
            let (mut pieces, mut rest) = (Vec::new(), &whole[..]);
            for cut in cuts {
                if cut < rest.len() {
                    let (piece, behind) = rest.split_at(cut);
                    pieces.push(piece);
                    rest = behind;
                }
            }
            pieces.push(rest);
            prop_assert_eq!(put(&mut bench, &pieces, token as u32), Ok(true));
            kick(&mut bench);
            prop_assert_eq!(bench.device.sent(), [whole]);
            prop_assert_eq!(reclaim(&mut bench), [token as u32]);
        }
    }
}
