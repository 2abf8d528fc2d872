//! The messages of vfio-user, as bytes.
//!
//! Source: QEMU documentation, `docs/interop/vfio-user.rst`, "vfio-user Protocol Specification"; each definition names
//! its section. Numbers that the specification takes from Linux are those of `include/uapi/linux/vfio.h`. All of it is
//! little-endian here: the specification has the byte order of the host ("Protocol Specification"), and we run on x86-64.

use rustix::io::Errno;

/// "Header": every message begins with it.
pub(super) const HEADER_BYTES: usize = 16;

/// The most data that one message of either side may carry (`max_data_xfer_size`; section "VFIO_USER_VERSION"). It is
/// the specification's default, so a client that is silent about it sends no more.
pub(super) const MOST_DATA_BYTES: usize = 1 << 20;
/// What a message has besides data: the longest fixed part is that of `VFIO_USER_DMA_MAP`, and there is room for the
/// text of `VFIO_USER_VERSION`.
const MOST_FIXED_BYTES: usize = 256;
/// No message is longer than this, header and all.
pub(super) const MOST_MESSAGE_BYTES: usize = HEADER_BYTES + MOST_FIXED_BYTES + MOST_DATA_BYTES;
/// The most bytes of a `VFIO_USER_VERSION` message's text.
pub(super) const MOST_VERSION_BYTES: usize = 4_096;

/// "Commands".
pub(super) mod command {
    pub(crate) const VERSION: u16 = 1;
    pub(crate) const DMA_MAP: u16 = 2;
    pub(crate) const DMA_UNMAP: u16 = 3;
    pub(crate) const DEVICE_GET_INFO: u16 = 4;
    pub(crate) const DEVICE_GET_REGION_INFO: u16 = 5;
    pub(crate) const DEVICE_GET_IRQ_INFO: u16 = 7;
    pub(crate) const DEVICE_SET_IRQS: u16 = 8;
    pub(crate) const REGION_READ: u16 = 9;
    pub(crate) const REGION_WRITE: u16 = 10;
    pub(crate) const DMA_READ: u16 = 11;
    pub(crate) const DMA_WRITE: u16 = 12;
    pub(crate) const DEVICE_RESET: u16 = 13;
}

/// "Header", flags.
mod flag {
    pub(super) const TYPE: u32 = 0xf;
    pub(super) const COMMAND: u32 = 0;
    pub(super) const REPLY: u32 = 1;
    pub(super) const NO_REPLY: u32 = 1 << 4;
    pub(super) const ERROR: u32 = 1 << 5;
}

/// Indexes of regions (`VFIO_PCI_*_REGION_INDEX`). BAR n is region n.
pub(super) mod region {
    pub(crate) const CONFIG: u32 = 7;
    /// Option ROM and VGA, of which a card has none, are counted.
    pub(crate) const COUNT: u32 = 9;
    /// `VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE`.
    pub(crate) const READ_WRITE: u32 = 3;
}

/// Indexes of interrupts (`VFIO_PCI_*_IRQ_INDEX`), and what is said of them.
pub(super) mod irq {
    pub(crate) const INTX: u32 = 0;
    pub(crate) const MSI: u32 = 1;
    pub(crate) const MSIX: u32 = 2;
    pub(crate) const REQUEST: u32 = 4;
    pub(crate) const COUNT: u32 = 5;
    /// `VFIO_IRQ_INFO_*`.
    pub(crate) const EVENTFD: u32 = 1;
    pub(crate) const MASKABLE: u32 = 1 << 1;
    pub(crate) const AUTOMASKED: u32 = 1 << 2;
}

/// `VFIO_DEVICE_FLAGS_RESET | VFIO_DEVICE_FLAGS_PCI`.
pub(super) const RESETTABLE_PCI_DEVICE: u32 = 3;

/// "VFIO_USER_DMA_MAP", flags.
const READABLE: u32 = 1;
const WRITABLE: u32 = 2;

/// `VFIO_DMA_UNMAP_FLAG_ALL`, with which QEMU takes all windows away.
const UNMAP_ALL: u32 = 2;

/// Bytes of the fixed parts of replies.
const UNMAP_BYTES: u32 = 24;
const DEVICE_INFO_BYTES: u32 = 16;
const REGION_INFO_BYTES: u32 = 32;
const IRQ_INFO_BYTES: u32 = 16;
/// Bytes in front of the data of a region access, and of DMA by message.
pub(super) const ACCESS_BYTES: usize = 16;

/// "Header", as it is on the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) id: u16,
    pub(super) command: u16,
    /// Of the whole message.
    pub(super) bytes: u32,
    flags: u32,
    error: u32,
}

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadHeader {
    #[error("a message of {0} bytes; a header alone has {HEADER_BYTES}")]
    TooShort(u32),
    #[error("a message of {0} bytes; {MOST_MESSAGE_BYTES} is the most, as max_data_xfer_size says")]
    TooLong(u32),
    #[error("a message of type {0}, which is neither a command nor a reply")]
    Type(u32),
}

impl Header {
    /// Of a command of ours.
    pub(super) fn command(id: u16, command: u16, body_bytes: usize) -> Header {
        Header { id, command, bytes: whole(body_bytes), flags: flag::COMMAND, error: 0 }
    }

    /// Of the answer to this command.
    pub(super) fn reply(&self, body_bytes: usize) -> Header {
        Header { bytes: whole(body_bytes), flags: flag::REPLY, error: 0, ..*self }
    }

    /// Of the answer that this command failed. It is a reply, and has no body.
    pub(super) fn error_reply(&self, error: Errno) -> Header {
        let error = error.raw_os_error() as u32;
        Header { bytes: whole(0), flags: flag::REPLY | flag::ERROR, error, ..*self }
    }

    pub(super) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..2].copy_from_slice(&self.id.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.command.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.flags.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.error.to_le_bytes());
        bytes
    }

    /// A header that promises neither less than itself nor more than a message may have.
    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header, BadHeader> {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let header = Header {
            id: half(0),
            command: half(2),
            bytes: word(4),
            flags: word(8),
            error: word(12),
        };
        match header.bytes as usize {
            bytes if bytes < HEADER_BYTES => Err(BadHeader::TooShort(header.bytes)),
            bytes if bytes > MOST_MESSAGE_BYTES => Err(BadHeader::TooLong(header.bytes)),
            _ if header.flags & flag::TYPE > flag::REPLY => {
                Err(BadHeader::Type(header.flags & flag::TYPE))
            }
            _ => Ok(header),
        }
    }

    pub(super) fn is_reply(&self) -> bool {
        self.flags & flag::TYPE == flag::REPLY
    }

    /// Whether the sender of this command wants no answer, not even that it failed.
    pub(super) fn wants_no_reply(&self) -> bool {
        self.flags & flag::NO_REPLY != 0
    }

    /// What a reply says of its command's failure.
    pub(super) fn failure(&self) -> Option<u32> {
        (self.flags & flag::ERROR != 0).then_some(self.error)
    }
}

fn whole(body_bytes: usize) -> u32 {
    // A body is never longer than a message of ours may be.
    (HEADER_BYTES + body_bytes) as u32
}

/// "VFIO_USER_DMA_MAP".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DmaMap {
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// In the file, if there is one.
    pub(super) offset: u64,
    pub(super) address: u64,
    pub(super) bytes: u64,
}

/// "VFIO_USER_DEVICE_SET_IRQS": what is to be done with which interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SetIrqs<'a> {
    pub(super) action: Action,
    pub(super) data: IrqData<'a>,
    pub(super) index: u32,
    pub(super) start: u32,
    pub(super) count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Mask,
    Unmask,
    Trigger,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IrqData<'a> {
    /// Of all that are named.
    None,
    /// Of those whose byte is not zero; one byte for each.
    Bool(&'a [u8]),
    /// The event descriptors that came along are for them.
    Eventfd,
}

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request<'a> {
    Version { major: u16, minor: u16, text: &'a [u8] },
    DmaMap(DmaMap),
    DmaUnmap { address: u64, bytes: u64 },
    DmaUnmapAll,
    DeviceInfo,
    RegionInfo { index: u32 },
    IrqInfo { index: u32 },
    SetIrqs(SetIrqs<'a>),
    RegionRead { region: u32, offset: u64, bytes: usize },
    RegionWrite { region: u32, offset: u64, data: &'a [u8] },
    Reset,
}

impl Request<'_> {
    /// Decodes the body of a command; the error is what its reply says.
    pub(super) fn decode(code: u16, body: &[u8]) -> Result<Request<'_>, Errno> {
        match code {
            command::VERSION => {
                let text = body.get(4..).ok_or(Errno::INVAL)?;
                if text.len() > MOST_VERSION_BYTES {
                    return Err(Errno::INVAL);
                }
                Ok(Request::Version { major: half(body, 0)?, minor: half(body, 2)?, text })
            }
            command::DMA_MAP => decode_map(body).map(Request::DmaMap),
            command::DMA_UNMAP => decode_unmap(body),
            command::DEVICE_GET_INFO => {
                has_room(body, DEVICE_INFO_BYTES)?;
                Ok(Request::DeviceInfo)
            }
            command::DEVICE_GET_REGION_INFO => {
                has_room(body, REGION_INFO_BYTES)?;
                Ok(Request::RegionInfo { index: word(body, 8)? })
            }
            command::DEVICE_GET_IRQ_INFO => {
                has_room(body, IRQ_INFO_BYTES)?;
                Ok(Request::IrqInfo { index: word(body, 8)? })
            }
            command::DEVICE_SET_IRQS => decode_irqs(body).map(Request::SetIrqs),
            command::REGION_READ => {
                let (region, offset, bytes) = decode_access(body)?;
                Ok(Request::RegionRead { region, offset, bytes })
            }
            command::REGION_WRITE => {
                let (region, offset, bytes) = decode_access(body)?;
                let data = &body[ACCESS_BYTES..];
                let data = (data.len() == bytes).then_some(data).ok_or(Errno::INVAL)?;
                Ok(Request::RegionWrite { region, offset, data })
            }
            command::DEVICE_RESET => Ok(Request::Reset),
            // What a server may leave out: DEVICE_GET_REGION_IO_FDS, REGION_WRITE_MULTI (not offered), DEVICE_FEATURE
            // and all of migration.
            _ => Err(Errno::OPNOTSUPP),
        }
    }
}

/// Whether the client expects as long a reply as there is ("Message sizes").
fn has_room(body: &[u8], reply_bytes: u32) -> Result<(), Errno> {
    if word(body, 0)? < reply_bytes { Err(Errno::INVAL) } else { Ok(()) }
}

fn decode_map(body: &[u8]) -> Result<DmaMap, Errno> {
    let flags = word(body, 4)?;
    if flags & !(READABLE | WRITABLE) != 0 {
        return Err(Errno::INVAL);
    }
    Ok(DmaMap {
        readable: flags & READABLE != 0,
        writable: flags & WRITABLE != 0,
        offset: long(body, 8)?,
        address: long(body, 16)?,
        bytes: long(body, 24)?,
    })
}

fn decode_unmap(body: &[u8]) -> Result<Request<'static>, Errno> {
    let (flags, address, bytes) = (word(body, 4)?, long(body, 8)?, long(body, 16)?);
    match flags {
        0 => Ok(Request::DmaUnmap { address, bytes }),
        UNMAP_ALL if (address, bytes) == (0, 0) => Ok(Request::DmaUnmapAll),
        UNMAP_ALL => Err(Errno::INVAL),
        // A bitmap of dirty pages, say, which belongs to migration.
        _ => Err(Errno::OPNOTSUPP),
    }
}

fn decode_irqs(body: &[u8]) -> Result<SetIrqs<'_>, Errno> {
    const FIXED_BYTES: usize = 20;
    let (flags, count) = (word(body, 4)?, word(body, 16)?);
    let data = body.get(FIXED_BYTES..).ok_or(Errno::INVAL)?;
    let action = match flags >> 3 {
        1 => Action::Mask,
        2 => Action::Unmask,
        4 => Action::Trigger,
        _ => return Err(Errno::INVAL),
    };
    let data = match flags & 7 {
        1 => IrqData::None,
        2 => IrqData::Bool(data.get(..count as usize).ok_or(Errno::INVAL)?),
        4 => IrqData::Eventfd,
        _ => return Err(Errno::INVAL),
    };
    Ok(SetIrqs { action, data, index: word(body, 8)?, start: word(body, 12)?, count })
}

/// Region, offset and length of an access.
fn decode_access(body: &[u8]) -> Result<(u32, u64, usize), Errno> {
    let (offset, region, bytes) = (long(body, 0)?, word(body, 8)?, word(body, 12)? as usize);
    if bytes == 0 || bytes > MOST_DATA_BYTES {
        return Err(Errno::INVAL);
    }
    Ok((region, offset, bytes))
}

/// "VFIO_USER_DMA_UNMAP", reply: the entry of the request.
pub(super) fn unmapped(all: bool, address: u64, bytes: u64) -> Vec<u8> {
    let flags = if all { UNMAP_ALL } else { 0 };
    let mut body = [UNMAP_BYTES, flags].map(u32::to_le_bytes).concat();
    body.extend([address, bytes].map(u64::to_le_bytes).concat());
    body
}

/// "VFIO_USER_DEVICE_GET_INFO", reply.
pub(super) fn device_info() -> Vec<u8> {
    let words = [DEVICE_INFO_BYTES, RESETTABLE_PCI_DEVICE, region::COUNT, irq::COUNT];
    words.map(u32::to_le_bytes).concat()
}

/// "VFIO_USER_DEVICE_GET_REGION_INFO", reply: no region can be mapped, and none has capabilities.
pub(super) fn region_info(index: u32, bytes: u64) -> Vec<u8> {
    let flags = if bytes > 0 { region::READ_WRITE } else { 0 };
    let mut body = [REGION_INFO_BYTES, flags, index, 0].map(u32::to_le_bytes).concat();
    body.extend([bytes, 0].map(u64::to_le_bytes).concat());
    body
}

/// "VFIO_USER_DEVICE_GET_IRQ_INFO", reply.
pub(super) fn irq_info(index: u32, count: u32, flags: u32) -> Vec<u8> {
    [IRQ_INFO_BYTES, flags, index, count].map(u32::to_le_bytes).concat()
}

/// "VFIO_USER_REGION_READ" and "VFIO_USER_REGION_WRITE", what is in front of the data in a reply.
pub(super) fn access(region: u32, offset: u64, bytes: usize) -> [u8; ACCESS_BYTES] {
    let mut body = [0; ACCESS_BYTES];
    body[..8].copy_from_slice(&offset.to_le_bytes());
    body[8..12].copy_from_slice(&region.to_le_bytes());
    body[12..].copy_from_slice(&(bytes as u32).to_le_bytes());
    body
}

/// "VFIO_USER_DMA_READ" and "VFIO_USER_DMA_WRITE", what is in front of the data.
pub(super) fn dma_access(address: u64, bytes: usize) -> [u8; ACCESS_BYTES] {
    let mut body = [0; ACCESS_BYTES];
    body[..8].copy_from_slice(&address.to_le_bytes());
    body[8..].copy_from_slice(&(bytes as u64).to_le_bytes());
    body
}

/// The data of a reply to "VFIO_USER_DMA_READ", if it is the one that was asked for.
pub(super) fn dma_data(body: &[u8], address: u64, bytes: usize) -> Option<&[u8]> {
    let (head, data) = body.split_at_checked(ACCESS_BYTES)?;
    (head == dma_access(address, bytes) && data.len() == bytes).then_some(data)
}

/// Whether this is the reply to "VFIO_USER_DMA_WRITE" that was asked for. Its count has 4 bytes in the specification, where
/// that of the request has 8; both are taken.
pub(super) fn dma_done(body: &[u8], address: u64, bytes: usize) -> bool {
    let whole = dma_access(address, bytes);
    body == whole || body == &whole[..12]
}

fn half(body: &[u8], at: usize) -> Result<u16, Errno> {
    field(body, at).map(u16::from_le_bytes)
}

fn word(body: &[u8], at: usize) -> Result<u32, Errno> {
    field(body, at).map(u32::from_le_bytes)
}

fn long(body: &[u8], at: usize) -> Result<u64, Errno> {
    field(body, at).map(u64::from_le_bytes)
}

fn field<const N: usize>(body: &[u8], at: usize) -> Result<[u8; N], Errno> {
    body.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or(Errno::INVAL)
}

#[cfg(test)]
mod tests;
