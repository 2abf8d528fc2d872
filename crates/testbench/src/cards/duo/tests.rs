use warikomi_clock::Span;
use warikomi_driver::Hardware;
use warikomi_nic::RxOutcome;
use warikomi_pci::{Interrupt, Vector, Width};

use super::{datagram, regs};
use crate::bench::Bench;
use crate::cards::{DUO, Subject};
use crate::drivers::Rig;

/// A port whose datagrams go to this queue.
fn port_of(bench: &mut Bench, queue: u16) -> u16 {
    super::port_of(queue, |frame| bench.host(|nic, host| nic.receive(host, frame).queue))
}

fn vectors(bench: &mut Bench) -> Vec<u32> {
    let data = |interrupt| match interrupt {
        Interrupt::Msi(message) => message.data,
        Interrupt::Intx(_) => panic!("messages are on"),
    };
    bench.line.take().into_iter().map(data).collect()
}

#[test]
fn each_queue_has_its_flows_its_vector_and_its_account() {
    let mut rig = Rig::open(&Subject::of(DUO), 64, 2_048);
    let ports = [0, 1].map(|queue| port_of(&mut rig.bench, queue));
    while rig.poll(64).unwrap() > 0 {}
    rig.frames();
    rig.with(|driver, hw| driver.arm(hw)).unwrap();
    let before = [0, 1].map(|queue| {
        rig.bench.host(|nic, host| nic.rx_queue_progress(host, queue, usize::MAX)).accepted
    });
    vectors(&mut rig.bench);
    rig.bench.nic.probe().restart(10);
    for queue in [1, 0, 1] {
        assert_eq!(rig.bench.receive(&datagram(ports[queue])), RxOutcome::OnRing);
    }
    assert_eq!(vectors(&mut rig.bench), [1, 0], "one that is asserted is not sent again");
    rig.with(|driver, hw| driver.acknowledge(hw, 1)).unwrap();
    rig.bench.receive(&datagram(ports[1]));
    assert_eq!(vectors(&mut rig.bench), [1]);
    let records: Vec<_> =
        rig.bench.nic.probe().records().iter().map(|record| record.vector).collect();
    assert_eq!(records, [1, 0, 1].map(Vector));
    let raised: Vec<_> = rig.bench.nic.probe().by_vector().map(|(raised, _)| raised).collect();
    assert_eq!(raised, [1, 2]);
    while rig.poll(64).unwrap() > 0 {}
    let taken = [0, 1].map(|queue| {
        rig.bench.host(|nic, host| nic.rx_queue_progress(host, queue, usize::MAX)).accepted
    });
    assert_eq!(taken, [before[0] + 1, before[1] + 3]);
}

#[test]
fn frames_of_a_queue_come_in_order_and_a_full_queue_leaves_the_other_alone() {
    let mut rig = Rig::open(&Subject::of(DUO), 8, 2_048);
    let ports = [0, 1].map(|queue| port_of(&mut rig.bench, queue));
    while rig.poll(64).unwrap() > 0 {}
    rig.frames();
    let numbered = |port, number: u8| {
        let mut frame = datagram(port);
        frame[50] = number;
        frame
    };
    for number in 0..4 {
        assert_eq!(rig.bench.receive(&numbered(ports[1], number)), RxOutcome::OnRing);
    }
    assert_eq!(rig.bench.receive(&numbered(ports[1], 4)), RxOutcome::NoDescriptor);
    assert_eq!(rig.bench.receive(&numbered(ports[0], 5)), RxOutcome::OnRing);
    assert_eq!(rig.poll(64), Ok(5));
    let got: Vec<_> = rig.frames().into_iter().map(|frame| frame[50]).collect();
    let second: Vec<_> = got.iter().copied().filter(|&number| number != 5).collect();
    assert_eq!((second, got.contains(&5)), (vec![0, 1, 2, 3], true));
}

#[test]
fn an_interrupt_that_is_held_back_comes_in_its_time() {
    let mut rig = Rig::open(&Subject::of(DUO), 8, 2_048);
    rig.with(|driver, hw: &mut Hardware<'_>| {
        hw.mmio.write(regs::hold_ns(0), warikomi_pci::Width::B4, 5_000).unwrap();
        driver.arm(hw)
    })
    .unwrap();
    vectors(&mut rig.bench);
    rig.bench.receive(&[0xff; 60]);
    rig.bench.receive(&[0xff; 60]);
    rig.bench.wait(Span::from_ns(4_999));
    assert!(vectors(&mut rig.bench).is_empty());
    rig.bench.wait(Span::from_ns(1));
    assert_eq!(vectors(&mut rig.bench), [0]);
}

#[test]
fn both_transmit_queues_are_emptied_by_doorbells_in_the_other_bar() {
    let mut bench = Subject::of(DUO).bench().enabled();
    for queue in 0..regs::QUEUES {
        let ring = 0x1000 * (u64::from(queue) + 1);
        let word = regs::OWN | regs::FIRST | regs::LAST | (60 + u32::from(queue));
        bench.put(ring, &[word, 0, 0x8000, 0]);
        bench.bar_write(0, regs::tx_ring(queue), warikomi_pci::Width::B8, ring);
    }
    bench.write(regs::CONTROL, warikomi_pci::Width::B4, regs::TX_ENABLE.into());
    for queue in [1, 0] {
        let doorbell = regs::doorbell(queue);
        bench.bar_write(regs::DOORBELL_BAR, doorbell, warikomi_pci::Width::B4, 1);
        let lengths: Vec<_> = bench.sent().iter().map(Vec::len).collect();
        assert_eq!(lengths, [60 + usize::from(queue)]);
        assert_eq!(bench.word(0x1000 * (u64::from(queue) + 1)), 0, "given back");
    }
    assert_eq!(bench.nic.counters().doorbells, 2);
}

#[test]
fn the_status_register_says_that_intx_is_wanted() {
    const DISABLE: u64 = 0x400;
    let wanted = |bench: &mut Bench| bench.config_read(6, Width::B2) & 8 != 0;
    let mut bench = Subject::of(DUO).bench();
    bench.config(4, Width::B2, 2);
    bench.write(regs::mask(0), Width::B4, regs::LINK_CHANGED.into());
    assert!(!wanted(&mut bench));
    bench.plug(warikomi_nic::Link::Down);
    assert!(wanted(&mut bench));
    bench.config(4, Width::B2, 2 | DISABLE);
    assert!(wanted(&mut bench), "a driver that has disabled it can still ask");
    bench.write(regs::status(0), Width::B4, regs::LINK_CHANGED.into());
    assert!(!wanted(&mut bench));
}
