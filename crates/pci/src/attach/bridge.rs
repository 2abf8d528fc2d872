//! What lies where in the window that a kernel's PCI bridge shares with the support side. Places are
//! numbers of 64-bit words unless they say bytes.
//!
//! The window is memory of the guest, which the guest makes, fills in as far as the table says, and hands over
//! as the one buffer of a virtio queue.
//!
//! | bytes of the window | written by | what |
//! |---|---|---|
//! | `0x0000` | guest, before it hands the window over; then support side | header |
//! | `0x0200` | both, a word each | counts of the register ring, the answer to a read, interrupts, sleep |
//! | `0x1000` | guest | register ring: 512 entries of 16 bytes, as [`Access`](super::Access) says |
//! | `0x3000` | support side | data of the messages sent, the last 1,024 |
//! | `0x5000` | guest | when its poller was not running, the last 256 times |
//!
//! `kernel/bridge/warikomi_bridge.h` is made from this file: every number is a literal.

use warikomi_shared::{MessagePlace, RingPlace};

use super::AnswerPlace;

/// First word of a window: "WKBRIDGE", little-endian.
pub const MAGIC: u64 = 0x4547_4449_5242_4b57;
/// Version of this layout.
pub const VERSION: u64 = 5;
/// The virtio device that a window is handed over through; virt-pci has 1234.
pub const VIRTIO_DEVICE: u32 = 1235;
/// Cards that a bridge takes, each with a window of its own.
pub const CARDS: usize = 4;
/// Bytes of a window.
pub const WINDOW_BYTES: usize = 0x8000;

/// The header.
pub mod header {
    /// [`MAGIC`](super::MAGIC), from the guest.
    pub const MAGIC: usize = 0;
    /// [`VERSION`](super::VERSION), from the guest.
    pub const VERSION: usize = 1;
    /// Ticks of the time stamp counter that an access may take; then the card is given up for good. From the
    /// support side.
    pub const PATIENCE_TICKS: usize = 8;
    /// Not 0: the guest polls for interrupts while it has nothing else to do. From the support side.
    pub const POLLING: usize = 9;
    /// Ticks that may lie between two looks of a guest that polls, if nothing came; it notes what is longer.
    /// From the support side.
    pub const LOOK_TICKS: usize = 10;
    /// Ticks that taking interrupts may take, with all that drivers and the network stack do then; likewise.
    pub const WORK_TICKS: usize = 11;
    /// How often the card was pulled out or plugged in: odd while it is out. From the support side.
    pub const PLUGS: usize = 12;
    /// Not 0: the guest waits until a write has been carried out, as it does for the answer to a read, and then
    /// lets [`DELAY_NS`](super::DELAY_NS) pass. From the support side.
    pub const IN_STEP: usize = 13;
    /// How often the guest was asked to listen: it tells the calendar its time, which answers when what the guest shall
    /// hear has been said. From the support side.
    pub const LISTENS: usize = 14;
    /// How long an interrupt takes until its handler runs, in picoseconds of a guest's virtual time, which the guest lets
    /// pass then. From the support side.
    pub const INTERRUPT_PS: usize = 15;
}

/// Accesses that the guest has put into the register ring.
pub const REQUESTS_HEAD: usize = 64;
/// The number (from 0) of the access that was put in last, and beside it its entry a second time: a support side
/// that has kept up finds it in the cache line of the count. The number is written before the entry, the entry
/// before the count.
pub const REQUESTS_LATEST: usize = 65;
/// Accesses that the support side has carried out.
pub const REQUESTS_TAIL: usize = 80;
/// Number of the read that was answered last; reads are numbered from 1.
pub const ANSWERED: usize = 96;
/// Its value, written first.
pub const ANSWER: usize = 97;
/// How long the access takes that was carried out last, in nanoseconds of a guest's virtual time. Written before it
/// is known to have been carried out.
pub const DELAY_NS: usize = 98;
/// Where reads are answered.
pub const ANSWERS: AnswerPlace = AnswerPlace { number: ANSWERED, value: ANSWER };
/// Message-signalled interrupts sent.
pub const INTERRUPTS: usize = 112;
/// The latest of them: its number `n` (from 0) times 65,536, and the low 16 bits of its data. Beside the count, so
/// that a guest that has kept up finds both in one cache line; written before the count, like its place among
/// the messages, which counts if this is of another `n`.
pub const LATEST: usize = 113;
/// The level of INTA#; it holds when all accesses have been carried out.
pub const PIN_LEVEL: usize = 128;
/// Whether the guest looks at the interrupts by itself: 0, all the time; 1, it sleeps, so signal it; 2, it does
/// something else, and looks behind its next access and before it sleeps or polls, so signal it if that takes
/// too long.
pub const SLEEPING: usize = 144;
/// See [`SLEEPING`].
pub const LOOKS: u64 = 0;
/// See [`SLEEPING`].
pub const SLEEPS: u64 = 1;
/// See [`SLEEPING`].
pub const BUSY: u64 = 2;
/// Message-signalled interrupts that the guest has taken: whose handlers have run, or are about to.
pub const TAKEN: usize = 160;
/// Times that the guest's poller was not running.
pub const HICCUPS: usize = 176;

/// First entry of the ring of register accesses, of two words each.
pub const REQUESTS_ENTRIES: usize = 512;
/// Entries that the ring holds.
pub const REQUESTS_CAPACITY: usize = 512;
/// The ring of register accesses, from the guest to the support side.
pub const REQUESTS: RingPlace = RingPlace {
    head: REQUESTS_HEAD,
    tail: REQUESTS_TAIL,
    entries: REQUESTS_ENTRIES,
    capacity: REQUESTS_CAPACITY,
    latest: Some(REQUESTS_LATEST),
};

/// First word of the messages: the data of number `n` (from 0), its low 16 bits, is at
/// `MESSAGES + n % MESSAGES_CAPACITY`, and was written before the count.
pub const MESSAGES: usize = 1536;
/// Messages kept; of older ones only the count is left.
pub const MESSAGES_CAPACITY: usize = 1024;
/// The message-signalled interrupts, from the support side to the guest.
pub const MESSAGE_RING: MessagePlace = MessagePlace {
    count: INTERRUPTS,
    numbers: MESSAGES,
    capacity: MESSAGES_CAPACITY,
    latest: Some(LATEST),
};

/// First of the times that the guest's poller was not running: number `n` (from 0) is at
/// `HICCUP_TIMES + n % HICCUPS_CAPACITY * 2`, time stamp counter of the last look before it and of the first behind.
pub const HICCUP_TIMES: usize = 2560;
/// Times kept.
pub const HICCUPS_CAPACITY: usize = 256;

const _: () = {
    assert!(LOOKS == warikomi_shared::LOOKS);
    assert!(SLEEPS == warikomi_shared::SLEEPS && BUSY == warikomi_shared::BUSY);
};
const _: () = assert!(MAGIC == u64::from_le_bytes(*b"WKBRIDGE"));
const _: () = assert!(REQUESTS.entries + 2 * REQUESTS.capacity <= MESSAGES);
const _: () = assert!(MESSAGES + MESSAGES_CAPACITY <= HICCUP_TIMES);
const _: () = assert!((HICCUP_TIMES + 2 * HICCUPS_CAPACITY) * 8 <= WINDOW_BYTES);
