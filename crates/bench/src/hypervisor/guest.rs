//! A guest of QEMU as a target whose card is not ours: it has no device's side, only an agent and a console.
//!
//! While it is waited for, frames may go out: a [`Flow`] sends what is due at every poll.

use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use serde_json::Value;
use warikomi_clock::{Clock, Span, Time, TscClock};
use warikomi_inject::{Addresses, FrameTemplate, PlanError};
use warikomi_nic::Nic;
use warikomi_pci::{Host, SharedMemory};
use warikomi_protocol::Request;
use warikomi_protocol::commands::{LoadDriver, WaitInterface};
use warikomi_session::link_up;
use warikomi_target::agent::{Agent, AgentLine};
use warikomi_target::console::Console;
use warikomi_target::cores::Cores;
use warikomi_target::request::over_line;
use warikomi_target::{
    CardId, ConsoleTail, Interrupted, Pass, Slot, Target, TargetCounters, TargetError, wait,
};

use super::qemu::{Accelerator, Boot, CARD_MAC, Device, Ends, Qemu};

/// Binding a driver takes a translated guest some seconds where others have the cores.
const BIND_TIMEOUT: Duration = Duration::from_secs(30);

/// Frames that are offered in one go; its socket holds fewer.
const MOST_AT_ONCE: usize = 64;
/// Frames of the guest's own that are thrown away in one look.
const FRAMES_PER_LOOK: usize = 1_024;
/// So often processes and console are looked at while frames go out, which takes longer than a frame.
const LOOK: Span = Span::from_ms(10);

/// A guest with its driver bound and its link up; dropping it ends it.
pub(super) struct Guest {
    qemu: Qemu,
    wire: UnixDatagram,
    line: AgentLine,
    console: Console,
    clock: TscClock,
    interrupted: Interrupted,
    flow: Option<Flow>,
}

/// What boots, with which card, how and where.
pub(super) struct Setup<'a> {
    pub(super) boot: &'a Boot,
    pub(super) device: &'a Device,
    pub(super) accelerator: Accelerator,
    pub(super) cores: Cores,
    /// How long it may take until the agent reports.
    pub(super) within: Duration,
}

/// Frames that go out one after the other.
pub(super) struct Flow {
    template: FrameTemplate,
    /// The time between two, or as fast as they are taken.
    interval: Span,
    due: Time,
    left: u64,
    next: u64,
    /// When each was sent; of a flow with an interval.
    pub(super) sent: Vec<Time>,
    /// Processor time of ours for each frame that was taken, in nanoseconds.
    pub(super) cost_ns: Vec<f64>,
}

impl Flow {
    /// `count` frames from `start` on.
    pub(super) fn new(template: FrameTemplate, interval: Span, start: Time, count: u64) -> Flow {
        let kept = if interval == Span::ZERO { 0 } else { count as usize };
        let (sent, cost_ns) = (Vec::with_capacity(kept), Vec::with_capacity(kept));
        Flow { template, interval, due: start, left: count, next: 0, sent, cost_ns }
    }

    /// For the card of a guest, a frame of this length.
    pub(super) fn template(size_bytes: usize, run_id: u32) -> Result<FrameTemplate, PlanError> {
        FrameTemplate::new(&Addresses::to_guest(CARD_MAC), size_bytes, run_id)
    }

    /// Sends what is due: one frame, or as many as are taken if all are due.
    fn step(&mut self, wire: &UnixDatagram, now: Time) -> Result<(), TargetError> {
        let most = if self.interval == Span::ZERO { MOST_AT_ONCE } else { 1 };
        for _ in 0..most {
            if self.left == 0 || now < self.due || !self.send(wire, now)? {
                break;
            }
        }
        Ok(())
    }

    /// Sends the next frame; whether it was taken.
    fn send(&mut self, wire: &UnixDatagram, now: Time) -> Result<bool, TargetError> {
        let frame = self.template.frame(self.next);
        let paced = self.interval > Span::ZERO;
        let before = paced.then(thread_ns);
        match wire.send(frame.bytes) {
            Ok(_) => {}
            // QEMU has not taken those before it.
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(TargetError::system("cannot send a frame to QEMU")(error)),
        }
        if let Some(before) = before {
            self.cost_ns.push(thread_ns().saturating_sub(before) as f64);
            self.sent.push(now);
        }
        self.due += self.interval;
        (self.next, self.left) = (self.next + 1, self.left - 1);
        Ok(true)
    }

    /// How many were taken.
    pub(super) fn count(&self) -> u64 {
        self.next
    }

    pub(super) fn is_done(&self) -> bool {
        self.left == 0
    }
}

/// Processor time of this thread.
pub(super) fn thread_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

impl Guest {
    /// Boots it, binds the driver and brings the link up.
    pub(super) fn start(
        setup: &Setup<'_>,
        clock: TscClock,
        interrupted: Interrupted,
    ) -> Result<Guest, TargetError> {
        let Setup { boot, device, accelerator, cores, within } = *setup;
        let (qemu, Ends { wire, agent, console }) = Qemu::start(boot, device, accelerator, cores)?;
        wire.set_nonblocking(true).map_err(TargetError::system("cannot set up QEMU's wire"))?;
        let line = AgentLine::new(agent).map_err(TargetError::system("cannot set up a socket"))?;
        let console = Console::new(console);
        let mut guest = Guest { qemu, wire, line, console, clock, interrupted, flow: None };
        let ready = wait::until(&mut guest, within, |guest| guest.line.ready().map(|_| ()))?;
        if ready.is_none() {
            return Err(TargetError::NotReady { within, console: guest.console() });
        }
        guest.qemu.place_processor(cores.target)?;
        let parameters = device.parameters.iter().map(|&parameter| parameter.to_owned()).collect();
        let target: &mut dyn Target = &mut guest;
        target.ask(LoadDriver { name: device.driver.into(), params: parameters }, BIND_TIMEOUT)?;
        let timeout_ms = BIND_TIMEOUT.as_millis() as u64;
        target.ask(WaitInterface::of(device.driver, timeout_ms), BIND_TIMEOUT)?;
        link_up(target)?;
        Ok(guest)
    }

    /// From now on `flow` goes out whenever the guest is waited for.
    pub(super) fn send(&mut self, flow: Flow) {
        self.flow = Some(flow);
    }

    /// What has become of the flow, which ends.
    pub(super) fn take_flow(&mut self) -> Option<Flow> {
        self.flow.take()
    }

    /// Sends until the flow has gone out, or for this long, and does little else meanwhile.
    pub(super) fn send_for(&mut self, span: Span) -> Result<(), TargetError> {
        let end = self.clock.now() + span;
        let mut looked = Time::ZERO;
        loop {
            let now = self.poll()?.at;
            if now >= end || self.flow.as_ref().is_none_or(Flow::is_done) {
                return self.housekeep();
            }
            if now.since(looked) > LOOK {
                self.housekeep()?;
                looked = now;
            }
            std::thread::yield_now();
        }
    }

    /// Processor time of the thread that plays the card, in nanoseconds.
    pub(super) fn card_ns(&self) -> Option<u64> {
        let id = self.qemu.id();
        let schedstat = std::fs::read_to_string(format!("/proc/{id}/task/{id}/schedstat")).ok()?;
        schedstat.split_ascii_whitespace().next()?.parse().ok()
    }
}

impl Target for Guest {
    fn poll(&mut self) -> Result<Pass, TargetError> {
        let now = self.clock.now();
        if let Some(flow) = &mut self.flow {
            flow.step(&self.wire, now)?;
        }
        Ok(Pass::idle(now))
    }

    fn housekeep(&mut self) -> Result<(), TargetError> {
        self.line.pump();
        self.console.drain();
        // What the guest sends by itself has nobody to read it, and would fill the socket.
        let mut frame = [0; 2_048];
        for _ in 0..FRAMES_PER_LOOK {
            if self.wire.recv(&mut frame).is_err() {
                break;
            }
        }
        if self.interrupted.is_set() {
            return Err(TargetError::Interrupted);
        }
        if let Some(message) = self.console.panic() {
            let message = message.to_owned();
            return Err(TargetError::Panicked { message, console: self.console() });
        }
        match self.qemu.exit_status() {
            None => Ok(()),
            Some(status) => {
                // It may have printed its last words behind the look at its console.
                self.console.drain_all();
                let (status, console) = (status.to_string(), self.console());
                Err(TargetError::PartEnded { part: "hypervisor", status, console })
            }
        }
    }

    fn cards(&self) -> usize {
        0
    }

    fn card(&mut self, card: CardId) -> Result<(&mut dyn Nic, Host<'_>), TargetError> {
        Err(TargetError::NoCard { card, cards: 0 })
    }

    fn slot(&mut self, card: CardId) -> Result<&mut Slot, TargetError> {
        Err(TargetError::NoCard { card, cards: 0 })
    }

    fn memory(&self, _: CardId) -> Option<&SharedMemory> {
        None
    }

    fn clock(&self) -> Clock {
        Clock::Real(self.clock)
    }

    fn console(&self) -> ConsoleTail {
        self.console.tail()
    }

    fn counters(&self) -> TargetCounters {
        TargetCounters::default()
    }

    fn process_id(&self) -> u32 {
        self.qemu.id()
    }

    /// The thread that plays the card may have only our core: whoever waits lets it run.
    fn shares_a_core(&self) -> bool {
        true
    }

    fn stop(&mut self) -> Result<(), TargetError> {
        self.qemu.stop()
    }

    fn agent(&mut self) -> Option<&mut dyn Agent> {
        Some(self)
    }
}

impl Agent for Guest {
    fn request(&mut self, request: Request, allowance: Duration) -> Result<Value, TargetError> {
        over_line(self, |guest| Some(&mut guest.line), request, allowance)
    }

    fn has_application(&self) -> bool {
        true
    }
}
