//! What the kernel tells us before (and while) its device queues run.
//!
//! [`Negotiation`] only keeps the files and numbers that it is handed; [`Negotiation::port`]
//! turns them into a live port once everything is there and fits together.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nix::fcntl::{FallocateFlags, fallocate};
use rustix::fs::{SealFlags, fcntl_add_seals};
use virtio_queue::{DescriptorChain, Queue, QueueOwnedT, QueueT};
use vm_memory::mmap::MmapRegionBuilder;
use vm_memory::{
    Address, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion,
    GuestRegionMmap,
};
use warikomi_clock::Clock;
use warikomi_pci::SharedMemory;
use warikomi_pci::attach::bridge;
use warikomi_shared::SharedWords;

use super::bridge::BridgePort;
use super::commands::CommandQueue;
use super::halt::Halt;
use super::interrupts::InterruptQueue;
use super::line::Line;
use super::options::Attachment;
use super::port::{Port, VirtPciPort};
use super::vhost_user::{Incoming, Message, Region, Request, VhostUserError};

type Result<T> = std::result::Result<T, VhostUserError>;

/// `VIRTIO_F_VERSION_1` (virtio 1.1, section 6): without it the kernel's virtio core refuses us.
const VIRTIO_F_VERSION_1: u64 = 1 << 32;

/// `VHOST_USER_F_PROTOCOL_FEATURES`: that there are protocol features to talk about.
const PROTOCOL_FEATURES: u64 = 1 << 30;

/// `REPLY_ACK`: the kernel waits until its memory is mapped, instead of spinning on a first access
/// that we are not ready to serve.
const REPLY_ACK: u64 = 1 << 3;

/// `BACKEND_REQ`: without a channel for requests of ours the kernel takes interrupt 0 for the
/// device, and its probe fails.
const BACKEND_REQUESTS: u64 = 1 << 5;

/// Queue 0 carries accesses, queue 1 interrupts (`virt-pci.c`, `um_pci_init_vqs`).
const QUEUES: usize = 2;

/// The kernel asks for 256 (`MAX_SUPPORTED_QUEUE_SIZE`).
const MAX_QUEUE_SIZE: u16 = 256;

/// Requests answered in one look: more than a kernel makes in all for a card, and bounded, as is the time that they
/// take, so that a guest that asks without end keeps neither its other cards nor Ctrl-C waiting.
const REQUESTS_PER_LOOK: usize = 64;
const LOOK_AT_MOST: Duration = Duration::from_millis(5);

#[derive(Default)]
struct Vring {
    size: u16,
    descriptors: u64,
    used: u64,
    available: u64,
    /// Where taking buffers begins, or goes on: the guest's count of them.
    base: u16,
    kick: Option<File>,
    call: Option<Line>,
    enabled: bool,
}

/// What has been negotiated so far.
#[derive(Default)]
pub(super) struct Negotiation {
    vrings: [Vring; QUEUES],
    memory: Option<SharedMemory>,
    regions: Vec<Region>,
    /// For requests of ours; the guest would see its channel break if it were closed.
    requests: Option<Line>,
    changed: bool,
    attachment: Attachment,
    /// Memory that the guest was given; it can share no more.
    given_bytes: u64,
}

/// The connection, from our end.
pub(super) struct Connection {
    stream: UnixStream,
    incoming: Incoming,
    negotiation: Negotiation,
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Connection {
    /// Over this socket, with a guest that was given so much memory.
    pub(super) fn new(
        stream: UnixStream,
        attachment: Attachment,
        given_bytes: u64,
    ) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        let negotiation = Negotiation { attachment, given_bytes, ..Negotiation::default() };
        Ok(Connection { stream, incoming: Incoming::default(), negotiation })
    }

    /// Answers requests that have arrived, a bounded number of them, and waits for none.
    pub(super) fn serve(&mut self) -> Result<()> {
        let begun = Instant::now();
        let mut now = begun;
        for _ in 0..REQUESTS_PER_LOOK {
            let Some(message) = self.incoming.receive(&self.stream, now)? else { break };
            self.negotiation.answer(message, &self.stream)?;
            now = Instant::now();
            if now.saturating_duration_since(begun) > LOOK_AT_MOST {
                break;
            }
        }
        Ok(())
    }

    /// Whether a part of a request is there, and its time runs.
    pub(super) fn is_waiting(&self) -> bool {
        self.incoming.is_waiting()
    }

    /// Keeps how far a live port has come with its queues: a queue that is stopped, or taken into use again, goes on
    /// from there.
    pub(super) fn keep_positions(&mut self, port: &dyn Port) {
        for (index, ring) in self.negotiation.vrings.iter_mut().enumerate() {
            ring.base = port.next_available(index).unwrap_or(ring.base);
        }
    }

    /// Whether all of the memory that the guest shares is still in its files. What is cut off is no memory any more: an
    /// access to it would end us (SIGBUS).
    pub(super) fn check_memory(&self) -> Result<()> {
        let Some(memory) = &self.negotiation.memory else { return Ok(()) };
        memory.regions().iter().try_for_each(|region| {
            let Some(file) = region.file_offset() else { return Ok(()) };
            let (end, len) = (file.start().saturating_add(region.len()), length(file.file())?);
            if len < end { Err(VhostUserError::CutShort { end, len }) } else { Ok(()) }
        })
    }

    /// Whether the queues have changed since this was last asked.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.negotiation.changed)
    }

    /// A live port, if all that it needs has been told; an error if it does not fit together.
    pub(super) fn port(&mut self, halt: &Rc<Halt>, clock: &Clock) -> Result<Option<Box<dyn Port>>> {
        self.negotiation.port(halt, clock)
    }
}

impl Negotiation {
    fn answer(&mut self, message: Message, stream: &UnixStream) -> Result<()> {
        match message.request {
            Request::GetFeatures => {
                return Ok(message.reply_u64(stream, VIRTIO_F_VERSION_1 | PROTOCOL_FEATURES)?);
            }
            Request::GetProtocolFeatures => {
                return Ok(message.reply_u64(stream, REPLY_ACK | BACKEND_REQUESTS)?);
            }
            Request::GetQueueNum => return Ok(message.reply_u64(stream, QUEUES as u64)?),
            Request::GetVringBase { index } => {
                let ring = self.vring(index)?;
                ring.enabled = false;
                let base = u32::from(ring.base);
                return Ok(message.reply_vring(stream, index, base)?);
            }
            _ => {}
        }
        let mut message = message;
        let files = std::mem::take(&mut message.files);
        let done = self.apply(&message.request, files);
        message.acknowledge(stream, done.is_ok())?;
        done
    }

    fn apply(&mut self, request: &Request, files: Vec<File>) -> Result<()> {
        let file = |files: Vec<File>| files.into_iter().next();
        match *request {
            Request::SetMemTable(ref regions) => self.set_memory(regions, files)?,
            Request::ResetOwner => {
                self.vrings = Default::default();
                self.changed = true;
            }
            Request::SetVringNum { index, size } => self.vring(index)?.size = small(size)?,
            Request::SetVringBase { index, base } => self.vring(index)?.base = small(base)?,
            Request::SetVringAddr { index, descriptors, used, available } => {
                let ring = self.vring(index)?;
                (ring.descriptors, ring.used, ring.available) = (descriptors, used, available);
            }
            Request::SetVringKick { index, has_file } => {
                self.vring(index)?.kick = file(files).filter(|_| has_file);
            }
            Request::SetVringCall { index, has_file } => {
                let call = file(files).filter(|_| has_file).map(Line::new).transpose()?;
                self.vring(index)?.call = call;
            }
            Request::SetVringEnable { index, enable } => self.vring(index)?.enabled = enable,
            Request::SetBackendRequestFd => {
                self.requests = file(files).map(Line::new).transpose()?;
            }
            // What the kernel acknowledges is a part of what we offered, and an error descriptor
            // is of no use to us.
            Request::SetOwner
            | Request::SetFeatures
            | Request::SetProtocolFeatures
            | Request::SetVringErr { .. } => {}
            Request::GetFeatures
            | Request::GetProtocolFeatures
            | Request::GetQueueNum
            | Request::GetVringBase { .. } => unreachable!("answered with a value"),
        }
        Ok(())
    }

    fn vring(&mut self, index: u32) -> Result<&mut Vring> {
        self.changed = true;
        self.vrings.get_mut(index as usize).ok_or(VhostUserError::Invalid("a third queue"))
    }

    fn set_memory(&mut self, regions: &[Region], files: Vec<File>) -> Result<()> {
        let total = regions.iter().try_fold(0u64, |sum, region| {
            let ends = region.user.checked_add(region.len).and(region.bus.checked_add(region.len));
            ends.and(sum.checked_add(region.len))
        });
        let Some(total) = total.filter(|_| regions.len() == files.len()) else {
            return Err(VhostUserError::Invalid("a memory table that does not fit together"));
        };
        // Before any of it is asked for: what it shares is made present, and so takes memory.
        if total > self.given_bytes {
            let [shared_mb, given_mb] = [total.div_ceil(1 << 20), self.given_bytes >> 20];
            return Err(VhostUserError::TooMuchMemory { shared_mb, given_mb });
        }
        let mapped = regions
            .iter()
            .zip(files)
            .map(|(region, file)| map_region(region, file))
            .collect::<Result<_>>()?;
        let memory = GuestMemoryMmap::from_regions(mapped)
            .map_err(|_| VhostUserError::Invalid("memory regions that overlap"))?;
        self.memory = Some(SharedMemory::new(memory));
        self.regions = regions.to_vec();
        self.changed = true;
        Ok(())
    }

    fn port(&mut self, halt: &Rc<Halt>, clock: &Clock) -> Result<Option<Box<dyn Port>>> {
        match self.attachment {
            Attachment::VirtPci => Ok(self.virt_pci(halt)?.map(|port| Box::new(port) as _)),
            Attachment::Bridge { .. } | Attachment::InStep(_) => {
                Ok(self.bridge(clock)?.map(|port| Box::new(port) as _))
            }
        }
    }

    fn virt_pci(&self, halt: &Rc<Halt>) -> Result<Option<VirtPciPort>> {
        let Some(memory) = &self.memory else { return Ok(None) };
        let [commands, interrupts] = &self.vrings;
        let (true, true) = (commands.enabled, interrupts.enabled) else { return Ok(None) };
        let (Some(_), Some(_), Some(call)) = (&commands.kick, &interrupts.kick, &interrupts.call)
        else {
            return Ok(None);
        };
        let collect = commands.call.as_ref().map(Line::try_clone).transpose()?;
        let commands = CommandQueue::new(self.queue(commands, memory)?, collect, memory);
        let interrupts = self.queue(interrupts, memory)?;
        let interrupts =
            InterruptQueue::new(interrupts, call.try_clone()?, memory.clone(), commands.unserved());
        Ok(Some(VirtPciPort::new(memory.clone(), commands, interrupts, Rc::clone(halt))))
    }

    /// The bridge's window is the only buffer of its only queue, which comes a little behind the queue.
    fn bridge(&mut self, clock: &Clock) -> Result<Option<BridgePort>> {
        let (Some(memory), [ring, _], Some(requests)) =
            (&self.memory, &self.vrings, &self.requests)
        else {
            return Ok(None);
        };
        if !ring.enabled {
            return Ok(None);
        }
        let mut queue = self.queue(ring, memory)?;
        let regions = memory.regions();
        let chain = queue.iter(regions).ok().and_then(|mut chains| chains.next());
        let head = chain.as_ref().map(DescriptorChain::head_index);
        let (Some(head), Some(buffer)) = (head, chain.and_then(|mut chain| chain.next())) else {
            self.changed = true;
            return Ok(None);
        };
        let words = window(regions, buffer.addr(), buffer.len(), buffer.is_write_only()).ok_or(
            VhostUserError::Invalid(
                "this kernel's PCI bridge is of another version of warikomi; make it again: \
                 warikomi kernel build",
            ),
        )?;
        let requests = requests.try_clone()?;
        let mut strikes = None;
        if let Attachment::InStep(_) = self.attachment {
            let no_call = VhostUserError::Invalid("a queue in virtual time that takes no calls");
            let call = ring.call.as_ref().ok_or(no_call)?;
            // A queue of which nothing was used does not interrupt (drivers/virtio/virtio_ring.c, `vring_interrupt`).
            let bad = |_| VhostUserError::Invalid("a queue that cannot be written");
            queue.add_used(regions, head, 0).map_err(bad)?;
            strikes = Some(call.try_clone()?);
        }
        let memory = memory.clone();
        Ok(Some(BridgePort::new(memory, words, requests, strikes, clock, self.attachment)))
    }

    fn queue(&self, ring: &Vring, memory: &SharedMemory) -> Result<Queue> {
        let bad = |_| VhostUserError::Invalid("a queue of a size or at a place that cannot be");
        let mut queue = Queue::new(MAX_QUEUE_SIZE).map_err(bad)?;
        queue.try_set_size(ring.size).map_err(bad)?;
        queue.try_set_desc_table_address(self.bus_address(ring.descriptors)?).map_err(bad)?;
        queue.try_set_avail_ring_address(self.bus_address(ring.available)?).map_err(bad)?;
        queue.try_set_used_ring_address(self.bus_address(ring.used)?).map_err(bad)?;
        queue.set_next_avail(ring.base);
        queue.set_next_used(ring.base);
        queue.set_ready(true);
        if queue.is_valid(memory.regions()) {
            return Ok(queue);
        }
        Err(VhostUserError::Invalid("a queue outside the shared memory"))
    }

    /// Ring addresses come as the kernel's own virtual addresses.
    fn bus_address(&self, user: u64) -> Result<GuestAddress> {
        self.regions
            .iter()
            .find(|region| user >= region.user && user - region.user < region.len)
            .and_then(|region| (user - region.user).checked_add(region.bus))
            .map(GuestAddress)
            .ok_or(VhostUserError::Invalid("a queue outside the shared memory"))
    }
}

/// The window that a bridge has handed over, if that is what it is.
fn window(
    regions: &GuestMemoryMmap,
    address: GuestAddress,
    len: u32,
    writable: bool,
) -> Option<SharedWords> {
    let region = regions.find_region(address)?;
    let within = address.unchecked_offset_from(region.start_addr());
    let fits = within.checked_add(bridge::WINDOW_BYTES as u64)? <= region.len();
    if !writable || !fits || (len as usize) < bridge::WINDOW_BYTES {
        return None;
    }
    let file = region.file_offset()?;
    let offset = file.start().checked_add(within)?;
    let words =
        SharedWords::map(file.file().try_clone().ok()?, offset, bridge::WINDOW_BYTES).ok()?;
    let word = |at: usize| words[at].load(Ordering::Acquire);
    let current = word(bridge::header::MAGIC) == bridge::MAGIC
        && word(bridge::header::VERSION) == bridge::VERSION;
    current.then_some(words)
}

fn small(value: u32) -> Result<u16> {
    u16::try_from(value).map_err(|_| VhostUserError::Invalid("a queue of more than 65,535"))
}

/// Maps one region of the guest's memory, all of it present.
///
/// Pages that are missing would be made at the first access, one fault each, on both sides and in
/// the middle of a measurement. Asking for them here also finds out whether the file system has
/// room for them: an access to a page that it has no room for would be a SIGBUS.
///
/// So would be one to what has been cut off. The file is sealed against that, if it can be: what is loaded before a
/// kernel's C library sees to that (`kernel/preload/memory.c`). A kernel without it makes an ordinary file, which can
/// not; so the length is looked at again and again ([`Connection::check_memory`]), and a guest that cuts it short ends
/// us only if we come to what is missing before the next look.
fn map_region(region: &Region, file: File) -> Result<GuestRegionMmap> {
    let end = region.file_offset.checked_add(region.len).filter(|&end| i64::try_from(end).is_ok());
    let Some(end) = end else {
        return Err(VhostUserError::Invalid("a memory region of an impossible size"));
    };
    let _ = fcntl_add_seals(&file, SealFlags::SHRINK);
    let len = length(&file)?;
    if len < end {
        return Err(VhostUserError::BeyondFile { end, len });
    }
    fallocate(&file, FallocateFlags::empty(), region.file_offset as i64, region.len as i64)
        .map_err(std::io::Error::from)?;
    let mapped = MmapRegionBuilder::new(region.len as usize)
        .with_mmap_prot(nix::libc::PROT_READ | nix::libc::PROT_WRITE)
        .with_mmap_flags(nix::libc::MAP_SHARED | nix::libc::MAP_NORESERVE | nix::libc::MAP_POPULATE)
        .with_file_offset(FileOffset::new(file, region.file_offset))
        .build()
        .map_err(std::io::Error::other)?;
    GuestRegionMmap::new(mapped, GuestAddress(region.bus))
        .ok_or(VhostUserError::Invalid("a memory region at an impossible place"))
}

fn length(file: &File) -> std::io::Result<u64> {
    Ok(file.metadata()?.len())
}

#[cfg(test)]
mod tests;
