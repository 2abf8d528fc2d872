//! A whole system that sends, in the driver's process: answers requests to send, one after the other.

use std::net::SocketAddrV4;
use std::os::fd::AsFd;
use std::time::Duration;

use serde_json::Value;
use warikomi_clock::{Span, Time};
use warikomi_driver::device::{Device, SupportGone};
use warikomi_driver::run::RunError;
use warikomi_driver::{DriverError, DriverInfo, Hardware, Link, NicDriver, OwnPool};
use warikomi_pci::SharedMemory;
use warikomi_pci::attach::layout::{orders, report, state};
use warikomi_protocol::answers::Done;
use warikomi_protocol::{Request, commands};
use warikomi_shared::Woken;
use warikomi_stack::send::{PlanError, RealTime, SendPlan, Sender, SenderError, Step};
use warikomi_stack::{Invitation, StackError, Station};

use super::line::{ControlLine, alive, json};
use super::tell::tell;

/// What comes for nobody is taken all the same.
const RECEIVE_BUFFERS: usize = 64;
const RECEIVE_BUFFER_BYTES: u32 = 2_048;
/// Rings and buffers begin on pages.
const PAGE_BYTES: u64 = 4_096;

/// Steps between two looks at the clock.
const STEPS_BETWEEN_LOOKS: u32 = 64;
/// How often the report is brought up to date, and the orders are looked at, while sending.
const REPORT_EVERY: Span = Span::from_ms(1);
/// How often it is looked at whether the support side is there, and at the link.
const LOOK_EVERY: Span = Span::from_ms(50);
/// The longest part of a sleep in which nobody sees that we live.
const HEARTBEAT: Duration = Duration::from_millis(100);
/// A shorter wait is no sleep: that might take longer.
const SHORTEST_SLEEP: Span = Span::from_us(200);

/// Bytes of DMA memory for a sender by this plan, with a driver of this description.
pub fn dma_bytes(info: &DriverInfo, plan: &SendPlan) -> u64 {
    Places::of(info).sender_offset + plan.dma_bytes(info.tx_descriptors, info.max_frame_bytes)
}

/// What lies where in DMA memory, in bytes from its beginning: rings, receive buffers, and all that the
/// sender needs.
struct Places {
    receive_offset: u64,
    receive_bytes: u64,
    sender_offset: u64,
}

impl Places {
    fn of(info: &DriverInfo) -> Places {
        let receive_offset = (info.ring_bytes as u64).next_multiple_of(PAGE_BYTES);
        let receive_bytes = RECEIVE_BUFFERS as u64 * u64::from(RECEIVE_BUFFER_BYTES);
        Places { receive_offset, receive_bytes, sender_offset: receive_offset + receive_bytes }
    }
}

/// Serves until the orders say stop, or the support side asks nothing more. The report page says how it
/// went, too.
pub fn serve(
    device: &mut Device,
    driver: &mut dyn NicDriver,
    mut invitation: Invitation,
) -> Result<(), StackError> {
    device.report(report::STATE, state::STARTING);
    let station = invitation.settings.station;
    let served = invitation.file("the control socket").and_then(ControlLine::new);
    let served = served.and_then(|line| Service::start(device, driver, line, station)?.run());
    served.inspect_err(|error| tell(device, error))
}

fn failed(error: impl Into<RunError>) -> StackError {
    StackError::Driver(error.into().to_string())
}

/// Why the sender stopped.
enum Ended {
    /// There is an answer, or a reason why there is none.
    Answer(Result<Value, String>),
    /// The orders say stop.
    Stopped,
}

/// What has been counted over all requests.
#[derive(Clone, Copy, Default)]
struct Counts {
    received: u64,
    sleeps: u64,
    slept: Span,
}

struct Service<'a> {
    device: &'a mut Device,
    memory: SharedMemory,
    driver: &'a mut dyn NicDriver,
    pool: OwnPool,
    line: ControlLine,
    station: Station,
    /// Bus address and length in bytes of what a sender may use.
    buffers: (u64, u64),
    counts: Counts,
    /// Packets and bytes that senders had sent before this one, and up to now.
    sent: (u64, u64),
    sending: (u64, u64),
    heartbeat: u64,
    reported: Time,
    looked: Time,
}

/// The device for one call of the driver.
macro_rules! hardware {
    ($service:ident) => {
        &mut Hardware { mmio: &mut *$service.device, memory: &$service.memory }
    };
}

impl<'a> Service<'a> {
    fn start(
        device: &'a mut Device,
        driver: &'a mut dyn NicDriver,
        line: ControlLine,
        station: Station,
    ) -> Result<Self, StackError> {
        let (memory, (rings, bytes)) = (device.memory(), device.dma());
        let Places { receive_offset, receive_bytes, sender_offset } = Places::of(driver.info());
        let Some(room) = bytes.checked_sub(sender_offset) else {
            let needed = sender_offset as usize;
            return Err(failed(RunError::NoRoom { needed, bytes }));
        };
        let first = rings + receive_offset;
        let pool = OwnPool::new(first, receive_bytes, RECEIVE_BUFFERS, RECEIVE_BUFFER_BYTES);
        let now = device.now();
        let mut service = Service {
            memory,
            driver,
            pool: pool.map_err(failed)?,
            line,
            station,
            buffers: (rings + sender_offset, room),
            counts: Counts::default(),
            sent: (0, 0),
            sending: (0, 0),
            heartbeat: 0,
            reported: now,
            looked: now,
            device,
        };
        service.init().map_err(failed)?;
        service.look_at_link()?;
        service.report(now);
        service.device.report(report::STATE, state::READY);
        Ok(service)
    }

    fn run(mut self) -> Result<(), StackError> {
        let served = self.work();
        let quiesced = self.quiesce();
        self.report(self.device.now());
        served?;
        quiesced.map_err(failed)?;
        self.device.report(report::STATE, state::STOPPED);
        Ok(())
    }

    /// Until the orders say stop.
    fn work(&mut self) -> Result<(), StackError> {
        while !self.is_stopped() {
            match self.line.next()? {
                Some(line) => match line.parse() {
                    Ok(envelope) => match self.execute(&envelope.request)? {
                        Ended::Answer(outcome) => self.line.answer(envelope.id, outcome)?,
                        Ended::Stopped => return Ok(()),
                    },
                    Err((id, text)) => self.line.answer(id, Err(text))?,
                },
                None if self.line.is_over() => return Err(StackError::Gone("the support side")),
                None => self.wait_for_request()?,
            }
        }
        Ok(())
    }

    fn execute(&mut self, request: &Request) -> Result<Ended, StackError> {
        Ok(Ended::Answer(match request {
            Request::PingAgent(_) => json(&alive()),
            Request::Send(command) => return self.send(command),
            Request::PowerOff(_) => {
                self.line.close();
                json(&Done {})
            }
            _ => Err("the sender of a process target does not know this request".to_owned()),
        }))
    }

    /// Sends, and starts the device again if it still has packets of a sender that is no more.
    fn send(&mut self, command: &commands::Send) -> Result<Ended, StackError> {
        let mut course = RealTime(self.device.clock());
        let mut sender = match self.prepare(command) {
            Ok(sender) => sender,
            Err(SenderError::Plan(error)) => return Ok(Ended::Answer(Err(error.to_string()))),
            Err(SenderError::Driver(error)) => return Err(failed(error)),
        };
        let ended = self.drive(&mut sender, &mut course, command.timeout_ms)?;
        self.count(&sender);
        self.counts.received += sender.received();
        self.sent = self.sending;
        if sender.transmitter().in_flight() > 0 {
            self.quiesce().and_then(|()| self.init()).map_err(failed)?;
        }
        Ok(ended)
    }

    fn prepare(&mut self, command: &commands::Send) -> Result<Sender, SenderError> {
        let plan = SendPlan::from_command(command)?;
        let range = "it must be an IPv4 address and a UDP port, as 10.9.0.2:5001";
        let to: SocketAddrV4 = command
            .destination
            .parse()
            .map_err(|_| PlanError::new("destination", &command.destination, range))?;
        let to = (command.destination_mac, *to.ip(), to.port());
        let driver = &mut *self.driver;
        Sender::new(&plan, self.station, to, self.buffers, driver, hardware!(self))
    }

    fn drive(
        &mut self,
        sender: &mut Sender,
        course: &mut RealTime,
        timeout_ms: u64,
    ) -> Result<Ended, StackError> {
        let deadline = self.device.now() + Span::from_ms(timeout_ms);
        loop {
            if let Some(rest) = self.some_steps(sender, course)? {
                match rest {
                    Step::Again => {}
                    Step::Until(time) => self.rest(time.min(deadline), false)?,
                    Step::Interrupt => self.rest(deadline, false)?,
                    Step::DeadLocked | Step::Finished => {
                        return Ok(Ended::Answer(json(&sender.sent())));
                    }
                }
            }
            let now = self.device.now();
            if now.since(self.reported) >= REPORT_EVERY {
                self.count(sender);
                if !sender.receives() {
                    self.take_received()?;
                }
                self.housekeep(now)?;
            }
            if self.is_stopped() {
                return Ok(Ended::Stopped);
            }
            if now >= deadline {
                let (tried, in_flight) = (sender.tried(), sender.transmitter().in_flight());
                return Ok(Ended::Answer(Err(format!(
                    "the {timeout_ms} ms of timeout_ms were over when {tried} messages had been sent, \
                     those of the warm-up among them, and the device had not finished {in_flight}; \
                     allow more time, or send fewer"
                ))));
            }
        }
    }

    /// Steps until there is something else than the next step to do, or the clock must be looked at.
    #[inline]
    fn some_steps(
        &mut self,
        sender: &mut Sender,
        course: &mut RealTime,
    ) -> Result<Option<Step>, StackError> {
        for _ in 0..STEPS_BETWEEN_LOOKS {
            let received =
                sender.receive(&mut *self.driver, hardware!(self), course, &mut self.pool);
            received.map_err(failed)?;
            let interrupted = self.device.take_interrupt().is_some();
            let step = sender.step(&mut *self.driver, hardware!(self), course, interrupted);
            match step.map_err(failed)? {
                Step::Again => {}
                other => return Ok(Some(other)),
            }
        }
        Ok(None)
    }

    fn wait_for_request(&mut self) -> Result<(), StackError> {
        // A sender may have left interrupts on; nobody waits for any now.
        while let Some(message) = self.device.take_interrupt() {
            for vector in self.driver.info().vectors_of(message) {
                self.driver.on_interrupt(hardware!(self), vector).map_err(failed)?;
            }
        }
        let now = self.device.now();
        self.take_received()?;
        self.housekeep(now)?;
        self.rest(now + LOOK_EVERY, true)
    }

    /// Sleeps until an interrupt, an order to stop, this time, or (if it is listened to) a request.
    fn rest(&mut self, until: Time, listen: bool) -> Result<(), StackError> {
        let from = self.device.now();
        if until.since(from) < SHORTEST_SLEEP {
            while self.device.now() < until && !self.device.interrupt_pending() {
                std::thread::yield_now();
            }
            return Ok(());
        }
        self.report(from);
        let mut sleeper = self.device.sleeper();
        // Shared by the two parts, of which the second only looks.
        let service = std::cell::RefCell::new(&mut *self);
        let woken = sleeper.sleep_unless(
            || {
                let service = service.borrow();
                Ok(service.device.interrupt_pending() || service.is_stopped())
            },
            || service.borrow_mut().sleep(until, listen),
        );
        woken.map_err(failed)?;
        self.counts.slept += self.device.now().since(from);
        Ok(())
    }

    fn sleep(&mut self, until: Time, listen: bool) -> Result<Woken, SupportGone> {
        self.counts.sleeps += 1;
        loop {
            let left = Duration::from_nanos(until.since(self.device.now()).as_ps() / 1_000);
            let request = listen.then(|| self.line.control().as_fd());
            let woken = self.device.wait(request, left.min(HEARTBEAT))?;
            if woken == Woken::Called || left <= HEARTBEAT {
                return Ok(woken);
            }
            self.heartbeat += 1;
            self.device.report(report::HEARTBEAT, self.heartbeat);
        }
    }

    fn is_stopped(&self) -> bool {
        self.device.order(orders::STOP) != 0
    }

    /// What must be done now and then.
    fn housekeep(&mut self, now: Time) -> Result<(), StackError> {
        self.report(now);
        if now.since(self.looked) >= LOOK_EVERY {
            self.looked = now;
            self.device.check_support().map_err(failed)?;
            self.look_at_link()?;
        }
        Ok(())
    }

    /// What has come for nobody.
    fn take_received(&mut self) -> Result<(), StackError> {
        let received = self.driver.poll(hardware!(self), RECEIVE_BUFFERS, &mut self.pool);
        self.counts.received += received.map_err(failed)? as u64;
        Ok(())
    }

    fn look_at_link(&mut self) -> Result<(), StackError> {
        let mbps = match self.driver.link(hardware!(self)).map_err(failed)? {
            Link::Down => 0,
            Link::Up { mbps } => mbps,
        };
        self.device.report(report::LINK_MBPS, mbps.into());
        Ok(())
    }

    /// What the sender has sent so far, added to what others have sent before it.
    fn count(&mut self, sender: &Sender) {
        let (packets, bytes) = self.sent;
        self.sending =
            (packets + sender.transmitter().counts().packets, bytes + sender.frame_bytes());
    }

    fn report(&mut self, now: Time) {
        self.reported = now;
        self.heartbeat += 1;
        let counts = self.counts;
        for (word, value) in [
            (report::HEARTBEAT, self.heartbeat),
            (report::RX_PACKETS, counts.received),
            (report::RX_ERRORS, self.driver.rx_errors()),
            (report::TX_PACKETS, self.sending.0),
            (report::TX_BYTES, self.sending.1),
            (report::INTERRUPTS, self.device.interrupts_taken()),
            (report::SLEEPS, counts.sleeps),
            (report::SLEPT_NS, counts.slept.as_ps() / 1_000),
        ] {
            self.device.report(word, value);
        }
    }

    fn init(&mut self) -> Result<(), DriverError> {
        let (rings, _) = self.device.dma();
        self.driver.init(hardware!(self), rings, RECEIVE_BUFFERS, &mut self.pool)
    }

    /// The device is stopped, and receive buffers come back; packets of a sender go with it.
    fn quiesce(&mut self) -> Result<(), DriverError> {
        self.driver.quiesce(hardware!(self), &mut self.pool, &mut |_| ())
    }
}
