//! What Intel's gigabit controllers have in common: registers, EEPROM, receive filter, checksums, rings of descriptors,
//! time stamps, statistics.

pub(crate) mod admission;
pub(crate) mod filter;
pub(crate) mod hash;
pub(crate) mod link;
pub(crate) mod mdio;
pub(crate) mod nvm;
pub(crate) mod offload;
pub(crate) mod regs;
pub(crate) mod ring;
pub(crate) mod sender;
pub(crate) mod setup;
pub(crate) mod stamps;
pub(crate) mod stats;
pub(crate) mod throttle;
pub(crate) mod tx_ring;
pub(crate) mod verdict;
pub(crate) mod words;
