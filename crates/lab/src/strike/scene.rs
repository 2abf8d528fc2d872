//! A driver in a kernel that can be stopped anywhere, with traffic through it of which every packet is known.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use warikomi_clock::{Span, Time};
use warikomi_debugger::Program;
use warikomi_inject::{Addresses, echo_request};
use warikomi_measure::CoreWait;
use warikomi_nic::register::Register;
use warikomi_nic::{Frame, Link, Nic, RxOutcome};
use warikomi_pci::Host;
use warikomi_protocol::commands::Configure;
use warikomi_session::{Prepared, Session};
use warikomi_target::{CardId, TargetError};
use warikomi_wire::{EchoReplies, EchoReply, EchoWatch, WireKind};

use super::code::KernelCode;
use super::condition::Check;
use super::grip::Grip;
use super::striker::{Strike, Striker, Struck, Where, interrupt_without_reason};
use super::watched::{RegisterAccess, Watched};
use crate::error::Error;
use crate::watch::Watch;

/// Housekeeping while the driver is served.
const HOUSEKEEPING_EVERY: Span = Span::from_ms(1);

/// The MTU of Ethernet (IEEE 802.3), in bytes.
const DEFAULT_MTU: u32 = 1_500;

/// A driver that makes no access for so long has nothing in hand. Longer than any of its register accesses
/// is behind the one before.
const QUIET: Span = Span::from_us(60);

/// How often a kernel is started that is killed before it is ready.
const TRIES_TO_BRING_UP: u32 = 3;

/// One echo request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ping {
    pub(crate) sent: Time,
    /// When the first reply came.
    pub(crate) replied: Option<Time>,
    pub(crate) replies: u32,
    /// What became of it at the card.
    pub(crate) outcome: RxOutcome,
}

/// For how many nanoseconds each side has waited for a core.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits([u64; 2]);

impl Waits {
    /// What they have waited since then, together: each waits for the other, so one's wait comes behind the other's.
    pub(super) fn since(self, before: Waits) -> Span {
        let waits = self.0.iter().zip(before.0).map(|(now, then)| now.saturating_sub(then));
        Span::from_ns(waits.sum())
    }
}

/// A target whose driver can be stopped.
pub(crate) struct Scene {
    pub(crate) session: Session,
    pub(crate) program: Rc<Program>,
    striker: Rc<RefCell<Striker>>,
    /// The support side, and the target.
    sides: [Option<CoreWait>; 2],
    replies: EchoReplies,
    addresses: Addresses,
    next_number: u64,
    /// Requests that are accounted for, by number.
    pings: BTreeMap<u64, Ping>,
    /// Replies to a request that has struck already, and of which that is not known yet.
    early: Vec<EchoReply>,
    /// Lines of the console that have been read.
    read_lines: u64,
    /// The interface's largest packet, in bytes.
    pub(super) mtu: u32,
    /// Whether the guest has an interface for tagged frames.
    pub(super) has_vlan: bool,
    /// Since when answers may leave: when the card was last paused no longer.
    pub(super) unpaused: Time,
}

impl Scene {
    /// Brings a target up and takes hold of it.
    pub(crate) fn start(
        watch: &mut Watch,
        prepared: &Prepared,
        kernel: &mut KernelCode,
    ) -> Result<Scene, Error> {
        let options = Grip::check(prepared)?;
        let (mut session, replies) = bring_up(watch, prepared)?;
        let target = &mut *session.target;
        let (nic, _) = target.card(CardId::FIRST)?;
        let addresses = Addresses::to_guest(nic.mac_address());
        if let Some(agent) = target.agent() {
            agent.print_all()?;
        }
        let Grip { program, striker } = Grip::take(&mut session, options, kernel)?;
        let read_lines = session.target.printed_lines();
        let sides = [None, Some(session.target.process_id())].map(CoreWait::of);
        let mtu = session.info.settings.get("mtu_bytes").and_then(serde_json::Value::as_u64);
        let mtu = mtu.and_then(|mtu| u32::try_from(mtu).ok()).unwrap_or(DEFAULT_MTU);
        let mut scene = Scene {
            session,
            program,
            striker,
            sides,
            replies,
            addresses,
            next_number: 0,
            pings: BTreeMap::new(),
            early: Vec::new(),
            read_lines,
            mtu,
            has_vlan: false,
            unpaused: Time::ZERO,
        };
        // In virtual time an attempt on a new target is the same each time.
        if !scene.session.target.clock().is_virtual() && !scene.become_acquainted()? {
            watch.saw_unanswering(&scene.session.info);
        }
        Ok(scene)
    }

    /// The frame of the next echo request, which is accounted for as soon as it is [sent](Self::sent).
    pub(crate) fn next_request(&mut self, size_bytes: usize) -> Result<(u64, Vec<u8>), Error> {
        self.next_number += 1;
        Ok((self.next_number, echo_request(&self.addresses, self.next_number, size_bytes)?))
    }

    /// Of the network, and of the card.
    pub(super) fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Switches what the interface leaves to the card, by the names of ethtool.
    pub(super) fn offload(&mut self, names: &[&str], on: bool) -> Result<(), Error> {
        let offloads = names.iter().map(|&name| (name.to_owned(), on)).collect();
        let change = Configure { offloads, ..Configure::report_only() };
        self.session.target.ask(change, Duration::ZERO)?;
        Ok(())
    }

    /// The card as it is now, with what the driver has written to it before. Its writes do not wait for us, and we may
    /// have been elsewhere (at a stack): an acknowledgement that is carried out only behind a packet that came later
    /// would take that packet's interrupt away.
    fn card(&mut self) -> Result<(&mut dyn Nic, Host<'_>), TargetError> {
        if !self.session.target.clock().is_virtual() {
            self.session.target.poll()?;
        }
        self.session.target.card(CardId::FIRST)
    }

    /// Sends an echo request to the driver.
    pub(crate) fn ping(&mut self, size_bytes: usize) -> Result<u64, Error> {
        let (number, frame) = self.next_request(size_bytes)?;
        let (nic, mut host) = self.card()?;
        let sent = host.now;
        let outcome = nic.receive(&mut host, Frame::new(&frame)).outcome;
        self.sent(number, sent, outcome);
        Ok(number)
    }

    /// A request has gone to the card.
    pub(crate) fn sent(&mut self, number: u64, sent: Time, outcome: RxOutcome) {
        let replies = self.early.iter().filter(|reply| reply.number == number);
        let (replied, replies) =
            (replies.clone().map(|reply| reply.at).min(), replies.count() as u32);
        self.early.retain(|reply| reply.number != number);
        self.pings.insert(number, Ping { sent, replied, replies, outcome });
    }

    /// Forgets all requests; replies to them that come later count for nothing.
    pub(crate) fn forget_pings(&mut self) {
        self.pings.clear();
        self.early.clear();
    }

    /// All requests that are accounted for.
    pub(super) fn pings(&self) -> impl Iterator<Item = Ping> + '_ {
        self.pings.values().copied()
    }

    /// The numbers of requests that are on the ring and were not answered.
    pub(super) fn unanswered(&self) -> Vec<u64> {
        let open = self.pings.iter().filter(|(_, ping)| ping.replies == 0);
        open.map(|(number, _)| *number).collect()
    }

    /// Whether every request was answered.
    pub(crate) fn is_all_answered(&self) -> bool {
        self.pings.values().all(|ping| ping.replies > 0)
    }

    /// How many requests are accounted for, and how many of them were answered.
    pub(crate) fn count_pings(&self) -> (u64, u64) {
        let answered = self.pings.values().filter(|ping| ping.replies > 0).count();
        (self.pings.len() as u64, answered as u64)
    }

    /// Strikes once the place is reached.
    pub(crate) fn arm(&mut self, strike: Strike) -> Result<(), Error> {
        // So that the driver stands at the very write at which it is struck. Elsewhere writes are posted, as always.
        let is_access = |strike: &Strike| !matches!(strike.place, Where::Code(_));
        let at_access = is_access(&strike) || strike.then.as_deref().is_some_and(is_access);
        self.session.target.wait_for_writes(at_access);
        Ok(self.striker.borrow_mut().arm(strike)?)
    }

    /// The kernel's network device, if one of these conditions is about it.
    pub(super) fn device(&mut self, conditions: &[Check]) -> Result<Option<u64>, Error> {
        let layout = conditions.iter().find_map(|check| match check {
            Check::Napi { layout, .. } => Some(layout),
            _ => None,
        });
        let Some(layout) = layout else { return Ok(None) };
        let (nic, _) = self.session.target.card(CardId::FIRST)?;
        let mac = nic.mac_address();
        let striker = self.striker.borrow();
        let device = layout.device(&|address| striker.word(address), &self.program, mac);
        device.map(Some).ok_or_else(|| {
            Error::impossible(
                "what NAPI does cannot be told: the kernel's list of network devices has none with the card's address",
            )
        })
    }

    /// Interrupts the driver without a reason.
    pub(super) fn interrupt_without_reason(&mut self) -> Result<(), Error> {
        let (nic, mut host) = self.card()?;
        interrupt_without_reason(nic, &mut host);
        Ok(())
    }

    /// Has the partner pause the card's sender, or end that.
    pub(super) fn pause(&mut self, paused: bool) -> Result<(), Error> {
        let (nic, mut host) = self.card()?;
        Watched::pause(nic, &mut host, paused);
        self.unpaused = host.now;
        Ok(())
    }

    /// Pulls the cable, or plugs it in.
    pub(super) fn set_link(&mut self, link: Link) -> Result<(), Error> {
        let (nic, mut host) = self.card()?;
        nic.set_link(&mut host, link);
        Ok(())
    }

    /// Lets no more go wrong, once what lasts is over, or `within` is up. Whether anything went wrong.
    pub(super) fn end_fault(&mut self, within: Span) -> Result<bool, Error> {
        const LOOK_EVERY: Span = Span::from_ms(1);
        let deadline = self.session.target.clock().now() + within;
        loop {
            let (nic, host) = self.session.target.card(CardId::FIRST)?;
            let now = host.now;
            let Some(faults) = Watched::faults(nic) else { return Ok(false) };
            if !faults.is_busy() || now > deadline {
                faults.schedule().stop();
                return self.has_gone_wrong();
            }
            self.serve_until(LOOK_EVERY, |_| false)?;
        }
    }

    /// Whether anything went wrong so far.
    pub(super) fn has_gone_wrong(&mut self) -> Result<bool, Error> {
        let (nic, _) = self.session.target.card(CardId::FIRST)?;
        let faults = Watched::faults(nic);
        Ok(faults
            .is_some_and(|faults| faults.schedule().counts().any(|(_, count)| count.injected > 0)))
    }

    /// Waits until a call that was made runnable has ended; whether it has.
    pub(super) fn end_call(&mut self, within: Span) -> Result<bool, Error> {
        const LOOK_EVERY: Span = Span::from_ms(1);
        let deadline = self.session.target.clock().now() + within;
        let Some(posted) = self.struck().posted else { return Ok(true) };
        loop {
            let agent = self.session.target.agent();
            if agent.is_some_and(|agent| agent.answer(posted).is_some()) {
                return Ok(true);
            }
            if self.session.target.clock().now() > deadline {
                return Ok(false);
            }
            self.serve_until(LOOK_EVERY, |_| false)?;
        }
    }

    pub(crate) fn disarm(&mut self) -> Result<(), Error> {
        Ok(self.striker.borrow_mut().disarm()?)
    }

    /// What came of the last strike.
    pub(crate) fn struck(&self) -> Struck {
        self.striker.borrow().struck().clone()
    }

    /// What came of the strikes before the last one, and of it.
    pub(super) fn all_struck(&self) -> Vec<Struck> {
        let striker = self.striker.borrow();
        striker.before().iter().chain([striker.struck()]).cloned().collect()
    }

    /// How many strikes have been made.
    pub(crate) fn count_struck(&self) -> usize {
        let striker = self.striker.borrow();
        striker.before().len() + usize::from(striker.struck().at.is_some())
    }

    /// Notes from now on which of these places are reached for the first time.
    pub(crate) fn seek(&mut self, places: &[u64]) -> Result<(), Error> {
        Ok(self.striker.borrow_mut().seek(places)?)
    }

    /// Notes from the next strike on which of these places are reached.
    pub(crate) fn seek_behind(&mut self, places: &[u64]) {
        self.striker.borrow_mut().seek_behind(places);
    }

    /// Seeks no places any longer.
    pub(crate) fn end_seeking(&mut self) -> Result<(), Error> {
        Ok(self.striker.borrow_mut().end_seeking()?)
    }

    /// The places that were reached since the last time.
    pub(crate) fn take_reached(&mut self) -> Vec<u64> {
        self.striker.borrow_mut().take_reached()
    }

    /// Name of the register that an access is of, or its offset.
    pub(crate) fn register_at(&mut self, access: RegisterAccess) -> Result<String, Error> {
        let (nic, _) = self.session.target.card(CardId::FIRST)?;
        let mut registers = nic.info().registers.iter();
        let is_it = |register: &&Register| {
            register.bar == access.bar && u64::from(register.offset) == access.offset
        };
        let name = registers.find(is_it).map(|register| register.name.to_owned());
        let word = if access.written.is_some() { "write" } else { "read" };
        Ok(format!("{word} {}", name.unwrap_or_else(|| format!("{:#x}", access.offset))))
    }

    /// Serves the driver until `done`, or no longer than `within`; whether it was done. Time for which other work of
    /// the machine kept either side from running does not count.
    pub(crate) fn serve_until(
        &mut self,
        within: Span,
        mut done: impl FnMut(&Scene) -> bool,
    ) -> Result<bool, TargetError> {
        let begun = self.session.target.clock().now();
        let (mut kept_house, mut deadline) = (begun, begun + within);
        let before = self.waits();
        self.session.target.keep_clear_of(deadline);
        loop {
            let now = self.session.target.poll()?.at;
            self.take_replies();
            if done(self) {
                return Ok(true);
            }
            if now.since(kept_house) > HOUSEKEEPING_EVERY {
                self.session.target.housekeep()?;
                kept_house = self.session.target.clock().now();
            }
            if now >= deadline {
                deadline = begun + within + self.waits().since(before);
                if now >= deadline {
                    return Ok(false);
                }
            }
            if self.session.target.shares_a_core() {
                std::thread::yield_now();
            }
        }
    }

    /// For how many nanoseconds each side was ready to run and did not, since it started. In virtual time that is
    /// nothing.
    pub(super) fn waits(&self) -> Waits {
        if self.session.target.clock().is_virtual() {
            return Waits([0; 2]);
        }
        let ns = |side: &Option<CoreWait>| side.as_ref().and_then(CoreWait::ns).unwrap_or(0);
        Waits(self.sides.each_ref().map(ns))
    }

    /// Serves the driver until it has nothing in hand, or no longer than `within`.
    pub(crate) fn settle(&mut self, within: Span) -> Result<bool, TargetError> {
        let (mut seen, mut since) = (u64::MAX, Time::ZERO);
        self.serve_until(within, |scene| {
            let (target, now) = (&scene.session.target, scene.session.target.clock().now());
            let accesses = target.counters().accesses;
            if std::mem::replace(&mut seen, accesses) != accesses {
                since = now;
            }
            now.since(since) > QUIET
        })
    }

    fn take_replies(&mut self) {
        for reply in self.replies.take() {
            match self.pings.get_mut(&reply.number) {
                Some(ping) => {
                    ping.replies += 1;
                    ping.replied.get_or_insert(reply.at);
                }
                None => self.early.push(reply),
            }
        }
    }

    /// Lines that the kernel has printed since this was last asked.
    pub(crate) fn take_printed(&mut self) -> Vec<String> {
        let target = &self.session.target;
        let printed = target.printed_lines();
        let new = printed.saturating_sub(std::mem::replace(&mut self.read_lines, printed));
        if new == 0 {
            return Vec::new();
        }
        let mut lines = target.console().0;
        let known = lines.len().saturating_sub(usize::try_from(new).unwrap_or(usize::MAX));
        lines.split_off(known)
    }
}

/// Brings a target up. One that is killed on the way, before anything has struck, says nothing of a place.
///
/// That happens to about one in a hundred kernels with lock checking: User Mode Linux takes a page of a module away
/// while it loads it, and maps it anew (arch/um/kernel/tlb.c, `add_mmap`); lock checking saves a stack in an interrupt
/// that comes in between, and looks at the module for it (arch/um/kernel/stacktrace.c, `dump_trace`).
fn bring_up(watch: &mut Watch, prepared: &Prepared) -> Result<(Session, EchoReplies), Error> {
    let mut tries = 1;
    loop {
        let responder = WireKind::Responder.build().map_err(Error::NoWire)?;
        let (wire, replies) = EchoWatch::around(responder);
        match watch.start_on(prepared, Box::new(wire)) {
            Err(Error::Target(
                TargetError::Exited { .. }
                | TargetError::Panicked { .. }
                | TargetError::ConnectionLost { .. },
            )) if tries < TRIES_TO_BRING_UP => tries += 1,
            made => return Ok((made?, replies)),
        }
    }
}
