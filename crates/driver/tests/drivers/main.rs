//! Each driver against the model of its device, in one thread.

mod bench;
mod hostile;
mod oc48;
mod receive;
mod rtl8168;
mod transmit;
