use proptest::prelude::*;
use warikomi_clock::Span;
use warikomi_driver::DriverError;
use warikomi_driver::transmit::{Bounce, Completion, Thresholds};

use crate::rig::{Costs, DeadLocked, Rig};

const BOUNCES: [Bounce; 6] =
    [Bounce::None, Bounce::First(1), Bounce::First(3), Bounce::All, Bounce::Auto, Bounce::Dummy];

fn completions() -> impl Strategy<Value = Completion> {
    prop_oneof![
        Just(Completion::Interrupt),
        Just(Completion::InterruptFree),
        (1u8..99, 1u8..50).prop_map(|(low, more)| {
            let high = low.saturating_add(more).min(100);
            Completion::Adaptive(Thresholds::new(low, high).unwrap())
        }),
        (1u8..99)
            .prop_map(|low| { Completion::AdaptivePublished(Thresholds::new(low, 100).unwrap()) }),
        (1u8..99)
            .prop_map(|low| { Completion::AdaptiveWatching(Thresholds::new(low, 100).unwrap()) }),
    ]
}

/// A packet as mbufs make it: a header, and clusters.
pub(crate) fn clusters(bytes: u32) -> Vec<u32> {
    let mut pieces = vec![42];
    pieces.extend(std::iter::repeat_n(2_048, (bytes / 2_048) as usize));
    pieces.extend((!bytes.is_multiple_of(2_048)).then_some(bytes % 2_048));
    pieces
}

fn sent(bounce: Bounce, pieces: &[u32]) -> Rig {
    let mut rig = Rig::new(Completion::Interrupt, bounce, Costs::PCI, 1 << 20);
    rig.device.keep = true;
    rig.send(pieces).unwrap();
    rig.drain();
    rig
}

#[test]
fn each_bounce_buffer_hands_over_its_number_of_pieces() {
    let pieces = clusters(10_000);
    for (bounce, transfers, bytes) in [
        (Bounce::None, 6, 0),
        (Bounce::First(1), 5, 42 + 2_048),
        (Bounce::First(3), 3, 42 + 3 * 2_048),
        (Bounce::First(64), 1, 10_042),
        (Bounce::All, 1, 10_042),
        (Bounce::Dummy, 2, 58),
    ] {
        let rig = sent(bounce, &pieces);
        let counts = rig.transmitter.counts();
        assert_eq!((counts.packets, counts.transfers, counts.bounced_bytes), (1, transfers, bytes));
        assert_eq!(counts.bounced_packets, u64::from(bytes > 0), "{bounce}");
        let (expected, judged) =
            (Rig::contents(0, 10_042), if bounce == Bounce::Dummy { 58 } else { 10_042 });
        assert_eq!(rig.device.wire[0].len(), 10_042);
        assert_eq!(rig.device.wire[0][..judged], expected[..judged], "{bounce}");
    }
}

#[test]
fn one_piece_is_contiguous_as_it_is() {
    for bounce in [Bounce::First(3), Bounce::All, Bounce::Auto] {
        assert_eq!(sent(bounce, &[9_000]).transmitter.counts().bounced_bytes, 0);
    }
    for (bytes, transfers) in [(40, 1), (58, 1), (59, 2)] {
        assert_eq!(sent(Bounce::Dummy, &[bytes]).transmitter.counts().transfers, transfers);
    }
}

#[test]
fn free_of_interrupts_a_send_buffer_smaller_than_the_device_dead_locks() {
    let run = |completion| {
        let mut rig = Rig::new(completion, Bounce::None, Costs::PCI, 4_000);
        let done = (0..1_000).try_for_each(|_| rig.send(&[500]));
        (done, rig.back.len())
    };
    assert_eq!(run(Completion::InterruptFree).0, Err(DeadLocked));
    for completion in [Completion::Interrupt, Completion::Adaptive(Thresholds::default())] {
        let (done, back) = run(completion);
        assert_eq!(done, Ok(()));
        assert!(back > 900);
    }
}

#[test]
fn free_of_interrupts_a_full_device_is_asked_until_it_has_room() {
    let mut rig = Rig::new(Completion::InterruptFree, Bounce::None, Costs::PCI, 1 << 30);
    for _ in 0..1_000 {
        rig.send(&[9_000]).unwrap();
    }
    assert_eq!((rig.device.interrupts, rig.sleeps), (0, 0));
    assert!(rig.back.len() > 900 && rig.transmitter.counts().asked >= 1_000);
}

#[test]
fn by_interrupt_nobody_asks_before_a_packet_is_handed_over() {
    let mut rig = Rig::new(Completion::Interrupt, Bounce::None, Costs::PCI, 1 << 30);
    rig.device.stalled = true;
    for _ in 0..10 {
        rig.send(&[100]).unwrap();
    }
    assert_eq!(rig.transmitter.counts().asked, 0);
    assert_eq!((rig.transmitter.in_flight(), rig.back.len()), (10, 0));
    rig.device.stalled = false;
    rig.world.pass(Span::from_ms(1));
    assert!(rig.take_interrupt().unwrap());
    assert_eq!(rig.back.len(), 10);
}

#[test]
fn too_little_memory_and_too_long_packets_are_refused() {
    let rig = std::panic::catch_unwind(|| sent(Bounce::All, &[40_000, 40_000]));
    let said = rig.err().unwrap();
    let said = said.downcast_ref::<String>().unwrap();
    assert!(said.contains("does not fit into a bounce buffer of 69632"), "{said}");
    let refused = Rig::with_areas(Completion::Interrupt, Bounce::All, Costs::PCI, 1 << 20, 4_096);
    assert!(matches!(refused, Err(DriverError::Invalid(text)) if text.contains("there are 4096")));
}

proptest! {
    /// Whatever is sent by whatever way comes out whole, once, in order, and everything comes back; memory
    /// that the device still had to read was never used for another packet.
    #[test]
    fn packets_come_out_whole_and_in_order_and_every_one_comes_back(
        completion in completions(),
        bounce in prop::sample::select(&BOUNCES[..5]),
        packets in prop::collection::vec((16u32..12_000, 0u64..9_000, any::<bool>()), 1..300),
    ) {
        let mut rig = Rig::new(completion, bounce, Costs::PCI, 60_000);
        rig.device.keep = true;
        let mut lengths = Vec::new();
        for (bytes, pause_ns, long) in packets {
            let pieces = clusters(if long { bytes } else { bytes % 300 + 16 });
            match rig.send(&pieces) {
                Ok(()) => lengths.push(pieces.iter().sum::<u32>() as usize),
                Err(DeadLocked) => {
                    prop_assert_eq!(completion, Completion::InterruptFree);
                    break;
                }
            }
            rig.world.pass(Span::from_ns(pause_ns));
        }
        rig.drain();
        prop_assert_eq!(&rig.back, &(0..lengths.len() as u32).collect::<Vec<_>>());
        for (token, (seen, bytes)) in rig.device.wire.iter().zip(&lengths).enumerate() {
            prop_assert_eq!(seen, &Rig::contents(token as u32, *bytes));
        }
        prop_assert_eq!(rig.device.wire.len(), lengths.len());
        prop_assert_eq!(rig.transmitter.in_flight(), 0);
    }
}
