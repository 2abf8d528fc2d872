use std::fmt;
use std::num::NonZeroU64;
use std::ops::Range;

use warikomi_pci::{DmaError, DmaMemory, Mmio, MmioError};
use warikomi_shared::Message;

use crate::state::{Held, Predecessor, Shown, StateArea, StateError};

/// What a user needs to know to choose a driver.
#[derive(Debug)]
pub struct DriverInfo {
    /// The name on the command line.
    pub name: &'static str,
    /// One line about the driver, for a list.
    pub summary: &'static str,
    /// PCI vendor and device numbers that it drives.
    pub devices: &'static [(u16, u16)],
    /// Descriptors of its receive ring, at most.
    pub rx_descriptors: usize,
    /// Descriptors of its transmit ring.
    pub tx_descriptors: usize,
    /// Bytes of DMA memory that its rings take, from a multiple of 4 KB on.
    pub ring_bytes: usize,
    /// The longest receive buffer that a descriptor can name, in bytes.
    pub max_buffer_bytes: usize,
    /// The longest frame that it sends, in bytes without check sequence.
    pub max_frame_bytes: usize,
    /// Bytes of payload that a segment has at most when the device cuts a long TCP packet (TSO); 0 if the device cuts
    /// none.
    pub most_segment_bytes: u16,
    /// Interrupt vectors of its device, from 0 on.
    pub vectors: u16,
    /// Whether it can go on where another driver has stopped; otherwise it is replaced by a reset only.
    pub live: bool,
}

impl DriverInfo {
    /// The vectors whose handlers run for a message: it may have been any, if it is lost.
    #[inline]
    pub fn vectors_of(&self, message: Message) -> Range<u16> {
        match message {
            Message::Number(vector) => vector..vector.saturating_add(1),
            Message::Lost => 0..self.vectors,
        }
    }

    /// The longest IP packet that it sends, in bytes.
    pub fn max_mtu_bytes(&self) -> u32 {
        const ETHERNET_BYTES: usize = 14;
        const MOST: usize = 65_535;
        self.max_frame_bytes.saturating_sub(ETHERNET_BYTES).min(MOST) as u32
    }
}

/// The device, for one call.
pub struct Hardware<'a> {
    /// The device's registers and configuration space.
    pub mmio: &'a mut dyn Mmio,
    /// The memory that it reaches by DMA, ours too.
    pub memory: &'a dyn DmaMemory,
}

/// Why a driver gave up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// The device is gone.
    #[error(transparent)]
    Mmio(#[from] MmioError),
    /// Memory that was handed to the driver is not memory.
    #[error(transparent)]
    Dma(#[from] DmaError),
    /// This is another device.
    #[error("{driver} does not drive the device {vendor:04x}:{device:04x}")]
    WrongDevice {
        /// The driver.
        driver: &'static str,
        /// PCI vendor number.
        vendor: u16,
        /// PCI device number.
        device: u16,
    },
    /// The device did not do in time what the driver waited for.
    #[error("the device did not finish: {what}")]
    TimedOut {
        /// What the driver waited for.
        what: &'static str,
    },
    /// The device reports that it cannot go on (a failed DMA transfer, say).
    #[error("the device reports a system error (status {status:#06x})")]
    Device {
        /// The interrupt status that it reports.
        status: u64,
    },
    /// Something that the driver was given makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// What another driver has left cannot be gone on with.
    #[error(transparent)]
    State(#[from] StateError),
    /// This driver is replaced by a reset of its device only.
    #[error("the driver {0} cannot go on where another has stopped: replace it by reloading")]
    NotLive(&'static str),
}

/// The state of the cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Nothing there.
    Down,
    /// Up, at so many Mbit/s.
    Up {
        /// Speed in Mbit/s.
        mbps: u32,
    },
}

/// Memory that a device may write a frame to. It has bytes.
///
/// Two words, of which one is never 0: calls pass it, and an optional one, in registers and not through memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Buffer {
    /// Bus address of its first byte.
    pub address: u64,
    /// Its length in bytes above, its owner's name for it below.
    bytes_and_token: NonZeroU64,
}

impl Buffer {
    /// The `bytes` bytes from a bus address on; `None` if there are none. `token` is its owner's name for it; the driver
    /// gives it back as it is.
    #[inline]
    pub const fn new(address: u64, bytes: u32, token: u32) -> Option<Buffer> {
        let both = (bytes as u64) << 32 | token as u64;
        match NonZeroU64::new(both) {
            Some(bytes_and_token) if bytes != 0 => Some(Buffer { address, bytes_and_token }),
            _ => None,
        }
    }

    /// Its length in bytes.
    #[inline]
    pub const fn bytes(&self) -> u32 {
        (self.bytes_and_token.get() >> 32) as u32
    }

    /// Its owner's name for it.
    #[inline]
    pub const fn token(&self) -> u32 {
        self.bytes_and_token.get() as u32
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, bytes, token) = (self.address, self.bytes(), self.token());
        write!(formatter, "buffer {token} of {bytes} bytes at {address:#x}")
    }
}

const _: () = assert!(size_of::<Option<Buffer>>() == 16);

/// What the device says of a frame in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its length in bytes, without check sequence.
    pub bytes: u32,
    /// Whether the device has checked the checksums of its IP, and UDP or TCP, headers and found them
    /// right.
    pub checksums_good: bool,
}

/// Where received frames go, and buffers for the next ones come from.
pub trait RxSink {
    /// A buffer for the ring; `None` if there is none at present. It is the driver's until it comes
    /// back through [`received`](Self::received) or [`returned`](Self::returned).
    fn buffer(&mut self) -> Option<Buffer>;

    /// Takes a frame, and the buffer that it is in.
    fn received(&mut self, buffer: Buffer, frame: Received);

    /// Takes a buffer back that holds no frame: the device reported an error, or the ring goes away.
    fn returned(&mut self, buffer: Buffer);

    /// The buffer of that name; `None` if there is none. For a driver that knows no more than the name.
    fn named(&self, token: u32) -> Option<Buffer> {
        let _ = token;
        None
    }
}

/// The longest frame that a device is asked to cut into segments: what Linux allows r8169, whose other chips take more
/// (RTL_GSO_MAX_SIZE_V2).
pub const MOST_UNCUT_BYTES: usize = 64_000;

/// How the device cuts a TCP packet (TSO): each segment has headers as the packet has them, with lengths, sequence
/// number and checksums of its own, which the device makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// Where the TCP header begins in the frame, in bytes.
    pub tcp_offset: u8,
    /// Bytes of payload of each segment but the last.
    pub bytes: u16,
}

/// A frame to transmit: in order, the pieces that it is made of.
#[derive(Clone, Copy, Debug)]
pub struct TxFrame<'a> {
    /// Bus address and length in bytes of each piece.
    pub pieces: &'a [(u64, u32)],
    /// Its owner's name for it; the driver gives it back when the device has sent it.
    pub token: u32,
    /// The device cuts it. It may be longer than other frames then.
    pub segments: Option<Segments>,
}

/// How long a frame may be that is cut so, or is not cut, by a device with such limits.
pub(crate) fn most_bytes(
    segments: Option<Segments>,
    max_frame_bytes: usize,
    most_segment_bytes: u16,
) -> Result<usize, DriverError> {
    let Some(Segments { bytes, .. }) = segments else { return Ok(max_frame_bytes) };
    match (1..=most_segment_bytes).contains(&bytes) {
        true => Ok(MOST_UNCUT_BYTES),
        false => Err(DriverError::Invalid(format!(
            "a frame cannot be cut into segments of {bytes} bytes: this device makes segments of at most \
             {most_segment_bytes} bytes, and none if that is 0"
        ))),
    }
}

/// What the device wanted to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Causes {
    /// Frames have come, or were missed.
    pub receive: bool,
    /// Frames have gone.
    pub transmit: bool,
    /// The cable has changed.
    pub link: bool,
}

/// A driver.
///
/// [`Self::arm`] must come before the last look at the ring, and that look before a sleep: a frame that
/// comes in between is either found by the look or interrupts.
pub trait NicDriver {
    /// Description of the driver.
    fn info(&self) -> &'static DriverInfo;

    /// Resets the device and makes it ready to receive into `buffers` buffers at most that `sink`
    /// gives; its rings are at the bus address `rings`. Interrupts stay masked.
    fn init(
        &mut self,
        hw: &mut Hardware<'_>,
        rings: u64,
        buffers: usize,
        sink: &mut dyn RxSink,
    ) -> Result<(), DriverError>;

    /// What the handler of an interrupt of this vector does: asks the device why, acknowledges, and masks.
    fn on_interrupt(&mut self, hw: &mut Hardware<'_>, vector: u16) -> Result<Causes, DriverError>;

    /// What the interrupt handler of a receiver does that stays armed, so that the next frame
    /// interrupts again: asks why and acknowledges. A frame that comes before the device has taken note
    /// may be acknowledged unseen, and so [`arm`](Self::arm) and a look at the ring come before a sleep
    /// here, too.
    fn acknowledge(&mut self, hw: &mut Hardware<'_>, vector: u16) -> Result<Causes, DriverError>;

    /// Lets the device interrupt. When this returns the device has taken note, so that whatever comes
    /// from now on interrupts, and whatever came before is on the ring.
    fn arm(&mut self, hw: &mut Hardware<'_>) -> Result<(), DriverError>;

    /// Masks interrupts.
    fn disarm(&mut self, hw: &mut Hardware<'_>) -> Result<(), DriverError>;

    /// Takes at most `budget` frames from the ring, in order, and puts new buffers there; how many.
    fn poll(
        &mut self,
        hw: &mut Hardware<'_>,
        budget: usize,
        sink: &mut dyn RxSink,
    ) -> Result<usize, DriverError>;

    /// Hands a frame to the device; `false`, and nothing done, if the ring has no room. The device
    /// looks at the ring after [`kick`](Self::kick).
    ///
    /// A frame that cannot be sent at all is [`DriverError::Invalid`], each time that it is tried. While the
    /// device has frames, that is all; the layer above gets it back only when nothing is before it. Tried
    /// when the device has none, it counts as given back.
    fn transmit(&mut self, hw: &mut Hardware<'_>, frame: TxFrame<'_>) -> Result<bool, DriverError>;

    /// Rings the device's doorbell for what has been handed over since.
    fn kick(&mut self, hw: &mut Hardware<'_>) -> Result<(), DriverError>;

    /// Gives back the names of frames that the device has sent; how many.
    fn reclaim(
        &mut self,
        hw: &mut Hardware<'_>,
        sent: &mut dyn FnMut(u32),
    ) -> Result<usize, DriverError>;

    /// Descriptors that frames could be put into now, without asking the device.
    fn tx_room(&self) -> usize;

    /// Lets completed transmissions interrupt, or not, apart from what [`arm`](Self::arm) does: while they
    /// may, each frame that has gone interrupts, also when nobody is about to sleep, and neither
    /// [`on_interrupt`](Self::on_interrupt) nor [`disarm`](Self::disarm) masks them. Frames that had gone before
    /// need not interrupt: a driver that is about to sleep arms and looks once more.
    fn transmit_interrupts(&mut self, hw: &mut Hardware<'_>, on: bool) -> Result<(), DriverError>;

    /// The state of the cable. A change of it may be acknowledged together with frames that came beside it: a look at
    /// the rings comes before a sleep, as after [`acknowledge`](Self::acknowledge).
    fn link(&mut self, hw: &mut Hardware<'_>) -> Result<Link, DriverError>;

    /// The device's own address.
    fn mac_address(&self) -> [u8; 6];

    /// Frames that the device or the driver refused for an error, since `init`.
    fn rx_errors(&self) -> u64;

    /// From now on notes in `area` what a successor must know. Before [`init`](Self::init), which then
    /// writes the settings and counts from `shown` on, or [`take_over`](Self::take_over), which reads them.
    ///
    /// The caller must show what [`poll`](Self::poll) and [`reclaim`](Self::reclaim) have given
    /// ([`Upper::flush`](crate::Upper::flush)) before it calls either or [`transmit`](Self::transmit)
    /// again: a descriptor is not used again before what it held has been shown.
    fn keep_state(&mut self, area: StateArea, shown: Shown) -> Result<(), DriverError> {
        let _ = (area, shown);
        Err(DriverError::NotLive(self.info().name))
    }

    /// Goes on where another driver stopped, instead of [`init`](Self::init): the device is not reset, and
    /// nothing is stored anywhere until all that was left has been found to make sense. `shown` is what
    /// the layer above has been shown. Interrupts are masked, and the doorbell is rung if the last frame is
    /// still the device's.
    fn take_over(
        &mut self,
        hw: &mut Hardware<'_>,
        predecessor: Predecessor,
        shown: Shown,
    ) -> Result<Held, DriverError> {
        let _ = (hw, predecessor, shown);
        Err(DriverError::NotLive(self.info().name))
    }

    /// Does the part of [`take_over`](Self::take_over) that stores nothing, while another driver still has the
    /// device, so that it is fast when it counts. What it finds is out of date, and may be nothing.
    fn rehearse(&mut self, hw: &mut Hardware<'_>, shown: Shown) -> Held {
        let _ = (hw, shown);
        Held::default()
    }

    /// Writes the record for a successor, after everything given has been shown. Afterwards this driver
    /// does nothing to the device; it may go on as if nothing had been, if it gets the device back. It is also
    /// called shortly before, at any time, to be fast when it counts: that record is for no successor.
    fn hand_over(&mut self, generation: u32) -> Result<(), DriverError> {
        let _ = generation;
        Err(DriverError::NotLive(self.info().name))
    }

    /// Stops the device and gives every buffer back; afterwards it reaches no memory.
    fn quiesce(
        &mut self,
        hw: &mut Hardware<'_>,
        sink: &mut dyn RxSink,
        sent: &mut dyn FnMut(u32),
    ) -> Result<(), DriverError>;
}
