//! What stops the driver at a place and strikes there.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use warikomi_clock::{Seed, Span, Time};
use warikomi_debugger::{Frame as StackFrame, Stop, Tracee, TraceeError, call_stack};
use warikomi_inject::{Fault, FaultKind, FaultSchedule, When};
use warikomi_nic::register::Role;
use warikomi_nic::{Frame, Link, Nic, RxOutcome};
use warikomi_pci::{Host, Interrupt, PciFunction, Vector};
use warikomi_protocol::Request;
use warikomi_target::{CardId, PassHook, Target, TargetError};

use super::condition::Check;
use super::gate::Gate;
use super::watched::{AccessWatch, RegisterAccess, Watched};

/// What strikes at a place.
#[derive(Clone, Debug)]
pub(crate) enum Delivery {
    /// A frame, with its interrupt.
    Packet(Vec<u8>),
    /// An interrupt without a reason.
    Interrupt,
    /// The cable is pulled, or plugged in.
    Link(Link),
    /// A frame, and what goes wrong with it or when it comes.
    Fault(FaultKind, Vec<u8>),
    /// A request of the guest's agent, which makes a call that begins at this address.
    Call(Request, u64),
    /// Nothing: it is noted that the driver is there, and another debugger may have it.
    Nothing { hand_over: bool },
}

/// Where to strike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// Before the instruction at one of these addresses.
    Code(Vec<u64>),
    /// At an access of a register: before a read is answered, or a write carried out.
    Register { bar: u8, offset: u64, write: bool },
    /// At any register access.
    AnyAccess,
}

/// One strike that is to be made.
#[derive(Clone, Debug)]
pub(crate) struct Strike {
    pub(crate) place: Where,
    /// What must hold; else it counts for nothing that the place is reached.
    pub(crate) conditions: Vec<Check>,
    /// The kernel's network device, where a condition is about it.
    pub(crate) device: Option<u64>,
    /// It strikes when the place is reached this time, counted from 1.
    pub(crate) nth: u64,
    pub(crate) delivery: Delivery,
    /// The strike that is made behind this one.
    pub(crate) then: Option<Box<Strike>>,
}

/// What came of a strike so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Struck {
    /// How often the place was reached, and the conditions held.
    pub(crate) hits: u64,
    /// How often it was reached, and they did not hold.
    pub(crate) misses: u64,
    /// When it struck.
    pub(crate) at: Option<Time>,
    /// The stack there, innermost first.
    pub(crate) stack: Vec<StackFrame>,
    /// The register access, if it struck at one.
    pub(crate) access: Option<RegisterAccess>,
    /// What became of the frame at the card.
    pub(crate) outcome: Option<RxOutcome>,
    /// The request that was posted to the agent.
    pub(crate) posted: Option<u64>,
    /// The stack of the handler as it first read the status behind the strike; of a call, as it began.
    pub(crate) handler: Vec<StackFrame>,
}

/// Stops the driver at places, as a hook of a target and a watch of its card.
pub(crate) struct Striker {
    tracee: Tracee,
    armed: Option<Strike>,
    /// Of a kernel in virtual time: where it holds interrupts back.
    gate: Option<Gate>,
    /// Whether the handler's first look is awaited.
    awaits_handler: bool,
    /// A request that is to be posted while the target stands still.
    to_post: Option<Request>,
    /// Where a call begins that is awaited.
    awaits_call: Option<u64>,
    struck: Struck,
    /// What came of the strikes before, of which others are made behind them.
    before: Vec<Struck>,
    /// Places of which only is asked whether they are reached, and those that were.
    sought: BTreeSet<u64>,
    reached: Vec<u64>,
    /// Places that are sought from the next strike on.
    sought_behind: Vec<u64>,
    /// Whether the card was served since the target stopped at a breakpoint.
    served: bool,
    error: Option<TraceeError>,
}

impl Striker {
    pub(super) fn new(tracee: Tracee, gate: Option<Gate>) -> Striker {
        Striker {
            tracee,
            armed: None,
            gate,
            awaits_handler: false,
            to_post: None,
            awaits_call: None,
            struck: Struck::default(),
            before: Vec::new(),
            sought: BTreeSet::new(),
            reached: Vec::new(),
            sought_behind: Vec::new(),
            served: false,
            error: None,
        }
    }

    /// Makes ready to strike; what an earlier strike has left is taken away.
    pub(crate) fn arm(&mut self, strike: Strike) -> Result<(), TargetError> {
        self.disarm()?;
        self.struck = Struck::default();
        self.before.clear();
        if let Where::Code(addresses) = &strike.place {
            self.stopped(|tracee| set(tracee, addresses))?;
        }
        self.armed = Some(strike);
        Ok(())
    }

    /// Strikes no more.
    pub(crate) fn disarm(&mut self) -> Result<(), TargetError> {
        self.awaits_handler = false;
        self.to_post = None;
        let awaited = [self.awaits_call.take(), self.gate.as_mut().and_then(Gate::take_awaited)];
        for address in awaited.into_iter().flatten() {
            self.stopped(|tracee| tracee.clear_breakpoint(address))?;
        }
        if let Some(Strike { place: Where::Code(addresses), .. }) = self.armed.take() {
            self.stopped(|tracee| clear(tracee, &addresses))?;
        }
        Ok(())
    }

    /// A word of the target's memory.
    pub(super) fn word(&self, address: u64) -> Option<u64> {
        self.tracee.word(address)
    }

    /// What came of the last strike.
    pub(crate) fn struck(&self) -> &Struck {
        &self.struck
    }

    /// What came of the strikes before the last one.
    pub(crate) fn before(&self) -> &[Struck] {
        &self.before
    }

    /// Notes from now on which of these places are reached for the first time.
    pub(crate) fn seek(&mut self, places: &[u64]) -> Result<(), TargetError> {
        self.stopped(|tracee| {
            tracee.clear_breakpoints()?;
            places.iter().try_for_each(|&address| tracee.set_breakpoint(address))
        })?;
        self.sought = places.iter().copied().collect();
        self.reached.clear();
        Ok(())
    }

    /// Notes from the next strike on which of these places are reached.
    pub(crate) fn seek_behind(&mut self, places: &[u64]) {
        self.sought_behind = places.to_vec();
        self.reached.clear();
    }

    /// Seeks no places any longer.
    pub(crate) fn end_seeking(&mut self) -> Result<(), TargetError> {
        self.sought_behind.clear();
        self.sought.clear();
        self.stopped(Tracee::clear_breakpoints)
    }

    /// The places that were reached since the last time.
    pub(crate) fn take_reached(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.reached)
    }

    /// Does something while the target stands still.
    fn stopped(
        &mut self,
        act: impl FnOnce(&mut Tracee) -> Result<(), TraceeError>,
    ) -> Result<(), TargetError> {
        let stood = self.tracee.is_stopped();
        let done = self.tracee.interrupt().and_then(|_| act(&mut self.tracee));
        let resumed = if stood { Ok(()) } else { self.tracee.resume() };
        done.and(resumed).map_err(traced)
    }

    fn hit(&mut self, address: u64, target: &mut dyn Target) -> Result<(), TargetError> {
        if self.sought.remove(&address) {
            self.reached.push(address);
            self.tracee.clear_breakpoint(address).map_err(traced)?;
        } else if self.awaits_call == Some(address) {
            self.awaits_call = None;
            self.tracee.clear_breakpoint(address).map_err(traced)?;
            self.struck.handler = self.stack().map_err(traced)?;
        } else if self.gate.as_ref().is_some_and(|gate| gate.awaits(address)) {
            let (_, mut host) = target.card(CardId::FIRST)?;
            self.interrupt(&mut host).map_err(traced)?;
        } else {
            let (nic, mut host) = target.card(CardId::FIRST)?;
            let is_it = |place: &Where| matches!(place, Where::Code(all) if all.contains(&address));
            if self.is_due(nic, &mut host, is_it) {
                self.strike(nic, &mut host).map_err(traced)?;
            }
            self.post(target)?;
        }
        self.tracee.resume().map_err(traced)
    }

    /// Posts what is to be posted. The target stands still: its interrupt for the line comes here, if it lets it in.
    fn post(&mut self, target: &mut dyn Target) -> Result<(), TargetError> {
        if let (Some(request), Some(agent)) = (self.to_post.take(), target.agent()) {
            self.struck.posted = agent.post(request);
        }
        Ok(())
    }

    fn stack(&self) -> Result<Vec<StackFrame>, TraceeError> {
        Ok(call_stack(&self.tracee, self.tracee.registers()?))
    }

    /// Counts that a place was reached; whether it is time to strike there.
    fn is_due(
        &mut self,
        nic: &mut dyn Nic,
        host: &mut Host<'_>,
        is_it: impl FnOnce(&Where) -> bool,
    ) -> bool {
        let Some(strike) = self.armed.as_ref().filter(|strike| is_it(&strike.place)) else {
            return false;
        };
        let mut conditions = strike.conditions.iter();
        if !conditions.all(|one| one.holds(nic, host, &self.tracee, strike.device)) {
            self.struck.misses += 1;
            return false;
        }
        self.struck.hits += 1;
        self.struck.hits == strike.nth
    }

    /// The target stands still at the place.
    fn strike(&mut self, nic: &mut dyn Nic, host: &mut Host<'_>) -> Result<(), TraceeError> {
        let Some(strike) = self.armed.take() else { return Ok(()) };
        // All that the driver has written was carried out: what it writes behind this place is behind the strike, too, and
        // an acknowledgement there takes the interrupt of what comes now.
        host.looks = None;
        if let Where::Code(addresses) = &strike.place {
            clear(&mut self.tracee, addresses)?;
        }
        self.struck.stack = self.stack()?;
        self.struck.at = Some(host.now);
        match strike.delivery {
            Delivery::Packet(bytes) => {
                self.struck.outcome = Some(nic.receive(host, Frame::new(&bytes)).outcome);
            }
            Delivery::Nothing { hand_over: false } => return Ok(()),
            Delivery::Nothing { hand_over: true } => return self.tracee.hand_over(),
            Delivery::Link(link) => nic.set_link(host, link),
            Delivery::Fault(kind, bytes) => {
                if let Some(faults) = Watched::faults(nic) {
                    let fault = Fault { kind, when: When::At(Span::ZERO) };
                    *faults.schedule() = FaultSchedule::new(&[fault], Seed::default());
                    faults.schedule().start(host.now);
                    // What waits for nothing but the time begins now.
                    faults.poll(host);
                }
                self.struck.outcome = Some(nic.receive(host, Frame::new(&bytes)).outcome);
            }
            Delivery::Call(request, begins_at) => {
                self.tracee.set_breakpoint(begins_at)?;
                (self.to_post, self.awaits_call) = (Some(request), Some(begins_at));
                return Ok(());
            }
            Delivery::Interrupt => interrupt_without_reason(nic, host),
        }
        let sought = std::mem::take(&mut self.sought_behind);
        set(&mut self.tracee, &sought)?;
        self.sought.extend(sought);
        // Where two strike, the handler that is told of is that behind the second.
        self.awaits_handler = strike.then.is_none();
        if let Some(then) = strike.then {
            self.before.push(std::mem::take(&mut self.struck));
            if let Where::Code(addresses) = &then.place {
                set(&mut self.tracee, addresses)?;
            }
            self.armed = Some(*then);
        }
        self.interrupt(host)
    }

    /// Interrupts the target here, or where it next lets interrupts in.
    fn interrupt(&mut self, host: &mut Host<'_>) -> Result<(), TraceeError> {
        let is_open = match &mut self.gate {
            Some(gate) => gate.is_open(&mut self.tracee)?,
            None => true,
        };
        if is_open {
            host.interrupts.interrupt_now();
        }
        Ok(())
    }

    /// The driver waits for an access to be answered.
    fn at_access(
        &mut self,
        nic: &mut dyn Nic,
        host: &mut Host<'_>,
        access: RegisterAccess,
    ) -> Result<(), TraceeError> {
        let RegisterAccess { bar, offset, width, written } = access;
        let is_status = || {
            let mut roles = nic.info().roles(bar, offset, width);
            roles.any(|role| matches!(role, Role::Status(_)))
        };
        if self.awaits_handler && written.is_none() && is_status() {
            self.awaits_handler = false;
            self.tracee.interrupt()?;
            self.struck.handler = self.stack()?;
            self.tracee.resume()?;
        }
        let at = Where::Register { bar, offset, write: written.is_some() };
        if self.is_due(nic, host, |place| *place == at || *place == Where::AnyAccess) {
            self.tracee.interrupt()?;
            self.struck.access = Some(access);
            self.strike(nic, host)?;
            // It stands until a request is posted, at the end of this pass.
            if self.to_post.is_none() {
                self.tracee.resume()?;
            }
        }
        Ok(())
    }
}

impl AccessWatch for Striker {
    fn access(&mut self, nic: &mut dyn Nic, host: &mut Host<'_>, access: RegisterAccess) {
        if (self.armed.is_some() || self.awaits_handler)
            && let Err(error) = self.at_access(nic, host, access)
        {
            // Told at the next pass: an access is answered whatever happens.
            self.error.get_or_insert(error);
        }
    }
}

/// The striker as a target's hook.
pub(crate) struct StrikerHook(pub(crate) Rc<RefCell<Striker>>);

impl PassHook for StrikerHook {
    fn pass(&mut self, target: &mut dyn Target) -> Result<(), TargetError> {
        let mut striker = self.0.borrow_mut();
        if let Some(error) = striker.error.take() {
            return Err(traced(error));
        }
        striker.post(target)?;
        match striker.tracee.poll().map_err(traced)? {
            // What it had written to the card before is carried out first: in the pass that follows.
            Some(Stop::Breakpoint(_)) if !std::mem::replace(&mut striker.served, true) => Ok(()),
            Some(Stop::Breakpoint(address)) => {
                striker.served = false;
                striker.hit(address, target)
            }
            // It was stopped for what is over by now.
            Some(Stop::Interrupted | Stop::Signal(_)) => striker.tracee.resume().map_err(traced),
            // Who started it says how it ended.
            Some(Stop::Ended) | None => Ok(()),
        }
    }
}

/// Sends the card's first message, of which its registers know nothing.
pub(super) fn interrupt_without_reason(nic: &dyn Nic, host: &mut Host<'_>) {
    if let Some(message) = nic.message(Vector(0)) {
        host.interrupts.signal(Interrupt::Msi(message));
    }
}

fn set(tracee: &mut Tracee, addresses: &[u64]) -> Result<(), TraceeError> {
    addresses.iter().try_for_each(|&address| tracee.set_breakpoint(address))
}

fn clear(tracee: &mut Tracee, addresses: &[u64]) -> Result<(), TraceeError> {
    addresses.iter().try_for_each(|&address| tracee.clear_breakpoint(address))
}

fn traced(error: TraceeError) -> TargetError {
    TargetError::System {
        what: "cannot trace the kernel's process",
        error: std::io::Error::other(error),
    }
}
