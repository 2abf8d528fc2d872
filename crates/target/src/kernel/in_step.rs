//! A guest in virtual time: it and its cards take turns, and no one looks at a clock.
//!
//! The guest runs at one moment of virtual time until it waits ([`calendar`](super::calendar)). Its accesses are served
//! meanwhile, each before the guest goes on, and nothing else happens. While it waits, the time is that of whatever is
//! due next: a card's timer, what the experiment does ([`Target::keep_clear_of`](crate::Target::keep_clear_of)), the
//! guest's own next event. Interrupts reach the guest while it waits only, requests to the agent while it listens. So what happens,
//! and in which order, follows from what the guest does and from what is due; how fast either side is does not matter.

use std::time::{Duration, Instant};

use warikomi_clock::{Span, Time};

use super::KernelTarget;
use super::attached::AttachedCard;
use super::calendar::Calendar;
use crate::{Pass, TargetError};

/// A guest that runs so long without waiting, and without an access, has lost its way.
const PATIENCE: Duration = Duration::from_secs(20);
/// One that runs for so long may have panicked.
const ALARMING: Duration = Duration::from_secs(2);
/// System calls that look after the guest come once in this many looks at its accesses.
const LOOKS_TO_A_ROUND: u32 = 512;
/// What a card has due now and cannot do is tried again after this time.
const RETRY: Span = Span::from_us(1);
/// With nothing due at all, time goes on by this.
const NOTHING_DUE: Span = Span::from_ms(1);

/// What hearing a request takes: time is told in whole nanoseconds.
const TO_LISTEN: Span = Span::from_ns(1);

const CALENDAR: &str = "the kernel's calendar";

impl KernelTarget {
    /// Goes on to what is due next, and lets the guest do what it has to do then.
    pub(super) fn step(&mut self) -> Result<Pass, TargetError> {
        if self.interrupted.is_set() {
            return Err(TargetError::Interrupted);
        }
        let mut pass = Pass::idle(self.clock.now());
        if self.calendar.as_ref().is_some_and(Calendar::is_waiting) {
            self.go_on()?;
        }
        self.run_until_it_waits(&mut pass)?;
        pass.at = self.clock.now();
        for card in &mut self.cards {
            card.advance(pass.at);
        }
        Ok(pass)
    }

    /// A kernel asks for its time long before it comes for a card, if it ever does.
    pub(super) fn check_calendar(&mut self) -> Result<(), TargetError> {
        let Some(calendar) = &mut self.calendar else { return Ok(()) };
        calendar.serve().map_err(TargetError::system(CALENDAR))?;
        if calendar.is_asked() { Ok(()) } else { Err(TargetError::NoVirtualTime) }
    }

    /// The guest waits: it is interrupted, or time goes on.
    fn go_on(&mut self) -> Result<(), TargetError> {
        if let Some(card) = self.card_to_tell() {
            self.interrupt_in_step(card)?;
        }
        self.let_time_pass().map_err(TargetError::system(CALENDAR))
    }

    /// The card whose guest is to be told of something: of interrupts, or that it shall listen.
    fn card_to_tell(&mut self) -> Option<usize> {
        let KernelTarget { cards, calendar: Some(calendar), agent, asked_to_listen, .. } = self
        else {
            return None;
        };
        let then = calendar.clock().now() + TO_LISTEN;
        let has_to_hear = agent.has_to_send() && !*asked_to_listen && calendar.next_run() > then;
        let mut ports = cards.iter_mut().map(AttachedCard::port_mut);
        if !has_to_hear {
            return ports.position(|port| port.is_some_and(|port| port.owes_interrupts()));
        }
        let (card, port) = ports.enumerate().find_map(|(card, port)| Some((card, port?)))?;
        *asked_to_listen = true;
        // It tells its time once at each time.
        calendar.clock().advance_to(then);
        port.ask_to_listen();
        Some(card)
    }

    /// Tells a guest that waits that it has interrupts, and waits until it has heard. Its calendar is served meanwhile,
    /// because it asks what time it is; and what traces it, because a signal stops it.
    fn interrupt_in_step(&mut self, card: usize) -> Result<(), TargetError> {
        let of_card = TargetError::system("cannot interrupt the guest");
        let of_calendar = TargetError::system(CALENDAR);
        let Some(port) = self.cards[card].port_mut() else { return Ok(()) };
        port.interrupt_in_step().map_err(of_card)?;
        let mut since = Instant::now();
        loop {
            match self.cards[card]
                .port_mut()
                .map(|port| port.has_heard())
                .transpose()
                .map_err(of_card)?
            {
                None | Some(true) => return Ok(()),
                Some(false) => {}
            }
            if let Some(calendar) = &mut self.calendar {
                calendar.serve().map_err(of_calendar)?;
            }
            self.call_hook()?;
            if self.interrupted.is_set() {
                return Err(TargetError::Interrupted);
            }
            if since.elapsed() > ALARMING {
                self.look_after_guest(true)?;
            }
            if since.elapsed() > PATIENCE {
                self.check_patience(&mut since)?;
            }
        }
    }

    /// Lets the guest run, or time go on to what is due next.
    fn let_time_pass(&mut self) -> std::io::Result<()> {
        let KernelTarget { cards, calendar: Some(calendar), due, .. } = self else {
            return Ok(());
        };
        let now = calendar.clock().now();
        // One that was told of an interrupt before, and has interrupts off, wants no other time for it.
        if calendar.next_run() <= now {
            return calendar.run();
        }
        let of_cards = cards.iter().map(AttachedCard::next_due).min().unwrap_or(Time::NEVER);
        let of_cards = if of_cards > now { of_cards } else { now + RETRY };
        let (others, of_guest) = (of_cards.min(*due), calendar.next_run());
        let next = others.min(of_guest);
        calendar.clock().advance_to(if next == Time::NEVER { now + NOTHING_DUE } else { next });
        if of_guest < others { calendar.run() } else { Ok(()) }
    }

    fn run_until_it_waits(&mut self, pass: &mut Pass) -> Result<(), TargetError> {
        let (mut since, mut looks, mut accesses) = (Instant::now(), 0, 0);
        loop {
            for card in &mut self.cards {
                card.serve(&self.clock, pass);
            }
            self.call_hook()?;
            if let Some(calendar) = &mut self.calendar {
                calendar.serve().map_err(TargetError::system(CALENDAR))?;
                if calendar.is_listening() {
                    self.agent.speak();
                    self.asked_to_listen = false;
                    calendar.said().map_err(TargetError::system(CALENDAR))?;
                }
                if calendar.is_waiting() {
                    return Ok(());
                }
            }
            looks += 1;
            if looks % LOOKS_TO_A_ROUND == 0 {
                self.look_after_guest(since.elapsed() > ALARMING)?;
                if !self.is_attached() {
                    // It waits for an answer that only the caller can give.
                    return Ok(());
                }
                let now = self.counted_accesses();
                if std::mem::replace(&mut accesses, now) != now {
                    since = Instant::now();
                } else if since.elapsed() > PATIENCE {
                    self.check_patience(&mut since)?;
                }
            }
            if self.shared_core {
                std::thread::yield_now();
            }
        }
    }

    /// A guest that has been running since then has lost its way, unless a debugger holds it.
    fn check_patience(&mut self, since: &mut Instant) -> Result<(), TargetError> {
        if !self.process.is_held() {
            let console = self.console.tail();
            return Err(TargetError::Endless { within: PATIENCE, console });
        }
        *since = Instant::now();
        Ok(())
    }

    /// What cannot wait until a guest that runs waits: it may need it to go on. What it has printed or said is not taken from
    /// its lines: that makes room there, of which it would hear in the middle of whatever it does.
    pub(super) fn look_after_guest(&mut self, alarmed: bool) -> Result<(), TargetError> {
        if self.interrupted.is_set() {
            return Err(TargetError::Interrupted);
        }
        if alarmed || self.process.exit_status().is_some() {
            self.look_at_guest()?;
        }
        self.check_memory()?;
        self.serve_connections()
    }

    fn counted_accesses(&self) -> u64 {
        self.cards.iter().map(|card| card.counters().accesses).sum()
    }
}
