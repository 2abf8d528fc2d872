//! What is stored of a frame, and what the descriptor says of its tag.

use warikomi_pci::Pieces;

use crate::Frame;
use crate::checksum::{ETHER_TYPE, VLAN_TYPE};

/// The tag was taken out, and stands in the lower half of the descriptor's second word (RTL8169 Rev. 1.21, page 56;
/// Linux 8139cp.c, RxVlanTagged).
const TAG_AVAILABLE: u32 = 1 << 16;
/// What comes behind the tag begins here.
const BEHIND_TAG: usize = ETHER_TYPE + 4;

/// The pieces of a frame, and the descriptor's second word. Its tag is taken out if it has one and `strip_tag` is set.
#[inline]
pub(crate) fn stored(frame: Frame<'_>, strip_tag: bool) -> (Pieces<'_>, u32) {
    let (bytes, fcs) = (frame.bytes, Some(frame.fcs));
    if strip_tag
        && let Some(&[.., a, b, tag_high, tag_low, _, _]) =
            bytes.first_chunk::<{ BEHIND_TAG + 2 }>()
        && [a, b] == VLAN_TYPE
    {
        // The tag as it stood in the frame: its first byte is the lower one.
        let tag = u16::from_le_bytes([tag_high, tag_low]);
        let parts = [&bytes[..ETHER_TYPE], &bytes[BEHIND_TAG..]];
        return (Pieces { parts, fcs }, TAG_AVAILABLE | u32::from(tag));
    }
    (Pieces { parts: [bytes, &[]], fcs }, 0)
}
