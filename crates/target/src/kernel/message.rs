//! The messages of PCI over virtio (Linux `include/uapi/linux/virtio_pcidev.h`).

use warikomi_pci::MsiMessage;

/// Bytes of `struct virtio_pcidev_msg` before its data: op, bar, reserved, size, address.
pub(super) const HEADER_BYTES: usize = 16;

/// The most that one message may move. Drivers move 8 bytes or less, except with `memcpy_toio`
/// and the like, which stay inside a BAR.
pub(super) const MAX_DATA_BYTES: usize = 4096;

const OP_CONFIG_READ: u8 = 1;
const OP_CONFIG_WRITE: u8 = 2;
const OP_MMIO_READ: u8 = 3;
const OP_MMIO_WRITE: u8 = 4;
const OP_MMIO_MEMSET: u8 = 5;
const OP_INT: u8 = 6;
const OP_MSI: u8 = 7;

/// What the kernel asks of its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access<'a> {
    ConfigRead {
        offset: u16,
        len: usize,
    },
    ConfigWrite {
        offset: u16,
        data: &'a [u8],
    },
    BarRead {
        bar: u8,
        offset: u64,
        len: usize,
    },
    BarWrite {
        bar: u8,
        offset: u64,
        data: &'a [u8],
    },
    /// `disguised`: it came as a configuration write.
    BarFill {
        bar: u8,
        offset: u64,
        len: usize,
        value: u8,
        disguised: bool,
    },
}

/// Why a message is not an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadMessage {
    #[error("shorter than a header")]
    Short,
    #[error("unknown operation {0}")]
    Operation(u8),
    #[error("of {0} bytes")]
    Size(u32),
    #[error("outside configuration space")]
    Offset,
}

impl Access<'_> {
    /// The offset in this BAR that is accessed, if it is the BAR.
    #[inline]
    pub(super) fn place(&self) -> Option<(u8, u64)> {
        match *self {
            Access::BarRead { bar, offset, .. }
            | Access::BarWrite { bar, offset, .. }
            | Access::BarFill { bar, offset, .. } => Some((bar, offset)),
            Access::ConfigRead { .. } | Access::ConfigWrite { .. } => None,
        }
    }

    /// Decodes a request as it stands in the guest's buffer.
    pub(super) fn decode(message: &[u8]) -> Result<Access<'_>, BadMessage> {
        let (header, data) = message.split_at_checked(HEADER_BYTES).ok_or(BadMessage::Short)?;
        let (op, bar) = (header[0], header[1]);
        let size = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        let mut address = [0; 8];
        address.copy_from_slice(&header[8..16]);
        let offset = u64::from_le_bytes(address);

        let len = size as usize;
        if len == 0 || len > MAX_DATA_BYTES {
            return Err(BadMessage::Size(size));
        }
        let config_offset = || u16::try_from(offset).map_err(|_| BadMessage::Offset);
        let payload = || data.get(..len).ok_or(BadMessage::Short);
        let fill = || data.first().copied().ok_or(BadMessage::Short);
        match op {
            OP_CONFIG_READ => Ok(Access::ConfigRead { offset: config_offset()?, len }),
            // Some kernels send memset_io() on a BAR under this number: one byte of data, where a
            // configuration write always has room for eight.
            OP_CONFIG_WRITE if data.len() == 1 && len != 1 => {
                Ok(Access::BarFill { bar, offset, len, value: fill()?, disguised: true })
            }
            OP_CONFIG_WRITE => {
                Ok(Access::ConfigWrite { offset: config_offset()?, data: payload()? })
            }
            OP_MMIO_READ => Ok(Access::BarRead { bar, offset, len }),
            OP_MMIO_WRITE => Ok(Access::BarWrite { bar, offset, data: payload()? }),
            OP_MMIO_MEMSET => {
                Ok(Access::BarFill { bar, offset, len, value: fill()?, disguised: false })
            }
            other => Err(BadMessage::Operation(other)),
        }
    }
}

/// Bytes of an interrupt message with the largest payload.
pub(super) const INTERRUPT_BYTES: usize = HEADER_BYTES + 4;

/// An MSI message: the payload is what the driver's system had programmed as message data. UML
/// takes two bytes for MSI and four for MSI-X; the number is the same.
pub(super) fn msi_message(message: MsiMessage) -> [u8; INTERRUPT_BYTES] {
    let mut bytes = [0; INTERRUPT_BYTES];
    bytes[0] = OP_MSI;
    bytes[4..8].copy_from_slice(&4u32.to_le_bytes());
    bytes[8..16].copy_from_slice(&message.address.to_le_bytes());
    bytes[16..20].copy_from_slice(&message.data.to_le_bytes());
    bytes
}

/// The INTx wire was asserted; UML has no message for taking it back.
pub(super) fn intx_message() -> [u8; INTERRUPT_BYTES] {
    let mut bytes = [0; INTERRUPT_BYTES];
    bytes[0] = OP_INT;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(op: u8, size: u32, address: u64, data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![op, 2, 0, 0];
        bytes.extend_from_slice(&size.to_le_bytes());
        bytes.extend_from_slice(&address.to_le_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    #[test]
    fn decodes_each_access() {
        let read = message(3, 4, 0x40, &[]);
        assert_eq!(Access::decode(&read), Ok(Access::BarRead { bar: 2, offset: 0x40, len: 4 }));
        let write = message(2, 2, 4, &[6, 4, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Access::decode(&write), Ok(Access::ConfigWrite { offset: 4, data: &[6, 4] }));
    }

    #[test]
    fn a_memset_that_comes_as_a_configuration_write_is_a_memset() {
        let fill =
            |disguised| Ok(Access::BarFill { bar: 2, offset: 0x10, len: 64, value: 7, disguised });
        assert_eq!(Access::decode(&message(2, 64, 0x10, &[7])), fill(true));
        assert_eq!(Access::decode(&message(5, 64, 0x10, &[7])), fill(false));
    }

    #[test]
    fn refuses_what_it_cannot_bound() {
        assert_eq!(Access::decode(&[1; 15]), Err(BadMessage::Short));
        assert_eq!(Access::decode(&message(3, 0, 0, &[])), Err(BadMessage::Size(0)));
        assert_eq!(Access::decode(&message(3, 1 << 31, 0, &[])), Err(BadMessage::Size(1 << 31)));
        assert_eq!(Access::decode(&message(4, 4, 0, &[1, 2])), Err(BadMessage::Short));
        assert_eq!(Access::decode(&message(9, 4, 0, &[])), Err(BadMessage::Operation(9)));
        assert_eq!(Access::decode(&message(1, 4, 1 << 16, &[])), Err(BadMessage::Offset));
    }

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = Access::decode(&bytes);
        }
    }
}
