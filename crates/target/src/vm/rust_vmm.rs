//! Drivers of ours on the client of the crate `vfio_user`, which is Cloud Hypervisor's: what its user device does to a
//! card, without its virtual machine.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use vfio_user::Client;
use warikomi_driver::{Hardware, NicDriver, TxFrame};
use warikomi_nic::{Frame, RxOutcome};
use warikomi_pci::{DmaMemory, Mmio, MmioError, SharedMemory, Width};
use warikomi_testbench::{
    DUO, JudgingWire, MEMORY_AND_MASTER, RTL8168, Rig, Subject, WatchedSink, frame,
};

use super::VmTarget;
use super::testing::{BASE, BYTES, Shared, clock, event, events, memory_file};
use crate::{CardId, Interrupted, Target, TargetError};

const CONFIG: u32 = 7;
const MSI: u32 = 1;
const MSIX: u32 = 2;
/// `VFIO_IRQ_SET_DATA_EVENTFD` and `VFIO_IRQ_SET_ACTION_TRIGGER`.
const BY_EVENT: u32 = 1 << 2 | 1 << 5;

/// No answer takes so long, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A card as this client reaches it.
struct Card {
    client: Client,
    register_bar: u8,
}

impl Card {
    fn read_region(&mut self, region: u32, offset: u64, width: Width) -> u64 {
        let mut bytes = [0; 8];
        self.client.region_read(region, offset, &mut bytes[..width.bytes()]).unwrap();
        u64::from_le_bytes(bytes)
    }

    fn write_region(&mut self, region: u32, offset: u64, width: Width, value: u64) {
        let bytes = &value.to_le_bytes()[..width.bytes()];
        self.client.region_write(region, offset, bytes).unwrap();
    }
}

impl Mmio for Card {
    fn register_bar(&self) -> u8 {
        self.register_bar
    }
    fn bar_read(&mut self, bar: u8, offset: u64, width: Width) -> Result<u64, MmioError> {
        Ok(self.read_region(bar.into(), offset, width))
    }
    fn bar_write(&mut self, bar: u8, offset: u64, width: Width, of: u64) -> Result<(), MmioError> {
        self.write_region(bar.into(), offset, width, of);
        Ok(())
    }
    fn config_read(&mut self, offset: u16, width: Width) -> Result<u64, MmioError> {
        Ok(self.read_region(CONFIG, offset.into(), width))
    }
    fn config_write(&mut self, offset: u16, width: Width, of: u64) -> Result<(), MmioError> {
        self.write_region(CONFIG, offset.into(), width, of);
        Ok(())
    }
}

/// Serves a card until its client has gone. Frames that are given to it come from its wire, and what becomes of each is
/// told.
fn serve(target: &mut VmTarget, frames: &Receiver<Vec<u8>>, outcomes: &Sender<RxOutcome>) {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        target.housekeep().unwrap();
        match target.poll() {
            Ok(_) => {}
            Err(TargetError::ClientGone) => return,
            Err(error) => panic!("{error}"),
        }
        for frame in frames.try_iter() {
            let (nic, mut host) = target.card(CardId::FIRST).unwrap();
            let _ = outcomes.send(nic.receive(&mut host, Frame::new(&frame)).outcome);
        }
    }
    panic!("the client does not go");
}

/// The size of a BAR, found as a hypervisor does before it gives it an address. None is of 4 GB or more.
fn sized(card: &mut Card, bar: u16) -> u64 {
    let at = 0x10 + 4 * bar;
    let before = card.config_read(at, Width::B4).unwrap();
    card.config_write(at, Width::B4, 0xffff_ffff).unwrap();
    let mask = card.config_read(at, Width::B4).unwrap() as u32;
    card.config_write(at, Width::B4, before).unwrap();
    let kind = if mask & 1 == 1 { 3 } else { 15 };
    (mask & !kind).wrapping_neg().into()
}

/// Each region of a BAR is as large as the BAR.
fn assert_regions_fit(card: &mut Card) {
    let size_of = |card: &Card, bar: u16| card.client.region(bar.into()).unwrap().size;
    let bars: Vec<_> = (0..6).filter(|bar| size_of(card, *bar) > 0).collect();
    assert!(bars.contains(&card.register_bar.into()), "{bars:?}");
    for bar in bars {
        assert_eq!(sized(card, bar), size_of(card, bar), "BAR {bar}");
    }
}

/// A driver on a card of this client.
struct Driven {
    card: Card,
    memory: SharedMemory,
    driver: Box<dyn NicDriver>,
    sink: WatchedSink,
}

impl Driven {
    fn with<R>(
        &mut self,
        call: impl FnOnce(&mut dyn NicDriver, &mut Hardware<'_>, &mut WatchedSink) -> R,
    ) -> R {
        let mut hw = Hardware { mmio: &mut self.card, memory: &self.memory };
        call(&mut *self.driver, &mut hw, &mut self.sink)
    }

    /// The next frame that the driver has received.
    fn received(&mut self) -> Vec<u8> {
        let (buffer, frame) = wait_for(|| {
            self.with(|driver, hw, sink| driver.poll(hw, 64, sink)).unwrap();
            self.sink.frames.pop()
        });
        let mut bytes = vec![0; frame.bytes as usize];
        self.memory.read(buffer.address, &mut bytes).unwrap();
        bytes
    }

    /// Sends a frame, and waits until it has gone.
    fn send(&mut self, bytes: &[u8]) {
        self.memory.write(Rig::TX_BUFFERS, bytes).unwrap();
        let pieces = [(Rig::TX_BUFFERS, bytes.len() as u32)];
        let frame = TxFrame { pieces: &pieces, token: 7, segments: None };
        assert_eq!(self.with(|driver, hw, _| driver.transmit(hw, frame)), Ok(true));
        self.with(|driver, hw, _| driver.kick(hw)).unwrap();
        let gone = wait_for(|| {
            let mut gone = None;
            self.with(|driver, hw, _| driver.reclaim(hw, &mut |token| gone = Some(token))).unwrap();
            gone
        });
        assert_eq!(gone, 7);
    }
}

fn wait_for<T>(mut of: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = of() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "it does not come");
    }
}

/// Maps the memory, as a virtual machine's is before its devices are seen.
fn connect(path: &Path, register_bar: u8) -> (Card, SharedMemory) {
    let file = memory_file(Shared::Unsealable);
    let mut client = Client::new(path).unwrap();
    client.dma_map(0, BASE, BYTES, file.as_raw_fd()).unwrap();
    let memory = SharedMemory::from_file(BASE, file, 0, BYTES as usize).unwrap();
    (Card { client, register_bar }, memory)
}

/// Events that the card is to signal, one for each message of this kind.
fn events_of(card: &mut Card, index: u32) -> Vec<File> {
    let info = card.client.get_irq_info(index).unwrap();
    assert_eq!(info.index, index);
    let messages: Vec<_> = (0..info.count).map(|_| event()).collect();
    let descriptors: Vec<_> = messages.iter().map(AsRawFd::as_raw_fd).collect();
    card.client.set_irqs(index, BY_EVENT, 0, info.count, &descriptors).unwrap();
    messages
}

/// Where a frame is put on the wire, and where is told what becomes of it.
type Arrivals = (Sender<Vec<u8>>, Receiver<RxOutcome>);

/// What a guest's driver does: each frame comes with a message, is received, and sent back.
fn drive(mut card: Card, memory: SharedMemory, subject: &Subject, index: u32, wire: &Arrivals) {
    let messages = events_of(&mut card, index);
    card.config_write(4, Width::B2, MEMORY_AND_MASTER).unwrap();
    let sink = WatchedSink::new(Rig::BUFFERS, 64, 2_048);
    let mut driven = Driven { card, memory, driver: subject.card.driver(), sink };
    driven.with(|driver, hw, sink| driver.init(hw, Rig::RINGS, 64, sink)).unwrap();
    for (number, expected) in frames().into_iter().enumerate() {
        driven.with(|driver, hw, _| driver.arm(hw)).unwrap();
        wire.0.send(expected.clone()).unwrap();
        assert_eq!(wire.1.recv_timeout(PATIENCE), Ok(RxOutcome::OnRing));
        wait_for(|| (events(&messages[0]) > 0).then_some(()));
        driven.with(|driver, hw, _| driver.on_interrupt(hw, 0)).unwrap();
        assert_eq!(driven.received(), expected, "frame {number}");
        driven.send(&expected);
    }
    driven.card.client.reset().unwrap();
    driven.card.client.dma_unmap(BASE, BYTES).unwrap();
    driven.card.client.shutdown().unwrap();
}

fn frames() -> Vec<Vec<u8>> {
    (0..20).map(|number| frame(60 + 70 * number, number)).collect()
}

fn a_driver_works(subject: &Subject, index: u32) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("card");
    let wire = JudgingWire::keeping();
    let nic = subject.build(Box::new(wire.clone()));
    let register_bar = nic.info().register_bar;
    let mut target =
        VmTarget::listen((&path, false), nic, clock(), Interrupted::default()).unwrap();
    let (arrive, arrivals) = channel();
    let (tell, outcomes) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut card, memory) = connect(&path, register_bar);
            assert_regions_fit(&mut card);
            drive(card, memory, subject, index, &(arrive, outcomes));
        });
        serve(&mut target, &arrivals, &tell);
    });
    assert_eq!(wire.sent(), frames());
    assert_eq!(target.counters().malformed, 0);
}

#[test]
fn a_driver_receives_and_sends_by_msi() {
    a_driver_works(&Subject::of(RTL8168), MSI);
}

#[test]
fn a_driver_receives_and_sends_by_msix() {
    a_driver_works(&Subject::of(DUO), MSIX);
}
