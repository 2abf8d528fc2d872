//! What is to be sent, and how.

use warikomi_driver::transmit::{Bounce, Completion};

use crate::buffers::BufferKind;

/// What is to be sent, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct SendPlan {
    /// Lengths of messages in bytes (the payload of a UDP datagram, 16 to 65,507), taken in turn in blocks
    /// of `block` messages. More than one of them is a mixture.
    pub sizes_bytes: Vec<u32>,
    /// Messages of one length before the next length's turn; 0 for a random length (from `seed`) each time.
    pub block: u64,
    /// Where randomness starts from.
    pub seed: u64,
    /// Messages.
    pub count: u64,
    /// Of these, at the beginning, so many that are sent but not measured.
    pub warmup: u64,
    /// Time between two messages in picoseconds; 0 for as fast as it goes. With a pace the application does
    /// not wait for room: a message for which the socket has none is a drop.
    pub interval_ps: u64,
    /// Buffers that messages are copied into.
    pub buffers: BufferKind,
    /// How completed transfers are noticed.
    pub completion: Completion,
    /// What goes through the bounce buffer.
    pub bounce: Bounce,
    /// Bytes that the socket lets be on their way.
    pub send_buffer_bytes: u64,
    /// In the payload's head, so that frames of another run are recognised.
    pub run_id: u32,
}

/// Why a plan cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} = {got} is not possible: {range}")]
pub struct PlanError {
    /// Which value.
    pub what: &'static str,
    /// What it is.
    pub got: String,
    /// What is possible.
    pub range: String,
}

impl SendPlan {
    /// Checks what could not work with a device whose longest frame has so many bytes.
    pub fn validate(&self, _max_frame_bytes: usize) -> Result<(), PlanError> {
        unimplemented!("helper stack")
    }

    /// Bytes of DMA memory that its buffers and bounce buffers need, with a device of so many transmit
    /// descriptors.
    pub fn dma_bytes(&self, _tx_descriptors: usize, _max_frame_bytes: usize) -> u64 {
        unimplemented!("helper stack")
    }
}
