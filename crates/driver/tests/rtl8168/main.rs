//! The rtl8168 driver against the model, in one thread.

mod bench;
mod hostile;
mod receive;
mod transmit;
