//! What a driver says before it gives up.

use warikomi_driver::device::Device;
use warikomi_pci::attach::layout::{report, state};
use warikomi_stack::StackError;

/// A failure before there is anything to serve.
pub(super) fn tell(device: &Device, error: &StackError) {
    device.last_words(&error.to_string());
    device.report(report::STATE, state::FAILED);
}
