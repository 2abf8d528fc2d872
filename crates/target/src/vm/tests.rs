//! Drivers of ours, each with its own card, over a connection: what they receive, send and are interrupted for.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use warikomi_driver::{Buffer, Hardware, NicDriver, Received, TxFrame};
use warikomi_nic::RxOutcome;
use warikomi_pci::{DmaMemory, Mmio, SharedMemory, Width};
use warikomi_testbench::vfio::{NO_REPLY, command};
use warikomi_testbench::{
    DUO, JudgingWire, MEMORY_AND_MASTER, OC48, RTL8168, Rig, Subject, VfioClient, WatchedSink,
    frame,
};

use super::VmTarget;
use super::testing::{BASE, BYTES, Shared, Side, clock, event, events, with_client};
use crate::{Interrupted, Target, TargetError};

/// The next one is not turned away because it is not known yet that the one before has gone.
#[test]
fn who_comes_right_after_another_has_gone_gets_the_card() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("card");
    let nic = Subject::of(RTL8168).build(Box::new(JudgingWire::keeping()));
    let mut target =
        VmTarget::listen((&path, false), nic, clock(), Interrupted::default()).unwrap();
    let first = UnixStream::connect(&path).unwrap();
    target.housekeep().unwrap();
    assert!(target.has_client());
    drop(first);
    let mut second = UnixStream::connect(&path).unwrap();
    target.housekeep().unwrap();
    assert!(matches!(target.poll(), Err(TargetError::ClientGone)));
    target.housekeep().unwrap();
    assert!(target.has_client());
    second.set_nonblocking(true).unwrap();
    let nothing = second.read(&mut [0]).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock, "it is not closed");
}

/// Another start at the same socket does that, to find it in use.
#[test]
fn who_only_looks_at_the_socket_does_not_end_the_wait_for_a_hypervisor() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("card");
    let nic = Subject::of(RTL8168).build(Box::new(JudgingWire::keeping()));
    let register_bar = nic.info().register_bar;
    let mut target =
        VmTarget::listen((&path, false), nic, clock(), Interrupted::default()).unwrap();
    let (done, until) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let path = &path;
        scope.spawn(move || {
            let again = Subject::of(RTL8168).build(Box::new(JudgingWire::keeping()));
            let again = VmTarget::listen((path, false), again, clock(), Interrupted::default());
            assert!(matches!(again.err(), Some(TargetError::SocketBusy { .. })));
            let memory = SharedMemory::anonymous(BASE, BYTES as usize).unwrap();
            let stream = UnixStream::connect(path).unwrap();
            let mut client = VfioClient::new(stream, memory, register_bar);
            client.negotiate();
            until.recv().unwrap();
        });
        target.wait_for_client().unwrap();
        done.send(()).unwrap();
    });
}

const MASK: u32 = 1 << 3;
const UNMASK: u32 = 1 << 4;
const TRIGGER: u32 = 1 << 5;
const NONE: u32 = 1;
const BOOL: u32 = 2;
const EVENTFD: u32 = 4;
const INTX: u32 = 0;
const MSI: u32 = 1;
const MSIX: u32 = 2;

/// Memory decoding and bus mastering on, INTx allowed.
const WITH_INTX: u64 = MEMORY_AND_MASTER & !0x400;

/// No interrupt takes so long, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A driver with its sink, on a client.
struct Driven<'a> {
    side: &'a mut Side,
    driver: Box<dyn NicDriver>,
    sink: WatchedSink,
}

impl Driven<'_> {
    fn with<R>(
        &mut self,
        call: impl FnOnce(&mut dyn NicDriver, &mut Hardware<'_>, &mut WatchedSink) -> R,
    ) -> R {
        let memory = self.side.client.memory.clone();
        let mut hw = Hardware { mmio: &mut self.side.client, memory: &memory };
        call(&mut *self.driver, &mut hw, &mut self.sink)
    }

    /// Opens the card, with what its system has put into the command register.
    fn open<'a>(side: &'a mut Side, subject: &Subject, command: u64) -> Driven<'a> {
        side.client.config_write(4, Width::B2, command).unwrap();
        let sink = WatchedSink::new(Rig::BUFFERS, 64, 2_048);
        let mut driven = Driven { side, driver: subject.card.driver(), sink };
        driven.with(|driver, hw, sink| driver.init(hw, Rig::RINGS, 64, sink)).unwrap();
        driven.with(|driver, hw, _| driver.arm(hw)).unwrap();
        driven
    }

    /// Turns MSI off, which drivers of ours turn on.
    fn without_messages(&mut self) {
        let client = &mut self.side.client;
        let mut at = client.config_read(0x34, Width::B1).unwrap() as u16;
        while client.config_read(at, Width::B1).unwrap() != 5 {
            at = client.config_read(at + 1, Width::B1).unwrap() as u16;
        }
        client.config_write(at + 2, Width::B2, 0).unwrap();
        client.config_write(4, Width::B2, WITH_INTX).unwrap();
    }

    fn poll(&mut self) -> Vec<Vec<u8>> {
        self.with(|driver, hw, sink| driver.poll(hw, 64, sink)).unwrap();
        let memory = self.side.client.memory.clone();
        let bytes = |(buffer, frame): (Buffer, Received)| {
            let mut bytes = vec![0; frame.bytes as usize];
            memory.read(buffer.address, &mut bytes).unwrap();
            bytes
        };
        std::mem::take(&mut self.sink.frames).into_iter().map(bytes).collect()
    }

    fn send(&mut self, bytes: &[u8], token: u32) {
        let at = Rig::TX_BUFFERS + u64::from(token) * 0x1000;
        self.side.client.memory.write(at, bytes).unwrap();
        let pieces = [(at, bytes.len() as u32)];
        let frame = TxFrame { pieces: &pieces, token, segments: None };
        assert_eq!(self.with(|driver, hw, _| driver.transmit(hw, frame)), Ok(true));
        self.with(|driver, hw, _| driver.kick(hw)).unwrap();
    }

    /// The names of `count` frames that have gone.
    fn sent(&mut self, count: usize) -> Vec<u32> {
        let mut sent = Vec::new();
        for _ in 0..100_000 {
            self.with(|driver, hw, _| driver.reclaim(hw, &mut |token| sent.push(token))).unwrap();
            if sent.len() >= count {
                break;
            }
            self.side.client.answer_until(Duration::from_millis(1), |_| false);
        }
        sent
    }

    /// Waits until an event has come, and answers the interrupt.
    fn interrupted(&mut self, event: &File, vector: u16) -> bool {
        let came = self.side.client.answer_until(PATIENCE, |_| events(event) > 0);
        self.with(|driver, hw, _| driver.on_interrupt(hw, vector)).unwrap();
        came
    }
}

fn receive_and_send(subject: &Subject, shared: Shared) {
    let frames: Vec<_> = (0..20).map(|number| frame(60 + 70 * number, number)).collect();
    let expected = frames.clone();
    let (_, mut card, wire, ended) = with_client(subject, shared, |side| {
        side.client.negotiate();
        side.map(shared);
        let mut driven = Driven::open(side, subject, MEMORY_AND_MASTER);
        for frame in &frames {
            assert_eq!(driven.side.arrive(frame), RxOutcome::OnRing);
        }
        // A card on a bus of its own takes its time.
        let mut received = Vec::new();
        for _ in 0..10_000 {
            received.extend(driven.poll());
            if received.len() == frames.len() {
                break;
            }
            driven.side.client.answer_until(Duration::from_millis(1), |_| false);
        }
        assert!(received == frames, "{} of {} frames", received.len(), frames.len());
        for (token, frame) in (0..).zip(&frames) {
            driven.send(frame, token);
        }
        assert_eq!(driven.sent(frames.len()).len(), frames.len());
        let asked = driven.side.client.answered;
        assert_eq!(asked > 0, shared == Shared::ByMessages, "{asked} questions");
    });
    assert_eq!(wire.sent(), expected, "{subject:?}", subject = subject.card.name());
    assert!(ended.is_none_or(|why| why == "the connection was closed"));
    assert_eq!(card.parts().0.counters().dma_errors, 0);
    assert_eq!(card.counters().malformed, 0);
}

#[test]
fn a_driver_receives_and_sends_however_its_memory_is_shared() {
    for card in [RTL8168, DUO, OC48] {
        for shared in [Shared::Sealable, Shared::Unsealable, Shared::ByMessages] {
            receive_and_send(&Subject::of(card), shared);
        }
    }
}

#[test]
fn intx_masks_itself_and_comes_again_while_it_is_asserted() {
    let subject = Subject::of(RTL8168);
    with_client(&subject, Shared::Sealable, |side| {
        side.client.negotiate();
        side.map(Shared::Sealable);
        let line = event();
        let flags = TRIGGER | EVENTFD;
        side.client.set_irqs(flags, [INTX, 0, 1], &[], &[line.as_fd()]).unwrap();
        let mut driven = Driven::open(side, &subject, MEMORY_AND_MASTER);
        driven.without_messages();
        driven.side.arrive(&frame(100, 0));
        assert!(driven.side.client.answer_until(PATIENCE, |_| events(&line) > 0));
        // Another frame while it is masked is no other interrupt; the unmasking makes one while the level is high.
        driven.side.arrive(&frame(100, 1));
        driven.side.client.config_read(0, Width::B2).unwrap();
        assert_eq!(events(&line), 0);
        driven.side.client.set_irqs(UNMASK | NONE, [INTX, 0, 1], &[], &[]).unwrap();
        assert_eq!(events(&line), 1);
        driven.with(|driver, hw, _| driver.on_interrupt(hw, 0)).unwrap();
        driven.side.client.set_irqs(UNMASK | NONE, [INTX, 0, 1], &[], &[]).unwrap();
        assert_eq!((events(&line), driven.poll().len()), (0, 2));
        // By a descriptor of the client's own, as KVM unmasks.
        let resample = event();
        let of = [INTX, 0, 1];
        driven.side.client.set_irqs(UNMASK | EVENTFD, of, &[], &[resample.as_fd()]).unwrap();
        driven.with(|driver, hw, _| driver.arm(hw)).unwrap();
        driven.side.arrive(&frame(100, 2));
        assert!(driven.side.client.answer_until(PATIENCE, |_| events(&line) > 0));
        rustix::io::write(&resample, &1u64.to_ne_bytes()).unwrap();
        assert!(driven.side.client.answer_until(PATIENCE, |_| events(&line) > 0), "asserted");
    });
}

#[test]
fn msi_is_told_by_its_descriptor_and_waits_while_it_is_masked() {
    let subject = Subject::of(RTL8168);
    with_client(&subject, Shared::ByMessages, |side| {
        side.client.negotiate();
        side.map(Shared::ByMessages);
        let message = event();
        let flags = TRIGGER | EVENTFD;
        side.client.set_irqs(flags, [MSI, 0, 1], &[], &[message.as_fd()]).unwrap();
        let mut driven = Driven::open(side, &subject, MEMORY_AND_MASTER);
        driven.side.arrive(&frame(100, 0));
        assert!(driven.interrupted(&message, 0));
        assert_eq!(driven.poll().len(), 1);
        let of = [MSI, 0, 1];
        driven.side.client.set_irqs(MASK | BOOL, of, &[1], &[]).unwrap();
        driven.with(|driver, hw, _| driver.arm(hw)).unwrap();
        driven.side.arrive(&frame(100, 1));
        driven.side.client.config_read(0, Width::B2).unwrap();
        assert_eq!(events(&message), 0, "it is masked");
        driven.side.client.set_irqs(UNMASK | BOOL, of, &[0], &[]).unwrap();
        assert_eq!(events(&message), 0, "this one was not meant");
        driven.side.client.set_irqs(UNMASK | NONE, of, &[], &[]).unwrap();
        assert!(driven.interrupted(&message, 0));
        // A client may trigger it itself, and takes the descriptor back.
        driven.side.client.set_irqs(TRIGGER | NONE, of, &[], &[]).unwrap();
        assert_eq!(events(&message), 1);
        driven.side.client.set_irqs(TRIGGER | NONE, [MSI, 0, 0], &[], &[]).unwrap();
        driven.side.client.set_irqs(TRIGGER | NONE, of, &[], &[]).unwrap();
        assert_eq!(events(&message), 0);
    });
}

/// Where the test card has its MSI-X table, and its pending bits: BAR and offsets.
const TABLE: (u32, u64) = (2, 0x800);
const PENDING: (u32, u64) = (2, 0xc00);

#[test]
fn msix_needs_no_table_of_the_client_and_keeps_what_is_masked() {
    let subject = Subject::of(DUO);
    with_client(&subject, Shared::Sealable, |side| {
        side.client.negotiate();
        side.map(Shared::Sealable);
        let messages = [event(), event()];
        let of = [MSIX, 0, 2];
        let files = messages.each_ref().map(AsFd::as_fd);
        side.client.set_irqs(TRIGGER | EVENTFD, of, &[], &files).unwrap();
        let mut driven = Driven::open(side, &subject, MEMORY_AND_MASTER);
        driven.side.arrive(&frame(100, 0));
        assert!(driven.interrupted(&messages[0], 0));
        assert_eq!((driven.poll().len(), events(&messages[1])), (1, 0));
        driven.with(|driver, hw, _| driver.arm(hw)).unwrap();
        // Masked by command, and by a client that writes the table.
        driven.side.client.set_irqs(MASK | NONE, [MSIX, 0, 1], &[], &[]).unwrap();
        driven.side.arrive(&frame(100, 1));
        let pending =
            |client: &mut VfioClient| client.region_read(PENDING.0, PENDING.1, 8).unwrap()[0];
        assert_eq!((pending(&mut driven.side.client), events(&messages[0])), (1, 0));
        let control = TABLE.1 + 12;
        driven.side.client.region_write(TABLE.0, control, &[1, 0, 0, 0]).unwrap();
        driven.side.client.set_irqs(UNMASK | NONE, [MSIX, 0, 1], &[], &[]).unwrap();
        assert_eq!((pending(&mut driven.side.client), events(&messages[0])), (1, 0));
        assert_eq!(driven.side.client.region_read(TABLE.0, control, 4).unwrap(), [1, 0, 0, 0]);
        driven.side.client.region_write(TABLE.0, control, &[0, 0, 0, 0]).unwrap();
        assert_eq!((pending(&mut driven.side.client), events(&messages[0])), (0, 1));
        // A reset takes the table back to where it was, and the descriptors stay.
        driven.side.client.call(command::DEVICE_RESET, &[], &[]).unwrap().unwrap();
        assert_eq!(driven.side.client.region_read(TABLE.0, control, 4).unwrap(), [1, 0, 0, 0]);
    });
}

#[test]
fn a_device_says_what_it_has() {
    let subject = Subject::of(RTL8168);
    with_client(&subject, Shared::Sealable, |side| {
        let client = &mut side.client;
        client.negotiate();
        let ask = |client: &mut VfioClient, command, index: u32| {
            let body = [32, 0, index, 0, 0, 0, 0, 0].map(u32::to_le_bytes).concat();
            let reply = client.call(command, &body, &[]).unwrap();
            reply.map(|body| {
                body.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
            })
        };
        let info: Vec<u32> = ask(client, command::DEVICE_GET_INFO, 0).unwrap();
        assert_eq!(info, [16, 3, 9, 5]);
        let region = |client: &mut _, index| {
            let words: Vec<u32> = ask(client, command::DEVICE_GET_REGION_INFO, index)?;
            assert_eq!((words[0], words[2], words[3]), (32, index, 0));
            Ok::<_, u32>((words[4], words[1]))
        };
        assert_eq!(region(client, 0), Ok((256, 3)));
        assert_eq!(region(client, 2), Ok((4_096, 3)));
        assert_eq!((region(client, 3), region(client, 6)), (Ok((0, 0)), Ok((0, 0))));
        assert_eq!(region(client, 7), Ok((256, 3)));
        assert_eq!(region(client, 9), Err(22));
        let irqs = |client: &mut _, index| {
            let words: Vec<u32> = ask(client, command::DEVICE_GET_IRQ_INFO, index)?;
            Ok::<_, u32>((words[3], words[1]))
        };
        let expected = [Ok((1, 7)), Ok((1, 3)), Ok((0, 3)), Ok((1, 1)), Ok((1, 1)), Err(22)];
        assert_eq!([0, 1, 2, 3, 4, 5].map(|index| irqs(client, index)), expected);
        let config = client.region_read(7, 0, 256).unwrap();
        assert_eq!(config[..4], [0xec, 0x10, 0x68, 0x81]);
        for (region, offset, bytes) in
            [(7, 0, 257), (7, u64::MAX, 1), (2, 4_096, 1), (3, 0, 1), (9, 0, 1), (2, 0, 0)]
        {
            assert_eq!(client.region_read(region, offset, bytes), Err(22), "{region} {offset}");
        }
    });
}

#[test]
fn what_wants_no_answer_gets_none_not_even_that_it_failed() {
    let subject = Subject::of(RTL8168);
    let (_, card, ..) = with_client(&subject, Shared::Sealable, |side| {
        let client = &mut side.client;
        client.negotiate();
        client.region_post(7, 4, &[6, 4]);
        client.region_post(7, 4_000, &[6, 4]);
        client.send(99, NO_REPLY, &[], &[]).unwrap();
        assert_eq!(client.region_read(7, 4, 2).unwrap(), [6, 4], "the next answer is this one's");
        assert!(client.is_quiet());
    });
    assert_eq!(card.counters().malformed, 2);
}

#[test]
fn orders_for_interrupts_that_do_not_fit_are_refused_and_change_nothing() {
    let subject = Subject::of(RTL8168);
    with_client(&subject, Shared::Sealable, |side| {
        let client = &mut side.client;
        client.negotiate();
        let (one, other) = (event(), event());
        let zero = File::open("/dev/zero").unwrap();
        let [one_fd, other_fd] = [&one, &other].map(AsFd::as_fd);
        let some: [(u32, [u32; 3], &[BorrowedFd<'_>]); 9] = [
            (TRIGGER | EVENTFD, [5, 0, 1], &[one_fd]),
            (TRIGGER | EVENTFD, [MSI, 0, 2], &[one_fd, other_fd]),
            (TRIGGER | EVENTFD, [MSI, 1, 1], &[one_fd]),
            (TRIGGER | EVENTFD, [MSI, u32::MAX, 2], &[one_fd]),
            (TRIGGER | EVENTFD, [MSI, 0, 1], &[one_fd, other_fd]),
            (TRIGGER | EVENTFD, [MSI, 0, 1], &[zero.as_fd()]),
            (TRIGGER | NONE, [MSI, 0, 1], &[one_fd]),
            (MASK | NONE, [4, 0, 1], &[]),
            (MASK | NONE, [MSI, 0, 0], &[]),
        ];
        for (flags, of, files) in some {
            assert_eq!(client.set_irqs(flags, of, &[], files), Err(22), "{flags} {of:?}");
        }
        let masking = client.set_irqs(MASK | EVENTFD, [INTX, 0, 1], &[], &[one_fd]);
        assert_eq!(masking, Err(95), "as Linux answers");
        client.set_irqs(TRIGGER | NONE, [MSI, 0, 1], &[], &[]).unwrap();
        assert_eq!((events(&one), events(&other)), (0, 0));
    });
}

#[test]
fn windows_that_overlap_or_fit_nowhere_are_refused() {
    let subject = Subject::of(RTL8168);
    with_client(&subject, Shared::Sealable, |side| {
        let Side { client, file, .. } = side;
        client.negotiate();
        let fd = file.as_fd();
        client.map((BASE, 0x2000), Some((fd, 0))).unwrap();
        for (address, bytes) in [(BASE, 0x2000), (BASE + 0x1000, 0x1000), (BASE - 0x1000, 0x4000)] {
            assert_eq!(client.map((address, bytes), Some((fd, 0))), Err(17), "{address:#x}");
        }
        for (address, bytes, offset) in [
            (BASE + 0x2000, 0, 0),
            (BASE + 0x2001, 0x1000, 0),
            (BASE + 0x2000, 0x1001, 0),
            (BASE + 0x2000, 0x1000, 0x800),
            (BASE + 0x2000, 0x1000, BYTES),
            (BASE + 0x2000, 0x1000, u64::MAX - 0xfff),
            (u64::MAX - 0xfff, 0x1000, 0),
        ] {
            assert_eq!(client.map((address, bytes), Some((fd, offset))), Err(22), "{address:#x}");
        }
        let zero = File::open("/dev/zero").unwrap();
        assert_eq!(client.map((BASE + 0x2000, 0x1000), Some((zero.as_fd(), 0))), Err(22));
        assert_eq!(client.unmap(BASE, 0x1000), Err(2), "not all of it");
        assert_eq!(client.unmap(BASE, 0x2000).unwrap().len(), 24);
        client.map((BASE, 0x1000), None).unwrap();
        // As many as were agreed on.
        for number in 1..256 {
            client.map((BASE + 0x1000 * number, 0x1000), None).unwrap();
        }
        assert_eq!(client.map((BASE + 0x1000 * 256, 0x1000), None), Err(28));
    });
}

#[test]
fn what_a_client_has_handed_over_goes_with_it_and_the_card_stays() {
    let subject = Subject::of(RTL8168);
    let (_, mut card, _, ended) = with_client(&subject, Shared::Sealable, |side| {
        side.client.negotiate();
        side.map(Shared::Sealable);
        side.client.config_write(4, Width::B2, MEMORY_AND_MASTER).unwrap();
    });
    while ended.is_none() && card.poll().is_ok() {}
    assert_eq!(card.windows(), 0);
    assert_eq!(card.parts().0.config_read(4, Width::B2), MEMORY_AND_MASTER);
    let mut bytes = [0; 4];
    assert!(card.parts().1.memory.read(BASE, &mut bytes).is_err(), "no memory is left");
}

#[test]
fn a_client_that_comes_later_hears_of_what_the_card_asserts() {
    let subject = Subject::of(RTL8168);
    let (_, mut card, ..) = with_client(&subject, Shared::Sealable, |side| {
        side.client.negotiate();
        side.map(Shared::Sealable);
        let mut driven = Driven::open(side, &subject, MEMORY_AND_MASTER);
        driven.without_messages();
        assert_eq!(driven.side.arrive(&frame(100, 0)), RxOutcome::OnRing);
    });
    let (ours, theirs) = UnixStream::pair().unwrap();
    card.connect(ours).unwrap();
    let mut client = VfioClient::new(theirs, SharedMemory::anonymous(0, 4_096).unwrap(), 2);
    let line = event();
    client.send(command::VERSION, 0, &[&[0; 4], &b"{}\0"[..]].concat(), &[]).unwrap();
    let order = [20, TRIGGER | EVENTFD, INTX, 0, 1].map(u32::to_le_bytes).concat();
    client.send(command::DEVICE_SET_IRQS, 0, &order, &[line.as_fd()]).unwrap();
    card.poll().unwrap();
    assert_eq!(events(&line), 1);
}
