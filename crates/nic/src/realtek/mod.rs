//! What the Ethernet chips of Realtek have in common: address filter, errors of frames and tally counters.

pub(crate) mod errors;
pub(crate) mod filter;
pub(crate) mod tally;
