//! What the Ethernet chips of Realtek have in common: address filter, errors of frames, tally counters, timer, and
//! what is done to a frame before it leaves.

pub(crate) mod errors;
pub(crate) mod filter;
pub(crate) mod sender;
pub(crate) mod tally;
pub(crate) mod timer;
