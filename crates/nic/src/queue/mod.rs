//! What every card has: queues of descriptors, the engine that empties the transmit queues,
//! interrupt moderation and steering.
//!
//! A model says what its descriptors look like ([`RxFormat`], [`TxFormat`]) and when something
//! happens; finding a descriptor, placing a frame, completing, keeping account, and the faults of all
//! that stand here. Everything acts through the [`NicContext`](crate::NicContext) of the call alone, and
//! is kept by the model in its own fields: one [`RxQueue`] for each receive queue, one [`TxEngine`]
//! for all transmit queues that share a DMA engine.
//!
//! Formats are type parameters: they are inlined, and cost a reception no indirect call and no allocation.
//! The first check after a placement is for [`Placement::Completed`], alone: a `match` over all outcomes took
//! about 1 ns more.
//!
//! What needs a timer has an [`Alarm`] with a tag of the model's choosing, and a method to be called
//! when [`NicModel::timer`](crate::NicModel::timer) comes with that tag. Every queue and every
//! engine needs a tag of its own.

mod ahead;
mod alarm;
mod bell;
mod causes;
mod engine;
mod fifo;
mod late;
mod moderation;
mod rx;
mod rx_format;
mod steering;
mod tx;
mod tx_engine;
mod unseen;

pub use alarm::Alarm;
pub use causes::Causes;
pub use engine::{Engine, Line};
pub use moderation::Moderation;
pub use rx::{Placement, RxQueue};
pub use rx_format::{Completion, RxDescriptor, RxFormat};
pub use steering::{KEY_BYTES, Steering, toeplitz};
pub use tx::{Outgoing, TxDescriptor, TxFormat, TxQueue};
pub use tx_engine::{Arbitration, TxEngine, TxLimits, TxRun};

/// A descriptor, if it belongs to the card, or why it could not be read.
pub type Found<D> = Result<Option<D>, warikomi_pci::DmaError>;

#[cfg(test)]
mod tests;
