//! What the agent answers. Times from the agent's own clock are in the unit that the name says;
//! `tsc` is the processor's time-stamp counter, which a kernel target reads as the host does, so
//! the two sides share it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::coalesce::Coalesce;

mod programs;
pub use programs::{PROGRAM_PART_BYTES, ProgramEnd, ProgramSaid};

/// Nothing to say but that it is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {}

/// The agent lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alive {
    /// Time-stamp counter when the agent answered.
    pub tsc: u64,
    /// Time since the kernel started, in milliseconds.
    pub uptime_ms: u64,
}

/// A PCI function, from `/sys/bus/pci/devices`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PciDevice {
    /// Its address, as `0000:00:00.0`.
    pub address: String,
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// Revision.
    pub revision: u8,
    /// Class, subclass and programming interface, 24 bits.
    pub class: u32,
    /// The driver that it is bound to.
    pub driver: Option<String>,
}

/// How a driver came to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriverOrigin {
    /// This request loaded it.
    Loaded,
    /// A module that was loaded before.
    AlreadyLoaded,
    /// Part of the kernel.
    BuiltIn,
}

/// The answer to a request to load a driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverLoaded {
    /// How it came to be there.
    pub origin: DriverOrigin,
    /// Modules that this request loaded, in order, the driver last.
    pub loaded: Vec<String>,
    /// How long that took, in microseconds; it includes the probe.
    pub took_us: u64,
}

/// A network interface on a PCI function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Name of the interface.
    pub interface: String,
    /// MAC address of the interface.
    pub mac: String,
    /// Driver of the interface.
    pub driver: String,
    /// Address of its PCI function.
    pub pci_address: String,
}

/// Settings of an interface that are in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Largest packet, in bytes.
    pub mtu: u32,
    /// Hardware address.
    pub address: String,
    /// Generic receive offload.
    pub gro: bool,
    /// Empty polls before the interrupt is enabled again; absent where the kernel has no such
    /// setting (before 5.8).
    pub napi_defer_hard_irqs: Option<u32>,
    /// Time between such polls, in nanoseconds; absent where the kernel has no such setting.
    pub gro_flush_timeout_ns: Option<u64>,
    /// Polls in a kernel thread; absent where the kernel has no such setting (before 5.12).
    pub threaded_napi: Option<bool>,
    /// Interrupt coalescing; absent where the driver has none.
    pub coalesce: Option<Coalesce>,
    /// Pairs of queues in use; absent where the driver does not tell them.
    pub channels: Option<u32>,
    /// Every offload that the kernel knows, by its full name.
    pub offloads: BTreeMap<String, bool>,
    /// Takes every frame.
    pub promiscuous: bool,
    /// Takes every multicast frame.
    pub allmulti: bool,
}

/// What [`crate::commands::Configure`] found and left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configured {
    /// Settings before the request.
    pub before: Settings,
    /// In force now, read back from the kernel.
    pub after: Settings,
}

/// The state of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkState {
    /// The interface is up (`IFF_UP`).
    pub up: bool,
    /// Whether there is a carrier.
    pub carrier: bool,
    /// Speed in megabits a second, where it is known.
    pub speed_mbps: Option<u32>,
    /// `full` or `half`, where it is known.
    pub duplex: Option<String>,
    /// How often the carrier came or went since the interface exists.
    pub carrier_changes: u64,
}

/// What a driver's test of its card has found; it may have none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfTested {
    /// None has failed.
    pub passed: bool,
    /// Each test, and its result, which has its meaning by the driver: 0 is good.
    pub results: BTreeMap<String, u64>,
}

/// The answer to a wait for the link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkIsUp {
    /// From the request to the carrier, in milliseconds; the carrier is looked at every 2 ms.
    pub took_ms: f64,
    /// The state reached.
    pub state: LinkState,
}

/// A VLAN interface was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VlanAdded {
    /// Name of the interface.
    pub interface: String,
}

/// The answer to a request to receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveStarted {
    /// The receive buffer that the kernel granted, in bytes.
    pub buffer_bytes: u64,
    /// How many runs can be recorded.
    pub max_runs: u32,
    /// Time-stamp counter when the socket was ready.
    pub tsc: u64,
    /// By what it polls the device; absent if it does not.
    pub polls_by: Option<PollsBy>,
}

/// What makes a reception poll the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PollsBy {
    /// An option of its socket.
    Socket,
    /// A setting of its epoll instance.
    Epoll,
    /// A setting of the whole kernel, which it takes back when it ends.
    Sysctl,
}

/// How far a compute job had come: time-stamp counter, and units of work since its start. As JSON
/// an array of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkDone(pub u64, pub u64);

/// One send of an application at work.
///
/// As JSON an array of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendTime(
    /// Time stamp counter when it began.
    pub u64,
    /// Its length in nanoseconds.
    pub u64,
);

/// What an application at work has done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkTotals {
    /// The work is over: all was sent, it was stopped, or it failed.
    pub over: bool,
    /// Sends that have ended.
    pub sends: u64,
    /// Bytes that the stack has taken.
    pub sent_bytes: u64,
    /// Each send, of the first 8,000; only of work that is over.
    pub send_times: Vec<SendTime>,
    /// Datagrams handed over.
    pub datagrams: u64,
    /// Datagrams that could not be sent.
    pub datagram_errors: u64,
    /// Segments that were sent again, where the stack counts them.
    pub retransmitted: Option<u64>,
    /// Why it ended before all was sent: the connection was lost, say.
    pub failure: Option<String>,
}

/// What became of messages that were to be answered, those of the warm-up among them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundTripsTotals {
    /// Every message is answered or lost.
    pub over: bool,
    /// Messages sent.
    pub sent: u64,
    /// Messages whose answer came in time.
    pub answered: u64,
    /// Messages whose answer did not.
    pub lost: u64,
    /// Datagrams that were no answer to the message on its way.
    pub strays: u64,
    /// From the request to send until the application had the answer, behind the warm-up, from the one that was asked
    /// for on, [`MOST_ROUND_TRIPS`] at most, in nanoseconds; only when all of them are over.
    pub round_trips_ns: Vec<u32>,
}

/// Round trips in one answer.
pub const MOST_ROUND_TRIPS: usize = 8_000;

/// Totals of a compute job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComputeTotals {
    /// Units of work.
    pub units: u64,
    /// Notes that it kept.
    pub samples: u64,
}

/// A part of what a compute job noted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComputeSamples {
    /// In the order of their times.
    pub samples: Vec<WorkDone>,
    /// How many there are in all, so far.
    pub total: u64,
}

/// Interrupts are suspended for applications that prefer busy polling.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterruptsSuspended {
    /// The receive contexts (NAPI) to which it applies.
    pub napi_ids: Vec<u32>,
}

/// Totals of a reception. Each datagram is exactly one of `delivered`, `duplicates`, `foreign`,
/// `short`; each delivered one is recorded in a run or `unrecorded`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveTotals {
    /// Datagrams received.
    pub datagrams: u64,
    /// Bytes of payload in these.
    pub bytes: u64,
    /// Sequence numbers of this run, each counted once.
    pub delivered: u64,
    /// Datagrams of this run whose sequence number had come before.
    pub duplicates: u64,
    /// Datagrams of this run that came after one with a higher number (duplicates excluded).
    pub out_of_order: u64,
    /// Datagrams without our magic, or of another run.
    pub foreign: u64,
    /// Datagrams too short for the head.
    pub short: u64,
    /// Datagrams longer than `max_datagram_bytes`.
    pub truncated: u64,
    /// Highest sequence number seen, if any.
    pub highest_sequence: Option<u64>,
    /// Runs recorded.
    pub runs: u64,
    /// Delivered datagrams that no run records, because `max_runs` was reached.
    pub unrecorded: u64,
    /// Delivered datagrams recorded with the time of an earlier batch, for the same reason.
    pub coarse: u64,
    /// Delivered datagrams with a number too high (67,108,864 and up) for the table that tells
    /// duplicates; above it, a duplicate counts as delivered.
    pub unchecked: u64,
    /// Receiving system calls that returned something.
    pub batches: u64,
    /// Those that came back full.
    pub full_batches: u64,
    /// Most full batches in a row.
    pub longest_full_streak: u64,
    /// Datagrams that the socket dropped for want of room, from its own counter.
    pub socket_drops: u64,
    /// Time-stamp counter after the first and after the last batch; 0 if there was none.
    pub first_tsc: u64,
    /// See `first_tsc`.
    pub last_tsc: u64,
    /// The application, not the driver, was the bottleneck: the socket dropped something, or more
    /// than half of the batches came back full (of at least 8).
    pub saturated: bool,
    /// Why the reception ended early, if it did.
    pub failed: Option<ReceiveFailure>,
}

/// Why a reception ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveFailure {
    /// The system's error number.
    pub errno: i32,
}

/// One batch's worth of consecutive sequence numbers: first number, count, time-stamp counter
/// when the batch reached the application. As JSON an array of three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run(pub u64, pub u64, pub u64);

/// A part of what a reception recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveRuns {
    /// The runs, in the order of their arrival.
    pub runs: Vec<Run>,
    /// How many there are in all.
    pub total: u64,
}

/// How a device interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptKind {
    /// Message signalled.
    Msi,
    /// Message signalled, with a table.
    MsiX,
    /// By a line, or not at all.
    Intx,
}

/// One line of `/proc/interrupts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterruptLine {
    /// Number of the interrupt.
    pub irq: String,
    /// How often it was handled, all processors together.
    pub count: u64,
    /// The rest of the line: chip, type and name.
    pub description: String,
}

/// Everything that the kernel counts about an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Time-stamp counter when they were read.
    pub tsc: u64,
    /// `/sys/class/net/<interface>/statistics`.
    pub interface: BTreeMap<String, u64>,
    /// The driver's own, as `ethtool -S`; empty where it has none.
    pub driver: BTreeMap<String, u64>,
    /// The device's lines of `/proc/interrupts`.
    pub interrupts: Vec<InterruptLine>,
    /// How the device interrupts.
    pub interrupt_kind: InterruptKind,
    /// `/proc/net/softnet_stat`: frames that the soft interrupt took, all processors together.
    pub softnet_processed: u64,
    /// Frames dropped because the backlog was full.
    pub softnet_dropped: u64,
    /// How often the soft interrupt ran out of its budget.
    pub softnet_squeezed: u64,
    /// The lines `Udp:` and `Ip:` of `/proc/net/snmp`, as `UdpInDatagrams`.
    pub protocol: BTreeMap<String, u64>,
}

/// Totals of datagrams that were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transmitted {
    /// Datagrams that the kernel took.
    pub sent: u64,
    /// Datagrams that it refused.
    pub errors: u64,
    /// Error number of the last refusal.
    pub last_errno: Option<i32>,
    /// From the first to the last, in nanoseconds.
    pub took_ns: u64,
    /// Deadlines missed by more than one interval (only with `interval_us`).
    pub late: u64,
    /// There was no room in the socket's buffer for `timeout_ms`.
    pub timed_out: bool,
}

/// What was sent; the warm-up is not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Messages that the application wanted to send.
    pub planned: u64,
    /// Messages that were handed to the device, and that it has sent.
    pub sent: u64,
    /// Their bytes, without headers.
    pub sent_bytes: u64,
    /// Messages for which the socket had no room.
    pub socket_drops: u64,
    /// Messages that the driver refused.
    pub errors: u64,
    /// From the first message to the last one's being reclaimed, in nanoseconds.
    pub took_ns: u64,
    /// Of these, how long there was something to do or to look for, in nanoseconds.
    pub busy_ns: u64,
    /// Interrupts taken.
    pub interrupts: u64,
    /// Pieces handed to the device.
    pub transfers: u64,
    /// Bytes copied by the application into buffers.
    pub copied_bytes: u64,
    /// Buffers taken from their pools: mbufs, clusters, contiguous ones.
    pub buffers_taken: u64,
    /// Buffers that checksums and the driver looked at on the way down.
    pub buffers_visited: u64,
    /// Bytes summed up for checksums.
    pub summed_bytes: u64,
    /// Buffers given back.
    pub buffers_freed: u64,
    /// Bytes copied into bounce buffers.
    pub bounced_bytes: u64,
    /// Packets of which something was copied into a bounce buffer.
    pub bounced_packets: u64,
    /// Bytes that the driver copied because they were not aligned.
    pub aligned_bytes: u64,
    /// Times that the completion strategy switched interrupts on or off.
    pub switches: u64,
    /// Times that the device was asked what it has sent.
    pub asked: u64,
    /// Times that the sender slept.
    pub sleeps: u64,
    /// How long packets were in the driver, in nanoseconds: half of them no longer, 99 of 100, the longest.
    pub wait_ns: Option<[u64; 3]>,
    /// It came to a dead-lock, and was given up.
    pub dead_locked: bool,
    /// Every buffer came back.
    pub pools_full: bool,
    /// Frames that were received meanwhile, and that did not come although later ones did.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub received: u64,
    /// See `received`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub receive_missing: u64,
    /// Of a mixed load, the same of each phase that took place, in order; the rest is of all of them together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Sent>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Totals of bytes that were sent over TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransmittedTcp {
    /// How much the kernel took, in bytes.
    pub sent_bytes: u64,
    /// From the connection to the last byte taken, in nanoseconds.
    pub took_ns: u64,
}

/// What the kernel's packet generator sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generated {
    /// Frames that the driver took.
    pub sent: u64,
    /// Frames that it refused for good.
    pub errors: u64,
    /// From the start until the driver has given the last packet back, in nanoseconds; to the
    /// microsecond.
    pub took_ns: u64,
    /// It was stopped after `timeout_ms`.
    pub timed_out: bool,
}

/// Results of ICMP echo requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pinged {
    /// Echo requests sent.
    pub sent: u32,
    /// Replies received in time.
    pub received: u32,
    /// Replies whose payload was not the request's.
    pub corrupted: u32,
    /// Shortest way there and back, in microseconds; absent without replies.
    pub rtt_min_us: Option<f64>,
    /// Mean.
    pub rtt_avg_us: Option<f64>,
    /// Longest.
    pub rtt_max_us: Option<f64>,
}

/// Contents of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileText {
    /// Its text; bytes that are no UTF-8 are replaced.
    pub text: String,
    /// Whether the file was longer.
    pub truncated: bool,
}
