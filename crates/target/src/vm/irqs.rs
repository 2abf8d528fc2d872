//! Interrupts of a card, and the event descriptors by which a client hears of them (QEMU documentation,
//! `docs/interop/vfio-user.rst`, "VFIO_USER_DEVICE_GET_IRQ_INFO" and "VFIO_USER_DEVICE_SET_IRQS").
//!
//! Where the specification leaves a choice, this is what Linux does with a device of VFIO
//! (`drivers/vfio/pci/vfio_pci_intrs.c`), for which clients are written:
//! - INTx masks itself when it is signalled, and is signalled again at the unmasking if the card still asserts it.
//! - A descriptor for unmasking INTx is the client's to signal: KVM does so when the guest has answered the interrupt.
//! - To set descriptors for MSI or MSI-X turns that kind on in configuration space, and to disable them turns it off.
//!
//! A descriptor is written without waiting, and it must be an eventfd: another file could make us wait. Its counter is
//! full when the client has not read it for 2^64 - 2 interrupts, and then it knows already that there is one.
//! O_NONBLOCK belongs to both ends of a descriptor, so it is set again before each write.

use std::fs::File;
use std::io::ErrorKind;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use warikomi_pci::{Interrupt, IntrLine, MsiMessage, Vectors};

use super::protocol::{Action, IrqData, SetIrqs, irq};

/// Interrupts that wait to be told to the client, between two looks. A card that makes more of them than this within
/// one access tells of nothing new.
const MOST_QUEUED: usize = 4_096;

/// One interrupt.
#[derive(Debug, Default)]
struct Irq {
    trigger: Option<File>,
    masked: bool,
    /// It came while it was masked, or while there was no descriptor for it.
    pending: bool,
}

/// What is to be done besides, when interrupts have been set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consequence {
    None,
    /// Interrupts of this kind have descriptors now.
    TurnOn(u32),
    /// All descriptors of this kind are gone.
    TurnOff(u32),
}

/// The interrupts of a card, as its client has set them, and the card's line to them.
#[derive(Debug)]
pub(super) struct Irqs {
    kinds: [Vec<Irq>; irq::COUNT as usize],
    /// The client signals it when INTx is to be unmasked.
    unmask: Option<File>,
    /// Whether the card asserts INTA#.
    level: bool,
    /// Messages of the card that have not been told to the client.
    queued: Vec<MsiMessage>,
    sent: u64,
    dropped: u64,
}

impl Irqs {
    /// Of a card that can interrupt in these ways, and asserts INTA# or does not.
    pub(super) fn new(vectors: Vectors, level: bool) -> Irqs {
        let count = |count: u16| (0..count).map(|_| Irq::default()).collect();
        Irqs {
            kinds: [1, vectors.msi, vectors.msix, 1, 1].map(count),
            unmask: None,
            level,
            queued: Vec::new(),
            sent: 0,
            dropped: 0,
        }
    }

    /// How many there are of a kind, and what is said of them.
    pub(super) fn info(&self, index: u32) -> Result<(u32, u32), Errno> {
        let kind = self.kinds.get(index as usize).ok_or(Errno::INVAL)?;
        let flags = match index {
            irq::INTX => irq::EVENTFD | irq::MASKABLE | irq::AUTOMASKED,
            irq::MSI | irq::MSIX => irq::EVENTFD | irq::MASKABLE,
            _ => irq::EVENTFD,
        };
        Ok((kind.len() as u32, flags))
    }

    /// Whether this vector of MSI-X can be told to the client now.
    pub(super) fn is_open(&self, vector: u16) -> bool {
        let kind = &self.kinds[irq::MSIX as usize];
        kind.get(usize::from(vector)).is_some_and(|irq| irq.trigger.is_some() && !irq.masked)
    }

    /// Interrupts told to the client, and those that could not be kept.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.sent, self.dropped)
    }

    /// Does what the client has asked for. Nothing is changed if it cannot be done.
    pub(super) fn set(
        &mut self,
        order: &SetIrqs<'_>,
        files: Vec<File>,
    ) -> Result<Consequence, Errno> {
        let SetIrqs { action, data, index, start, count } = *order;
        let kind = self.kinds.get(index as usize).ok_or(Errno::INVAL)?;
        if data != IrqData::Eventfd && !files.is_empty() {
            return Err(Errno::INVAL);
        }
        if count == 0 {
            let disables = (action, data, start) == (Action::Trigger, IrqData::None, 0);
            return if disables { Ok(self.disable(index)) } else { Err(Errno::INVAL) };
        }
        let end = start.checked_add(count).filter(|end| *end as usize <= kind.len());
        let range = start as usize..end.ok_or(Errno::INVAL)? as usize;
        if action != Action::Trigger && index > irq::MSIX {
            return Err(Errno::INVAL);
        }
        match data {
            IrqData::None => self.act(action, index, range.map(|at| (at, true))),
            IrqData::Bool(bytes) => {
                let wanted = bytes.iter().map(|byte| *byte != 0);
                self.act(action, index, range.zip(wanted));
            }
            IrqData::Eventfd => return self.assign(order, files),
        }
        Ok(Consequence::None)
    }

    fn disable(&mut self, index: u32) -> Consequence {
        self.kinds[index as usize].iter_mut().for_each(|irq| *irq = Irq::default());
        if index == irq::INTX {
            self.unmask = None;
        }
        match index {
            irq::MSI | irq::MSIX => Consequence::TurnOff(index),
            _ => Consequence::None,
        }
    }

    fn act(&mut self, action: Action, index: u32, which: impl Iterator<Item = (usize, bool)>) {
        for (at, _) in which.filter(|(_, wanted)| *wanted) {
            match action {
                Action::Mask => self.kinds[index as usize][at].masked = true,
                Action::Unmask => self.unmask(index, at),
                Action::Trigger => self.trigger(index, at),
            }
        }
    }

    fn assign(&mut self, order: &SetIrqs<'_>, files: Vec<File>) -> Result<Consequence, Errno> {
        let SetIrqs { action, index, start, count, .. } = *order;
        if !files.is_empty() && files.len() != count as usize {
            return Err(Errno::INVAL);
        }
        files.iter().try_for_each(check_eventfd)?;
        let is_given = !files.is_empty();
        match (action, index) {
            (Action::Unmask, irq::INTX) => self.unmask = files.into_iter().next(),
            (Action::Trigger, _) => {
                let mut files = files.into_iter();
                for at in start..start + count {
                    self.assign_one(index, at as usize, files.next());
                }
            }
            _ => return Err(Errno::OPNOTSUPP),
        }
        match index {
            irq::MSI | irq::MSIX if is_given => Ok(Consequence::TurnOn(index)),
            _ => Ok(Consequence::None),
        }
    }

    fn assign_one(&mut self, index: u32, at: usize, trigger: Option<File>) {
        let irq = &mut self.kinds[index as usize][at];
        if trigger.is_none() {
            *irq = Irq::default();
            return;
        }
        irq.trigger = trigger;
        if !irq.masked {
            self.unmask(index, at);
        }
    }

    fn unmask(&mut self, index: u32, at: usize) {
        let irq = &mut self.kinds[index as usize][at];
        irq.masked = false;
        let pending = std::mem::take(&mut irq.pending);
        match index {
            irq::INTX => self.signal_level(),
            _ if pending => self.tell(index, at),
            _ => {}
        }
    }

    /// INTx is signalled while the card asserts it and it is not masked; then it masks itself.
    fn signal_level(&mut self) {
        let irq = &self.kinds[irq::INTX as usize][0];
        if self.level && !irq.masked && irq.trigger.is_some() {
            self.trigger(irq::INTX, 0);
            self.kinds[irq::INTX as usize][0].masked = true;
        }
    }

    /// An interrupt of this kind has come from the card.
    pub(super) fn tell(&mut self, index: u32, at: usize) {
        let Some(irq) = self.kinds[index as usize].get_mut(at) else {
            self.dropped += 1;
            return;
        };
        if irq.masked || irq.trigger.is_none() {
            irq.pending = true;
            return;
        }
        self.trigger(index, at);
    }

    fn trigger(&mut self, index: u32, at: usize) {
        let Some(file) = &self.kinds[index as usize][at].trigger else { return };
        if set_nonblocking(file).is_ok() {
            // Full is as good as written.
            let _ = (&*file).write(&1u64.to_ne_bytes());
            self.sent += 1;
        }
    }

    /// The server would like to go: the client may take the device out.
    pub(super) fn request_release(&mut self) {
        self.trigger(irq::REQUEST, 0);
    }

    /// Whether the client's own signal for unmasking is awaited.
    pub(super) fn awaited(&self) -> Option<BorrowedFd<'_>> {
        let masked = self.kinds[irq::INTX as usize][0].masked;
        self.unmask.as_ref().filter(|_| masked).map(AsFd::as_fd)
    }

    /// Unmasks INTx if the client has signalled that.
    #[inline]
    pub(super) fn look_for_unmask(&mut self) {
        if self.unmask.is_none() || !self.kinds[irq::INTX as usize][0].masked {
            return;
        }
        let Some(mut file) = self.unmask.as_ref() else { return };
        if set_nonblocking(file).is_err() {
            return;
        }
        match file.read(&mut [0; 8]) {
            Ok(_) => self.unmask(irq::INTX, 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.unmask = None,
        }
    }

    /// Hands over the messages that have come from the card since: address, and data.
    #[inline]
    pub(super) fn take_queued(&mut self) -> Vec<MsiMessage> {
        std::mem::take(&mut self.queued)
    }

    /// Forgets what came from a card that was reset since.
    pub(super) fn forget(&mut self) {
        self.take_queued();
        self.kinds.iter_mut().flatten().for_each(|irq| irq.pending = false);
    }
}

impl IntrLine for Irqs {
    fn signal(&mut self, interrupt: Interrupt) {
        match interrupt {
            // Which vector it is of is not known before the call is over in which it is made.
            Interrupt::Msi(message) if self.queued.len() < MOST_QUEUED => self.queued.push(message),
            Interrupt::Msi(_) => self.dropped += 1,
            Interrupt::Intx(level) => {
                self.level = level;
                self.signal_level();
            }
        }
    }
}

/// Whether it is an eventfd, which can be written without waiting.
fn check_eventfd(file: &File) -> Result<(), Errno> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let is_one = std::fs::read_link(path)
        .is_ok_and(|link| link.to_string_lossy().starts_with("anon_inode:[eventfd"));
    if is_one { set_nonblocking(file) } else { Err(Errno::INVAL) }
}

fn set_nonblocking(file: &File) -> Result<(), Errno> {
    let flags = fcntl_getfl(file)?;
    if flags.contains(OFlags::NONBLOCK) {
        Ok(())
    } else {
        fcntl_setfl(file, flags | OFlags::NONBLOCK)
    }
}

#[cfg(test)]
mod tests;
