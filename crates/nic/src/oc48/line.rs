//! What the card's line and bus are unless another is asked for.

/// What its line carries, in bits a second.
pub const LINE_BPS: u64 = 2_400_000_000;
/// The longest IP packet in bytes.
pub const MTU: u32 = 65_535;
/// The bus that it is on unless another is asked for.
pub const USUAL_BUS: &str = "pci-64-66";
