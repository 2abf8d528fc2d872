//! Numbered frames.

use std::ops::Range;

/// The length of each, in bytes.
pub(crate) const FRAME_BYTES: u32 = 60;
/// Where its number is.
pub(crate) const NUMBER: Range<usize> = 14..22;

pub(crate) fn frame(number: u64) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 9, 0x88, 0xb5]);
    frame.extend(number.to_le_bytes());
    frame.resize(FRAME_BYTES as usize, number as u8);
    frame
}

/// The number of a frame, all bytes of which are as they were made.
pub(crate) fn number_of(bytes: &[u8]) -> u64 {
    let number = bytes[NUMBER].try_into().map(u64::from_le_bytes).expect("eight bytes");
    assert_eq!(bytes, frame(number), "the frame was changed");
    number
}
