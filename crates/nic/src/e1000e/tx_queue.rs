//! The transmitter: its rings, and what the context descriptors of each have said (82574, 7.2).

use super::descriptor::Words;
use super::offload::Context;
use super::regs::{self, Registers};
use super::timers;
use crate::intel::tx_ring::{AT_ONCE, MAX_CHAIN_BYTES, PACED, TAG_BYTES, TxRing};
use crate::queue::{Arbitration, Engine, TxEngine};

/// Takes over what the registers say of the ring of this queue.
pub(super) fn take_over(ring: &mut TxRing<Words>, file: &Registers, queue: u16) {
    let at = |register| register + regs::QUEUE_STRIDE * queue;
    let (length, tail) = (file.get(at(regs::TDLEN)), file.get(at(regs::TDT)));
    ring.take_over(file.pair(at(regs::TDBAL)), length, tail);
}

#[derive(Debug)]
pub(super) struct Transmitter {
    pub(super) engine: TxEngine<TxRing<Words>>,
    /// What the last context descriptor of each queue said.
    pub(super) contexts: [Context; regs::QUEUES as usize],
    /// Room for a tag, then the frame.
    pub(super) buffer: Vec<u8>,
    pub(super) segment: Vec<u8>,
}

impl Transmitter {
    pub(super) fn new(engine: Option<Engine>) -> Self {
        let limits = if engine.is_some() { PACED } else { AT_ONCE };
        let rings = [TxRing::default(), TxRing::default()];
        Transmitter {
            engine: TxEngine::new(rings, Arbitration::RoundRobin, engine, limits, timers::TX),
            contexts: Default::default(),
            buffer: vec![0; TAG_BYTES + MAX_CHAIN_BYTES],
            segment: Vec::new(),
        }
    }
}
