//! The card from the other side: what Linux's igb does to it, in the same order and with constants of its own, so that a
//! wrong constant in the model does not cancel out.

use std::ops::{Deref, DerefMut};

use etherparse::PacketBuilder;
use warikomi_clock::{Span, Time};
use warikomi_nic::NicFunction;
use warikomi_nic::igb::Igb;
use warikomi_pci::{Interrupt, Width};
use warikomi_testbench::{Bench, MEMORY_AND_MASTER, MESSAGE};

pub(crate) const STATION: [u8; 6] = [0x02, 0x57, 0x4b, 0, 0, 1];

const RX_RINGS: u64 = 0x1_0000;
const TX_RINGS: u64 = 0x4_0000;
const RX_BUFFERS: u64 = 0x10_0000;
const TX_BUFFERS: u64 = 0x80_0000;
const MEMORY: usize = 0x100_0000;
/// Distance of rings, and of buffers.
const RING_BYTES: u64 = 0x1000;
const STRIDE: u64 = 0x0800;
/// Descriptors of each ring.
pub(crate) const RING: u32 = 128;
/// Queues that are used at most.
const QUEUES: usize = 16;

// Commands in the third word of a transmit descriptor.
pub(crate) const EOP: u32 = 1 << 24;
pub(crate) const IFCS: u32 = 1 << 25;
pub(crate) const RS: u32 = 1 << 27;
pub(crate) const DEXT: u32 = 1 << 29;
pub(crate) const VLE: u32 = 1 << 30;
pub(crate) const TSE: u32 = 1 << 31;
pub(crate) const CONTEXT: u32 = DEXT | 0x0020_0000;
pub(crate) const DATA: u32 = DEXT | 0x0030_0000;

/// How interrupts reach the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Msix,
    Msi,
    Intx,
}

/// A frame as a driver finds it: kinds and hash, status and errors, tag, and bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) words: [u32; 2],
    pub(crate) status: u32,
    pub(crate) tag: u16,
    pub(crate) bytes: Vec<u8>,
}

/// A driver with its card on the bench.
pub(crate) struct Lab {
    bench: Bench<NicFunction<Igb>>,
    mode: Mode,
    /// Pairs of queues.
    pub(crate) queues: u32,
    rx_next: [u32; QUEUES],
    tx_next: [u32; QUEUES],
}

impl Deref for Lab {
    type Target = Bench<NicFunction<Igb>>;
    fn deref(&self) -> &Self::Target {
        &self.bench
    }
}

impl DerefMut for Lab {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.bench
    }
}

/// E1000_RDBAL and what is behind it.
pub(crate) fn rx(queue: u32, register: u64) -> u64 {
    let queue = u64::from(queue);
    register + if queue < 4 { 0x2800 + 0x100 * queue } else { 0xc000 + 0x40 * queue }
}

/// The same of E1000_TDBAL.
pub(crate) fn tx(queue: u32, register: u64) -> u64 {
    let queue = u64::from(queue);
    register + if queue < 4 { 0x3800 + 0x100 * queue } else { 0xe000 + 0x40 * queue }
}

impl Lab {
    /// A card with memory decoding and bus mastering on, and nothing else done to it.
    pub(crate) fn new(mode: Mode) -> Lab {
        let mut bench = Bench::cabled(|wire| Box::new(NicFunction::new(Igb::new(), wire)))
            .with_memory(0, MEMORY)
            .at(Time::from_ps(1_000_000_000_000))
            .commanded(MEMORY_AND_MASTER);
        match mode {
            Mode::Msix => assert_eq!(bench.enable_msix(MESSAGE), 10),
            Mode::Msi => assert_eq!(bench.enable_msi(MESSAGE), 1),
            Mode::Intx => bench.config(4, Width::B2, 6),
        }
        Lab { bench, mode, queues: 1, rx_next: [0; QUEUES], tx_next: [0; QUEUES] }
    }

    /// One that has been opened with one pair of queues.
    pub(crate) fn open(mode: Mode) -> Lab {
        Lab::open_queues(mode, 1)
    }

    /// One that has been opened as igb opens it: igb_reset, igb_configure, igb_configure_msix, igb_irq_enable.
    pub(crate) fn open_queues(mode: Mode, queues: u32) -> Lab {
        let mut lab = Lab::new(mode);
        lab.queues = queues;
        lab.reset_hw();
        lab.w32(0x400, 0x0103_f0fa);
        lab.setup_mrqc();
        lab.w32(0x2828, 0);
        lab.w32(0x100, 0x0400_8022);
        lab.w32(0x5004, 0x2600);
        (0..queues).for_each(|queue| lab.configure_tx_ring(queue));
        (0..queues).for_each(|queue| lab.configure_rx_ring(queue));
        match mode {
            Mode::Msix => lab.configure_msix(),
            _ => lab.w32(0x1700, 0x8080),
        }
        lab.r32(0xc0);
        lab.irq_enable();
        lab.line.take();
        lab
    }

    pub(crate) fn r32(&mut self, offset: u64) -> u32 {
        self.read(offset, Width::B4) as u32
    }

    pub(crate) fn w32(&mut self, offset: u64, value: u32) {
        self.write(offset, Width::B4, value.into());
    }

    /// igb_write_phy_reg_mdic.
    pub(crate) fn mdio_write(&mut self, register: u32, value: u16) {
        self.w32(0x20, 0x0420_0000 | register << 16 | u32::from(value));
        assert_eq!(self.r32(0x20) & 0x5000_0000, 0x1000_0000, "ready, and no error");
    }

    /// igb_read_phy_reg_igp.
    pub(crate) fn mdio_read(&mut self, register: u32) -> u16 {
        if register > 0xf {
            self.mdio_write(0x1f, register as u16);
        }
        self.w32(0x20, 0x0820_0000 | (register & 0x1f) << 16);
        let answer = self.r32(0x20);
        assert_eq!(answer & 0x5000_0000, 0x1000_0000, "ready, and no error");
        answer as u16
    }

    /// igb_reset_hw_82575.
    pub(crate) fn reset_hw(&mut self) {
        let ctrl = self.r32(0);
        self.w32(0, ctrl | 4);
        assert_eq!(self.r32(8) & 0x8_0000, 0, "no requests any more");
        self.w32(0xd8, 0xffff_ffff);
        self.w32(0x100, 0);
        self.w32(0x400, 8);
        let ctrl = self.r32(0);
        self.w32(0, ctrl | 0x0400_0000);
        assert_eq!(self.r32(0) & 0x0400_0000, 0, "reset is over");
        assert_eq!(self.r32(0x10) & 0x300, 0x300, "there is an EEPROM, and it has been read");
        self.w32(0xd8, 0xffff_ffff);
        self.r32(0xc0);
        assert_eq!(self.r32(0xc0), 0);
    }

    /// igb_setup_mrqc and igb_write_rss_indir_tbl, with the ports of UDP.
    fn setup_mrqc(&mut self) {
        for word in 0..10 {
            self.w32(0x5c80 + 4 * word, 0x9e37_79b9_u32.wrapping_mul(word as u32 + 1));
        }
        for word in 0..32 {
            let entry = |at: u32| (4 * word + at) * self.queues / 128;
            let entries = [0, 1, 2, 3].map(|at| entry(at) as u8);
            self.w32(0x5c00 + 4 * u64::from(word), u32::from_le_bytes(entries));
        }
        let rxcsum = self.r32(0x5000);
        assert_eq!(rxcsum, 0x300, "IPOFL and TUOFL are on by default");
        self.w32(0x5000, rxcsum | 0x2800);
        self.w32(0x5818, 0x00f7_0002);
    }

    fn configure_tx_ring(&mut self, queue: u32) {
        let ring = TX_RINGS + RING_BYTES * u64::from(queue);
        (0..RING).for_each(|i| self.put(ring + 16 * u64::from(i), &[0; 4]));
        self.w32(tx(queue, 0x28), 0);
        self.w32(tx(queue, 0x08), 16 * RING);
        self.w32(tx(queue, 0), ring as u32);
        self.w32(tx(queue, 4), 0);
        self.w32(tx(queue, 0x10), 0);
        self.w32(tx(queue, 0x18), 0);
        self.w32(tx(queue, 0x28), 0x0210_0108);
        self.tx_next[queue as usize] = 0;
    }

    /// igb_configure_rx_ring and igb_alloc_rx_buffers.
    fn configure_rx_ring(&mut self, queue: u32) {
        let ring = RX_RINGS + RING_BYTES * u64::from(queue);
        self.w32(rx(queue, 0x28), 0);
        self.w32(rx(queue, 0), ring as u32);
        self.w32(rx(queue, 4), 0);
        self.w32(rx(queue, 0x08), 16 * RING);
        self.w32(rx(queue, 0x10), 0);
        self.w32(rx(queue, 0x18), 0);
        let drops = if self.queues > 1 { 1 << 31 } else { 0 };
        self.w32(rx(queue, 0x0c), 0x0200_0402 | drops);
        self.w32(rx(queue, 0x28), 0x0204_0808);
        (0..RING).for_each(|index| self.refill(queue, index));
        self.w32(rx(queue, 0x18), RING - 1);
        self.rx_next[queue as usize] = 0;
    }

    /// A vector for other causes, one for each receive queue, and one for each transmit queue; the queues share one if
    /// there are many.
    fn configure_msix(&mut self) {
        self.w32(0x1514, 0xc000_0011);
        self.w32(0x1740, 0x8000);
        let shared = self.queues > 4;
        for queue in 0..self.queues {
            let of_rx = 1 + queue;
            let of_tx = if shared { of_rx } else { of_rx + self.queues };
            self.write_ivar(of_rx, queue & 7, (queue & 8) << 1);
            self.write_ivar(of_tx, queue & 7, ((queue & 8) << 1) + 8);
        }
    }

    fn write_ivar(&mut self, vector: u32, row: u32, shift: u32) {
        let at = 0x1700 + 4 * u64::from(row);
        let ivar = self.r32(at) & !(0xff << shift);
        self.w32(at, ivar | (vector | 0x80) << shift);
    }

    /// igb_irq_enable.
    pub(crate) fn irq_enable(&mut self) {
        if self.mode == Mode::Msix {
            let all = 0x3ff;
            self.w32(0x152c, all);
            self.w32(0x1530, all);
            self.w32(0x1524, all);
            self.w32(0xd0, 0x5000_0004);
        } else {
            self.w32(0xd0, 0x5000_009d);
            self.w32(0xe0, 0x5000_009d);
        }
    }

    fn refill(&mut self, queue: u32, index: u32) {
        let number = u64::from(queue * RING + index);
        let buffer = RX_BUFFERS + STRIDE * number;
        let at = self.rx_descriptor(queue, index);
        self.put(at, &[buffer as u32, (buffer >> 32) as u32]);
        self.put(at + 12, &[0]);
    }

    pub(crate) fn rx_descriptor(&self, queue: u32, index: u32) -> u64 {
        RX_RINGS + RING_BYTES * u64::from(queue) + 16 * u64::from(index)
    }

    /// igb_clean_rx_irq: takes frames off a ring, and gives their descriptors back.
    pub(crate) fn rx(&mut self, queue: u32) -> Vec<Received> {
        let mut frames: Vec<Received> = Vec::new();
        let mut open = false;
        loop {
            let index = self.rx_next[queue as usize];
            let at = self.rx_descriptor(queue, index);
            let word = self.word(at + 12);
            let length = word & 0xffff;
            if length == 0 {
                break;
            }
            let status = self.word(at + 8);
            assert_eq!(status & 1, 1, "done");
            let buffer = RX_BUFFERS + STRIDE * u64::from(queue * RING + index);
            let bytes = self.bytes(buffer, length as usize);
            let words = [self.word(at), self.word(at + 4)];
            let tag = (word >> 16) as u16;
            match frames.last_mut().filter(|_| open) {
                Some(frame) => {
                    frame.bytes.extend(bytes);
                    (frame.status, frame.tag, frame.words) = (status, tag, words);
                }
                None => frames.push(Received { words, status, tag, bytes }),
            }
            open = status & 2 == 0;
            self.refill(queue, index);
            self.rx_next[queue as usize] = (index + 1) % RING;
        }
        let tail = (self.rx_next[queue as usize] + RING - 1) % RING;
        self.w32(rx(queue, 0x18), tail);
        frames
    }

    /// igb_xmit_frame of a frame that needs nothing, in pieces.
    pub(crate) fn xmit(&mut self, queue: u32, pieces: &[&[u8]]) {
        self.queue(queue, pieces, DATA | IFCS, 0);
        self.ring(queue);
    }

    /// igb_tx_map: `command` is in each descriptor, `options` in the first, and what an end has besides in the last.
    pub(crate) fn queue(&mut self, queue: u32, pieces: &[&[u8]], command: u32, options: u32) {
        for (i, piece) in pieces.iter().enumerate() {
            let buffer = TX_BUFFERS + 0x4000 * u64::from(self.tx_next[queue as usize]);
            self.put_bytes(buffer, piece);
            let last = if i + 1 == pieces.len() { EOP | RS } else { 0 };
            let options = if i == 0 { options } else { 0 };
            let words = [buffer as u32, 0, command | last | piece.len() as u32, options];
            self.queue_words(queue, words);
        }
    }

    pub(crate) fn queue_words(&mut self, queue: u32, words: [u32; 4]) {
        let next = self.tx_next[queue as usize];
        let at = TX_RINGS + RING_BYTES * u64::from(queue) + 16 * u64::from(next);
        self.put(at, &words);
        self.tx_next[queue as usize] = (next + 1) % RING;
    }

    /// Moves the tail.
    pub(crate) fn ring(&mut self, queue: u32) {
        self.w32(tx(queue, 0x18), self.tx_next[queue as usize]);
    }

    /// The status of a transmit descriptor.
    pub(crate) fn tx_status(&self, queue: u32, index: u64) -> u32 {
        self.word(TX_RINGS + RING_BYTES * u64::from(queue) + 16 * index + 12) & 0xf
    }

    /// Vectors whose messages have come since the last time.
    pub(crate) fn messages(&mut self) -> Vec<u32> {
        let vector = |interrupt| match interrupt {
            Interrupt::Msi(message) => message.data - MESSAGE.data,
            Interrupt::Intx(_) => panic!("messages are on"),
        };
        self.line.take().into_iter().map(vector).collect()
    }

    /// Time passes.
    pub(crate) fn us(&mut self, us: u64) {
        self.wait(Span::from_us(us));
    }
}

/// A frame to `destination` whose payload of `payload` bytes counts up, padded to 60 bytes.
pub(crate) fn frame_to(destination: [u8; 6], payload: usize) -> Vec<u8> {
    let mut frame = destination.to_vec();
    frame.extend([2, 0, 0, 0, 0, 9, 0x88, 0xb5]);
    frame.extend((0..payload).map(|i| i as u8));
    frame.resize(frame.len().max(60), 0);
    frame
}

/// A datagram from this port to the station.
pub(crate) fn udp(port: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2; 6], STATION)
        .ipv4([10, 9, 0, 1], [10, 9, 0, 2], 64)
        .udp(port, 9)
        .write(&mut frame, &[7; 30])
        .unwrap();
    frame
}

/// A TCP segment from this port to the station.
pub(crate) fn tcp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2; 6], STATION)
        .ipv4([10, 9, 0, 1], [10, 9, 0, 2], 64)
        .tcp(port, 9, 1_000, 4_096)
        .write(&mut frame, payload)
        .unwrap();
    frame
}
