//! What is to be sent, and how.

use std::ops::RangeInclusive;

use warikomi_driver::DriverInfo;
use warikomi_driver::transmit::{Bounce, Completion, Transmitter};
use warikomi_protocol::commands::{self, MixedLoad};
use warikomi_protocol::payload;

use super::Transport;
use crate::buffers::{BufferKind, Buffers, CLUSTER_BYTES, Demand};
use crate::datagram::ETHERNET_BYTES;
use crate::segment::{segment_bytes, uncut_bytes};

/// Messages are at most as long as the payload of a UDP datagram.
pub const MOST_MESSAGE_BYTES: u32 = payload::MOST_BYTES;
/// Messages have at least the head by which they are known.
pub const LEAST_MESSAGE_BYTES: u32 = payload::HEAD_BYTES as u32;

/// What every host must be able to take in one piece (RFC 791, 3.2).
const LEAST_MTU_BYTES: u64 = 68;
/// The longest IP packet.
const MOST_MTU_BYTES: u64 = 65_535;

/// Lengths in one plan.
const SIZES: RangeInclusive<u64> = 1..=64;
/// Messages of one run; more would take weeks.
const MOST_MESSAGES: u64 = 1_000_000_000_000;
/// The longest time between two messages, in picoseconds: a second.
const MOST_INTERVAL_PS: u64 = 1_000_000_000_000;
/// The largest send buffer, in bytes: 1 GiB.
const MOST_SEND_BUFFER_BYTES: u64 = 1 << 30;
/// Buffers that go through a bounce buffer together with the header.
const FIRST: RangeInclusive<u64> = 1..=64;
/// What a device's DMA may have to begin at a multiple of.
const ALIGNMENT_BYTES: RangeInclusive<u32> = 1..=64;
/// Phases of a mixed load, and those of all its rounds.
const PHASES: RangeInclusive<u64> = 1..=64;
/// How long a phase is, in picoseconds: a microsecond to a minute.
const PHASE_PS: RangeInclusive<u64> = 1_000_000..=60_000_000_000_000;
/// Buffers and bounce buffers each begin on a page.
const PAGE_BYTES: u64 = 4_096;

/// What is to be sent, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct SendPlan {
    /// Lengths of messages in bytes (the payload of a UDP datagram, 16 to 65,507), taken in turn in blocks
    /// of `block` messages. More than one of them is a mixture.
    pub sizes_bytes: Vec<u32>,
    /// Messages of one length before the next length's turn; 0 for a random length (from `seed`) each time.
    pub block: u64,
    /// Where randomness starts from.
    pub seed: u64,
    /// Messages that are measured.
    pub count: u64,
    /// Messages before them that are sent but not measured.
    pub warmup: u64,
    /// Time between two messages in picoseconds; 0 for as fast as it goes. With a pace the application does
    /// not wait for room: a message for which the socket has none is a drop.
    pub interval_ps: u64,
    /// What carries messages. Of TCP the connection is open, the peer's window never closes, and nothing is
    /// acknowledged.
    pub transport: Transport,
    /// Buffers that messages are copied into.
    pub buffers: BufferKind,
    /// UDP has a checksum. TCP always has one.
    pub checksum: bool,
    /// How completed transfers are noticed.
    pub completion: Completion,
    /// What goes through the bounce buffer.
    pub bounce: Bounce,
    /// The device's DMA begins at multiples of this number of bytes; the driver copies the rest. 1: anywhere.
    pub alignment_bytes: u32,
    /// Bytes that the socket lets be on their way.
    pub send_buffer_bytes: u64,
    /// The link's MTU: a datagram that is longer is cut by IP.
    pub mtu_bytes: u32,
    /// In the payload's head, so that frames of another run are recognised.
    pub run_id: u32,
    /// A mixed load. Its phases' lengths must all be among `sizes_bytes`, and `count` is the most messages that it may
    /// have; nothing is left to a warm-up or a pace.
    pub mixed: Option<MixedLoad>,
}

/// Why a plan cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} = {got} is not possible: {range}")]
pub struct PlanError {
    /// Name of the value.
    pub what: &'static str,
    /// The value that was given.
    pub got: String,
    /// The values that are possible.
    pub range: String,
}

impl PlanError {
    /// Says what is not possible, and what is.
    pub fn new(what: &'static str, got: impl ToString, range: impl Into<String>) -> Self {
        PlanError { what, got: got.to_string(), range: range.into() }
    }
}

/// Refuses a value outside of a range.
fn within(
    what: &'static str,
    value: u64,
    range: RangeInclusive<u64>,
    unit: &str,
) -> Result<(), PlanError> {
    if range.contains(&value) {
        return Ok(());
    }
    let (least, most) = range.into_inner();
    Err(PlanError::new(what, value, format!("it must be {least} to {most}{unit}")))
}

impl SendPlan {
    /// The plan that a request describes.
    pub fn from_command(command: &commands::Send) -> Result<SendPlan, PlanError> {
        fn parsed<T>(what: &'static str, text: &str) -> Result<T, PlanError>
        where
            T: std::str::FromStr<Err: std::fmt::Display>,
        {
            text.parse().map_err(|error: T::Err| PlanError::new(what, text, error.to_string()))
        }
        Ok(SendPlan {
            sizes_bytes: command.sizes_bytes.clone(),
            block: command.block,
            seed: command.seed,
            count: command.count,
            warmup: command.warmup,
            interval_ps: command.interval_ps,
            transport: parsed("transport", &command.transport)?,
            buffers: parsed("buffers", &command.buffers)?,
            checksum: command.checksum,
            completion: parsed("completion", &command.completion)?,
            bounce: parsed("bounce", &command.bounce)?,
            alignment_bytes: command.alignment_bytes,
            send_buffer_bytes: command.send_buffer_bytes,
            mtu_bytes: command.mtu_bytes,
            run_id: command.run_id,
            mixed: command.mixed.as_deref().cloned(),
        })
    }

    /// The request to carry the plan out: to this Ethernet address, and this IPv4 address and UDP port
    /// (`10.9.0.2:5001`), within so many milliseconds.
    pub fn to_command(
        &self,
        destination_mac: [u8; 6],
        destination: String,
        timeout_ms: u64,
    ) -> commands::Send {
        commands::Send {
            sizes_bytes: self.sizes_bytes.clone(),
            block: self.block,
            seed: self.seed,
            count: self.count,
            warmup: self.warmup,
            interval_ps: self.interval_ps,
            transport: self.transport.to_string(),
            buffers: self.buffers.to_string(),
            checksum: self.checksum,
            completion: self.completion.to_string(),
            bounce: self.bounce.to_string(),
            alignment_bytes: self.alignment_bytes,
            send_buffer_bytes: self.send_buffer_bytes,
            mtu_bytes: self.mtu_bytes,
            destination_mac,
            destination,
            run_id: self.run_id,
            mixed: self.mixed.clone().map(Box::new),
            timeout_ms,
        }
    }

    /// Checks what could not work with a device whose longest frame has so many bytes.
    pub fn validate(&self, max_frame_bytes: usize) -> Result<(), PlanError> {
        let longest_packet = max_frame_bytes.saturating_sub(ETHERNET_BYTES) as u64;
        if longest_packet < LEAST_MTU_BYTES {
            return Err(PlanError::new(
                "the longest frame",
                max_frame_bytes,
                format!("it must have room for an MTU of {LEAST_MTU_BYTES} bytes"),
            ));
        }
        let possible = LEAST_MTU_BYTES..=longest_packet.min(MOST_MTU_BYTES);
        within("MTU", self.mtu_bytes.into(), possible, " bytes with this device")?;
        within("sizes", self.sizes_bytes.len() as u64, SIZES, " of them")?;
        let possible = u64::from(LEAST_MESSAGE_BYTES)..=u64::from(MOST_MESSAGE_BYTES);
        for &bytes in &self.sizes_bytes {
            within("size", bytes.into(), possible.clone(), " bytes")?;
        }
        within("count", self.count, 1..=MOST_MESSAGES, " messages")?;
        within("warmup", self.warmup, 0..=MOST_MESSAGES, " messages")?;
        within("interval_ps", self.interval_ps, 0..=MOST_INTERVAL_PS, " ps")?;
        if let Bounce::First(count) = self.bounce {
            within("bounce", count.into(), FIRST, " buffers, or none, all, auto or dummy")?;
        }
        if let BufferKind::Mbuf { cluster_bytes } = self.buffers
            && !(cluster_bytes.is_power_of_two() && CLUSTER_BYTES.contains(&cluster_bytes))
        {
            let (least, most) = CLUSTER_BYTES.into_inner();
            let range = format!("it must be a power of two from {least} to {most} bytes");
            return Err(PlanError::new("cluster size", cluster_bytes, range));
        }
        self.validate_alignment()?;
        self.validate_tcp()?;
        self.mixed.as_ref().map_or(Ok(()), |mixed| self.validate_mixed(mixed))?;
        let largest = u64::from(self.largest_bytes());
        let possible = largest..=MOST_SEND_BUFFER_BYTES;
        within(
            "send buffer",
            self.send_buffer_bytes,
            possible,
            " bytes, at least the longest message",
        )
    }

    fn validate_mixed(&self, mixed: &MixedLoad) -> Result<(), PlanError> {
        within("phases", mixed.phases.len() as u64, PHASES, " of them")?;
        let all = mixed.phases.len() as u64 * u64::from(mixed.rounds);
        within("phases of all rounds", all, PHASES, " of them")?;
        within("phase_ps", mixed.phase_ps, PHASE_PS, " ps")?;
        within("receive_interval_ps", mixed.receive_interval_ps, 0..=MOST_INTERVAL_PS, " ps")?;
        if (self.interval_ps, self.warmup) != (0, 0) {
            let range = "a mixed load has neither a pace nor a warm-up";
            return Err(PlanError::new("interval_ps and warmup", self.interval_ps, range));
        }
        for phase in &mixed.phases {
            within("sizes of a phase", phase.sizes_bytes.len() as u64, SIZES, " of them")?;
            within("compute_ps", phase.compute_ps, 0..=MOST_INTERVAL_PS, " ps")?;
            if let Some(bytes) = phase.sizes_bytes.iter().find(|it| !self.sizes_bytes.contains(it))
            {
                return Err(PlanError::new("size of a phase", bytes, "it must be among the sizes"));
            }
        }
        Ok(())
    }

    fn validate_alignment(&self) -> Result<(), PlanError> {
        let bytes = self.alignment_bytes;
        let (least, most) = ALIGNMENT_BYTES.into_inner();
        if !(bytes.is_power_of_two() && ALIGNMENT_BYTES.contains(&bytes)) {
            let range = format!("it must be a power of two from {least} to {most} bytes");
            return Err(PlanError::new("alignment", bytes, range));
        }
        if bytes > 1 && self.bounce == Bounce::Auto {
            let range = "bounce auto knows nothing of copies for alignment; give other --bounces";
            return Err(PlanError::new("alignment", bytes, range));
        }
        Ok(())
    }

    fn validate_tcp(&self) -> Result<(), PlanError> {
        if !self.transport.is_tcp() {
            return Ok(());
        }
        let refused = |what, got: String, range: &str| Err(PlanError::new(what, got, range));
        if self.buffers != BufferKind::Contiguous {
            let range = "TCP is sent from contiguous buffers only";
            return refused("buffers", self.buffers.to_string(), range);
        }
        if !self.checksum {
            return refused("checksum", "off".to_owned(), "TCP always has one");
        }
        let copies = self.bounce != Bounce::None || self.alignment_bytes > 1;
        if self.bounce == Bounce::Dummy || self.transport == Transport::TcpTso && copies {
            let got = format!("{}, alignment {}", self.bounce, self.alignment_bytes);
            let range = "what a card cuts into segments is not copied by its driver, and TCP has no dummy \
                         contents; give --bounces none, and no --alignment";
            return refused("bounce", got, range);
        }
        Ok(())
    }

    /// Checks what could not work with a device of this description.
    pub fn validate_for(&self, driver: &DriverInfo) -> Result<(), PlanError> {
        self.validate(driver.max_frame_bytes)?;
        let (bytes, most) = (segment_bytes(self.mtu_bytes), u32::from(driver.most_segment_bytes));
        match self.transport {
            Transport::TcpTso if most == 0 => {
                let range = "this card cuts no segments; ge10 and rtl8168 do. Choose one of them, or --tso off";
                Err(PlanError::new("TSO", format!("on, with {}", driver.name), range))
            }
            Transport::TcpTso if bytes > most => {
                let range = format!(
                    "{} cuts segments of up to {most} bytes; give an --mtu of {} bytes or less",
                    driver.name,
                    most + (self.mtu_bytes - bytes)
                );
                Err(PlanError::new("segments of TSO", bytes, range))
            }
            _ => Ok(()),
        }
    }

    /// Of TCP, bytes of payload of each segment but a message's last.
    pub fn segment_bytes(&self) -> Option<u32> {
        self.transport.is_tcp().then(|| segment_bytes(self.mtu_bytes))
    }

    /// Bytes of a message that go into each packet of TCP at most.
    fn packet_payload_bytes(&self) -> Option<u32> {
        let bytes = segment_bytes(self.mtu_bytes);
        match self.transport {
            Transport::Udp => None,
            Transport::Tcp => Some(bytes),
            Transport::TcpTso => Some(uncut_bytes(bytes)),
        }
    }

    /// Whether frames come meanwhile.
    pub fn receives(&self) -> bool {
        self.mixed.as_ref().is_some_and(|mixed| mixed.receive_interval_ps > 0)
    }

    /// The longest message in bytes.
    pub fn largest_bytes(&self) -> u32 {
        self.sizes_bytes.iter().copied().max().unwrap_or(0)
    }

    /// Bytes of DMA memory that its buffers and bounce buffers need, with a device of so many transmit
    /// descriptors.
    pub fn dma_bytes(&self, tx_descriptors: usize, max_frame_bytes: usize) -> u64 {
        let buffers = Buffers::dma_bytes(self.buffers, self.demand(tx_descriptors));
        let pages = buffers.next_multiple_of(PAGE_BYTES) + PAGE_BYTES;
        pages + self.area_bytes(tx_descriptors, max_frame_bytes)
    }

    /// Bytes of bounce buffers, and of copies for alignment.
    pub(super) fn area_bytes(&self, tx_descriptors: usize, max_frame_bytes: usize) -> u64 {
        match (self.bounce, self.alignment_bytes) {
            (Bounce::None, 1) => 0,
            _ => Transmitter::area_bytes(tx_descriptors, max_frame_bytes),
        }
    }

    /// What must be in buffers at the same time: what the socket lets be on its way, in as many packets as
    /// the device takes and one that waits for it.
    pub(super) fn demand(&self, tx_descriptors: usize) -> Demand<'_> {
        Demand {
            sizes_bytes: &self.sizes_bytes,
            packets: tx_descriptors + 1,
            bytes: self.send_buffer_bytes,
            mtu_bytes: self.mtu_bytes,
            segment_bytes: self.packet_payload_bytes(),
        }
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
