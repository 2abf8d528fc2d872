//! Windows between the support side and a driver process, from both ends, and the message with which a driver
//! gets its own.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use arbitrary::{Result, Unstructured};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use warikomi_clock::{TscClock, read_tsc};
use warikomi_driver::device::{Device, Window};
use warikomi_driver::state::StateArea;
use warikomi_nic::Nic;
use warikomi_pci::attach::layout::{self, bells, header, report};
use warikomi_pci::attach::{Access, Operation, Space, area};
use warikomi_pci::{DmaMemory, Interrupt, MsiMessage, SharedMemory, Width};
use warikomi_process::ServedWindow;
use warikomi_shared::{SharedWords, Words, create_region, send};
use warikomi_testbench::card;

use crate::harness::{bounded, number, once_in, steps};

const WORDS: usize = layout::WINDOW_BYTES as usize / 8;
const DMA_BYTES: u64 = 0x4000;
/// What one pass serves at most, and what stands for it in the ring.
const MOST_SERVED: usize = 32;

fn window() -> (OwnedFd, SharedWords) {
    let file = create_region("fuzz", layout::WINDOW_BYTES).expect("memory");
    let words =
        SharedWords::map(file.try_clone().expect("a file"), 0, layout::WINDOW_BYTES as usize);
    (file.into(), words.expect("memory"))
}

fn wakeup() -> (OwnedFd, OwnedFd) {
    nix::unistd::pipe2(nix::fcntl::OFlag::O_NONBLOCK).expect("a pipe")
}

/// An entry of the register ring: an access, or anything.
fn entry(from: &mut Unstructured<'_>) -> Result<[u64; 2]> {
    let access = Access {
        space: if once_in(from, 3)? { Space::Config } else { Space::Bar(2) },
        offset: if once_in(from, 6)? { from.arbitrary()? } else { from.int_in_range(0..=0x108)? },
        width: *from.choose(&[Width::B1, Width::B2, Width::B4, Width::B8])?,
        operation: match from.arbitrary()? {
            true => Operation::Read(number(from)?),
            false => Operation::Write(number(from)?),
        },
    };
    assert_eq!(Access::from_entry(access.to_entry()), Ok(access));
    let any = [number(from)?, number(from)?];
    if let Ok(access) = Access::from_entry(any) {
        assert_eq!(access.to_entry(), any);
    }
    Ok(if once_in(from, 6)? { any } else { access.to_entry() })
}

/// A driver writes: accesses with their count, or anything anywhere.
fn drive(words: &SharedWords, from: &mut Unstructured<'_>) -> Result<()> {
    if once_in(from, 2)? {
        let head = words.load(bells::REQUESTS_HEAD, Relaxed);
        let count = from.int_in_range(1..=3)?;
        for more in 0..count {
            let place = head.wrapping_add(more) as usize % layout::REQUESTS_CAPACITY;
            let at = layout::REQUESTS_ENTRIES + 2 * place;
            let [word, value] = entry(from)?;
            words.store(at, word, Relaxed);
            words.store(at + 1, value, Relaxed);
        }
        words.store(bells::REQUESTS_HEAD, head.wrapping_add(count), Relaxed);
        return Ok(());
    }
    let at = match from.int_in_range(0..=3u8)? {
        0 => *from.choose(&[
            bells::REQUESTS_HEAD,
            bells::REQUESTS_TAIL,
            bells::STAMPED,
            bells::INTERRUPTS,
        ])?,
        1 => layout::STAMPS + from.int_in_range(0..=20)?,
        2 => report::STATE + from.int_in_range(0..=128)?,
        _ => from.int_in_range(0..=WORDS - 1)?,
    };
    let value = if once_in(from, 3)? { read_tsc() } else { number(from)? };
    words.store(at, value, Relaxed);
    Ok(())
}

fn served(from: &mut Unstructured<'_>) {
    let (_file, mut words) = window();
    let (_reading, writing) = wakeup();
    let memory =
        SharedMemory::anonymous(layout::DMA_BUS_ADDRESS, DMA_BYTES as usize).expect("memory");
    let clock = TscClock::with_frequency(read_tsc(), 1e9);
    let vectors = from.int_in_range(1..=4).unwrap_or(1);
    let mut served = ServedWindow::new(words.clone(), writing, memory, clock, vectors);
    let mut nic: Box<dyn Nic> = card("rtl8168");
    nic.probe().handlers_tell();
    steps(from, 100, |from| {
        match from.int_in_range(0..=9u8)? {
            0..=4 => drive(&words, from)?,
            5 => {
                let message = MsiMessage { address: 0, data: number(from)? as u32 };
                let interrupt =
                    if once_in(from, 4)? { Interrupt::Intx(true) } else { Interrupt::Msi(message) };
                served.host(clock.now()).interrupts.signal(interrupt);
            }
            6 => served.take_stamps(&mut *nic, from.int_in_range(0..=100)?),
            7 if once_in(from, 4)? => {
                let (_, next) = window();
                let (_, writing) = wakeup();
                assert!(
                    served.turn_to(next.clone(), writing, &mut *nic)
                        <= layout::REQUESTS_CAPACITY as u64
                );
                words = next;
            }
            _ => {
                let before = served.counters();
                let count = served.serve(&mut *nic);
                let counted = served.counters().since(&before);
                assert_eq!((counted.accesses + counted.malformed) as usize, count);
                assert!(count <= MOST_SERVED);
            }
        }
        let last_words = served.last_words();
        assert!(last_words.len() <= 3 * layout::LAST_WORDS_BYTES && !last_words.contains('\u{1b}'));
        let _ = (served.reported(), served.link());
        Ok(())
    });
}

/// The header of a window, of which some words are written over.
fn describe(words: &SharedWords, from: &mut Unstructured<'_>) -> Result<()> {
    for (at, value) in [
        (header::MAGIC, layout::MAGIC),
        (header::VERSION, layout::VERSION),
        (header::WINDOW_BYTES, layout::WINDOW_BYTES),
        (header::DMA_BYTES, DMA_BYTES),
        (header::DMA_BUS_ADDRESS, layout::DMA_BUS_ADDRESS),
        (header::PACKET_BUS_ADDRESS, layout::PACKET_BUS_ADDRESS),
        (header::REGISTER_BAR, 2),
        (header::TSC_HZ, 1_000_000_000),
        (header::STATE_BYTES, area::BYTES),
        (header::GENERATION, 1),
        (header::WAY, layout::way::SHARED_STATE),
    ] {
        words.store(at, value, Relaxed);
    }
    for _ in 0..from.int_in_range(0..=3u8)? {
        let at = from.int_in_range(0..=15)?;
        let value =
            if once_in(from, 3)? { 4_096 * from.int_in_range(0..=64)? } else { number(from)? };
        words.store(at, value, Relaxed);
    }
    Ok(())
}

/// The files of a device, with its window's header written over.
fn attached(from: &mut Unstructured<'_>) -> Result<()> {
    let (file, words) = window();
    let dma = create_region("dma", DMA_BYTES).expect("memory");
    let state = create_region("state", area::BYTES).expect("memory");
    let unsealed = tempfile::tempfile_in("/dev/shm").expect("a file");
    unsealed.set_len(DMA_BYTES).expect("a file");
    describe(&words, from)?;
    let (reading, _writing) = wakeup();
    let mut files: Vec<BorrowedFd<'_>> =
        vec![file.as_fd(), reading.as_fd(), dma.as_fd(), state.as_fd()];
    if once_in(from, 4)? {
        let at = from.int_in_range(0..=files.len() - 1)?;
        if from.arbitrary()? {
            files[at] = unsealed.as_fd();
        } else {
            files.truncate(at);
        }
    }
    let kind = SocketType::SEQPACKET;
    let pair = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
    let (ours, theirs) = pair.expect("a pair of sockets");
    let hello = if once_in(from, 16)? { &b"warikomi driver 2"[..] } else { layout::HELLO };
    send(&ours, hello, &files).expect("there is room");
    let Ok(mut device) = Device::attach(theirs) else { return Ok(()) };
    let (address, bytes) = device.dma();
    let memory = device.memory();
    assert!(
        memory.read(address, &mut [0]).is_ok()
            && memory.read(address + bytes - 1, &mut [0]).is_ok()
    );
    steps(from, 40, |from| {
        drive(&words, from)?;
        let _ = device.take_interrupt();
        let _ = device.interrupt_pending();
        Ok(())
    });
    if let Some(words) = device.state() {
        let state = StateArea::new(Rc::new(words.clone()));
        assert!(state.settings().is_err(), "no driver has set it up");
    }
    let mut window = Window::new(words);
    let _ = window.take_interrupt(|| 0);
    Ok(())
}

#[test]
fn process_window() {
    bolero::check!().with_max_len(1_024).for_each(|input: &[u8]| {
        bounded(|| served(&mut Unstructured::new(input)));
    });
}

#[test]
fn driver_window() {
    bolero::check!().with_max_len(256).for_each(|input: &[u8]| {
        bounded(|| _ = attached(&mut Unstructured::new(input)));
    });
}
