//! The ring of bytes that the device fills, and the buffers that frames are copied to.
//!
//! The device knows nothing of buffers: it writes frames one behind the other, each behind a word with status and
//! length. How far it has written is read once a poll, because a read costs a round trip. Whatever stands in the
//! ring is untrusted: a length is held against what the device says that it has written, and bytes are
//! copied out before they are looked at.

use std::collections::VecDeque;

use warikomi_pci::{DmaMemory, Mmio, Width};

use super::regs;
use crate::access::{write8, write16, write32};
use crate::{Buffer, DriverError, Hardware, Received, RxSink};

/// Bytes of the ring (RX_BUF_LEN).
const RING_BYTES: u32 = 32 << 10;
/// With what is behind it for a frame that does not wrap (RX_BUF_TOT_LEN), and room for our longest one.
pub(super) const RING_ROOM: u64 = RING_BYTES as u64 + 4_096;
/// The word before each frame.
const HEADER_BYTES: u32 = 4;
/// The check sequence, which the device leaves behind the frame.
const FCS_BYTES: u32 = 4;
/// The longest frame, check sequence included.
const MOST_BYTES: u32 = 4_096;
/// The shortest: its addresses and its type.
const LEAST_BYTES: u32 = 14 + FCS_BYTES;
/// What CAPR is behind.
const READ_BEHIND: u32 = 16;
/// Buffers that are held at most.
pub(super) const MOST_BUFFERS: usize = 64;
/// The longest that is of use.
pub(super) const MAX_BUFFER_BYTES: u32 = MOST_BYTES;
/// What the receiver takes: its own frames, and all to groups.
pub(super) const CONFIG: u32 = regs::RX_TRANSFERS
    | regs::RX_RING_32K
    | regs::RX_NO_WRAP
    | regs::ACCEPT_BROADCAST
    | regs::ACCEPT_MULTICAST
    | regs::ACCEPT_MY_PHYS;

#[derive(Debug, Default)]
pub(super) struct Receiver {
    ring: u64,
    /// Where the next frame begins in the ring.
    next: u32,
    /// Buffers for the next frames, and how many there may be.
    buffers: VecDeque<Buffer>,
    most: usize,
    frame: Vec<u8>,
    errors: u64,
}

/// What a header says.
enum Found {
    /// A good frame of this length, check sequence included.
    Frame(u32),
    /// A damaged one of this length.
    Damaged(u32),
    /// It is still being written.
    Unfinished,
    /// What cannot be: we have lost our way.
    Nonsense,
}

/// Bytes that a frame of this length takes up.
fn occupied(bytes: u32) -> u32 {
    (HEADER_BYTES + bytes).next_multiple_of(4)
}

impl Receiver {
    /// An empty ring at `ring`; at most `most` buffers are held.
    pub(super) fn set_up(&mut self, ring: u64, most: usize) {
        *self = Receiver { ring, most, frame: vec![0; MOST_BYTES as usize], ..Receiver::default() };
    }

    pub(super) fn errors(&self) -> u64 {
        self.errors
    }

    /// Takes as many buffers as are lacking and `sink` has.
    pub(super) fn refill(&mut self, sink: &mut dyn RxSink) -> Result<(), DriverError> {
        while self.buffers.len() < self.most {
            let Some(buffer) = sink.buffer() else { return Ok(()) };
            self.buffers.push_back(buffer);
        }
        Ok(())
    }

    /// Takes at most `budget` frames that have come; how many.
    pub(super) fn poll(
        &mut self,
        hw: &mut Hardware<'_>,
        budget: usize,
        sink: &mut dyn RxSink,
    ) -> Result<usize, DriverError> {
        self.refill(sink)?;
        if budget == 0 || self.buffers.is_empty() {
            return Ok(0);
        }
        let written = hw.mmio.read(regs::RX_BUF_ADDR, Width::B2)? as u32 % RING_BYTES;
        let mut taken = 0;
        while taken < budget && self.next != written {
            let Some(&buffer) = self.buffers.front() else { break };
            let filled = written.wrapping_sub(self.next) % RING_BYTES;
            let bytes = match self.look(hw.memory, filled)? {
                Found::Frame(bytes) => {
                    self.pass_on(hw.memory, bytes, buffer, sink)?;
                    bytes
                }
                Found::Damaged(bytes) => {
                    self.refuse(buffer, sink);
                    bytes
                }
                Found::Unfinished => break,
                Found::Nonsense => {
                    self.errors += 1;
                    self.restart(hw.mmio)?;
                    break;
                }
            };
            self.buffers.pop_front();
            taken += 1;
            self.next = (self.next + occupied(bytes)) % RING_BYTES;
            let read = self.next.wrapping_sub(READ_BEHIND) as u16;
            write16(hw.mmio, regs::RX_BUF_PTR, read)?;
        }
        self.refill(sink)?;
        Ok(taken)
    }

    /// Looks at the header of the next frame; the device has written `filled` bytes from there on.
    fn look(&self, memory: &dyn DmaMemory, filled: u32) -> Result<Found, DriverError> {
        let header = memory.load_u32(self.ring + u64::from(self.next))?;
        let (status, bytes) = (header as u16, header >> 16);
        Ok(match () {
            () if bytes == regs::UNFINISHED => Found::Unfinished,
            () if !(LEAST_BYTES..=MOST_BYTES).contains(&bytes) => Found::Nonsense,
            () if occupied(bytes) > filled => Found::Nonsense,
            () if status & regs::RX_STATUS_OK == 0 => Found::Damaged(bytes),
            () => Found::Frame(bytes),
        })
    }

    /// Copies the next frame to a buffer and passes that on.
    fn pass_on(
        &mut self,
        memory: &dyn DmaMemory,
        bytes: u32,
        buffer: Buffer,
        sink: &mut dyn RxSink,
    ) -> Result<(), DriverError> {
        let bytes = bytes - FCS_BYTES;
        if bytes > buffer.bytes() {
            self.refuse(buffer, sink);
            return Ok(());
        }
        let frame = &mut self.frame[..bytes as usize];
        memory.read(self.ring + u64::from(self.next + HEADER_BYTES), frame)?;
        memory.write(buffer.address, frame)?;
        // The device judges no checksums.
        sink.received(buffer, Received { bytes, checksums_good: false });
        Ok(())
    }

    /// Leaves a frame out. The layer above is told as by any driver: the buffer that it would have had comes back empty.
    fn refuse(&mut self, buffer: Buffer, sink: &mut dyn RxSink) {
        self.errors += 1;
        sink.returned(buffer);
    }

    /// Makes the device begin anew with an empty ring (rtl8139_rx_err).
    fn restart(&mut self, mmio: &mut dyn Mmio) -> Result<(), DriverError> {
        write8(mmio, regs::CHIP_CMD, regs::CMD_TX_ENB)?;
        write8(mmio, regs::CHIP_CMD, regs::CMD_TX_ENB | regs::CMD_RX_ENB)?;
        write32(mmio, regs::RX_CONFIG, CONFIG)?;
        self.next = 0;
        Ok(())
    }

    /// The ring goes away; every buffer goes back.
    pub(super) fn give_back(&mut self, sink: &mut dyn RxSink) {
        self.buffers.drain(..).for_each(|buffer| sink.returned(buffer));
        self.next = 0;
    }
}
