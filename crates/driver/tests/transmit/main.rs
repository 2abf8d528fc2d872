//! The transmitter over a simulated device, in one thread and in virtual time.

mod auto;
mod rig;
mod transmitter;
