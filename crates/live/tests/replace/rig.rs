//! A service under a supervisor, with frames coming in.

use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use warikomi_clock::{Span, TscClock};
use warikomi_inject::{Addresses, FrameTemplate, GUEST_IP, NETWORK_IP, NETWORK_MAC, UDP_PORT};
use warikomi_live::{Event, Policy, Replacement, Service, Status, Supervisor, Way};
use warikomi_nic::RxOutcome;
use warikomi_process::{
    Above, Orders, ProcessOptions, ProcessTarget, Program, StateIo, StoreOptions, Succession,
};
use warikomi_protocol::answers::ReceiveTotals;
use warikomi_protocol::commands::{ReceiveStart, ReceiveStatus, ReceiveStop};
use warikomi_stack::{Chain, ChainOptions, Station, Topology, Waiting};
use warikomi_target::{CardId, Interrupted, Target};
use warikomi_testbench::card;

use crate::LONG;
use crate::programs::{above, good};

const RUN_ID: u32 = 7;
const FRAME_BYTES: usize = 200;
/// Buffers of the application: more frames cannot be on their way.
pub(crate) const BUFFERS: u32 = 256;
/// Free descriptors that are left: fewer than those with which a driver sleeps on although there are more
/// buffers to be had.
const LEFT_FREE: usize = 16;

pub(crate) struct Rig {
    pub(crate) target: ProcessTarget,
    pub(crate) supervisor: Supervisor,
    frames: FrameTemplate,
    /// Frames that the card has put on the ring: the sequence number of the next.
    accepted: u64,
    passes: u64,
}

/// More patience than usual, for a busy machine; but not where a test waits for it to run out.
pub(crate) fn policy(way: Way) -> Policy {
    Policy {
        warm_within: Span::from_ms(30_000),
        hand_over_within: Span::from_ms(10_000),
        accept_within: Span::from_ms(10_000),
        silent_for: Span::from_ms(20_000),
        stuck_for: Span::from_ms(20_000),
        ..Policy::of(way)
    }
}

impl Rig {
    pub(crate) fn new(policy: Policy) -> Rig {
        Rig::with_supervised(policy, good())
    }

    /// One whose supervisor takes the running driver for this program.
    pub(crate) fn with_supervised(policy: Policy, program: Program) -> Rig {
        let clock = TscClock::calibrate().unwrap();
        let nic = card("rtl8168");
        let addresses = Addresses::to_guest(nic.mac_address());
        let chain = Chain::build(&ChainOptions {
            topology: Topology::Application,
            application_buffers: BUFFERS,
            stack_buffers: 0,
            buffer_bytes: 2_048,
            station: Station { mac: nic.mac_address(), address: GUEST_IP, prefix_bits: 24 },
            hosts: vec![(NETWORK_IP, NETWORK_MAC)],
            tcp_port: None,
            waiting: Waiting::Wait,
            copy_out: false,
            tsc_hz: clock.ticks_per_second() as u64,
        });
        let store = StoreOptions {
            program: above("store"),
            state_io: StateIo::First,
            client: above("store-client"),
            clients: 0,
            client_interval: warikomi_process::USUAL_STORE_INTERVAL,
        };
        let options = ProcessOptions {
            driver: good(),
            dma_bytes: 1 << 20,
            orders: Orders::default(),
            above: Some(Above { chain: chain.unwrap(), program: above, application: None }),
            core: None,
            // Other tests run at the same time.
            shared_core: true,
            live: Some(Succession {
                starter: Some(above("starter")),
                ..Succession::of(policy.way, store)
            }),
            confined: true,
        };
        let started = ProcessTarget::start(options, nic, clock, Interrupted::default());
        let mut target = started.unwrap_or_else(|error| panic!("{error}"));
        let mut reception = ReceiveStart::on_port(UDP_PORT, RUN_ID);
        reception.max_runs = 1 << 16;
        let asked: &mut dyn Target = &mut target;
        asked.ask(reception, LONG).unwrap();
        let supervisor = Supervisor::new(policy, program, &mut target);
        let frames = FrameTemplate::new(&addresses, FRAME_BYTES, RUN_ID).unwrap();
        Rig { target, supervisor, frames, accepted: 0, passes: 0 }
    }

    /// One pass over everything; what the supervisor tells.
    pub(crate) fn pass(&mut self) -> Option<Event> {
        self.passes += 1;
        self.target.poll().unwrap();
        let event = self.supervisor.step(&mut self.target).unwrap();
        if self.passes.is_multiple_of(64) {
            self.target.housekeep().unwrap_or_else(|error| panic!("{error}"));
        }
        self.inject();
        // The machine may have one core for both.
        std::thread::yield_now();
        event
    }

    fn inject(&mut self) {
        let (nic, mut host) = self.target.card(CardId::FIRST).unwrap();
        if nic.rx_free(&mut host, LEFT_FREE) < LEFT_FREE {
            return;
        }
        if nic.receive(&mut host, self.frames.frame(self.accepted)) == RxOutcome::OnRing {
            self.accepted += 1;
        }
    }

    /// Passes until something is so.
    pub(crate) fn until<R>(&mut self, mut found: impl FnMut(&mut Rig) -> Option<R>) -> R {
        let deadline = Instant::now() + LONG;
        loop {
            if let Some(found) = found(self) {
                return found;
            }
            if Instant::now() >= deadline {
                let status = self.status();
                panic!("nothing happens any more: {status:?}{}", self.target.console());
            }
        }
    }

    /// The next thing that happens.
    pub(crate) fn next_event(&mut self) -> Event {
        self.until(Rig::pass)
    }

    /// The next replacement; nothing else may happen before.
    pub(crate) fn next_replacement(&mut self) -> Replacement {
        match self.next_event() {
            Event::Replaced(replacement) => replacement,
            other => panic!("{other:?}{}", self.target.console()),
        }
    }

    /// Passes until a warm driver is there.
    pub(crate) fn wait_until_ready(&mut self) {
        self.until(|rig| {
            assert_eq!(rig.pass(), None);
            rig.supervisor.is_ready(&mut rig.target).then_some(())
        });
    }

    /// Begins to replace.
    pub(crate) fn replace(&mut self, program: &Program) -> u32 {
        self.supervisor.replace(program, &mut self.target).unwrap().unwrap()
    }

    pub(crate) fn status(&mut self) -> Status {
        self.supervisor.status(&mut self.target)
    }

    /// The process of a generation, as soon as it has been started.
    pub(crate) fn process(&mut self, generation: u32) -> Pid {
        let id = self.until(|rig| rig.target.seat(generation).unwrap().process_id);
        Pid::from_raw(id as i32)
    }

    /// Kills the process of a generation with this signal.
    pub(crate) fn signal(&mut self, generation: u32, signal: Signal) {
        kill(self.process(generation), signal).unwrap();
    }

    /// Stops the process of a generation where it is.
    pub(crate) fn freeze(&mut self, generation: u32) {
        freeze(self.process(generation));
    }

    /// Frames still come through.
    pub(crate) fn must_flow(&mut self) {
        let to_come = self.accepted + 300;
        self.until(|rig| {
            assert_eq!(rig.pass(), None);
            (rig.accepted >= to_come).then_some(())
        });
        assert_eq!(self.status().service, Service::Running);
    }

    /// Stops, and says what the application has seen of so many frames.
    pub(crate) fn finish(mut self) -> Outcome {
        let mut last = (u64::MAX, Instant::now());
        // Everything that is on its way comes through first.
        self.until(|rig| {
            rig.target.poll().unwrap();
            std::thread::yield_now();
            if last.1.elapsed().as_millis() < 100 {
                return None;
            }
            let target: &mut dyn Target = &mut rig.target;
            let delivered = target.ask(ReceiveStatus {}, LONG).unwrap().delivered;
            let still = delivered == last.0;
            last = (delivered, Instant::now());
            (delivered == rig.accepted || still).then_some(())
        });
        let target: &mut dyn Target = &mut self.target;
        let received = target.ask(ReceiveStop {}, LONG).unwrap();
        self.target.stop().unwrap();
        Outcome { accepted: self.accepted, received }
    }
}

/// Stops a process, and waits until it is.
pub(crate) fn freeze(id: Pid) {
    kill(id, Signal::SIGSTOP).unwrap();
    let deadline = Instant::now() + LONG;
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        if stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')) {
            return;
        }
        assert!(Instant::now() < deadline, "the process {id} does not stop");
        std::thread::yield_now();
    }
}

/// What came of the frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) accepted: u64,
    pub(crate) received: ReceiveTotals,
}

impl Outcome {
    /// Panics if a frame came twice, or not in order.
    pub(crate) fn must_be_in_order(&self) {
        let received = &self.received;
        assert_eq!((received.duplicates, received.out_of_order), (0, 0), "{self:?}");
        assert!(received.delivered <= self.accepted, "{self:?}");
    }

    /// Panics if a frame is missing, too.
    pub(crate) fn must_be_complete(&self) {
        self.must_be_in_order();
        assert_eq!(self.received.delivered, self.accepted, "{self:?}");
    }
}
