//! Drivers attached through windows to a support side in another thread.

mod live;
mod support;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Release;
use std::thread::{self, JoinHandle};

use proptest::prelude::{any, prop, prop_assert, proptest};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use warikomi_driver::device::{AttachError, Device};
use warikomi_driver::run::{RunError, own_pool, serve};
use warikomi_driver::strategy::Strategy;
use warikomi_nic::Frame;
use warikomi_pci::attach::area;
use warikomi_pci::attach::layout::{self, bells, header, report, state};
use warikomi_shared::Words;

use self::support::{DMA_BYTES, Support, dma, hand_over, region};

type Outcome = (Result<(), RunError>, usize);

/// A driver alone, in a thread; with what it did, how many of its buffers came back.
fn driver(socket: OwnedFd) -> JoinHandle<Outcome> {
    driver_of_version(socket, area::VERSION)
}

fn driver_of_version(socket: OwnedFd, version: u64) -> JoinHandle<Outcome> {
    thread::spawn(move || {
        let mut device = Device::attach(socket).unwrap();
        device.set_state_version(version);
        let mut driver = warikomi_driver::by_name("rtl8168").unwrap();
        let mut pool = own_pool(&device, driver.as_ref()).unwrap();
        let served = serve(&mut device, driver.as_mut(), &mut pool);
        (served, pool.free())
    })
}

fn ready(support: &mut Support) {
    support.serve_until("the driver to be ready", |support| {
        support.report(report::STATE) == state::READY
    });
}

#[test]
fn with_every_strategy_every_packet_is_taken_and_every_interrupt_handled() {
    for strategy in Strategy::ALL {
        let (mut support, socket) = Support::new(strategy);
        let driver = driver(socket);
        ready(&mut support);
        support.inject(3_000);
        support.stop();
        support.serve_until("the driver to stop", |support| {
            support.report(report::STATE) == state::STOPPED
        });
        let (served, free) = driver.join().unwrap();
        served.unwrap();
        assert_eq!(free, 64, "{strategy}: every buffer came back");
        assert_eq!(support.report(report::RX_PACKETS), 3_000, "{strategy}");
        assert_eq!(support.report(report::RX_BYTES), 300_000, "{strategy}");
        assert_eq!(support.report(report::LINK_MBPS), 1_000, "{strategy}");
        let (stamped, sent) = (support.report(bells::STAMPED), support.served().line.sent);
        assert!(stamped <= sent && sent - stamped <= 1, "{strategy}: {stamped} of {sent}");
        match strategy {
            Strategy::Poll => assert_eq!(sent, 0, "{strategy}"),
            Strategy::Awake => assert!(stamped > 0, "{strategy}"),
            _ => {}
        }
        let (sleeps, polls) = (support.report(report::SLEEPS), support.report(report::POLLS));
        let never_sleeps = matches!(strategy, Strategy::Poll | Strategy::Awake);
        assert_eq!(sleeps == 0, never_sleeps, "{strategy}: {sleeps} sleeps");
        assert!(polls >= support.report(report::EMPTY_POLLS) && polls > 40, "{strategy}");
    }
}

#[test]
fn orders_are_followed_while_the_driver_runs() {
    let (mut support, socket) = Support::new(Strategy::Poll);
    let driver = driver(socket);
    ready(&mut support);
    for strategy in Strategy::ALL.into_iter().chain([Strategy::Poll]).cycle().take(12) {
        support.order(strategy);
        support.served().line.bell.ring();
        let poll_ns = match strategy {
            Strategy::Poll | Strategy::Awake => u64::MAX,
            Strategy::Hybrid { poll_time } => poll_time.as_ps() / 1_000,
            Strategy::Interrupt => 1_000,
            Strategy::Napi { .. } => 0,
            Strategy::Auto { .. } => support.report(report::POLL_NS),
        };
        support
            .serve_until("the new strategy", |support| support.report(report::POLL_NS) == poll_ns);
        support.inject(100);
    }
    support.stop();
    support.serve_until("the driver to stop", |support| {
        support.report(report::STATE) == state::STOPPED
    });
    driver.join().unwrap().0.unwrap();
    assert_eq!(support.report(report::RX_PACKETS), 1_200);
}

#[test]
fn a_support_side_that_goes_away_ends_a_driver_that_sleeps_and_one_that_polls() {
    for strategy in Strategy::ALL {
        let (mut support, socket) = Support::new(strategy);
        let driver = driver(socket);
        ready(&mut support);
        support.inject(100);
        support.served().socket = None;
        let error = driver.join().unwrap().0.unwrap_err();
        let gone = matches!(error, RunError::SupportGone(_) | RunError::Driver(_));
        assert!(gone, "{strategy}: {error}");
        assert_eq!(support.report(report::STATE), state::FAILED);
    }
}

#[test]
fn a_device_that_fails_is_the_drivers_last_word() {
    let (mut support, socket) = Support::new(Strategy::Interrupt);
    let driver = driver(socket);
    ready(&mut support);
    // The ring's buffers are elsewhere now.
    for index in 0..64 {
        let at = layout::DMA_BUS_ADDRESS + 16 * index + 12;
        warikomi_pci::DmaMemory::store_u32(&support.memory, at, 0xffff).unwrap();
    }
    support.with(|nic, host| nic.receive(host, Frame::new(&[0xff; 60])));
    support.serve_until("the driver to fail", |support| {
        support.report(report::STATE) == state::FAILED
    });
    let (served, free) = driver.join().unwrap();
    let text = served.unwrap_err().to_string();
    assert!(text.contains("system error (status 0x80"), "{text}");
    assert_eq!(free, 64);
    let len = support.report(report::LAST_WORDS_LEN) as usize;
    let bytes: Vec<u8> =
        (0..32).flat_map(|at| support.report(report::LAST_WORDS + at).to_le_bytes()).collect();
    assert_eq!(std::str::from_utf8(&bytes[..len]), Ok(&text[..]));
}

#[test]
fn a_support_side_that_never_answers_is_an_error() {
    let (support, socket) = Support::new(Strategy::Poll);
    let driver = driver(socket);
    let error = driver.join().unwrap().0.unwrap_err();
    assert!(error.to_string().starts_with("the device does not answer: a read of 0x0"), "{error}");
    assert_eq!(support.report(report::STATE), state::FAILED);
}

#[test]
fn what_is_no_region_is_refused() {
    let attach = |file: &File, message: &[u8]| {
        let (_near, far, _wakeup) = hand_over(&[file, &dma()], message);
        Device::attach(far).unwrap_err().to_string()
    };
    let (file, words) = region();
    assert!(attach(&file, b"good morning").contains("good morning"));
    let cases = [
        (header::MAGIC, 1, "does not begin as one"),
        (header::VERSION, 9, "version 9"),
        (header::WINDOW_BYTES, 5, "a window of 5"),
        (header::DMA_BYTES, 0, "0 bytes of DMA"),
        (header::DMA_BYTES, u64::MAX, "at bus address"),
        (header::DMA_BUS_ADDRESS, u64::MAX - 4_095, "at bus address"),
        (header::DMA_BUS_ADDRESS, 17, "at bus address"),
        (header::PACKET_BYTES, 4_096, "without packet memory"),
        (header::STATE_BYTES, area::BYTES, "without the state area"),
        (header::STATE_BYTES, area::BYTES + 4, "bytes of state"),
        (header::STATE_BYTES, 4_096, "4096 bytes of state"),
        (header::WAY, layout::way::DATA_STORE, "without a socket to the data store"),
        (header::WAY, 3, "by way 3"),
        (header::REGISTER_BAR, 6, "BAR 6"),
        (header::TSC_HZ, 0, "0 Hz"),
    ];
    for (word, value, expected) in cases {
        let good = words.swap(word, value, Release);
        let error = attach(&file, layout::HELLO);
        assert!(error.contains(expected), "{word}: {error}");
        words.store(word, good, Release);
    }
    let loose = tempfile::tempfile().unwrap();
    loose.set_len(layout::WINDOW_BYTES).unwrap();
    assert!(attach(&loose, layout::HELLO).contains("not sealed"));
    let (near, far, _wakeup) = hand_over(&[&file, &dma()], layout::HELLO);
    drop((Device::attach(far).unwrap(), near));
    let kind = SocketType::SEQPACKET;
    let (near, far) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    drop(near);
    assert!(matches!(Device::attach(far), Err(AttachError::NoRegion(_))));
}

proptest! {
    /// Whatever a header says: it is refused, or what it says is true.
    #[test]
    fn any_header_is_checked(writes in prop::collection::vec((0usize..12, any::<u64>(), 0u32..64), 0..4)) {
        let (file, words) = region();
        for (at, value, shift) in writes {
            words.store(at, value >> shift, Release);
        }
        let (_near, far, _wakeup) = hand_over(&[&file, &dma()], layout::HELLO);
        if let Ok(device) = Device::attach(far) {
            let (address, bytes) = device.dma();
            prop_assert!(bytes > 0 && bytes <= DMA_BYTES && address.checked_add(bytes).is_some());
            prop_assert!(device.memory().len() == bytes);
        }
    }
}
