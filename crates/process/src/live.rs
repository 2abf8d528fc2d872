//! Several drivers of one device, one after the other: the mechanism. What is done when is decided by
//! the crate `live`.
//!
//! Each driver process has a *seat*: a window of its own, a pipe, its socket, and a generation. One seat
//! is served; what comes from any other has no effect, because nobody looks at its register ring, and
//! its interrupts go nowhere. That is the fence. DMA memory, packet memory and the state area stay where
//! they are.

use warikomi_clock::{Span, Time};
use warikomi_pci::attach::layout::{orders, state, times};
use warikomi_target::TargetError;

use super::ProcessTarget;
use super::orders::FIRST_GENERATION;
use super::parts::PartFailure;
use super::parts::Program;
use super::priority::Wanted;
use super::request_log::StoreRequest;
use super::store::Store;
use super::way::{Baton, How};

/// What can be said of a driver process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Generation of the driver.
    pub generation: u32,
    /// Its process, once that has been started.
    pub process_id: Option<u32>,
    /// What it says of itself ([`state`]); any value, because nothing that it says is believed.
    pub state: u64,
    /// Grows while its loop goes round.
    pub heartbeat: u64,
    /// It sleeps, as far as it says.
    pub sleeps: bool,
    /// Frames that it has received and transmitted, as far as it says.
    pub packets: u64,
    /// How its process ended, if it has.
    pub ended: Option<String>,
    /// Why it failed, if it says that it has.
    pub last_words: Option<String>,
    /// How often the application got the processor during the reads that its creation waited for, if it was looked at.
    pub read_dispatches: Option<u64>,
    /// When what happened at its last change of hands ([`times`]); [`Time::NEVER`] for what did not.
    pub times: [Time; times::COUNT],
}

impl Seat {
    /// Whether it waits for the baton.
    pub fn is_warm(&self) -> bool {
        matches!(self.state, state::WARM | state::ALERT) && self.ended.is_none()
    }

    /// Whether it waits for the baton, and has rehearsed.
    pub fn is_alert(&self) -> bool {
        self.state == state::ALERT && self.ended.is_none()
    }

    /// Whether it has failed or ended.
    pub fn is_over(&self) -> bool {
        self.ended.is_some() || matches!(self.state, state::FAILED | state::STOPPED)
    }
}

/// How long after its socket is closed a process is waited for to end.
const EXIT_FOLLOWS_WITHIN: Span = Span::from_ms(20);

/// What is done to seats. None of this waits: each step's effect is seen by looking at the seats again.
///
/// A target that was started with [`super::ProcessOptions::live`] takes the end of a driver for no error.
impl ProcessTarget {
    /// Starts a driver process in a new seat, and says of which generation it is. It maps everything,
    /// becomes [warm](Seat::is_warm), and waits for the baton. One that cannot be started is seen as ended.
    ///
    /// Only for a live target: no other has what a further driver is invited with.
    pub fn prepare(&mut self, driver: &Program, wanted: Wanted) -> Result<u32, TargetError> {
        let generation = self.next_generation();
        let store = self.store.as_mut().map(|store| store.client(generation)).transpose()?;
        let handout = self.seats.prepare(store)?;
        self.seats.begin(&mut self.parts, (driver, wanted), handout)
    }

    /// A driver that was prepared for [later](Wanted::Later) is wanted earlier.
    pub fn hasten(&mut self, generation: u32, wanted: Wanted) {
        self.seats.hasten(generation, wanted, &self.parts);
    }

    /// What can be said of the seat of a generation; `None` if there is none (any more). Takes some system
    /// calls.
    pub fn seat(&mut self, generation: u32) -> Option<Seat> {
        let clock = self.clock;
        let seat = self.seats.get(generation)?;
        let ended = match self.parts.failure_of(&mut seat.part) {
            None => None,
            Some(PartFailure::Ended(_, status)) => Some(status),
            // A process closes its socket a moment before it is seen to have ended, and its status says more.
            Some(PartFailure::HungUp(_)) => {
                let now = clock.now();
                let since = *seat.hung_up.get_or_insert(now);
                (now.since(since) > EXIT_FOLLOWS_WITHIN).then(|| "it closed its socket".to_owned())
            }
        };
        let report = &seat.report;
        Some(Seat {
            generation,
            process_id: seat.part.id(),
            state: report.state(),
            heartbeat: report.heartbeat(),
            sleeps: report.sleeps(),
            packets: report.packets(),
            ended,
            last_words: (report.state() == state::FAILED).then(|| report.last_words()),
            read_dispatches: seat.part.read_dispatches(),
            times: seat.times(&clock),
        })
    }

    /// The generations that have seats, in order.
    pub fn seats(&self) -> Vec<u32> {
        self.seats.iter().map(|seat| seat.generation).collect()
    }

    /// The generation of the driver that is prepared next.
    pub fn next_generation(&self) -> u32 {
        self.seats.next_generation()
    }

    /// The generation that is served.
    pub fn served(&self) -> u32 {
        self.seats.served()
    }

    /// Lets a driver know that the device is about to become that of generation `to`. A warm one rehearses,
    /// so that memory is near when it counts; the served one stays awake, so that no processor has to wake up.
    pub fn alert(&mut self, generation: u32, to: u32) {
        self.seats.raise(generation, &self.parts);
        if let Some(seat) = self.seats.get(generation) {
            seat.write_order(orders::ALERT, to.into());
        }
        if generation == self.served() {
            self.port.line.ring();
        } else {
            self.seats.wake_waiting();
        }
    }

    /// Orders the served driver to hand over to another; 0 takes the order back, if it has not been seen.
    pub fn order_hand_over(&mut self, to: u32) {
        if let Some(seat) = self.seats.served_seat() {
            seat.write_order(orders::HAND_OVER, to.into());
        }
        self.port.line.ring();
    }

    /// Orders a driver to stop: one that is served quiesces the device, any other just ends.
    pub fn order_stop(&mut self, generation: u32) {
        if let Some(seat) = self.seats.get(generation) {
            seat.write_order(orders::STOP, 1);
        }
        self.port.line.ring();
        // One that waits for the baton looks at its orders when it is woken.
        self.seats.wake_waiting();
    }

    /// The baton, as the state area has it; a device whose drivers do not follow one another is its
    /// first driver's.
    pub fn baton(&self) -> Baton {
        let first =
            Baton { generation: FIRST_GENERATION, how: How::Start, owner: FIRST_GENERATION };
        self.seats.baton().unwrap_or(first)
    }

    /// Gives the baton away. Only when no driver has it that lives: whoever had it has been
    /// [ended](Self::end_seat), or has handed it to one that has been ended and has not accepted it.
    pub fn give_baton(&mut self, to: u32, how: How) {
        self.seats.give_baton(to, how);
    }

    /// Serves what the served driver has asked for up to now, and from then on another: the fence.
    /// Accesses that the old one asks for later are counted, and have no effect.
    pub fn serve_seat(&mut self, generation: u32) {
        self.seats.raise(generation, &self.parts);
        self.seats.serve(generation, &mut self.port, &mut *self.nic);
        if let Some(seat) = self.seats.served_seat() {
            self.report = seat.report.clone();
        }
    }

    /// Kills a driver process, and takes its seat away once it is gone; whether it is, or there is no such
    /// seat. To be called again until it is so. Also for one that has ended.
    pub fn end_seat(&mut self, generation: u32) -> bool {
        let Some(seat) = self.seats.get(generation) else { return true };
        if self.parts.end_of(&mut seat.part).is_none() {
            self.parts.kill(&seat.part);
            return false;
        }
        if let Some(part) = self.seats.remove(generation) {
            self.parts.forget(part);
        }
        true
    }

    /// Whether the driver comes before what is above it on their core.
    pub fn are_drivers_first(&self) -> bool {
        self.parts.are_drivers_first()
    }

    /// Whether the programs of drivers to come are held in memory, so that none waits for the disk when it starts.
    pub fn holds_programs(&self) -> bool {
        self.parts.holds_programs()
    }

    /// Process id of a part above the driver, by its name, if there is one that runs.
    pub fn part_process(&self, name: &str) -> Option<u32> {
        self.parts.id_above(name)
    }

    /// Process id of the data store, if there is one that runs.
    pub fn store_process(&self) -> Option<u32> {
        self.store.as_ref().and_then(Store::id)
    }

    /// Requests that the store's other clients have made since the last call, of each the latest ones.
    pub fn take_store_requests(&mut self) -> Vec<StoreRequest> {
        let clock = self.clock;
        self.store.as_mut().map_or_else(Vec::new, |store| store.take_requests(&clock))
    }

    /// Accesses that drivers have asked for after they were fenced off.
    pub fn fenced_accesses(&self) -> u64 {
        self.seats.fenced_accesses()
    }

    /// Whether something waits for the driver that it has not taken up: frames on its ring, interrupts, or,
    /// while the cable is plugged in, frames to be sent in its channel.
    pub fn work_waits(&mut self) -> bool {
        /// Descriptors looked at: each may be a cache line of the driver's.
        const DESCRIPTORS: usize = 64;
        let to_send = self.report.link_mbps() != 0 && self.seats.frames_wait();
        let (nic, mut host) = self.device();
        let rx = nic.rx_progress(&mut host, DESCRIPTORS);
        let to_receive = rx.on_ring > rx.accepted + rx.abandoned;
        to_receive || to_send || self.port.line.is_pending()
    }
}
