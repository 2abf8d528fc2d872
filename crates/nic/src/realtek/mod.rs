//! What the Ethernet chips of Realtek have in common: address filter, descriptor rings, errors of frames, tally
//! counters, timer, what is stored of a frame, and what is done to one before it leaves.

pub(crate) mod errors;
pub(crate) mod filter;
pub(crate) mod ring;
pub(crate) mod sender;
pub(crate) mod stored;
pub(crate) mod tally;
pub(crate) mod timer;
