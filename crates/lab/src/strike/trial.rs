//! One interrupt at one place, and what comes of it.

use serde::{Deserialize, Serialize};
use warikomi_clock::Span;
use warikomi_debugger::{Frame as StackFrame, Place, Program};
use warikomi_nic::RxOutcome;
use warikomi_target::TargetError;

use super::code::{located, stack_before_the_access, stack_texts};
use super::condition::Check;
use super::operation::{Operation, ping, up};
use super::scene::Scene;
use super::striker::{Delivery, Strike, Struck, Where};
use super::striking::Striking;
use super::verdict::{Verdict, report_in};
use crate::error::Error;

/// An answer that takes longer is late: a tick of the kernel may have brought it.
const LATE: Span = Span::from_ms(8);

/// What is not answered within this time waits for something else.
const PATIENCE: Span = Span::from_ms(60);

/// How long the driver may take to answer one more request, and to come to rest.
const RECOVERY: Span = Span::from_ms(500);

/// How long it is waited for the end of what a ping sets off in the driver.
const SETTLING: Span = Span::from_ms(20);

/// How often a new target is sent requests until it answers them all.
const MOST_GREETINGS: u32 = 5;

/// What is said of a fault that was not seen.
const NO_OCCASION: &str = "the fault found no occasion";

/// Where in the kernel a call begins that configures an interface (Linux net/core/dev_ioctl.c).
const CALL: &str = "dev_ioctl";

/// Lengths in bytes of the request that strikes, and of the one that shows whether the driver still works.
const STRIKING_BYTES: usize = 98;

/// What came of one strike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// What it comes to.
    pub verdict: Verdict,
    /// What shows it; empty where nothing is wrong.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub evidence: String,
    /// How often the place was reached, the strike included.
    pub hits: u64,
    /// The place at which it struck; of a register access, the driver's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Where it struck before that, if another place was named first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// The stack at the place, innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
    /// The register access, if it struck at one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<String>,
    /// Where the handler ran: what it interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler: Option<String>,
    /// Whether that was elsewhere than at the place, because interrupts were off there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deferred: bool,
    /// The stack of the handler.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handler_stack: Vec<String>,
    /// What the kernel has printed meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub printed: Vec<String>,
    /// What it came to though the place was not reached, if that is bad: the operation, or what was before, has brought
    /// the driver there.
    #[serde(skip)]
    pub(crate) unstruck: Option<Verdict>,
}

impl Trial {
    fn of(verdict: Verdict, evidence: impl Into<String>) -> Trial {
        Trial {
            verdict,
            evidence: evidence.into(),
            hits: 0,
            place: None,
            first: None,
            stack: Vec::new(),
            access: None,
            handler: None,
            deferred: false,
            handler_stack: Vec::new(),
            printed: Vec::new(),
            unstruck: None,
        }
    }

    /// Whether the target is of no use behind it.
    pub(crate) fn spoils_the_target(&self) -> bool {
        let verdicts = [Some(self.verdict), self.unstruck];
        verdicts.into_iter().flatten().any(Verdict::spoils_the_target)
    }
}

/// What shall be tried.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) place: Where,
    /// Where it strikes once more, the next time that this place is reached.
    pub(crate) then: Option<Where>,
    /// When the place is reached for this time, counted from 1.
    pub(crate) nth: u64,
    /// What must hold.
    pub(crate) conditions: Vec<Check>,
    pub(crate) operation: Operation,
    pub(crate) striking: Striking,
}

impl Scene {
    /// Strikes at a place. An error is the user's Ctrl-C, or a fault of ours; what becomes of the target is a
    /// verdict, and a target that it [spoils](Trial::spoils_the_target) is not to be used again.
    ///
    /// What the kernel has printed since the attempt before counts, too: much of it is reported only once.
    pub(crate) fn attempt(&mut self, attempt: &Attempt) -> Result<Trial, Error> {
        self.forget_pings();
        let made = self.strike(attempt);
        let struck = self.struck();
        let mut trial = match made {
            Ok(trial) => trial,
            Err(Error::Target(error)) => verdict_of(error)?,
            Err(other) => return Err(other),
        };
        trial.printed = self.take_printed();
        if let Some((verdict, line)) = report_in(&trial.printed)
            && verdict >= trial.verdict
        {
            (trial.verdict, trial.evidence) = (verdict, line.to_owned());
        }
        trial.access = struck.access.map(|access| self.register_at(access)).transpose()?;
        tell(&mut trial, &struck, &self.program);
        if let [first, .., _] = &self.all_struck()[..] {
            trial.first = place(&self.program, first);
        }
        Ok(trial)
    }

    /// Carries an operation out without a strike.
    pub(crate) fn run(&mut self, operation: Operation) -> Result<(), Error> {
        self.forget_pings();
        operation.prepare(self)?;
        operation.perform(self)?;
        self.serve_until(PATIENCE, Scene::is_all_answered)?;
        self.settle(SETTLING)?;
        operation.restore(self)
    }

    /// Sends a new target requests until it answers them all; whether it did at once. What a driver with a gap misses by
    /// itself is no matter of a place, and there is more of that in the beginning: until the kernel knows how much is
    /// sent, an answer waits until the one before is completed (Linux lib/dynamic_queue_limits.c). What becomes of the
    /// target is seen when it is struck.
    pub(super) fn become_acquainted(&mut self) -> Result<bool, Error> {
        for greeted in 0..MOST_GREETINGS {
            match self.run(Operation::Ping) {
                Err(Error::Target(error)) => return verdict_of(error).map(|_| false),
                other => other?,
            }
            if self.is_all_answered() {
                return Ok(greeted == 0);
            }
        }
        Ok(false)
    }

    /// How many register accesses an operation makes.
    pub(crate) fn count_accesses(&mut self, operation: Operation) -> Result<u64, Error> {
        let delivery = Delivery::Interrupt;
        self.forget_pings();
        operation.prepare(self)?;
        let (conditions, device) = (Vec::new(), None);
        let place = Where::AnyAccess;
        let then = None;
        self.arm(Strike { place, conditions, device, nth: u64::MAX, delivery, then })?;
        operation.perform(self)?;
        self.serve_until(PATIENCE, Scene::is_all_answered)?;
        self.settle(SETTLING)?;
        self.disarm()?;
        let count = self.struck().hits;
        operation.restore(self)?;
        Ok(count)
    }

    fn strike(&mut self, attempt: &Attempt) -> Result<Trial, Error> {
        let Attempt { operation, striking, .. } = attempt;
        let (strike, numbers) = self.strike_of(attempt)?;
        let may_lose = operation.may_lose() || striking.may_lose();
        let before = self.waits();
        striking.prepare(self)?;
        operation.prepare(self)?;
        self.arm(strike)?;
        operation.perform(self)?;
        if !operation.may_lose() {
            self.come_to_rest(&numbers)?;
            self.give_occasion(striking)?;
        }
        let has_ended = self.end_call(RECOVERY)?;
        let struck = self.struck();
        self.disarm()?;
        let not_running = self.waits().since(before);
        let judged = match may_lose {
            _ if !has_ended => Trial::of(Verdict::Hung, "the call has not ended"),
            true => Trial::of(Verdict::Accounted, ""),
            false => self.judge(not_running)?,
        };
        let had_occasion = striking.restore(self)?;
        operation.restore(self)?;
        if striking.moves_the_cable() {
            up(self)?;
        }
        let judged = match may_lose && has_ended {
            true => self.judge_what_is_left()?,
            false => judged,
        };
        if struck.at.is_some() {
            let is_in_vain = !had_occasion && !judged.verdict.is_bad();
            let evidence = if is_in_vain { NO_OCCASION } else { &judged.evidence };
            return Ok(Trial::of(judged.verdict, evidence));
        }
        // What the first of two has done to the driver counts all the same.
        if self.count_struck() > 0 && judged.verdict.is_bad() {
            return Ok(judged);
        }
        Ok(not_reached(self.how_it_was_missed(attempt, &struck), &judged))
    }

    /// Where packets may be lost, what counts is that the driver works again. Twice: the first answers may be the last
    /// that it gives.
    fn judge_what_is_left(&mut self) -> Result<Trial, Error> {
        self.forget_pings();
        for _ in 0..2 {
            ping(self)?;
            if !self.serve_until(RECOVERY, Scene::is_all_answered)? {
                return Ok(Trial::of(Verdict::Hung, "no packet comes through any longer"));
            }
            self.settle(SETTLING)?;
        }
        Ok(Trial::of(Verdict::Accounted, ""))
    }

    /// Why there was no strike, or none at the second place.
    fn how_it_was_missed(&self, attempt: &Attempt, struck: &Struck) -> String {
        match attempt.then.is_some() && self.count_struck() > 0 {
            true => "struck at the first place, and the second was not reached behind it".into(),
            false => how_it_was_missed(struck, attempt.nth),
        }
    }

    /// What is to be struck, and the numbers of the requests that strike.
    fn strike_of(&mut self, attempt: &Attempt) -> Result<(Strike, Vec<u64>), Error> {
        let (mut numbers, mut then) = (Vec::new(), None);
        let first = (&attempt.place, attempt.nth, &attempt.conditions[..]);
        // The second strikes the next time that its place is reached, whatever holds there.
        let second = attempt.then.as_ref().map(|place| (place, 1, &[][..]));
        let device = self.device(&attempt.conditions)?;
        for (place, nth, conditions) in second.into_iter().chain([first]) {
            let (number, frame) = self.next_request(STRIKING_BYTES)?;
            let delivery = self.delivery(&attempt.striking, frame)?;
            let (place, conditions) = (place.clone(), conditions.to_vec());
            let strike = Strike {
                place,
                conditions,
                device,
                nth,
                delivery,
                then: then.take().map(Box::new),
            };
            then = Some(strike);
            numbers.insert(0, number);
        }
        let Some(strike) = then else { unreachable!("there is a first place") };
        Ok((strike, numbers))
    }

    /// What strikes, with this frame if it takes one.
    fn delivery(&self, striking: &Striking, frame: Vec<u8>) -> Result<Delivery, Error> {
        Ok(match striking {
            Striking::Packet => Delivery::Packet(frame),
            Striking::Interrupt => Delivery::Interrupt,
            Striking::Link(link) => Delivery::Link(*link),
            Striking::Fault(_, kind) => Delivery::Fault(*kind, frame),
            Striking::Configure(call) => {
                let place = Place::Function { name: CALL.to_owned(), offset: 0 };
                let begins_at = self.program.resolve(&place)?.first().copied();
                match (call.request(), begins_at) {
                    (Some(request), Some(begins_at)) => Delivery::Call(request, begins_at),
                    _ => {
                        return Err(Error::impossible(
                            "the guest cannot be told to make this call",
                        ));
                    }
                }
            }
        })
    }

    /// Serves the driver until all that was sent is answered and nothing is in hand. The requests that strike are
    /// among them as soon as they have.
    fn come_to_rest(&mut self, numbers: &[u64]) -> Result<(), Error> {
        let mut counted = 0;
        loop {
            self.serve_until(PATIENCE, |scene| {
                scene.is_all_answered() || scene.count_struck() > counted
            })?;
            for (struck, number) in self.all_struck().iter().zip(numbers).skip(counted) {
                let (Some(at), Some(outcome)) = (struck.at, struck.outcome) else { continue };
                if outcome.is_on_ring() {
                    self.sent(*number, at, outcome);
                }
            }
            counted = self.count_struck();
            self.serve_until(PATIENCE, Scene::is_all_answered)?;
            // What is behind the answers (completed descriptors) may be the place.
            self.settle(SETTLING)?;
            if self.count_struck() == counted {
                return Ok(());
            }
        }
    }

    /// A fault may have found no occasion: the driver may have seen to everything in one poll, with no interrupt behind
    /// the strike that could be dropped. One more request is one.
    fn give_occasion(&mut self, striking: &Striking) -> Result<(), Error> {
        let waits = matches!(striking, Striking::Fault(..)) && self.count_struck() > 0;
        if waits && !self.has_gone_wrong()? {
            ping(self)?;
            self.serve_until(PATIENCE, Scene::is_all_answered)?;
            self.settle(SETTLING)?;
        }
        Ok(())
    }

    /// Of what was answered, and when; for so long something was not running.
    fn judge(&mut self, not_running: Span) -> Result<Trial, Error> {
        let missing = self.unanswered();
        let judged = missing.is_empty().then(|| self.judge_answers(not_running));
        if self.count_struck() == 0
            && let Some(judged) = judged
        {
            return Ok(judged);
        }
        // A driver that has answered everything may be at its end all the same.
        let kick = self.ping(STRIKING_BYTES)?;
        let goes_on = self.serve_until(RECOVERY, Scene::is_all_answered)?;
        if let Some(judged) = judged {
            self.settle(SETTLING)?;
            let evidence = "every packet was answered, and one more is not";
            return Ok(if goes_on { judged } else { Trial::of(Verdict::Hung, evidence) });
        }
        let still = self.unanswered();
        let count = |of: &[u64]| match of.len() {
            1 => "one packet".to_owned(),
            many => format!("{many} packets"),
        };
        if still.contains(&kick) {
            let evidence = format!("{} unanswered, and one more as well", count(&missing));
            return Ok(Trial::of(Verdict::Hung, evidence));
        }
        match still.is_empty() {
            true => {
                let evidence = format!("{} answered only when another came", count(&missing));
                Ok(Trial::of(Verdict::Stuck, evidence))
            }
            false => {
                let evidence = format!("{} never answered", count(&still));
                Ok(Trial::of(Verdict::Lost, evidence))
            }
        }
    }

    fn judge_answers(&self, not_running: Span) -> Trial {
        let pings = || self.pings().filter(|ping| ping.outcome == RxOutcome::OnRing);
        if let Some(ping) = pings().find(|ping| ping.replies > 1) {
            return Trial::of(Verdict::Doubled, format!("{} answers to one packet", ping.replies));
        }
        let waited = |ping: &super::scene::Ping| {
            ping.replied.map(|at| at.since(ping.sent.max(self.unpaused)))
        };
        match pings().filter_map(|ping| waited(&ping)).max() {
            Some(longest) if longest > LATE + not_running => {
                Trial::of(Verdict::Late, format!("an answer took {longest}"))
            }
            _ => Trial::of(Verdict::Accounted, ""),
        }
    }
}

/// Of a place that was not reached, for this reason. What became of the driver all the same counts.
fn not_reached(missed: String, judged: &Trial) -> Trial {
    let unstruck = Some(judged.verdict).filter(|verdict| verdict.is_bad());
    let parts = match unstruck {
        Some(verdict) => [missed, format!("without a strike {verdict}: {}", judged.evidence)],
        None => [missed, String::new()],
    };
    let said = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
    Trial { unstruck, ..Trial::of(Verdict::NotReached, said.join("; ")) }
}

/// Why there was no strike at a place that was reached.
fn how_it_was_missed(struck: &Struck, nth: u64) -> String {
    let times = |count: u64| if count == 1 { "once".to_owned() } else { format!("{count} times") };
    match (struck.hits, struck.misses) {
        (0, 0) => String::new(),
        (0, missed) => format!("reached {}, and the conditions never held", times(missed)),
        (hits, 0) => format!("reached {}, not {nth} times", times(hits)),
        (hits, missed) => format!(
            "reached {}, and the conditions held {}, not {nth} times",
            times(hits + missed),
            times(hits)
        ),
    }
}

/// How the target failed, as a verdict; the user's Ctrl-C stays an error.
fn verdict_of(error: TargetError) -> Result<Trial, Error> {
    let verdict = match &error {
        TargetError::Panicked { .. }
        | TargetError::Exited { .. }
        | TargetError::ConnectionLost { .. } => Verdict::Oops,
        TargetError::Silent { .. }
        | TargetError::NoLink { .. }
        | TargetError::Refused { .. }
        | TargetError::Endless { .. } => Verdict::Hung,
        _ => return Err(error.into()),
    };
    // The lines behind the first are those of the console, which are read anyway.
    let text = error.to_string();
    Ok(Trial::of(verdict, text.lines().next().unwrap_or_default()))
}

/// Fills in where it struck and where the handler ran.
fn tell(trial: &mut Trial, struck: &Struck, program: &Program) {
    trial.hits = struck.hits;
    trial.place = place(program, struck);
    trial.stack = stack_at_place(program, struck);
    trial.handler_stack = match struck.posted {
        Some(_) => stack_texts(program, &struck.handler),
        None => stack_before_the_access(program, &struck.handler),
    };
    if struck.posted.is_some() {
        // A call runs when the scheduler lets it, never where it was made runnable.
        trial.deferred = true;
        trial.handler = struck.handler.first().map(|frame| located(program, frame).to_string());
        return;
    }
    let Some(interrupted) = interrupted(program, &struck.handler) else { return };
    trial.deferred = struck.stack.first().is_some_and(|place| place.pc != interrupted.pc);
    trial.handler = Some(located(program, &interrupted).to_string());
}

/// The innermost frame, or where an access was made the innermost of the driver.
fn place(program: &Program, struck: &Struck) -> Option<String> {
    let driver = program.parts.first();
    let of_driver = |frame: &&StackFrame| driver.is_some_and(|code| code.contains(frame.at()));
    let made = struck.access.and_then(|_| struck.stack.iter().find(of_driver));
    made.or(struck.stack.first()).map(|frame| located(program, frame).to_string())
}

/// The stack at the place of a strike, as people read it.
pub(crate) fn stack_at_place(program: &Program, struck: &Struck) -> Vec<String> {
    match struck.access {
        Some(_) => stack_before_the_access(program, &struck.stack),
        None => stack_texts(program, &struck.stack),
    }
}

/// What takes interrupts up in User Mode Linux, and in our bridge: the handler of signals, the end of a time in
/// which they are off, and the look behind a register access.
const ENTRIES: [&str; 4] =
    ["hard_handler", "unblock_signals", "unblock_signals_trace", "be_interrupted"];

/// What stands between these and the code that has let interrupts in.
const BETWEEN: [&str; 6] = [
    "um_set_signals",
    "um_set_signals_trace",
    "arch_local_irq_restore",
    "arch_local_irq_enable",
    "trace_hardirqs_on",
    "take_interrupts_soon",
];

/// What a handler has interrupted: the first frame behind that by which it was entered.
fn interrupted(program: &Program, handler: &[StackFrame]) -> Option<StackFrame> {
    let name = |frame: &StackFrame| {
        let function = program.locate(frame.at()).function;
        function.map(|(name, _)| name.split('.').next().unwrap_or_default().to_owned())
    };
    let entered = handler
        .iter()
        .position(|frame| name(frame).is_some_and(|name| ENTRIES.contains(&name.as_str())))?;
    let behind = &handler[entered + 1..];
    let is_code = |frame: &&StackFrame| {
        name(frame).is_none_or(|name| {
            !BETWEEN.contains(&name.as_str()) && !ENTRIES.contains(&name.as_str())
        })
    };
    behind.iter().find(is_code).copied()
}
