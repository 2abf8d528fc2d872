//! Entries of the capability list that cards of PCI Express have in common.

use warikomi_pci::Capability;

/// Power management (PCI Bus Power Management Interface 1.2, section 3.2): present and without
/// effect. It claims no wake-up, so that Linux leaves the function in D0 while it is idle.
pub(crate) fn power_management() -> Capability {
    // Version 3; D3hot keeps the state.
    Capability { bytes: vec![0x01, 0, 0x03, 0, 0x08, 0, 0, 0], writable: vec![0, 0, 0, 0, 0x03] }
}

/// PCI Express endpoint (PCI Express Base 1.1, section 7.8): one lane at 2.5 GT/s, payloads of up
/// to 128 bytes, read requests of up to 512.
pub(crate) fn pci_express() -> Capability {
    let mut bytes = vec![0; 20];
    (bytes[0], bytes[2]) = (0x10, 0x01);
    bytes[4..8].copy_from_slice(&0x0000_8000_u32.to_le_bytes());
    bytes[8..10].copy_from_slice(&0x2810_u16.to_le_bytes());
    bytes[12..16].copy_from_slice(&0x0000_0011_u32.to_le_bytes());
    bytes[18..20].copy_from_slice(&0x1011_u16.to_le_bytes());
    let mut writable = vec![0; 18];
    writable[8..10].copy_from_slice(&0x7fff_u16.to_le_bytes());
    writable[16..18].copy_from_slice(&0x01f3_u16.to_le_bytes());
    Capability { bytes, writable }
}
