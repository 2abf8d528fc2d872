//! What lies where in a device's window. Places are numbers of 64-bit words unless they say bytes.
//!
//! A driver gets its device as files: the window, which is its own and no other driver's; the reading end
//! of the pipe that ends its sleep; and memory that belongs to the device rather than to a driver, and
//! that each driver of the device maps: DMA memory, packet memory if there is something above, and the
//! state area if drivers of this device can be replaced while they run.
//!
//! | bytes of the window | written by | what |
//! |---|---|---|
//! | `0x0_0000` | support side, before it hands the window over | header |
//! | `0x0_1000` | both, a word each | counts of the register ring, the answer to a read, interrupts, sleep |
//! | `0x0_2000` | support side | orders: how the driver shall receive, and when it shall end |
//! | `0x0_3000` | driver | report: state, counters, last words |
//! | `0x0_4000` | driver | register ring: 512 entries of 16 bytes |
//! | `0x0_6000` | driver | stamps: the time stamp counter at each interrupt handled, the last 8,192 |
//! | `0x1_6000` | support side | data of the messages sent, the last 1,024 |
//!
//! `include/warikomi_layout.h` is made from this file (HACKING.md, "a protocol between processes"): every
//! number is a literal.

use warikomi_shared::{MessagePlace, RingPlace};

use super::AnswerPlace;

/// First word of a window: "WARIKOMI", little-endian.
pub const MAGIC: u64 = 0x494d_4f4b_4952_4157;
/// Version of this layout.
pub const VERSION: u64 = 3;

/// The header.
pub mod header {
    /// [`MAGIC`](super::MAGIC).
    pub const MAGIC: usize = 0;
    /// [`VERSION`](super::VERSION).
    pub const VERSION: usize = 1;
    /// [`WINDOW_BYTES`](super::WINDOW_BYTES).
    pub const WINDOW_BYTES: usize = 2;
    /// Bytes of DMA memory, the third file.
    pub const DMA_BYTES: usize = 3;
    /// The bus address of its first byte.
    pub const DMA_BUS_ADDRESS: usize = 4;
    /// Bytes of packet memory, the next file; 0 if there is none.
    pub const PACKET_BYTES: usize = 5;
    /// The bus address of its first byte.
    pub const PACKET_BUS_ADDRESS: usize = 6;
    /// The BAR that the registers are in.
    pub const REGISTER_BAR: usize = 7;
    /// Ticks of the time stamp counter in a second.
    pub const TSC_HZ: usize = 8;
    /// Bytes of the state area, the file behind packet memory; 0 if this device's driver is not replaced
    /// while it runs.
    pub const STATE_BYTES: usize = 9;
    /// The driver's generation, from 1: the number that the baton names it by.
    pub const GENERATION: usize = 10;
    /// How this device's drivers follow one another: see [`way`](super::way).
    pub const WAY: usize = 11;
}

/// Values of [`header::WAY`].
pub mod way {
    /// The device is reset between two drivers, and everything is forgotten.
    pub const RELOAD: u64 = 0;
    /// What a driver knows goes through a store.
    pub const DATA_STORE: u64 = 1;
    /// What a driver knows is in the state area all the time.
    pub const SHARED_STATE: u64 = 2;
}

/// Counts and bells; each in two cache lines of its own, because processors fetch lines in pairs.
pub mod bells {
    /// Accesses that the driver has put into the register ring.
    pub const REQUESTS_HEAD: usize = 512;
    /// Accesses that the support side has served.
    pub const REQUESTS_TAIL: usize = 528;
    /// Number of the read that was answered last; reads are numbered from 1.
    pub const ANSWERED: usize = 544;
    /// Its value, written first.
    pub const ANSWER: usize = 545;
    /// Message-signalled interrupts sent.
    pub const INTERRUPTS: usize = 560;
    /// Not 0 while the driver sleeps and wants the pipe to be written.
    pub const SLEEPING: usize = 576;
    /// Interrupts that the driver has handled, and stamped.
    pub const STAMPED: usize = 592;
}

/// What the support side wants; the driver looks at it whenever it has nothing else to do.
pub mod orders {
    /// Not 0: quiesce the device and end.
    pub const STOP: usize = 1024;
    /// How to receive: see [`strategy`](super::strategy).
    pub const STRATEGY: usize = 1025;
    /// Hybrid: how long to poll after the last packet, in nanoseconds.
    pub const POLL_NS: usize = 1026;
    /// NAPI: packets taken before others may run.
    pub const BUDGET: usize = 1027;
    /// Auto: share of a processor that receiving may take, in millionths.
    pub const CPU_BUDGET_PPM: usize = 1028;
    /// Receive buffers to keep on the ring; 0 for as many as the driver likes.
    pub const BUFFERS: usize = 1029;
    /// Bytes of each; 0 for what the driver likes.
    pub const BUFFER_BYTES: usize = 1030;
    /// Not 0: hand the device over to the driver of this generation. Looked at in every pass, before
    /// anything else is served.
    pub const HAND_OVER: usize = 1031;
    /// Changed: the device is about to change hands. A driver that waits for it rehearses; one that has it
    /// does not sleep before the order comes, within a millisecond.
    pub const ALERT: usize = 1032;
}

/// Values of [`orders::STRATEGY`].
pub mod strategy {
    /// An interrupt, then all packets that are there, then sleep.
    pub const INTERRUPT: u64 = 0;
    /// Never sleep.
    pub const POLL: u64 = 1;
    /// An interrupt, then polls of at most a budget until one finds less.
    pub const NAPI: u64 = 2;
    /// Poll for a time after the last packet, then sleep until an interrupt.
    pub const HYBRID: u64 = 3;
    /// Hybrid, with a time that follows from the arrivals and a budget of processor time.
    pub const AUTO: u64 = 4;
    /// An interrupt for each packet, taken by a driver that never sleeps.
    pub const AWAKE: u64 = 5;
}

/// Words that the driver writes for the support side.
pub mod report {
    /// See [`state`](super::state).
    pub const STATE: usize = 1536;
    /// Grows while the driver's loop goes round.
    pub const HEARTBEAT: usize = 1537;
    /// Frames received.
    pub const RX_PACKETS: usize = 1538;
    /// Their bytes, without check sequence.
    pub const RX_BYTES: usize = 1539;
    /// Frames refused for an error that their descriptor told.
    pub const RX_ERRORS: usize = 1540;
    /// Frames taken from the ring that no layer above had room for.
    pub const RX_DROPPED: usize = 1541;
    /// Frames transmitted.
    pub const TX_PACKETS: usize = 1542;
    /// Bytes of the transmitted frames.
    pub const TX_BYTES: usize = 1543;
    /// Frames that could not be transmitted.
    pub const TX_ERRORS: usize = 1544;
    /// Interrupts handled.
    pub const INTERRUPTS: usize = 1545;
    /// Looks at the receive ring.
    pub const POLLS: usize = 1546;
    /// Looks that found nothing.
    pub const EMPTY_POLLS: usize = 1547;
    /// Sleeps.
    pub const SLEEPS: usize = 1548;
    /// Time asleep, in nanoseconds.
    pub const SLEPT_NS: usize = 1549;
    /// The poll time in force, in nanoseconds (`auto` changes it).
    pub const POLL_NS: usize = 1550;
    /// Gaps of the driver's loop while it was not asleep: its core was taken.
    pub const HICCUPS: usize = 1551;
    /// All of these gaps together, in nanoseconds.
    pub const HICCUP_NS: usize = 1552;
    /// Link: speed in Mbit/s, 0 if down.
    pub const LINK_MBPS: usize = 1553;
    /// Time stamp counter at the driver's last change of hands: see [`times`](super::times).
    pub const TIMES: usize = 1554;
    /// Receive buffers that went back when the device was reset: a frame may have been in each.
    pub const FORGOTTEN_BUFFERS: usize = 1560;
    /// Frames to be sent that went back when the device was reset: it is unknown whether each was sent.
    pub const FORGOTTEN_FRAMES: usize = 1561;
    /// Not 0 while the driver is asleep. Unlike [`bells::SLEEPING`](super::bells::SLEEPING), which says so
    /// before the last look at the ring, it says that everything counted is in this report.
    pub const ASLEEP: usize = 1559;
    /// Bytes of the last words, at most [`LAST_WORDS_BYTES`](super::LAST_WORDS_BYTES).
    pub const LAST_WORDS_LEN: usize = 1600;
    /// Why the driver failed, in UTF-8.
    pub const LAST_WORDS: usize = 1601;
}

/// Words from [`report::TIMES`] on.
pub mod times {
    /// The order to hand over was seen.
    pub const ORDER_SEEN: usize = 0;
    /// The device was handed over: from here on this driver has left it alone.
    pub const HANDED_OVER: usize = 1;
    /// The baton was seen.
    pub const AWAKE: usize = 2;
    /// What the predecessor left was read and accepted.
    pub const ACCEPTED: usize = 3;
    /// The first pass has served the device.
    pub const SERVED: usize = 4;
    /// Number of these times.
    pub const COUNT: usize = 5;
}

/// Bytes that the last words may have.
pub const LAST_WORDS_BYTES: usize = 256;

/// Values of [`report::STATE`].
pub mod state {
    /// The process runs, the device is not set up yet.
    pub const STARTING: u64 = 0;
    /// The device receives.
    pub const READY: u64 = 1;
    /// The device was quiesced, as ordered.
    pub const STOPPED: u64 = 2;
    /// See the last words.
    pub const FAILED: u64 = 3;
    /// Everything is mapped and ready; the driver waits for the baton.
    pub const WARM: u64 = 4;
    /// The device is another driver's now.
    pub const HANDED_OVER: u64 = 5;
    /// As warm, and it has rehearsed the takeover.
    pub const ALERT: u64 = 6;
}

/// Where reads are answered.
pub const ANSWERS: AnswerPlace = AnswerPlace { number: bells::ANSWERED, value: bells::ANSWER };
/// First entry of the ring of register accesses, of two words each.
pub const REQUESTS_ENTRIES: usize = 2048;
/// Entries that the ring holds.
pub const REQUESTS_CAPACITY: usize = 512;
/// The ring of register accesses, from the driver to the support side.
pub const REQUESTS: RingPlace = RingPlace {
    head: bells::REQUESTS_HEAD,
    tail: bells::REQUESTS_TAIL,
    entries: REQUESTS_ENTRIES,
    capacity: REQUESTS_CAPACITY,
    latest: None,
};
/// A register access that is not served within this time means that the device is gone.
pub const ACCESS_TIMEOUT_NS: u64 = 2_000_000_000;

/// First word of the stamps: number `n` (from 0) is at `STAMPS + n % STAMPS_CAPACITY`, and was written
/// before the count.
pub const STAMPS: usize = 3072;
/// Stamps kept.
pub const STAMPS_CAPACITY: usize = 8192;

/// First word of the messages: the data of number `n` (from 0), its low 16 bits, is at
/// `MESSAGES + n % MESSAGES_CAPACITY`, and was written before the count. A driver of a device with several
/// vectors gives each the vector's number as its data, so that it can tell them apart.
pub const MESSAGES: usize = 11264;
/// Messages kept; of older ones only the count is left: each may have been of any vector.
pub const MESSAGES_CAPACITY: usize = 1024;
/// The message-signalled interrupts, from the support side to the driver.
pub const INTERRUPTS: MessagePlace = MessagePlace {
    count: bells::INTERRUPTS,
    numbers: MESSAGES,
    capacity: MESSAGES_CAPACITY,
    latest: None,
};

/// Bytes of a window.
pub const WINDOW_BYTES: u64 = 0x2_0000;

/// Bus address of DMA memory: not 0, so that confusing it with an offset is noticed.
pub const DMA_BUS_ADDRESS: u64 = 0x1000_0000;
/// Bus address of packet memory: above 4 GB, so that a driver that forgets the high half is noticed.
pub const PACKET_BUS_ADDRESS: u64 = 0x2_0000_0000;

/// The environment variable that names the driver's end of the socket, by its descriptor's number.
pub const SOCKET_VARIABLE: &str = "WARIKOMI_SOCKET_FD";

/// The message that comes with the files: as ASCII, with the layout's version. The files are the window,
/// the reading end of the pipe that ends the driver's sleep, DMA memory, and, if there are such, packet
/// memory and the state area; then those for whatever is above the driver.
pub const HELLO: &[u8] = b"warikomi driver 3";

const _: () = assert!(MAGIC == u64::from_le_bytes(*b"WARIKOMI"));
const _: () = assert!(REQUESTS.entries + 2 * REQUESTS.capacity <= STAMPS);
const _: () = assert!(STAMPS + STAMPS_CAPACITY <= MESSAGES);
const _: () = assert!((MESSAGES + MESSAGES_CAPACITY) * 8 <= WINDOW_BYTES as usize);
