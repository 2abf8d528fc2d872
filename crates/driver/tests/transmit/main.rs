//! The transmitter over a simulated device, in one thread and in virtual time.

mod rig;
mod transmitter;
