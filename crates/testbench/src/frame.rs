/// A frame to everybody of `bytes` bytes, whose payload counts up from `from`.
pub fn frame(bytes: usize, from: usize) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 9, 0x88, 0xb5]);
    frame.extend((frame.len()..bytes).map(|at| (at + from) as u8));
    frame
}
