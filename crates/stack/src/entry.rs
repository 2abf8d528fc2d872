//! What the entries of a channel's rings say.

use warikomi_shared::Entry;

/// What is to be known about the bytes of a completion or a transmission.
pub mod flags {
    /// The device found the checksums of the IP, and UDP or TCP, headers right.
    pub const CHECKSUMS_GOOD: u8 = 1;
    /// The buffer comes back unused: nothing is in it.
    pub const RETURNED: u8 = 2;
    /// The bytes are the payload of a UDP datagram, with its headers right before them; what is to
    /// be sent has [`HEADROOM_BYTES`](crate::HEADROOM_BYTES) of room for them.
    pub const UDP: u8 = 4;
    /// The bytes are a part of the TCP connection's stream.
    pub const STREAM: u8 = 8;
    /// Of a transmission that is done: it could not be sent.
    pub const FAILED: u8 = 16;
    /// With [`RETURNED`] or [`FAILED`]: a dead provider had this buffer. The entry names none, because the
    /// user alone knows which these are; `extra` counts those that are left, this one included.
    pub const FORGOTTEN: u8 = 32;
}

/// A part of a buffer.
///
/// First word: bits 0 to 23 are the token, 24 to 31 [`flags`], 32 to 47 the offset, 48 to 63 the
/// length, both in bytes. Second word: `extra`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The buffer.
    pub token: u32,
    /// Where the bytes begin in it.
    pub offset: u16,
    /// Length in bytes.
    pub length: u16,
    /// See [`flags`].
    pub flags: u8,
    /// Of a completion, the time stamp counter when the driver took the frame from its ring. Of a
    /// transmission by UDP, the [`Destination`]. With [`flags::FORGOTTEN`] a count. Otherwise 0.
    pub extra: u64,
}

/// Tokens that an entry can name.
pub(crate) const TOKEN_MASK: u64 = 0xff_ffff;
/// The token of an entry that names no buffer: there are never so many.
pub(crate) const NO_TOKEN: u32 = 0xff_ffff;
/// Room for headers before a payload that is to be sent; as much as keeps the payload aligned.
pub const HEADROOM_BYTES: u16 = 64;

impl Slice {
    /// The whole buffer, as it is posted.
    pub fn posted(token: u32) -> Slice {
        Slice { token, offset: 0, length: 0, flags: 0, extra: 0 }
    }

    /// Whether it has this flag.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The entry for the ring. A token has 24 bits.
    #[inline]
    pub fn to_entry(self) -> Entry {
        let word = u64::from(self.token) & TOKEN_MASK
            | u64::from(self.flags) << 24
            | u64::from(self.offset) << 32
            | u64::from(self.length) << 48;
        [word, self.extra]
    }

    /// What an entry says. Every entry says something; whether it makes sense is another question.
    #[inline]
    pub fn from_entry([word, extra]: Entry) -> Slice {
        Slice {
            token: (word & TOKEN_MASK) as u32,
            flags: (word >> 24) as u8,
            offset: (word >> 32) as u16,
            length: (word >> 48) as u16,
            extra,
        }
    }
}

/// Where a datagram goes, and the port that it comes from: bits 0 to 31 of
/// [`Slice::extra`] are the address, most significant byte highest, 32 to 47 the port there, 48 to 63
/// our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The address.
    pub address: std::net::Ipv4Addr,
    /// The port there.
    pub port: u16,
    /// The port that it comes from.
    pub source_port: u16,
}

impl Destination {
    /// As [`Slice::extra`] has it.
    pub fn to_word(self) -> u64 {
        u64::from(self.address.to_bits())
            | u64::from(self.port) << 32
            | u64::from(self.source_port) << 48
    }

    /// The destination that a word encodes.
    pub fn from_word(word: u64) -> Destination {
        Destination {
            address: std::net::Ipv4Addr::from_bits(word as u32),
            port: (word >> 32) as u16,
            source_port: (word >> 48) as u16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_entry_says_something_and_says_it_again(word: u64, extra: u64) {
            prop_assert_eq!(Slice::from_entry([word, extra]).to_entry(), [word, extra]);
        }

        #[test]
        fn a_destination_survives_the_ring(word: u64) {
            prop_assert_eq!(Destination::from_word(word).to_word(), word);
        }
    }
}
