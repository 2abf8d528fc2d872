//! All drivers that a device has at a time, and what each new one is started with.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Acquire, Release};

use warikomi_nic::Nic;
use warikomi_pci::attach::{area, layout};
use warikomi_shared::{SharedWords, Words};
use warikomi_stack::{ChannelPlace, DriverInvitation, words};
use warikomi_target::TargetError;

use super::orders::{FIRST_GENERATION, Orders};
use super::parts::Program;
use super::parts::{DRIVER, Parts, Running};
use super::port::{Port, WindowEnd};
use super::priority::{Claims, Wanted};
use super::region::{DeviceMemory, WindowOptions};
use super::report::Report;
use super::seat::{DriverSeat, StartFiles};
use super::succession::Succession;
use super::way::{Baton, How};

/// The drivers of a device: one is served; others are warm, or on their way out.
pub(super) struct Seats {
    list: Vec<DriverSeat>,
    served: u32,
    /// The generation that was started last.
    latest: u32,
    pub(super) device: DeviceMemory,
    options: WindowOptions,
    orders: Orders,
    /// Kept only where another driver may have to be invited.
    invitation: Option<DriverInvitation>,
    /// The words of packet memory, and the channel between the driver and the layer above.
    channel: Option<(SharedWords, ChannelPlace)>,
    fenced_accesses: u64,
}

/// What seats are made of, besides the device's memory.
pub(super) struct SeatsOptions {
    /// For the first driver's window.
    pub(super) window: WindowOptions,
    /// How drivers shall receive.
    pub(super) orders: Orders,
    /// What each is invited with.
    pub(super) invitation: Option<DriverInvitation>,
    /// The words of packet memory, and the channel between the driver and the layer above.
    pub(super) channel: Option<(SharedWords, ChannelPlace)>,
}

impl Seats {
    /// Seats without drivers.
    pub(super) fn new(device: DeviceMemory, options: SeatsOptions) -> Seats {
        let SeatsOptions { window, orders, invitation, channel } = options;
        Seats {
            list: Vec::new(),
            served: FIRST_GENERATION,
            latest: FIRST_GENERATION - 1,
            device,
            options: window,
            orders,
            invitation,
            channel,
            fenced_accesses: 0,
        }
    }

    /// What the next driver is to be handed; `store` is its end of a socket to the store.
    pub(super) fn prepare(&mut self, store: Option<OwnedFd>) -> Result<StartFiles, TargetError> {
        let cannot = TargetError::system("cannot make the window that the driver shares");
        self.latest += 1;
        self.options.generation = self.latest;
        let handout = DriverSeat::prepare(&self.device, &self.options, &self.orders);
        let mut handout = handout.map_err(cannot)?;
        let invitation = self.invitation.as_ref().map(DriverInvitation::socket).transpose();
        let invitation = invitation.map_err(|error| {
            TargetError::system("cannot invite the driver")(io::Error::other(error))
        })?;
        handout.further.extend(store.into_iter().chain(invitation));
        Ok(handout)
    }

    /// Starts the driver that has been prepared; of which generation it is.
    pub(super) fn begin(
        &mut self,
        parts: &mut Parts,
        (program, wanted): (&Program, Wanted),
        handout: StartFiles,
    ) -> Result<u32, TargetError> {
        let files = handout.files(&self.device);
        let part = parts.begin((DRIVER, Some(wanted)), program, layout::HELLO, &files)?;
        let (mut seat, end) = handout.seat(part);
        seat.keep_end(end);
        self.list.push(seat);
        Ok(self.latest)
    }

    /// Takes the first driver in, which has been started and is served; our end of its window, and its
    /// report.
    pub(super) fn add_first(&mut self, handout: StartFiles, part: Running) -> (WindowEnd, Report) {
        let (seat, end) = handout.seat(part);
        let report = seat.report.clone();
        self.list.push(seat);
        (end, report)
    }

    /// Whether other drivers will follow the first.
    pub(super) fn settle(&mut self, live: Option<&Succession>, parts: &mut Parts) {
        if let Some(succession) = live {
            parts.settle(Claims::of_live(succession.priorities), succession.creation_reads);
            self.list.iter().for_each(|first| parts.claim(&first.part));
            self.raise(FIRST_GENERATION, parts);
        } else {
            // A socket that we held open would never hang up.
            self.invitation = None;
        }
    }

    /// The seat of a generation.
    pub(super) fn get(&mut self, generation: u32) -> Option<&mut DriverSeat> {
        self.list.iter_mut().find(|seat| seat.generation == generation)
    }

    /// Whether there is a seat of a generation.
    pub(super) fn has(&self, generation: u32) -> bool {
        self.list.iter().any(|seat| seat.generation == generation)
    }

    /// A driver has, or is about to get, the device.
    pub(super) fn raise(&mut self, generation: u32, parts: &Parts) {
        if let Some(seat) = self.get(generation) {
            parts.raise(&mut seat.part);
        }
    }

    /// A driver is waited for before it has started.
    pub(super) fn hasten(&mut self, generation: u32, wanted: Wanted, parts: &Parts) {
        match (self.get(generation), wanted) {
            (Some(seat), Wanted::AtOnce) => parts.raise(&mut seat.part),
            (Some(seat), Wanted::Soon) => parts.make_equal(&mut seat.part),
            (_, Wanted::Later) | (None, _) => {}
        }
    }

    /// The seat that is served, unless its driver has been ended.
    pub(super) fn served_seat(&mut self) -> Option<&mut DriverSeat> {
        self.get(self.served)
    }

    /// Id of the process that is served, if there is one.
    pub(super) fn served_process(&self) -> Option<u32> {
        self.list.iter().find(|seat| seat.generation == self.served)?.part.id()
    }

    /// All of them, in order of their generations.
    pub(super) fn iter(&self) -> impl Iterator<Item = &DriverSeat> {
        self.list.iter()
    }

    /// The generation of the driver that is prepared next.
    pub(super) fn next_generation(&self) -> u32 {
        self.latest + 1
    }

    /// The generation that is served.
    pub(super) fn served(&self) -> u32 {
        self.served
    }

    /// Turns the port to another seat; nothing happens if there is none of that generation.
    pub(super) fn serve(&mut self, generation: u32, port: &mut Port, nic: &mut dyn Nic) {
        let Some(end) = self.get(generation).and_then(DriverSeat::take_end) else { return };
        let before = port.turn_to(end, nic);
        if let Some(seat) = self.served_seat() {
            seat.fence(before);
        }
        self.served = generation;
    }

    /// Ends drivers that are just being started.
    pub(super) fn call_off_starts(&mut self) {
        self.list.iter_mut().for_each(|seat| seat.part.call_off());
    }

    /// Takes the seat of an ended driver away; its part.
    pub(super) fn remove(&mut self, generation: u32) -> Option<Running> {
        let at = self.list.iter().position(|seat| seat.generation == generation)?;
        let mut seat = self.list.remove(at);
        self.fenced_accesses += seat.discard();
        Some(seat.part)
    }

    /// Changes how all drivers shall receive, also those to come.
    pub(super) fn order(&mut self, given: &Orders) {
        self.orders = *given;
        self.list.iter().for_each(|seat| seat.order(given));
    }

    /// Drops what drivers have asked for after they were turned away from.
    pub(super) fn discard_late(&mut self) {
        self.fenced_accesses += self.list.iter_mut().map(DriverSeat::discard_late).sum::<u64>();
    }

    /// Accesses that have been dropped.
    pub(super) fn fenced_accesses(&self) -> u64 {
        self.fenced_accesses
    }

    /// The baton; `None` where drivers do not follow one another.
    pub(super) fn baton(&self) -> Option<Baton> {
        let state = self.device.state.as_ref()?;
        // The owner first: one that is seen to have accepted had the baton before.
        let owner = state.load(area::OWNER, Acquire) as u32;
        let baton = state.load(area::BATON, Acquire);
        Some(Baton { generation: baton as u32, how: How::from_word(baton >> 32), owner })
    }

    /// Gives the baton away.
    pub(super) fn give_baton(&self, to: u32, how: How) {
        if let Some(state) = &self.device.state {
            state.store(area::BATON, u64::from(to) | how.to_word() << 32, Release);
            state.wake(area::BATON);
        }
    }

    /// Wakes those that wait for the baton.
    pub(super) fn wake_waiting(&self) {
        if let Some(state) = &self.device.state {
            state.wake(area::BATON);
        }
    }

    /// Whether frames are in the channel that the driver has not taken.
    pub(super) fn frames_wait(&self) -> bool {
        let Some((shared, place)) = &self.channel else { return false };
        let head = place.first_word + words::TRANSMITS;
        shared.load(head, Acquire) != shared.load(head + words::TAIL, Acquire)
    }
}
