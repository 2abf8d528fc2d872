//! What the support side may ask of the agent. One type a command; [`Request`] is any of them.
//!
//! Where a command has an `interface`, `None` means the one that the last successful
//! [`WaitInterface`] found. Commands run one after another in the agent's main thread; only a
//! reception ([`ReceiveStart`]), a compute job ([`ComputeStart`]), work ([`WorkStart`]) and a program ([`ProgramStart`])
//! go on beside them.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::answers;
pub use crate::coalesce::Coalesce;
pub use crate::wait::Wait;

/// A command that can be sent to the agent, and the shape of its answer.
pub trait Command: Into<Request> {
    /// What [`crate::Response::into_answer`] gives.
    type Answer: DeserializeOwned + Serialize;
}

/// Declares [`Request`] and ties every command to its answer.
macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident => $answer:ty,)*) => {
        /// Any command. As JSON: its fields, and its name in `cmd` in snake case.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "cmd", rename_all = "snake_case")]
        pub enum Request {
            $($(#[$doc])* $name($name),)*
        }

        $(
            impl From<$name> for Request {
                fn from(command: $name) -> Self {
                    Self::$name(command)
                }
            }

            impl Command for $name {
                type Answer = $answer;
            }
        )*
    };
}

commands! {
    /// See [`PingAgent`].
    PingAgent => answers::Alive,
    /// See [`LoadDriver`].
    LoadDriver => answers::DriverLoaded,
    /// See [`UnloadDriver`].
    UnloadDriver => answers::Done,
    /// See [`WaitInterface`].
    WaitInterface => answers::Interface,
    /// See [`Configure`].
    Configure => answers::Configured,
    /// See [`LinkUp`].
    LinkUp => answers::LinkIsUp,
    /// See [`LinkDown`].
    LinkDown => answers::LinkState,
    /// See [`LinkState`].
    LinkState => answers::LinkState,
    /// See [`Renegotiate`].
    Renegotiate => answers::Done,
    /// See [`SelfTest`].
    SelfTest => answers::SelfTested,
    /// See [`Neighbour`].
    Neighbour => answers::Done,
    /// See [`JoinMulticast`].
    JoinMulticast => answers::Done,
    /// See [`VlanAdd`].
    VlanAdd => answers::VlanAdded,
    /// See [`NamespaceAdd`].
    NamespaceAdd => answers::Done,
    /// See [`NamespaceMove`].
    NamespaceMove => answers::Done,
    /// See [`NamespaceEnter`].
    NamespaceEnter => answers::Done,
    /// See [`BridgeAdd`].
    BridgeAdd => answers::Done,
    /// See [`BondAdd`].
    BondAdd => answers::Done,
    /// See [`RouteAdd`].
    RouteAdd => answers::Done,
    /// See [`ReceiveStart`].
    ReceiveStart => answers::ReceiveStarted,
    /// See [`ReceiveStatus`].
    ReceiveStatus => answers::ReceiveTotals,
    /// See [`ReceiveStop`].
    ReceiveStop => answers::ReceiveTotals,
    /// See [`ReceiveRuns`].
    ReceiveRuns => answers::ReceiveRuns,
    /// See [`ComputeStart`].
    ComputeStart => answers::Done,
    /// See [`ComputeStop`].
    ComputeStop => answers::ComputeTotals,
    /// See [`ComputeSamples`].
    ComputeSamples => answers::ComputeSamples,
    /// See [`SuspendInterrupts`].
    SuspendInterrupts => answers::InterruptsSuspended,
    /// See [`Counters`].
    Counters => answers::Counters,
    /// See [`Transmit`].
    Transmit => answers::Transmitted,
    /// See [`TransmitTcp`].
    TransmitTcp => answers::TransmittedTcp,
    /// See [`TransmitFrames`].
    TransmitFrames => answers::Done,
    /// See [`Pktgen`].
    Pktgen => answers::Generated,
    /// See [`Send`].
    Send => answers::Sent,
    /// See [`WorkStart`].
    WorkStart => answers::Done,
    /// See [`WorkStatus`].
    WorkStatus => answers::WorkTotals,
    /// See [`WorkStop`].
    WorkStop => answers::WorkTotals,
    /// See [`RoundTripsStart`].
    RoundTripsStart => answers::Done,
    /// See [`RoundTripsStatus`].
    RoundTripsStatus => answers::RoundTripsTotals,
    /// See [`Ping`].
    Ping => answers::Pinged,
    /// See [`ReadFile`].
    ReadFile => answers::FileText,
    /// See [`WriteFile`].
    WriteFile => answers::Done,
    /// See [`MountRoot`].
    MountRoot => answers::Done,
    /// See [`ProgramStart`].
    ProgramStart => answers::Done,
    /// See [`ProgramOutput`].
    ProgramOutput => answers::ProgramSaid,
    /// See [`Panic`].
    Panic => answers::Done,
    /// See [`Hang`].
    Hang => answers::Done,
    /// See [`PowerOff`].
    PowerOff => answers::Done,
}

/// Gives every command type the same derives.
macro_rules! command {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $kind,)*
        }
    };
}

mod joining;
mod programs;
mod receiving;
mod sending;
pub use joining::{
    BondAdd, BondMode, BridgeAdd, MOST_NAMESPACES, NamespaceAdd, NamespaceEnter, NamespaceMove,
    RouteAdd,
};
pub use programs::{MountRoot, ProgramOutput, ProgramStart};
pub use receiving::{
    ComputeSamples, ComputeStart, ComputeStop, ReceiveRuns, ReceiveStart, ReceiveStatus,
    ReceiveStop,
};
pub use sending::{
    OpenChecksum, Pktgen, RawFrame, RoundTripsStart, RoundTripsStatus, Segments, Transmit,
    TransmitFrames, TransmitTcp, WorkDatagrams, WorkStart, WorkStatus, WorkStop,
};

command! {
    /// Answers at once: is the agent alive, and what do its clocks say?
    PingAgent {}
}

command! {
    /// Loads a driver and the modules that it depends on. Not an error if it is loaded or built
    /// in already; the answer says which.
    LoadDriver {
        /// Name of the module, such as `r8169`.
        name: String,
        /// Module parameters, each as `name=value`. An error where the driver is built in.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        params: Vec<String>,
    }
}

command! {
    /// Removes a module. An error if it is built in, not loaded, or in use.
    UnloadDriver {
        /// Name of the module.
        name: String,
    }
}

command! {
    /// Waits until a driver has made a network interface, and makes that the default of all
    /// later commands.
    WaitInterface {
        /// Name of the driver, as in `/sys/bus/pci/drivers`.
        driver: String,
        /// Address of the card's PCI function, as `0000:01:00.0`, or `None` for any that the driver has.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pci_address: Option<String>,
        /// Longest wait, in milliseconds.
        timeout_ms: u64,
    }
}

command! {
    /// Changes settings of an interface, and tells what was and is in force. A setting that this
    /// kernel or driver does not have is an error that names it. Everything optional: with
    /// nothing set it only reports.
    Configure {
        /// Name of the interface, or `None` for the default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
        /// Largest packet, in bytes, without the Ethernet header.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mtu: Option<u32>,
        /// Generic receive offload (frames merged before the stack sees them).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gro: Option<bool>,
        /// How many empty polls NAPI makes before it enables the interrupt again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        napi_defer_hard_irqs: Option<u32>,
        /// Time between such polls, in nanoseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gro_flush_timeout_ns: Option<u64>,
        /// Polls in a kernel thread rather than in the soft interrupt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        threaded_napi: Option<bool>,
        /// Interrupt coalescing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        coalesce: Option<Coalesce>,
        /// Pairs of queues that the driver uses (`ethtool -L combined`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        channels: Option<u32>,
        /// Whether the ports of UDP count when the card chooses a queue (`ethtool -N rx-flow-hash`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        steer_by_udp_ports: Option<bool>,
        /// Offloads by name: `rx`, `tx`, `sg`, `tso`, `gso`, `rxvlan`, `txvlan`, `rxfcs`, `rxall`
        /// as `ethtool -K` has them, or a full name such as `tx-tcp6-segmentation`.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        offloads: BTreeMap<String, bool>,
        /// Takes every frame.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        promiscuous: Option<bool>,
        /// Takes every multicast frame.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        allmulti: Option<bool>,
        /// Hardware address, as `02:00:00:00:00:01`. Many drivers want the link down for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        address: Option<String>,
    }
}

/// A hardware address as it is written.
pub fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

impl Neighbour {
    /// A host with this hardware address, behind an interface; `None` for the one that commands are about.
    pub fn of(interface: Option<&str>, ip: Ipv4Addr, mac: [u8; 6]) -> Neighbour {
        Neighbour {
            interface: interface.map(str::to_owned),
            ip: ip.to_string(),
            mac: mac_text(mac),
        }
    }
}

impl WaitInterface {
    /// For the interface of any card that this driver has.
    pub fn of(driver: &str, timeout_ms: u64) -> WaitInterface {
        WaitInterface { driver: driver.to_owned(), pci_address: None, timeout_ms }
    }
}

impl Configure {
    /// Changes nothing; the answer still reports everything.
    pub fn report_only() -> Self {
        Self {
            interface: None,
            mtu: None,
            gro: None,
            napi_defer_hard_irqs: None,
            gro_flush_timeout_ns: None,
            threaded_napi: None,
            coalesce: None,
            channels: None,
            steer_by_udp_ports: None,
            offloads: BTreeMap::new(),
            promiscuous: None,
            allmulti: None,
            address: None,
        }
    }
}

command! {
    /// Gives an interface its address, brings it up and waits for the carrier.
    LinkUp {
        /// Name of the interface, or `None` for the default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
        /// IPv4 address and prefix length, as `10.9.0.1/24`; none leaves the address as it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        address_cidr: Option<String>,
        /// Longest wait for the carrier, in milliseconds; 0 does not wait.
        timeout_ms: u64,
    }
}

command! {
    /// Takes an interface down.
    LinkDown {
        /// Name of the interface, or `None` for the default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
    }
}

command! {
    /// Tells the state of the link.
    LinkState {
        /// Name of the interface, or `None` for the default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
    }
}

command! {
    /// Restarts the link's autonegotiation (`ethtool -r`). Does not wait for the link.
    Renegotiate {
        /// Name of the interface, or `None` for the default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
    }
}

command! {
    /// Has the driver test its card, with the link down meanwhile (`ethtool -t`).
    SelfTest {
        /// Name of the interface, or `None` for the default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
    }
}

command! {
    /// Makes a permanent neighbour entry, so that answers need no ARP.
    Neighbour {
        /// Name of the interface, or `None` for the default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
        /// IPv4 address of the peer.
        ip: String,
        /// MAC address of the neighbour.
        mac: String,
    }
}

command! {
    /// Joins a multicast group; stays in it until the guest stops.
    JoinMulticast {
        /// Name of the interface, or `None` for the default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
        /// An IPv4 group (`239.1.2.3`) or a hardware address (`01:00:5e:01:02:03`).
        group: String,
    }
}

command! {
    /// Makes a VLAN interface on top, gives it an address and brings it up.
    VlanAdd {
        /// The interface below.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
        /// VLAN id, 1 to 4094. (Not `id`: that is the request's.)
        vlan: u16,
        /// IPv4 address and prefix length, as `10.9.7.1/24`.
        address_cidr: String,
        /// The tag stays part of the header that the interface shows (VLAN_FLAG_REORDER_HDR off).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        header_with_tag: bool,
    }
}

command! {
    /// Sets how long the interrupt of an interface may stay off while an application that prefers
    /// busy polling keeps asking (`irq-suspend-timeout` of netdev's generic netlink; Linux 6.13). A
    /// kernel without it refuses, and the error has the kernel's own words.
    SuspendInterrupts {
        /// Name of the interface, or `None` for the default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
        /// How long at most, in nanoseconds; 0 for never.
        timeout_ns: u64,
    }
}

command! {
    /// Everything that the kernel counts about an interface.
    Counters {
        /// Name of the interface, or `None` for the default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
    }
}

command! {
    /// A driver process that sends by itself (`warikomi transmit`): sends messages as UDP datagrams, and
    /// answers when all of them have been sent and reclaimed. Texts are those of the command line.
    Send {
        /// Lengths of messages in bytes, at most 64 of them, taken in turn.
        sizes_bytes: Vec<u32>,
        /// Messages of one length before the next one's turn; 0 for a random length each time.
        block: u64,
        /// Where randomness starts from.
        seed: u64,
        /// Messages.
        count: u64,
        /// Messages before them that are not measured.
        warmup: u64,
        /// Time between two messages in picoseconds; 0 for as fast as it goes.
        interval_ps: u64,
        /// Buffers that messages are copied into: `mbuf-2k`, `mbuf-4k`, `contiguous`.
        buffers: String,
        /// UDP has a checksum.
        checksum: bool,
        /// How completed transfers are noticed: `interrupt`, `interrupt-free`, `adaptive`,
        /// `adaptive-published`, `adaptive-watching`.
        completion: String,
        /// What goes through the bounce buffer: `none`, `3`, `all`, `auto`, `dummy`.
        bounce: String,
        /// The device's DMA begins at multiples of this number of bytes, a power of two up to 64; 1: anywhere.
        alignment_bytes: u32,
        /// What carries messages: `udp`, `tcp` (cut into segments by the stack), `tcp-tso` (by the device).
        transport: String,
        /// Bytes that the socket lets be on their way.
        send_buffer_bytes: u64,
        /// The link's MTU in bytes: a datagram that is longer is cut by IP.
        mtu_bytes: u32,
        /// Ethernet address of the destination.
        destination_mac: [u8; 6],
        /// IPv4 address and UDP port, as `10.9.0.2:5001`.
        destination: String,
        /// Run id in the payloads.
        run_id: u32,
        /// A mixed load, whose phases have lengths of their own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mixed: Option<Box<MixedLoad>>,
        /// Gives up after this time, in milliseconds.
        timeout_ms: u64,
    }
}

command! {
    /// A load of several phases, one behind the other and over again: each ends when its time is over and all that
    /// was sent in it has come back.
    MixedLoad {
        /// The phases.
        phases: Vec<LoadPhase>,
        /// How long messages are sent in each phase, in picoseconds.
        phase_ps: u64,
        /// How often all phases come.
        rounds: u32,
        /// Frames come meanwhile, one after each interval of so many picoseconds; 0 for none.
        receive_interval_ps: u64,
    }
}

command! {
    /// A phase of a mixed load.
    LoadPhase {
        /// Lengths of messages in bytes, taken in turn.
        sizes_bytes: Vec<u32>,
        /// Messages of one length before the next one's turn; 0 for a random length each time.
        block: u64,
        /// How long the application computes for each message, in picoseconds.
        compute_ps: u64,
    }
}

command! {
    /// Sends ICMP echo requests and waits for the replies.
    Ping {
        /// IPv4 address.
        address: String,
        /// Number of echo requests.
        count: u32,
        /// Time between two requests, in milliseconds; a reply that comes sooner is not waited
        /// out where this is 0.
        #[serde(default)]
        interval_ms: u64,
        /// Payload of each, in bytes, at most 65,000.
        #[serde(default = "default_ping_payload")]
        payload_bytes: u32,
        /// Longest wait for each reply, in milliseconds.
        timeout_ms: u64,
    }
}

fn default_ping_payload() -> u32 {
    56
}

command! {
    /// Reads a file of the guest, such as one in `/proc` or `/sys`; at most 64 KiB of it.
    ReadFile {
        /// Absolute path.
        path: String,
    }
}

command! {
    /// Writes a file of the guest. Does not create one.
    WriteFile {
        /// Absolute path.
        path: String,
        /// What to write, in one system call.
        text: String,
    }
}

command! {
    /// Crashes the kernel, after the answer. To test what watches it.
    Panic {}
}

command! {
    /// Stops answering, after the answer. To test what watches it.
    Hang {
        /// Spins rather than sleeps.
        #[serde(default)]
        busy: bool,
    }
}

command! {
    /// Stops the guest, after the answer.
    PowerOff {}
}
