//! Each driver against the model of its device, in one thread.

mod awake;
mod conformance;
mod descriptor_fifo;
mod rtl8139;
mod rtl8168;
