use proptest::prelude::*;
use warikomi_driver::{DRIVERS, DriverError, Link, by_name};
use warikomi_nic::RxOutcome;
use warikomi_pci::{Mmio, Width};

use crate::bench::{Bench, CARDS, MEMORY_BASE, frame};

#[test]
fn every_driver_has_the_name_by_which_it_is_asked_for() {
    for info in DRIVERS {
        assert_eq!(by_name(info.name).unwrap().info().name, info.name);
    }
    assert!(by_name("ne2000").is_none());
}

#[test]
fn every_length_of_frame_arrives_as_it_was_sent() {
    for card in CARDS {
        let mut bench = Bench::open(card, 8, 16_383);
        for bytes in (60..=16_000).step_by(7).chain([61, 64, 1_514, 1_518, 9_000, 16_000, 16_379]) {
            let sent = frame(bytes, bytes);
            assert_eq!(bench.device.inject(&sent), RxOutcome::OnRing, "{bytes}");
            assert_eq!(bench.poll(64), Ok(1));
            assert_eq!(bench.frames(), [sent], "{bytes}");
        }
        assert_eq!(bench.driver.rx_errors(), 0);
    }
}

#[test]
fn more_frames_than_descriptors_come_in_order_and_the_budget_holds() {
    for card in CARDS {
        for buffers in [1, 2, 3, 17, 256, 1_024] {
            let buffers = by_name(card).unwrap().info().rx_descriptors.min(buffers);
            let mut bench = Bench::open(card, buffers, 2_048);
            assert_eq!(bench.sink.out(), buffers);
            for round in 0..5 {
                let sent: Vec<_> = (0..buffers).map(|n| frame(60 + n % 200, round + n)).collect();
                for frame in &sent {
                    assert_eq!(bench.device.inject(frame), RxOutcome::OnRing);
                }
                assert_eq!(bench.device.inject(&sent[0]), RxOutcome::NoDescriptor);
                let mut found = 0;
                while found < buffers {
                    let some = bench.poll(7).unwrap();
                    assert!((1..=7).contains(&some), "{some} of {buffers}");
                    found += some;
                }
                assert_eq!(bench.poll(7), Ok(0));
                assert_eq!(bench.frames(), sent);
                assert_eq!(bench.sink.out(), buffers, "all on the ring again");
            }
        }
    }
}

#[test]
fn with_no_buffer_to_be_had_the_ring_runs_dry_and_fills_again() {
    for card in CARDS {
        let mut bench = Bench::open(card, 4, 2_048);
        bench.sink.hold = true;
        for round in 0..3 {
            for n in 0..4 {
                assert_eq!(bench.device.inject(&frame(100, n)), RxOutcome::OnRing);
                assert_eq!(bench.poll(9), Ok(1));
            }
            assert_eq!((bench.sink.out(), bench.sink.held.len()), (0, 4));
            assert_eq!(bench.device.inject(&frame(100, 0)), RxOutcome::NoDescriptor);
            assert_eq!(bench.poll(9), Ok(0));
            bench.sink.release();
            assert_eq!((bench.poll(9), bench.sink.out()), (Ok(0), 4), "{round}");
            bench.sink.hold = true;
        }
        assert_eq!(bench.frames().len(), 12);
    }
}

#[test]
fn the_devices_verdict_on_checksums_is_passed_on() {
    for card in CARDS {
        let mut bench = Bench::open(card, 8, 2_048);
        let mut udp = frame(60, 0);
        udp[12..14].copy_from_slice(&[8, 0]);
        let header = [0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        udp[14..34].copy_from_slice(&header);
        let sum: u32 = header.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        udp[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        udp[34..42].copy_from_slice(&[0, 1, 0, 2, 0, 26, 0, 0]);
        bench.device.inject(&udp);
        let mut wrong = udp.clone();
        wrong[25] ^= 1;
        bench.device.inject(&wrong);
        bench.device.inject(&frame(60, 0));
        assert_eq!(bench.poll(9), Ok(3));
        let verdicts: Vec<_> = bench.sink.frames.iter().map(|frame| frame.checksums_good).collect();
        assert_eq!(verdicts, [true, false, false]);
    }
}

#[test]
fn an_armed_device_interrupts_once_for_each_acknowledgement() {
    for card in CARDS {
        let mut bench = Bench::open(card, 8, 2_048);
        bench.device.inject(&frame(60, 0));
        assert_eq!(bench.device.interrupts(), 0, "masked after init");
        bench.poll(9).unwrap();
        bench.with(|driver, hw| driver.arm(hw)).unwrap();
        assert_eq!(bench.device.interrupts(), 0);
        for n in 1..=5 {
            bench.device.inject(&frame(60, 0));
            bench.device.inject(&frame(60, 1));
            assert_eq!(bench.device.interrupts(), n);
            let reads = bench.device.reads;
            let causes = bench.with(|driver, hw| driver.acknowledge(hw, 0)).unwrap();
            assert!(causes.receive && !causes.transmit);
            assert_eq!(bench.device.reads, reads, "a handler that only writes");
            assert_eq!(bench.poll(9), Ok(2));
        }
        bench.with(|driver, hw| driver.on_interrupt(hw, 0)).unwrap();
        bench.device.inject(&frame(60, 0));
        assert_eq!(bench.device.interrupts(), 5, "masked by the handler");
        bench.with(|driver, hw| driver.arm(hw)).unwrap();
        assert_eq!(bench.device.interrupts(), 5, "what was there before is on the ring");
        assert_eq!(bench.poll(9), Ok(1));
        bench.device.inject(&frame(60, 0));
        assert_eq!(bench.device.interrupts(), 6);
        bench.with(|driver, hw| driver.disarm(hw)).unwrap();
        bench.device.inject(&frame(60, 0));
        assert_eq!(bench.device.interrupts(), 6);
    }
}

#[test]
fn a_cable_that_is_pulled_is_told_and_frames_still_interrupt_afterwards() {
    for card in CARDS {
        let mut bench = Bench::open(card, 8, 2_048);
        let up = bench.with(|driver, hw| driver.link(hw)).unwrap();
        assert!(matches!(up, Link::Up { mbps: 1_000 | 2_400 }));
        bench.with(|driver, hw| driver.arm(hw)).unwrap();
        bench.device.plug(warikomi_nic::Link::Down);
        assert_eq!(bench.device.interrupts(), 1);
        bench.with(|driver, hw| driver.acknowledge(hw, 0)).unwrap();
        bench.with(|driver, hw| driver.arm(hw)).unwrap();
        assert!(bench.with(|driver, hw| driver.on_interrupt(hw, 0)).unwrap().link);
        assert_eq!(bench.with(|driver, hw| driver.link(hw)), Ok(Link::Down));
        bench.device.plug(warikomi_nic::Link::Up { mbps: 1_000 });
        assert_eq!(bench.with(|driver, hw| driver.link(hw)), Ok(up));
        bench.with(|driver, hw| driver.arm(hw)).unwrap();
        let before = bench.device.interrupts();
        bench.device.inject(&frame(60, 0));
        assert_eq!(bench.device.interrupts(), before + 1);
    }
}

#[test]
fn another_device_is_refused() {
    for card in CARDS {
        struct Another;
        impl Mmio for Another {
            fn read(&mut self, _: u64, width: Width) -> Result<u64, warikomi_pci::MmioError> {
                Ok(width.mask())
            }
            fn write(&mut self, _: u64, _: Width, _: u64) -> Result<(), warikomi_pci::MmioError> {
                panic!("not ours")
            }
            fn config_read(&mut self, _: u16, _: Width) -> Result<u64, warikomi_pci::MmioError> {
                Ok(0x8139_10ec)
            }
            fn config_write(
                &mut self,
                _: u16,
                _: Width,
                _: u64,
            ) -> Result<(), warikomi_pci::MmioError> {
                panic!("not ours")
            }
        }
        let mut bench = Bench::new(card, 4, 2_048);
        let mut hw = warikomi_driver::Hardware { mmio: &mut Another, memory: &bench.memory };
        let refused = bench.driver.init(&mut hw, MEMORY_BASE, 4, &mut bench.sink).unwrap_err();
        let expected = DriverError::WrongDevice { driver: card, vendor: 0x10ec, device: 0x8139 };
        assert_eq!(refused, expected);
        assert_eq!(refused.to_string(), format!("{card} does not drive the device 10ec:8139"));
        assert_eq!(bench.sink.out(), 0);
    }
}

#[test]
fn a_transfer_to_nowhere_is_a_system_error_and_everything_comes_back() {
    for card in CARDS {
        let mut bench = Bench::new(card, 4, 2_048);
        for buffer in &mut bench.sink.free {
            buffer.address += 1 << 40;
        }
        bench.init(4).unwrap();
        bench.with(|driver, hw| driver.arm(hw)).unwrap();
        assert_eq!(bench.device.inject(&frame(60, 0)), RxOutcome::DmaError);
        assert_eq!(bench.device.interrupts(), 1);
        let error = bench.with(|driver, hw| driver.arm(hw)).unwrap_err();
        assert!(matches!(error, DriverError::Device { .. }));
        assert!(bench.with(|driver, hw| driver.link(hw)).is_err());
        assert_eq!(bench.quiesce().0, Ok(()));
        assert_eq!((bench.sink.out(), bench.sink.returned), (0, 4));
    }
}

#[test]
fn after_quiesce_the_device_is_quiet_and_can_be_opened_again() {
    for card in CARDS {
        let mut bench = Bench::open(card, 16, 2_048);
        bench.device.inject(&frame(60, 0));
        assert_eq!(bench.quiesce().0, Ok(()));
        assert_eq!((bench.sink.out(), bench.sink.returned), (0, 16));
        assert_eq!(bench.device.inject(&frame(60, 0)), RxOutcome::NotReceiving);
        bench.init(3).unwrap();
        assert_eq!(bench.sink.out(), 3);
        bench.device.inject(&frame(60, 7));
        assert_eq!(bench.poll(9), Ok(1));
        assert_eq!(bench.frames(), [frame(60, 7)]);
    }
}

proptest! {
    #[test]
    fn any_mixture_of_frames_polls_and_buffers_comes_out_in_order(
        card in prop::sample::select(&CARDS[..]),
        buffers in 1usize..40,
        steps in prop::collection::vec((60usize..3_000, 0usize..6, 0usize..9), 1..80),
    ) {
        let mut bench = Bench::open(card, buffers, 1_024);
        // One of the two also writes the check sequence.
        let longest = if card == "rtl8168" { 1_020 } else { 1_024 };
        let (mut expected, mut got, mut refused) = (Vec::new(), Vec::new(), 0);
        for (n, (bytes, copies, budget)) in steps.into_iter().enumerate() {
            for copy in 0..copies {
                let frame = frame(bytes, n * 7 + copy);
                if bench.device.inject(&frame) == RxOutcome::OnRing {
                    if bytes <= longest { expected.push(frame) } else { refused += 1 }
                }
            }
            prop_assert!(bench.poll(budget).unwrap() <= budget);
            got.append(&mut bench.frames());
        }
        while bench.poll(64).unwrap() > 0 {}
        got.append(&mut bench.frames());
        prop_assert_eq!(got, expected);
        prop_assert_eq!(bench.driver.rx_errors(), refused);
        prop_assert_eq!(bench.sink.out(), buffers);
    }
}
