//! Each driver against the model of its device, in one thread.

mod conformance;
mod oc48;
mod rtl8168;
