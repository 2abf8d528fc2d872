//! A line of 100 Mbit/s.

use warikomi_clock::Span;
use warikomi_nic::rtl8139::{RTL8139, Rtl8139};

use crate::too::{Too, frame_to};

#[test]
fn slots_come_back_as_the_line_takes_what_is_in_the_fifo() {
    let mut too = Too::open_with(Rtl8139::with(&RTL8139, None, Some(100_000_000), None));
    let frame = frame_to([0xff; 6], 1_486);
    let begin = too.now;
    for _ in 0..4 {
        too.xmit(&frame);
    }
    assert!(too.sent().is_empty(), "nothing within a register write");
    let (mut sent, mut at) = (0, begin);
    while too.step() {
        let more = too.sent().len();
        sent += more;
        at = if more > 0 { too.now } else { at };
    }
    assert_eq!(sent, 4);
    // Two frames wait in a FIFO of 2 KB at most, and each takes 123.04 µs.
    let takes = at.since(begin);
    assert!(takes > Span::from_us(300) && takes < Span::from_us(370), "{takes}");
    assert_eq!(too.r16(0x60) & 0xf, 0xf);
}
