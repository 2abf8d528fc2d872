//! The stack's process.

use std::time::Duration;

use warikomi_clock::{Span, Time, TscClock, read_tsc};
use warikomi_stack::{
    CHECK_INTERVAL, Event, Hosts, Invitation, PacketMemory, Path, StackError, Waiting, Watch,
};

/// Runs until a neighbour ends.
pub fn main() -> Result<(), StackError> {
    run(Invitation::accept("stack")?)
}

/// Runs with this invitation.
pub fn run(mut invitation: Invitation) -> Result<(), StackError> {
    let memory = PacketMemory::map(&invitation.file("packet memory")?.into())?;
    let own = Event::from(invitation.file("the own event")?);
    let application = Event::from(invitation.file("the application's event")?);
    let driver = Event::from(invitation.file("the driver's event")?);
    let mut neighbours =
        vec![invitation.neighbour("the application")?, invitation.neighbour("the driver")?];
    neighbours.extend(invitation.support());
    let watch = Watch::new(own, neighbours, None);
    let clock = TscClock::with_frequency(read_tsc(), memory.shape().tsc_hz as f64);
    let settings = invitation.settings;
    let hosts = Hosts::new(settings.hosts);
    let two_channels = || StackError::Invitation("packet memory has no two channels".to_owned());
    let path = Path::new(memory, settings.station, hosts, settings.tcp_port, application, &driver)
        .ok_or_else(two_channels)?;
    Stack { path, watch, clock, waiting: settings.waiting }.run()
}

struct Stack {
    path: Path<Event>,
    watch: Watch,
    clock: TscClock,
    waiting: Waiting,
}

impl Stack {
    fn run(mut self) -> Result<(), StackError> {
        let poll = match self.waiting {
            Waiting::Wait => Span::ZERO,
            Waiting::Hybrid { poll_ns } => Span::from_ns(poll_ns),
            Waiting::Poll => Span::from_ps(u64::MAX),
        };
        let mut busy = self.clock.now();
        let mut next_check = busy;
        loop {
            let now = self.clock.now();
            if now >= next_check {
                self.watch.check()?;
                next_check = now + CHECK_INTERVAL;
            }
            if self.path.pass(now)? > 0 {
                busy = now;
            } else if now.since(busy) < poll {
                // The neighbours may be on this very core.
                rustix::thread::sched_yield();
            } else {
                self.sleep(now)?;
                busy = self.clock.now();
            }
        }
    }

    fn sleep(&mut self, now: Time) -> Result<(), StackError> {
        let timeout = match self.path.due() {
            Time::NEVER => None,
            due => Some(Duration::from_nanos(due.since(now).as_ps().div_ceil(1_000))),
        };
        let woken = match self.path.prepare_to_sleep() {
            Ok(true) => Ok(()),
            Ok(false) => self.watch.sleep(timeout).map(|_| ()),
            Err(corrupt) => Err(corrupt.into()),
        };
        self.path.awake();
        woken
    }
}
