//! A NIC around a NIC that tells of each register access before it is carried out.

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

use warikomi_clock::Seed;
use warikomi_inject::{FaultSchedule, Faulty};
use warikomi_nic::register::Role;
use warikomi_nic::{Nic, forward_nic};
use warikomi_pci::{Bar, Host, MsiMessage, PciFunction, Vector, Vectors, Width};

/// A register access that the driver waits for, or has just made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegisterAccess {
    pub(crate) bar: u8,
    pub(crate) offset: u64,
    pub(crate) width: Width,
    /// What is written; `None` for a read.
    pub(crate) written: Option<u64>,
}

/// Who is told of accesses. The NIC beneath may be given frames meanwhile.
pub(super) trait AccessWatch {
    fn access(&mut self, nic: &mut dyn Nic, host: &mut Host<'_>, access: RegisterAccess);
}

/// A NIC whose register accesses are watched, and whose sender can be paused.
pub(super) struct Watched {
    nic: Box<dyn Nic>,
    watch: Rc<RefCell<dyn AccessWatch>>,
    /// While the partner pauses it: the doorbell that was rung last.
    paused: Option<Option<Doorbell>>,
}

/// A write to a doorbell: BAR, offset, width, value.
type Doorbell = (u8, u64, Width, u64);

impl Watched {
    /// Puts the watch around a NIC, and faults, of which there are none yet, between them.
    pub(super) fn around(nic: Box<dyn Nic>, watch: Rc<RefCell<dyn AccessWatch>>) -> Box<dyn Nic> {
        let faults = FaultSchedule::new(&[], Seed::default());
        Box::new(Watched { nic: Box::new(Faulty::new(nic, faults)), watch, paused: None })
    }

    /// Pauses the sender of a watched card, as PAUSE frames of its partner do (IEEE 802.3, 31B), or ends that: it does
    /// not hear its doorbells meanwhile.
    pub(super) fn pause(nic: &mut dyn Nic, host: &mut Host<'_>, paused: bool) {
        let Some(watched) = (nic as &mut dyn Any).downcast_mut::<Watched>() else { return };
        let before = std::mem::replace(&mut watched.paused, paused.then_some(None));
        if let Some((bar, offset, width, value)) = before.flatten() {
            watched.nic.bar_write(host, bar, offset, width, value);
        }
    }

    /// The faults of a card, around which there is a watch or none; it must have been made with them.
    pub(super) fn faults(nic: &mut dyn Nic) -> Option<&mut Faulty> {
        if (nic as &dyn Any).is::<Watched>() {
            let watched = (nic as &mut dyn Any).downcast_mut::<Watched>()?;
            return Faulty::of(&mut *watched.nic);
        }
        Faulty::of(nic)
    }

    fn tell(&mut self, host: &mut Host<'_>, access: RegisterAccess) {
        self.watch.borrow_mut().access(&mut *self.nic, host, access);
    }
}

impl PciFunction for Watched {
    fn bars(&self) -> &[Bar] {
        self.nic.bars()
    }

    fn vectors(&self) -> Vectors {
        self.nic.vectors()
    }

    fn message(&self, vector: Vector) -> Option<MsiMessage> {
        self.nic.message(vector)
    }

    fn config_read(&mut self, offset: u16, width: Width) -> u64 {
        self.nic.config_read(offset, width)
    }

    fn config_write(&mut self, host: &mut Host<'_>, offset: u16, width: Width, value: u64) {
        self.nic.config_write(host, offset, width, value);
    }

    fn bar_read(&mut self, host: &mut Host<'_>, bar: u8, offset: u64, width: Width) -> u64 {
        self.tell(host, RegisterAccess { bar, offset, width, written: None });
        self.nic.bar_read(host, bar, offset, width)
    }

    fn bar_write(&mut self, host: &mut Host<'_>, bar: u8, offset: u64, width: Width, value: u64) {
        self.tell(host, RegisterAccess { bar, offset, width, written: Some(value) });
        if let Some(rung) = &mut self.paused {
            let mut roles = self.nic.info().roles(bar, offset, width);
            if roles.any(|role| matches!(role, Role::Doorbell(_))) {
                *rung = Some((bar, offset, width, value));
                return;
            }
        }
        self.nic.bar_write(host, bar, offset, width, value);
    }

    fn poll(&mut self, host: &mut Host<'_>) {
        self.nic.poll(host);
    }
}

impl Nic for Watched {
    forward_nic! {
        info, receive, receive_faulty, set_link, rx_queue_progress, rx_queue_free, look_ahead,
        receiving, mac_address, register, probe, counters, strict, power_on, wire, next_due,
        offered_link, has_link
    }
}
