use std::fmt;

/// How many bytes a register access moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Width {
    /// One byte.
    B1 = 1,
    /// Two bytes.
    B2 = 2,
    /// Four bytes.
    B4 = 4,
    /// Eight bytes.
    B8 = 8,
}

impl Width {
    /// The number of bytes: 1, 2, 4 or 8.
    #[inline]
    pub const fn bytes(self) -> usize {
        self as usize
    }

    /// All the bits that a value of this width can have.
    #[inline]
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - 8 * self.bytes())
    }

    /// The width of an access of this many bytes; `None` for a size that no bus cycle has.
    pub const fn from_bytes(bytes: usize) -> Option<Width> {
        match bytes {
            1 => Some(Width::B1),
            2 => Some(Width::B2),
            4 => Some(Width::B4),
            8 => Some(Width::B8),
            _ => None,
        }
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-byte", self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_width_is_known_by_its_bytes() {
        for (bytes, width, mask) in [
            (1, Width::B1, 0xff),
            (2, Width::B2, 0xffff),
            (4, Width::B4, 0xffff_ffff),
            (8, Width::B8, u64::MAX),
        ] {
            assert_eq!((width.bytes(), width.mask()), (bytes, mask));
            assert_eq!(Width::from_bytes(bytes), Some(width));
            assert_eq!(width.to_string(), format!("{bytes}-byte"));
        }
        assert_eq!([0, 3, 16].map(Width::from_bytes), [None; 3]);
    }
}
