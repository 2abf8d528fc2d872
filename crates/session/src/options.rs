//! What to bring up.

use std::path::PathBuf;

use clap::ValueEnum;
use serde_json::{Map, Value};
use warikomi_clock::{Span, TscClock};
use warikomi_inject::{Forwarding, GUEST_IP, NETWORK_IP, NETWORK_MAC};
use warikomi_kernel::module_file;
use warikomi_nic::{MakeNic, NicOptions};
use warikomi_process::{
    Above, Orders, Priorities, Program, StateIo, StoreOptions, Succession, USUAL_STORE_INTERVAL,
    Way,
};
use warikomi_stack::{Chain, ChainOptions, StackError, Station, Topology, Waiting};
use warikomi_target::kernel::{Attachment, GuestCosts};
use warikomi_wire::WireKind;

use crate::interface::PREFIX_BITS;

/// What an experiment asks of the guest's network settings. What is `None` stays as it is.
#[derive(Clone, Debug, Default)]
pub struct GuestSettings {
    /// Largest IP packet in bytes.
    pub mtu: Option<u32>,
    /// Generic receive offload.
    pub gro: Option<bool>,
    /// Empty polls before NAPI enables the interrupt again.
    pub napi_defer_hard_irqs: Option<u32>,
    /// Time between such polls, in nanoseconds.
    pub gro_flush_timeout_ns: Option<u64>,
    /// Pairs of queues that the driver uses, among which flows of UDP are then told apart by their ports.
    pub channels: Option<u32>,
    /// Interrupt coalescing.
    pub coalesce: Option<warikomi_protocol::commands::Coalesce>,
}

impl GuestSettings {
    /// Leaves interrupts undeferred unless something else is asked for. Newer drivers let NAPI poll on
    /// with the interrupt off, so that many packets share an interrupt: right for throughput, wrong
    /// where intervals are looked at.
    pub fn defer_nothing(&mut self) {
        self.napi_defer_hard_irqs.get_or_insert(0);
        self.gro_flush_timeout_ns.get_or_insert(0);
    }
}

/// A second card, and what is to be done with it.
#[derive(Clone, Debug)]
pub struct SecondCard {
    /// Its driver, as the guest's kernel calls it.
    pub driver: String,
    /// The NIC.
    pub nic: NicOptions,
    /// What it is cabled to.
    pub wire: WireKind,
    /// How packets come to it.
    pub forwarding: Forwarding,
}

/// What a session on a kernel target brings up.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// The kernel, an executable built with `ARCH=um`.
    pub kernel: PathBuf,
    /// The initramfs with the agent.
    pub initramfs: PathBuf,
    /// Its modules, a directory with a `modules.dep`, where there is one.
    pub modules: Option<PathBuf>,
    /// The driver, as its kernel calls it.
    pub driver: String,
    /// Whether it is a module of the user's own, which may drive any model.
    pub is_own_driver: bool,
    /// Module parameters for it, each as `name=value`.
    pub driver_parameters: Vec<String>,
    /// The NIC.
    pub nic: NicOptions,
    /// Makes the card.
    pub make_nic: MakeNic,
    /// A second card in the same guest, if there is to be one.
    pub second: Option<SecondCard>,
    /// The guest's memory in MB.
    pub memory_mb: u64,
    /// The socket on which the kernel finds the NIC; a private one if `None`.
    pub socket: Option<PathBuf>,
    /// More for the kernel's command line.
    pub kernel_arguments: Vec<String>,
    /// Whether the card is attached by our PCI bridge, which the initramfs must hold, or by virt-pci.
    pub bridge: bool,
    /// How interrupts reach the guest; as the experiment likes it, if that is not said.
    pub interrupts: Option<Interrupts>,
    /// The guest's network settings.
    pub settings: GuestSettings,
    /// Whether both sides shall have real-time priority if they may: the guest if it polls.
    pub realtime: bool,
    /// Whether the guest's time is virtual; that needs the bridge.
    pub virtual_time: Option<VirtualTime>,
    /// Files and directories of this machine that the guest's kernel may read, besides those that every kernel needs.
    pub reads: Vec<PathBuf>,
    /// Whether its processes are confined.
    pub confined: bool,
}

/// A guest in virtual time.
#[derive(Clone, Debug)]
pub struct VirtualTime {
    /// What its work takes.
    pub costs: GuestCosts,
    /// What is random in it follows from this.
    pub seed: u64,
}

/// How interrupts reach a guest that has nothing else to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Interrupts {
    /// The guest looks for them, which takes its whole core
    Polled,
    /// A signal wakes it
    Signalled,
}

impl SessionOptions {
    /// The file of a module of its kernel.
    pub fn module_file(&self, name: &str) -> Option<PathBuf> {
        module_file(self.modules.as_deref()?, name)
    }

    /// How the card is attached, if both sides share a core or do not: a guest that polled would keep ours
    /// from running.
    pub(crate) fn attachment(&self, shared_core: bool) -> Attachment {
        if let Some(VirtualTime { costs, .. }) = &self.virtual_time {
            return Attachment::InStep(*costs);
        }
        let polling = !shared_core && self.interrupts != Some(Interrupts::Signalled);
        if self.bridge { Attachment::Bridge { polling } } else { Attachment::VirtPci }
    }
}

/// A driver process to bring up.
#[derive(Clone, Debug)]
pub struct ProcessSessionOptions {
    /// What the result calls the driver.
    pub driver: String,
    /// Program of the driver.
    pub program: Program,
    /// The NIC.
    pub nic: NicOptions,
    /// Makes the card.
    pub make_nic: MakeNic,
    /// Orders for the driver, such as its receive strategy.
    pub orders: Orders,
    /// What the result says about that.
    pub settings: Map<String, Value>,
    /// DMA memory for rings and buffers, in bytes.
    pub dma_bytes: u64,
    /// What packets go through above the driver.
    pub path: PacketPath,
    /// The program that is the application, if it is the user's own.
    pub application: Option<Program>,
    /// Whether its processes are confined, but for an application of the user's own.
    pub confined: bool,
}

/// A virtual machine that is waited for: its user starts it.
#[derive(Clone, Debug)]
pub struct VmSessionOptions {
    /// What the result calls the driver in the guest; nothing there can be asked.
    pub driver: Option<String>,
    /// The NIC.
    pub nic: NicOptions,
    /// Makes the card.
    pub make_nic: MakeNic,
    /// Where the hypervisor finds the card.
    pub socket: PathBuf,
}

/// How the driver of a session is replaced while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveOptions {
    /// In which way.
    pub way: Way,
    /// When a data store serves what belongs to a replacement.
    pub state_io: StateIo,
    /// Its clients besides drivers.
    pub store_clients: u32,
    /// How often each of them asks.
    pub store_interval: Span,
    /// What parts claim of their core; what is usual if `None`.
    pub priorities: Option<Priorities>,
    /// Reads from a disk that the creation of a driver process waits for.
    pub creation_reads: u32,
    /// All processes are in a session of their own; not where a thread of ours is to have its claim among theirs.
    pub own_session: bool,
}

impl LiveOptions {
    /// In this way, and nothing made hard.
    pub fn of(way: Way) -> LiveOptions {
        LiveOptions {
            way,
            state_io: StateIo::First,
            store_clients: 0,
            store_interval: USUAL_STORE_INTERVAL,
            priorities: None,
            creation_reads: 0,
            own_session: true,
        }
    }

    pub(crate) fn succession(&self, program: fn(&str) -> Program) -> Succession {
        let LiveOptions { way, state_io, priorities, creation_reads, .. } = *self;
        let store = StoreOptions {
            program: program("store"),
            state_io,
            client: program("store-client"),
            clients: self.store_clients,
            client_interval: self.store_interval,
        };
        let starter = self.own_session.then(|| program("starter"));
        Succession { priorities, creation_reads, starter, ..Succession::of(way, store) }
    }
}

/// What runs the parts of a process target.
#[derive(Clone, Copy, Debug)]
pub struct OwnParts {
    /// The driver of that name.
    pub driver: fn(&str) -> Program,
    /// The part of that name above it.
    pub above: fn(&str) -> Program,
}

impl OwnParts {
    /// The running command itself, as `warikomi part NAME`, even if its file has been replaced meanwhile.
    pub const OURSELVES: OwnParts = OwnParts {
        driver: |name| own_executable(&["driver", name]),
        above: |name| own_executable(&[name]),
    };
}

fn own_executable(part: &[&str]) -> Program {
    let arguments = ["part"].iter().chain(part);
    Program {
        path: "/proc/self/exe".into(),
        arguments: arguments.map(Into::into).collect(),
        environment: Vec::new(),
    }
}

/// What packets go through above a driver process.
#[derive(Clone, Copy, Debug)]
pub struct PacketPath {
    /// Which processes make up the path.
    pub topology: Topology,
    /// How stack and application wait for packets.
    pub waiting: Waiting,
    /// The application copies each datagram out of its buffer.
    pub copy_out: bool,
    /// The port on which the stack accepts a TCP connection for the application.
    pub tcp_port: Option<u16>,
    /// What runs the part of that name.
    pub program: fn(&str) -> Program,
}

/// Buffers of packet memory, unless the orders say otherwise: as many as a ring of ours holds.
const PATH_BUFFERS: u64 = 1_024;
/// Their bytes: the longest that every driver's descriptors can name, as packet memory aligns them.
pub const PATH_BUFFER_BYTES: u64 = 16_256;
/// Buffers that the stack sends from.
const STACK_BUFFERS: u32 = 64;

impl PacketPath {
    pub(crate) fn above(
        &self,
        (orders, application): (&Orders, Option<&Program>),
        mac: [u8; 6],
        clock: &TscClock,
    ) -> Result<Option<Above>, StackError> {
        if self.topology == Topology::DriverAlone {
            return Ok(None);
        }
        let or = |given: u64, usual: u64| if given == 0 { usual } else { given };
        let chain = Chain::build(&ChainOptions {
            topology: self.topology,
            application_buffers: or(orders.buffers, PATH_BUFFERS) as u32,
            stack_buffers: STACK_BUFFERS,
            buffer_bytes: or(orders.buffer_bytes, PATH_BUFFER_BYTES) as u32,
            station: Station { mac, address: GUEST_IP, prefix_bits: PREFIX_BITS },
            hosts: vec![(NETWORK_IP, NETWORK_MAC)],
            tcp_port: self.tcp_port,
            waiting: self.waiting,
            copy_out: self.copy_out,
            tsc_hz: clock.ticks_per_second() as u64,
        })?;
        Ok(Some(Above { chain, program: self.program, application: application.cloned() }))
    }
}
