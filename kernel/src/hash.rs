//! What stands for a text, such as a recipe, in names of directories.

/// FNV-1a, 64 bits: stable between versions of the standard library, and no secret hangs on it.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
