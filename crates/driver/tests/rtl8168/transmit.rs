use proptest::prelude::*;
use warikomi_driver::{DriverError, NicDriver, TxFrame};
use warikomi_pci::DmaMemory;

use crate::bench::{Bench, TX_BUFFERS, frame};

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

fn reclaim(bench: &mut Bench) -> Vec<u32> {
    let mut sent = Vec::new();
    let count = bench.with(|driver, hw| driver.reclaim(hw, &mut |token| sent.push(token))).unwrap();
    assert_eq!(count, sent.len());
    sent
}

#[test]
fn frames_go_out_when_the_bell_is_rung_and_their_names_come_back() {
    let mut bench = Bench::open(4, 2_048);
    let (one, other) = (frame(60, 0), frame(16_000, 1));
    assert_eq!(put(&mut bench, &[&one], 7), Ok(true));
    assert_eq!(put(&mut bench, &[&other[..14], &other[14..4_000], &other[4_000..]], 8), Ok(true));
    assert!(bench.device.sent().is_empty() && reclaim(&mut bench).is_empty());
    bench.with(|driver, hw| driver.kick(hw)).unwrap();
    assert_eq!(bench.device.sent(), [one, other]);
    assert_eq!(reclaim(&mut bench), [7, 8]);
    assert!(reclaim(&mut bench).is_empty());
}

#[test]
fn a_full_ring_takes_no_more_until_frames_have_gone() {
    let mut bench = Bench::open(4, 2_048);
    let bytes = frame(60, 0);
    for round in 0..3 {
        for token in 0..1_024 {
            assert_eq!(put(&mut bench, &[&bytes], token), Ok(true), "{round} {token}");
        }
        assert_eq!(put(&mut bench, &[&bytes], 9), Ok(false));
        bench.with(|driver, hw| driver.kick(hw)).unwrap();
        assert_eq!(put(&mut bench, &[&bytes], 9), Ok(false), "not reclaimed");
        assert_eq!(reclaim(&mut bench), (0..1_024).collect::<Vec<_>>());
        assert_eq!(bench.device.sent().len(), 1_024);
    }
}

#[test]
fn what_is_no_frame_is_refused() {
    let mut bench = Bench::open(4, 2_048);
    for pieces in [&[][..], &[&[][..]], &[&[1, 2][..], &[]], &[&[0; 16_257]]] {
        assert!(matches!(put(&mut bench, pieces, 1), Err(DriverError::Invalid(_))));
    }
    bench.with(|driver, hw| driver.kick(hw)).unwrap();
    assert!(bench.device.sent().is_empty() && reclaim(&mut bench).is_empty());
}

#[test]
fn an_armed_device_tells_a_sleeper_that_its_frame_is_gone() {
    let mut bench = Bench::open(4, 2_048);
    assert_eq!(put(&mut bench, &[&frame(60, 0)], 1), Ok(true));
    bench.with(|driver, hw| driver.arm(hw)).unwrap();
    bench.with(|driver, hw| driver.kick(hw)).unwrap();
    assert_eq!(bench.device.interrupts(), 1);
    assert!(bench.with(|driver, hw| driver.on_interrupt(hw)).unwrap().transmit);
    assert_eq!(reclaim(&mut bench), [1]);
    bench.with(|driver, hw| driver.arm(hw)).unwrap();
    assert_eq!(bench.device.interrupts(), 1);
}

#[test]
fn quiesce_gives_back_what_was_not_sent() {
    let mut bench = Bench::open(4, 2_048);
    for token in 0..5 {
        put(&mut bench, &[&frame(60, 0)[..20], &frame(60, 0)[20..]], token).unwrap();
    }
    assert_eq!(bench.quiesce(), (Ok(()), (0..5).collect()));
    assert_eq!(bench.sink.out(), 0);
}

proptest! {
    #[test]
    fn any_cutting_of_a_frame_sends_the_same_frame(
        frames in prop::collection::vec((60usize..3_000, prop::collection::vec(1usize..500, 0..6)), 1..60),
    ) {
        let mut bench = Bench::open(2, 2_048);
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
            bench.with(|driver, hw| driver.kick(hw)).unwrap();
            prop_assert_eq!(bench.device.sent(), [whole]);
            prop_assert_eq!(reclaim(&mut bench), [token as u32]);
        }
    }
}
