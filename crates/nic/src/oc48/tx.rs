//! Transmitting: the FIFO of descriptors, and the engine that takes one after the other.
//!
//! A push only puts a descriptor into the FIFO and sets the alarm. The transfer itself, the bytes'
//! way into the card's memory, takes place when it is completed, so the driver may not touch them
//! before. A call that comes late completes what was due, each transfer at its own time.

use std::collections::VecDeque;

use warikomi_clock::{Span, Time};
use warikomi_pci::DmaError;

use super::{Oc48, TIMER_TX, regs};
use crate::NicContext;
use crate::alarm::Alarm;
use crate::engine::Engine;

/// Transfers completed in one go before the support side gets to do something else.
const TRANSFERS_PER_CALL: usize = 64;
/// How soon the rest is taken up.
const CONTINUE_AFTER: Span = Span::from_ns(1);

/// A descriptor.
#[derive(Clone, Copy, Debug)]
struct Piece {
    address: u64,
    /// Length and marks, as pushed.
    command: u32,
    pushed_at: Time,
}

impl Piece {
    fn bytes(self) -> usize {
        (self.command & regs::LENGTH) as usize
    }

    fn has(self, mark: u32) -> bool {
        self.command & mark != 0
    }
}

/// The packet whose pieces are being transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packet {
    /// There is none.
    None,
    /// Its bytes so far are in the buffer.
    Good,
    /// It makes no frame; its pieces are passed over up to the last.
    Unusable,
}

#[derive(Debug)]
pub(super) struct Transmitter {
    enabled: bool,
    halted: bool,
    address: u64,
    fifo: VecDeque<Piece>,
    engine: Engine,
    /// When the transfer of the first descriptor is completed; never, if the engine stands still.
    due: Time,
    alarm: Alarm,
    packet: Packet,
    /// Room for the longest packet, and how much of it the present one takes up.
    buffer: Box<[u8]>,
    held: usize,
}

impl Transmitter {
    pub(super) fn new(engine: Engine, max_frame_bytes: usize) -> Self {
        Transmitter {
            enabled: false,
            halted: false,
            address: 0,
            fifo: VecDeque::with_capacity(regs::FIFO),
            engine,
            due: Time::NEVER,
            alarm: Alarm::new(TIMER_TX),
            packet: Packet::None,
            buffer: vec![0; max_frame_bytes].into(),
            held: 0,
        }
    }

    pub(super) fn reset(&mut self) {
        (self.enabled, self.halted, self.address) = (false, false, 0);
        self.fifo.clear();
        self.engine.reset();
        (self.packet, self.held) = (Packet::None, 0);
        self.stand_still();
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// TX_ADDRESS.
    pub(super) fn address(&self) -> u64 {
        self.address
    }

    pub(super) fn set_address(&mut self, address: u64) {
        self.address = address;
    }

    /// TX_REMAINING.
    pub(super) fn remaining(&self) -> usize {
        self.fifo.len()
    }

    /// A DMA transfer failed, here or at the receiver.
    pub(super) fn halt(&mut self) {
        self.halted = true;
        self.stand_still();
    }

    pub(super) fn enable(&mut self, cx: &mut NicContext<'_>, on: bool) {
        if on == self.enabled {
            return;
        }
        self.enabled = on;
        if on {
            self.begin(cx.now());
            self.set_alarm(cx);
        } else {
            self.stand_still();
        }
    }

    /// A transfer that was under way begins anew later.
    fn stand_still(&mut self) {
        self.due = Time::NEVER;
        self.alarm.cancel();
    }

    /// TX_PUSH. Whether there was room.
    fn push(&mut self, cx: &mut NicContext<'_>, command: u32) -> bool {
        if self.fifo.len() >= regs::FIFO {
            return false;
        }
        self.fifo.push_back(Piece { address: self.address, command, pushed_at: cx.now() });
        if self.due == Time::NEVER {
            self.begin(cx.now());
            self.set_alarm(cx);
        }
        true
    }

    /// Begins the transfer of the first descriptor, not before `from`.
    fn begin(&mut self, from: Time) {
        self.due = match self.fifo.front() {
            Some(piece) if self.enabled && !self.halted => {
                let from = from.max(piece.pushed_at);
                self.engine.transfer(from, self.held, piece.bytes(), false)
            }
            _ => Time::NEVER,
        };
    }

    fn set_alarm(&mut self, cx: &mut NicContext<'_>) {
        if self.due != Time::NEVER {
            self.alarm.set(cx, self.due);
        }
    }

    /// Moves a piece's bytes into the card's memory, behind those of its packet that are there.
    fn collect(&mut self, cx: &mut NicContext<'_>, piece: Piece) -> Result<(), DmaError> {
        if piece.has(regs::FIRST) {
            (self.packet, self.held) = (Packet::Good, 0);
        } else if self.packet == Packet::None {
            self.packet = Packet::Unusable;
        }
        let end = self.held + piece.bytes();
        if self.packet == Packet::Unusable || end > self.buffer.len() {
            (self.packet, self.held) = (Packet::Unusable, 0);
        } else if piece.bytes() > 0 {
            cx.dma_read(piece.address, &mut self.buffer[self.held..end])?;
            self.held = end;
        }
        Ok(())
    }
}

impl Oc48 {
    /// The driver pushes a descriptor.
    #[inline]
    pub(super) fn push_transmit(&mut self, cx: &mut NicContext<'_>, command: u32) {
        if !self.tx.push(cx, command) {
            self.intr.report(cx, regs::TX_OVERRUN);
        }
    }

    /// The alarm: completes the transfers that are due, a bounded number of them.
    pub(super) fn complete_transfers(&mut self, cx: &mut NicContext<'_>) {
        if !self.tx.alarm.event(cx) {
            return;
        }
        let mut report = 0;
        for _ in 0..TRANSFERS_PER_CALL {
            if self.tx.due > cx.now() {
                break;
            }
            match self.complete_transfer(cx) {
                Ok(bits) => report |= bits,
                Err(_) => {
                    self.system_error(cx);
                    break;
                }
            }
        }
        if self.tx.due <= cx.now() {
            self.tx.alarm.set(cx, cx.now() + CONTINUE_AFTER);
        } else {
            self.tx.set_alarm(cx);
        }
        self.intr.report(cx, report);
    }

    /// Completes the transfer of the first descriptor, and begins the next; what there is to report.
    fn complete_transfer(&mut self, cx: &mut NicContext<'_>) -> Result<u32, DmaError> {
        let tx = &mut self.tx;
        let (Some(&piece), at) = (tx.fifo.front(), tx.due) else { return Ok(0) };
        let cut_off = piece.has(regs::FIRST) && tx.packet != Packet::None;
        tx.collect(cx, piece)?;
        tx.fifo.pop_front();
        cx.descriptors_sent(1);
        let mut report = if cut_off { regs::TX_OVERRUN } else { 0 };
        if piece.has(regs::LAST) {
            report |= regs::TX_DONE;
            if tx.packet == Packet::Good && tx.held > 0 {
                tx.engine.complete(at, tx.held);
                if self.link {
                    cx.frame_tx_at(at, &tx.buffer[..tx.held]);
                }
            } else {
                report |= regs::TX_OVERRUN;
            }
            (tx.packet, tx.held) = (Packet::None, 0);
        }
        tx.begin(at);
        Ok(report)
    }
}
