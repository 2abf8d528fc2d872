//! Which frames the driver has taken, and which it threw away.

use warikomi_nic::{Burst, Frame, Link, Nic, RxCounters, RxOutcome};
use warikomi_pci::{DmaMemory, Host, Width};
use warikomi_testbench::Bench;

use super::driver::{EOR, Lab, MEMORY, OWN, RX_RING, STATION, frame_to};

fn counts(on_ring: u64, accepted: u64, abandoned: u64) -> RxCounters {
    RxCounters { on_ring, accepted, abandoned }
}

fn inject(lab: &mut Lab, frames: usize) {
    let frame = frame_to(STATION, 100);
    for _ in 0..frames {
        assert_eq!(lab.receive(&frame), RxOutcome::OnRing);
    }
}

#[test]
fn a_frame_counts_as_accepted_when_its_descriptor_comes_back() {
    let mut lab = Lab::open();
    inject(&mut lab, 10);
    assert_eq!(lab.progress(), counts(10, 0, 0));
    assert_eq!(lab.rx().len(), 10);
    let three = lab.host(|nic, host| nic.rx_progress(host, 3));
    assert_eq!(three, counts(10, 3, 0), "no more than the limit");
    assert_eq!(lab.progress(), counts(10, 10, 0));
}

#[test]
fn a_descriptor_that_the_driver_has_cleared_counts_as_taken() {
    let mut lab = Lab::open();
    inject(&mut lab, 3);
    for (index, cleared) in [(0, 0), (1, EOR), (2, 1)] {
        lab.memory.store_u32(RX_RING + 16 * index, cleared).unwrap();
    }
    assert_eq!(lab.progress(), counts(3, 2, 0));
}

#[test]
fn another_lap_tells_without_a_look() {
    let mut lab = Lab::open();
    for _ in 0..3 {
        inject(&mut lab, 256);
        lab.rx();
    }
    let unlooked = lab.host(|nic, host| nic.rx_progress(host, 0));
    assert_eq!(unlooked, counts(768, 512, 0));
    assert_eq!(lab.progress(), counts(768, 768, 0));
}

#[test]
fn a_reset_settles_the_account_even_without_bus_mastering() {
    let mut lab = Lab::open();
    inject(&mut lab, 10);
    lab.rx();
    inject(&mut lab, 5);
    // rtl8169_down takes bus mastering away before it resets the chip.
    lab.config(0x04, Width::B2, 0x0402);
    lab.cleanup();
    assert_eq!(lab.progress(), counts(15, 10, 5));
    assert_eq!(lab.nic.counters().dma_errors, 0, "accounting is not DMA");
    lab.config(0x04, Width::B2, 0x0406);
    lab.init_rings();
    lab.reset_work();
    inject(&mut lab, 1);
    assert_eq!(lab.progress(), counts(16, 10, 5));
}

#[test]
fn receiver_off_and_a_new_ring_settle_it_too() {
    let mut lab = Lab::open();
    inject(&mut lab, 2);
    lab.w8(0x37, 0x04);
    assert_eq!(lab.progress(), counts(2, 0, 2));
    lab.w8(0x37, 0x0c);
    inject(&mut lab, 3);
    lab.w32(0xe4, RX_RING as u32);
    assert_eq!(lab.progress(), counts(5, 0, 5));
}

#[test]
fn power_on_keeps_the_counts() {
    let mut lab = Lab::open();
    inject(&mut lab, 4);
    lab.rx();
    lab.host(|nic, host| nic.power_on(host));
    assert_eq!(lab.progress(), counts(4, 4, 0));
    assert!(!lab.nic.receiving());
}

#[test]
fn free_descriptors_are_counted_from_the_next_one_on() {
    let mut lab = Lab::open();
    let free = |lab: &mut Lab, limit| lab.host(|nic, host| nic.rx_free(host, limit));
    assert_eq!(free(&mut lab, 1_000), 256, "the whole ring and not more");
    assert_eq!(free(&mut lab, 10), 10);
    inject(&mut lab, 200);
    assert_eq!(free(&mut lab, 1_000), 56);
    inject(&mut lab, 56);
    assert_eq!(free(&mut lab, 1_000), 0);
}

#[test]
fn a_look_ahead_changes_nothing_wherever_the_buffer_is_said_to_be() {
    let mut lab = Lab::open();
    for (low, high) in [(0x10_0000, 0), (0x10_0003, 0), (u32::MAX, u32::MAX), (0, 1)] {
        lab.put(RX_RING, &[OWN | 2_000, 0, low, high]);
        let before = lab.nic.counters();
        lab.host(|nic, host| nic.look_ahead(host, 3, 1_500));
        assert_eq!(lab.nic.counters(), before);
    }
    lab.put(RX_RING, &[OWN | 2_000, 0, 0x10_0000, 0]);
    let ahead = |lab: &mut Lab, frames| lab.host(|nic, host| nic.look_ahead(host, frames, 1_500));
    assert_eq!((ahead(&mut lab, 3), ahead(&mut lab, 1_000)), (3, 256));
    inject(&mut lab, 255);
    assert_eq!(ahead(&mut lab, 3), 1);
    inject(&mut lab, 1);
    assert_eq!(ahead(&mut lab, 3), 0);
    assert_eq!(lab.progress(), counts(256, 0, 0));
}

#[test]
fn a_driver_gets_the_frames_of_a_burst_when_it_is_over_unless_the_card_interrupts() {
    for (mask, held) in [(0, [true; 3]), (0xffff, [false, true, true])] {
        let mut lab = Lab::open();
        lab.write(0x3c, Width::B2, mask);
        let owned = |memory: &dyn DmaMemory, index: u64| {
            memory.load_u32(RX_RING + 16 * index).unwrap() & OWN != 0
        };
        let Bench { nic, memory, line, now, .. } = &mut *lab;
        let mut host = Host { now: *now, memory, interrupts: line, looks: None };
        let mut burst = Burst::new(&mut **nic, &mut host, 3, 100);
        for _ in 0..3 {
            let frame = frame_to(STATION, 100);
            assert_eq!(burst.receive(Frame::new(&frame)).outcome, RxOutcome::OnRing);
        }
        assert_eq!([0, 1, 2].map(|index| owned(memory, index)), held, "mask {mask:#x}");
        drop(burst);
        assert_eq!([0, 1, 2].map(|index| owned(memory, index)), [false; 3]);
        assert_eq!(lab.rx().len(), 3);
    }
}

#[test]
fn a_burst_may_be_longer_than_what_is_held_back() {
    let mut lab = Lab::open();
    lab.write(0x3c, Width::B2, 0);
    let frame = frame_to(STATION, 100);
    lab.host(|nic, host| {
        let mut burst = Burst::new(nic, host, 300, 100);
        let mut all = (0..300).map(|_| burst.receive(Frame::new(&frame)).outcome);
        assert!(all.by_ref().take(256).all(|outcome| outcome == RxOutcome::OnRing));
        assert!(all.all(|outcome| outcome == RxOutcome::NoDescriptor));
    });
    assert_eq!(lab.rx().len(), 256);
}

#[test]
fn what_a_burst_has_read_in_vain_counts_no_more_when_it_is_over() {
    let mut lab = Lab::open();
    let frame = frame_to(STATION, 100);
    lab.host(|nic, host| {
        let mut burst = Burst::new(nic, host, 3, 100);
        assert_eq!(burst.found(), 3);
        assert_eq!(burst.receive(Frame::new(&frame)).outcome, RxOutcome::OnRing);
    });
    const OTHER: u64 = 0x10_8000;
    lab.put(RX_RING + 16, &[OWN | 2_000, 0, OTHER as u32, 0]);
    inject(&mut lab, 1);
    assert_eq!(lab.bytes(OTHER, frame.len()), frame);
}

#[test]
fn in_a_burst_no_descriptor_is_filled_twice_wherever_the_driver_puts_the_end_of_its_ring() {
    for ends in [[6, 0], [6, 1], [5, 0], [7, 4], [4, 255]] {
        let frames: Vec<_> = (0..12).map(|number| frame_to(STATION, 100 + number)).collect();
        let [singly, together] = [0, 12].map(|announced| {
            let mut lab = Lab::open();
            inject(&mut lab, 5);
            lab.rx();
            ends.into_iter().for_each(|end| lab.put(RX_RING + 16 * end, &[OWN | EOR | 2_000]));
            let outcomes: Vec<_> = lab.host(|nic, host| match announced {
                0 => frames
                    .iter()
                    .map(|frame| nic.receive(host, Frame::new(frame)).outcome)
                    .collect(),
                _ => {
                    let mut burst = Burst::new(nic, host, announced, 112);
                    frames.iter().map(|frame| burst.receive(Frame::new(frame)).outcome).collect()
                }
            });
            (outcomes, lab.progress(), lab.bytes(0, MEMORY))
        });
        assert_eq!((&singly.0, singly.1), (&together.0, together.1), "{ends:?}");
        assert!(singly.2 == together.2, "{ends:?}");
    }
}

#[test]
fn a_ring_without_an_end_wraps_at_the_bound() {
    let mut lab = Lab::open();
    for i in 0..1_100 {
        lab.put(RX_RING + 16 * i, &[OWN | 2_000, 0, 0x10_0000, 0]);
    }
    assert_eq!(lab.host(|nic, host| nic.rx_free(host, usize::MAX)), 1_024);
    inject(&mut lab, 1_024);
    assert_eq!(lab.receive(&frame_to(STATION, 100)), RxOutcome::NoDescriptor);
    lab.put(RX_RING, &[OWN | 2_000]);
    inject(&mut lab, 1);
    assert_eq!(lab.progress(), counts(1_025, 1, 0));
}

#[test]
fn a_driver_that_moves_the_end_of_its_ring_loses_nothing_of_the_account() {
    let mut lab = Lab::open();
    inject(&mut lab, 200);
    for round in 0..3_000_u32 {
        let at = RX_RING + 16 * u64::from(round % 4);
        let end = if round % 4 == 3 { EOR } else { 0 };
        lab.put(at, &[OWN | end | 2_000]);
        lab.receive(&frame_to(STATION, 100));
    }
    let now = lab.progress();
    assert!(now.on_ring >= now.accepted + now.abandoned, "{now:?}");
}

#[test]
fn the_link_may_go_and_come_without_touching_the_account() {
    let mut lab = Lab::open();
    inject(&mut lab, 3);
    lab.plug(Link::Down);
    lab.rx();
    assert_eq!(lab.progress(), counts(3, 3, 0));
}
