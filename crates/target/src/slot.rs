//! The NIC's slot.

use warikomi_nic::rtl8168::Rtl8168;
use warikomi_nic::wire::CountedSink;
use warikomi_nic::{Nic, NicFunction};

/// Puts what `change` makes of the NIC into its slot.
pub(crate) fn change_nic(
    slot: &mut Box<dyn Nic>,
    change: &mut dyn FnMut(Box<dyn Nic>) -> Box<dyn Nic>,
) {
    // Another card keeps the slot meanwhile; nobody sees it.
    let other = Box::new(NicFunction::new(Rtl8168::new(), Box::new(CountedSink::new())));
    let nic = std::mem::replace(slot, other);
    *slot = change(nic);
}
