//! A ring of descriptors of which head and tail say whose they are (82574, 7.1.8 and 7.2.7; 82576, 7.1.4.3 and
//! 7.2.2.4): those from the head up to the tail are the card's.

/// Where it is, its length in descriptors, and the driver's end of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ring {
    pub(crate) base: u64,
    pub(crate) count: u16,
    pub(crate) tail: u16,
}

impl Ring {
    /// The address of a descriptor; each has `bytes` bytes.
    pub(crate) fn at(&self, place: u16, bytes: u32) -> u64 {
        self.base.wrapping_add(u64::from(bytes) * u64::from(place))
    }

    /// The place behind this one.
    pub(crate) fn following(&self, place: u16) -> u16 {
        if place + 1 >= self.count { 0 } else { place + 1 }
    }

    /// Whether a descriptor at or behind the head is the card's.
    pub(crate) fn is_owned(&self, place: u16) -> bool {
        place < self.count && place != self.tail
    }

    /// Descriptors that are the card's while its head is here.
    pub(crate) fn free(&self, head: u16) -> u16 {
        let (count, tail) = (self.count, self.tail);
        match () {
            () if head >= count || tail >= count => 0,
            () if tail >= head => tail - head,
            () => count - head + tail,
        }
    }
}
