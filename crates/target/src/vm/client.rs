//! A client of a card: what it asks for is carried out, and answered.
//!
//! Commands are carried out in the order in which they come, a bounded number of them in one look. What makes no sense is
//! answered with an error, and the connection goes on; it ends when the messages themselves cannot be told apart any
//! more, or a time is up ([`ClientError`]). Everything that a client has handed over goes with it: windows, their files,
//! and event descriptors. The card stays as it is ("Client Disconnection" of the specification).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use warikomi_clock::Clock;
use warikomi_nic::Nic;
use warikomi_pci::{Host, MsixLayout, PciFunction, Vector, Width};

use super::channel::{Channel, ClientError, Message};
use super::irqs::{Consequence, Irqs};
use super::memory::{ClientMemory, Refusal};
use super::protocol::{
    ACCESS_BYTES, Header, Request, access, command, device_info, irq, irq_info, region,
    region_info, unmapped,
};
use super::table::MsixTable;
use super::version::agree;
use crate::cycles::{little_endian, pieces};
use crate::{Interrupted, TargetCounters};

/// Commands carried out in one look: more than a guest's processors can have on their way, and bounded, as is the time
/// that they take.
const COMMANDS_PER_LOOK: usize = 64;
const LOOK_AT_MOST: Duration = Duration::from_millis(2);

/// Configuration space of a function that is not PCI Express.
const CONFIG_BYTES: u64 = 256;
const COMMAND_REGISTER: u16 = 0x04;
const MEMORY_SPACE: u64 = 2;
/// The capability list, and the places in it (PCI 3.0, 6.7 and 6.8).
const CAPABILITIES: u16 = 0x34;
const MOST_CAPABILITIES: usize = 48;
const MSI: u64 = 0x05;
const MSI_ENABLE: u64 = 1;
const MSIX: u64 = 0x11;
const MSIX_ENABLE: u64 = 0x8000;
/// Of both, the control register behind the start of the capability.
const CONTROL: u16 = 2;

/// Where a card keeps what turns its messages on.
#[derive(Clone, Copy, Debug, Default)]
struct Capabilities {
    msi: Option<u16>,
    msix: Option<u16>,
}

impl Capabilities {
    fn of(nic: &mut dyn Nic) -> Capabilities {
        let mut found = Capabilities::default();
        let mut at = nic.config_read(CAPABILITIES, Width::B1) as u16;
        for _ in 0..MOST_CAPABILITIES {
            match nic.config_read(at, Width::B1) {
                _ if at == 0 => break,
                MSI => found.msi = Some(at),
                MSIX => found.msix = Some(at),
                _ => {}
            }
            at = nic.config_read(at + 1, Width::B1) as u16;
        }
        found
    }

    fn table(self, nic: &mut dyn Nic) -> Option<MsixTable> {
        let at = self.msix?;
        let mut place = |at| {
            let word = nic.config_read(at, Width::B4) as u32;
            ((word & 7) as u8, word & !7)
        };
        let (table, pending) = (place(at + 4), place(at + 8));
        let vectors = (nic.config_read(at + CONTROL, Width::B2) as u16 & 0x7ff) + 1;
        Some(MsixTable::new(MsixLayout { vectors, table, pending }))
    }
}

/// A client that is connected.
pub(super) struct Client {
    memory: ClientMemory,
    irqs: Irqs,
    table: Option<MsixTable>,
    capabilities: Capabilities,
    /// A version has been agreed on.
    agreed: bool,
    /// It goes on before its writes have been carried out.
    posts: bool,
    looks: u64,
    counters: TargetCounters,
    /// What was wrong with the last command that was refused for it.
    refused: Option<&'static str>,
}

impl Client {
    /// At the other end of this socket, for this card.
    pub(super) fn new(
        stream: UnixStream,
        nic: &mut dyn Nic,
        interrupted: Interrupted,
    ) -> io::Result<Client> {
        let capabilities = Capabilities::of(nic);
        Ok(Client {
            memory: ClientMemory::new(Channel::new(stream, interrupted)?),
            irqs: Irqs::new(nic.vectors(), asserts_intx(nic)),
            table: capabilities.table(nic),
            capabilities,
            agreed: false,
            posts: false,
            looks: 0,
            counters: TargetCounters::default(),
            refused: None,
        })
    }

    /// Counts since it connected.
    pub(super) fn counters(&self) -> TargetCounters {
        let (interrupts_sent, interrupts_dropped) = self.irqs.counts();
        TargetCounters { interrupts_sent, interrupts_dropped, ..self.counters }
    }

    /// What it has asked for last that could not be, if that was not told before.
    pub(super) fn take_refused(&mut self) -> Option<&'static str> {
        self.refused.take()
    }

    /// Whether a version has been agreed on.
    pub(super) fn has_agreed(&self) -> bool {
        self.agreed
    }

    /// How many windows it has mapped.
    pub(super) fn windows(&self) -> usize {
        self.memory.windows()
    }

    /// Waits until it has news, or this descriptor has, but not longer than `at_most`.
    pub(super) fn wait(&mut self, other: BorrowedFd<'_>, at_most: &Timespec) {
        let channel = self.memory.channel();
        if channel.has_work() {
            return;
        }
        let of = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut fds = vec![of(channel.as_fd()), of(other)];
        fds.extend(self.irqs.awaited().map(of));
        // Whatever ends it, all of them are looked at next.
        let _ = poll(&mut fds, Some(at_most));
    }

    /// Whether it has closed the connection, or its side of it.
    pub(super) fn has_hung_up(&mut self) -> bool {
        let hung_up = PollFlags::HUP | PollFlags::RDHUP;
        let channel = self.memory.channel();
        let mut fds = [PollFd::from_borrowed_fd(channel.as_fd(), hung_up)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// The server would like to go.
    pub(super) fn request_release(&mut self) {
        self.irqs.request_release();
    }

    /// What the card may use during an access now.
    #[inline]
    pub(super) fn host(&mut self, clock: &Clock) -> Host<'_> {
        self.memory.channel().begin_access();
        let looks = self.posts.then_some(self.looks);
        Host { now: clock.now(), memory: &self.memory, interrupts: &mut self.irqs, looks }
    }

    /// Carries commands out that have come, a bounded number of them; whether there were any.
    pub(super) fn serve(&mut self, nic: &mut dyn Nic, clock: &Clock) -> Result<bool, ClientError> {
        let begun = Instant::now();
        let mut now = begun;
        let mut served = 0;
        self.looks += 1;
        while served < COMMANDS_PER_LOOK {
            let Some(message) = self.memory.channel().next_command(now)? else { break };
            self.answer(nic, clock, message)?;
            served += 1;
            now = Instant::now();
            if now.saturating_duration_since(begun) > LOOK_AT_MOST {
                break;
            }
        }
        self.irqs.look_for_unmask();
        Ok(served > 0)
    }

    fn answer(
        &mut self,
        nic: &mut dyn Nic,
        clock: &Clock,
        message: Message,
    ) -> Result<(), ClientError> {
        let Message { header, body, files } = message;
        if !self.agreed && header.command != command::VERSION {
            return Err(ClientError::NoVersion(header.command));
        }
        let done = Request::decode(header.command, &body)
            .map_err(Refusal::from_errno)
            .and_then(|request| self.carry_out(nic, clock, (&header, request), files));
        self.deliver(nic);
        if let Err((_, why)) = &done {
            self.counters.malformed += 1;
            self.refused = Some(why);
        }
        let channel = self.memory.channel();
        match done {
            _ if header.wants_no_reply() => {}
            Ok(reply) => channel.send(header.reply(reply.len()), &[&reply])?,
            Err((error, _)) => channel.send(header.error_reply(error), &[])?,
        }
        if self.agreed { Ok(()) } else { Err(ClientError::WrongVersion) }
    }

    fn carry_out(
        &mut self,
        nic: &mut dyn Nic,
        clock: &Clock,
        (header, request): (&Header, Request<'_>),
        files: Vec<File>,
    ) -> Result<Vec<u8>, Refusal> {
        let takes_files = matches!(request, Request::DmaMap(_) | Request::SetIrqs(_));
        if !takes_files && !files.is_empty() {
            return Err((Errno::INVAL, "descriptors with a command that takes none"));
        }
        let wrong = Refusal::from_errno;
        match request {
            Request::Version { .. } if self.agreed => {
                Err((Errno::INVAL, "a second proposal of a version"))
            }
            Request::Version { major, text, .. } => {
                let (agreed, reply) = agree(major, text).map_err(wrong)?;
                self.memory.set_most_data_bytes(agreed.most_data_bytes);
                self.agreed = true;
                Ok(reply)
            }
            Request::DmaMap(map) => self.memory.map(&map, files).map(|()| Vec::new()),
            Request::DmaUnmap { address, bytes } => {
                self.memory.unmap(address, bytes)?;
                Ok(unmapped(false, address, bytes))
            }
            Request::DmaUnmapAll => {
                self.memory.unmap_all();
                Ok(unmapped(true, 0, 0))
            }
            Request::DeviceInfo => Ok(device_info()),
            Request::RegionInfo { index } => {
                let bytes = region_bytes(nic, index).ok_or(Errno::INVAL).map_err(wrong)?;
                Ok(region_info(index, bytes))
            }
            Request::IrqInfo { index } => {
                let (count, flags) = self.irqs.info(index).map_err(wrong)?;
                Ok(irq_info(index, count, flags))
            }
            Request::SetIrqs(order) => {
                let consequence = self.irqs.set(&order, files).map_err(wrong)?;
                self.follow(nic, clock, consequence);
                Ok(Vec::new())
            }
            Request::RegionRead { region, offset, bytes } => {
                self.read(nic, clock, (region, offset), bytes)
            }
            Request::RegionWrite { region, offset, data } => {
                self.posts |= header.wants_no_reply();
                self.write(nic, clock, (region, offset), data)
            }
            Request::Reset => {
                nic.power_on(&mut self.host(clock));
                self.irqs.forget();
                if let Some(table) = &mut self.table {
                    table.reset();
                }
                Ok(Vec::new())
            }
        }
    }

    fn read(
        &mut self,
        nic: &mut dyn Nic,
        clock: &Clock,
        (region, offset): (u32, u64),
        bytes: usize,
    ) -> Result<Vec<u8>, Refusal> {
        check_inside(nic, (region, offset), bytes)?;
        self.counters.accesses += 1;
        let mut reply = access(region, offset, bytes).to_vec();
        reply.resize(ACCESS_BYTES + bytes, 0);
        let data = &mut reply[ACCESS_BYTES..];
        for (at, width) in pieces(offset, bytes) {
            let place = offset + at as u64;
            let of_table = self.table.as_ref().and_then(|table| table.read(region, place, width));
            let value = match of_table {
                Some(value) => value,
                None if region == region::CONFIG => nic.config_read(place as u16, width),
                None => nic.bar_read(&mut self.host(clock), region as u8, place, width),
            };
            data[at..at + width.bytes()].copy_from_slice(&value.to_le_bytes()[..width.bytes()]);
        }
        Ok(reply)
    }

    fn write(
        &mut self,
        nic: &mut dyn Nic,
        clock: &Clock,
        (region, offset): (u32, u64),
        data: &[u8],
    ) -> Result<Vec<u8>, Refusal> {
        check_inside(nic, (region, offset), data.len())?;
        self.counters.accesses += 1;
        let mut table_changed = region == region::CONFIG;
        for (at, width) in pieces(offset, data.len()) {
            let value = little_endian(&data[at..at + width.bytes()]);
            let place = offset + at as u64;
            let table = self.table.as_mut();
            if table.is_some_and(|table| table.write(region, place, width, value)) {
                table_changed = true;
            } else if region == region::CONFIG {
                nic.config_write(&mut self.host(clock), place as u16, width, value);
            } else {
                nic.bar_write(&mut self.host(clock), region as u8, place, width, value);
            }
        }
        if table_changed {
            self.update_table(nic, clock);
        }
        Ok(access(region, offset, data.len()).to_vec())
    }

    /// What follows for the card from interrupts that were set.
    fn follow(&mut self, nic: &mut dyn Nic, clock: &Clock, consequence: Consequence) {
        let (kind, on) = match consequence {
            Consequence::None => return self.update_table(nic, clock),
            Consequence::TurnOn(kind) => (kind, true),
            Consequence::TurnOff(kind) => (kind, false),
        };
        let Capabilities { msi, msix } = self.capabilities;
        let (at, bit) = if kind == irq::MSI { (msi, MSI_ENABLE) } else { (msix, MSIX_ENABLE) };
        if let Some(at) = at.map(|at| at + CONTROL) {
            let before = nic.config_read(at, Width::B2);
            let after = if on { before | bit } else { before & !bit };
            if before != after {
                nic.config_write(&mut self.host(clock), at, Width::B2, after);
            }
        }
        self.update_table(nic, clock);
    }

    fn update_table(&mut self, nic: &mut dyn Nic, clock: &Clock) {
        if nic.config_read(COMMAND_REGISTER, Width::B2) & MEMORY_SPACE == 0 {
            return;
        }
        let Some(mut table) = self.table.take() else { return };
        let masks = table.masks(&self.irqs);
        table.update(nic, &mut self.host(clock), &masks);
        self.table = Some(table);
    }

    /// Tells the client of the messages that the card has sent since.
    #[inline]
    pub(super) fn deliver(&mut self, nic: &mut dyn Nic) {
        for message in self.irqs.take_queued() {
            let msix = self.capabilities.msix;
            let by_msix =
                msix.is_some_and(|at| nic.config_read(at + CONTROL, Width::B2) & MSIX_ENABLE != 0);
            if by_msix {
                // Its entries are ours.
                self.irqs.tell(irq::MSIX, message.data as usize);
                continue;
            }
            let vectors = nic.vectors().msi;
            let is_it = |vector: &u16| nic.message(Vector(*vector)) == Some(message);
            let vector = (0..vectors).find(is_it).unwrap_or_default();
            self.irqs.tell(irq::MSI, vector.into());
        }
    }
}

/// What is in a refusal that has no sentence of its own.
trait FromErrno {
    fn from_errno(error: Errno) -> Self;
}

impl FromErrno for Refusal {
    fn from_errno(error: Errno) -> Refusal {
        let why = match error {
            Errno::OPNOTSUPP => "a command, or a kind of it, that is not supported",
            _ => "a command whose fields do not fit together",
        };
        (error, why)
    }
}

/// Whether the card asserts INTA#, as one may that the client before has left (PCI 3.0, 6.2.2 and 6.2.3).
fn asserts_intx(nic: &mut dyn Nic) -> bool {
    const STATUS: u16 = 0x06;
    const WANTS_INTX: u64 = 1 << 3;
    const INTX_DISABLED: u64 = 1 << 10;
    let [command, status] =
        [COMMAND_REGISTER, STATUS].map(|register| nic.config_read(register, Width::B2));
    status & WANTS_INTX != 0 && command & INTX_DISABLED == 0
}

/// The bytes of a region; `None` of one that no PCI device has.
fn region_bytes(nic: &dyn PciFunction, index: u32) -> Option<u64> {
    match index {
        region::CONFIG => Some(CONFIG_BYTES),
        _ if index >= region::COUNT => None,
        // The option ROM and VGA are BARs of no card.
        _ => {
            let bar = nic.bars().iter().find(|bar| u32::from(bar.index) == index);
            Some(bar.map_or(0, |bar| bar.bytes))
        }
    }
}

fn check_inside(
    nic: &dyn PciFunction,
    (region, offset): (u32, u64),
    bytes: usize,
) -> Result<(), Refusal> {
    let end = offset.checked_add(bytes as u64);
    let size = region_bytes(nic, region);
    match (end, size) {
        (Some(end), Some(size)) if end <= size => Ok(()),
        _ => Err((Errno::INVAL, "an access beyond the end of its region")),
    }
}
