//! A run of the workload, with replacements in it or without, and what came of it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use warikomi_clock::{Span, read_tsc};
use warikomi_inject::{NETWORK_IP, Plan as InjectPlan, Receiver, UDP_PORT, Warmup};
use warikomi_live::Policy;
use warikomi_protocol::answers::WorkTotals;
use warikomi_protocol::commands::{WorkDatagrams, WorkStart, WorkStop};
use warikomi_session::{CoreWatch, Session};
use warikomi_target::{Interrupted, Target, TargetError};
use warikomi_wire::peer::numbered::Look;
use warikomi_wire::peer::workload::{self, Workload};
use warikomi_wire::peer::{Judged, JudgingPeer};
use warikomi_wire::{Responder, Responses};

use super::overseer::Overseer;
use super::plan::{Case, Load, Options, Plan, Spare};
use super::replacer::{Replacer, SUCCESS_AFTER_KILLS};
use super::supervised::Supervised;
use super::tally::Outcome;
use crate::error::Error;
use crate::inject::{Application, Injected, inject};
use crate::watch::Watch;

/// The published workload: so many sends of so many bytes, with so much computing between two.
const SENDS: u64 = 1_000;
/// See [`SENDS`].
const SEND_BYTES: u32 = 1_024;
/// See [`SENDS`].
const COMPUTE_US: u64 = 1_000;

/// Before the first replacement of a run, so that it is at its pace.
const HEAD: Span = Span::from_ms(30);
/// Behind the last one, so that everything has come to rest.
const TAIL: Span = Span::from_ms(200);
/// A datagram's payload: that of the stream's segments.
const DATAGRAM_BYTES: u32 = SEND_BYTES;
/// Most datagrams of a run: what is remembered of each is one bit.
const MOST_DATAGRAMS: u64 = 1 << 28;
/// How long the published workload may take: some ten times as long as it does.
const WORK_WITHIN: Duration = Duration::from_secs(20);
/// How long a replacement may take that was begun at the end of a run.
const OVER_WITHIN: Duration = Duration::from_secs(15);
/// What is on its way is on the wire after this time.
const DRAIN: Duration = Duration::from_millis(50);
/// How long a connection may take to close: what it waits for may have to be sent again.
const CLOSED_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks whether something is over.
const LOOK: Duration = Duration::from_millis(5);

/// One run of the workload.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// When the driver is replaced, from the beginning of the run on.
    pub(super) moments: Vec<Span>,
    /// How long traffic goes on; the published workload ends by itself if this is `None`.
    pub(super) length: Option<Span>,
}

impl Turn {
    /// A run that has room for replacements at these places (0 to 1) of this time.
    pub(super) fn of(places: &[f64], length: Span, ends_itself: bool) -> Turn {
        let place = |share: &f64| HEAD + Span::from_ps((share * length.as_ps() as f64) as u64);
        let moments = places.iter().map(place).collect();
        Turn { moments, length: (!ends_itself).then_some(HEAD + length + TAIL) }
    }
}

/// A target with its workload and its replacements.
pub(super) struct Bench<'a> {
    plan: &'a Plan,
    load: Load,
    /// Whether the application works beside receiving.
    works: bool,
    session: Session,
    replacer: Rc<RefCell<Replacer>>,
    wire: Judged<Workload>,
    responses: Arc<Responses>,
    cores: CoreWatch,
    run_id: u32,
}

impl<'a> Bench<'a> {
    /// Brings a target up. `buffers` are receive buffers; 0 for as many as there are descriptors.
    pub(super) fn start(
        options: &'a Options,
        case: &Case,
        buffers: u64,
        works: bool,
    ) -> Result<Bench<'a>, Error> {
        let plan = &options.plan;
        let Case { way, load, .. } = *case;
        let host = Responder::default();
        let responses = host.responses();
        let (wire, judged) = JudgingPeer::new(Workload::default(), host);
        let mut wanted = options.session.clone();
        wanted.orders.buffers = buffers;
        let programs = [options.to.clone(), wanted.program.clone()];
        // Beside a process that was kept ready it would be nothing but the look itself.
        let counts = case.spare == Spare::None && load != Load::Idle;
        let replacer = Replacer::new(plan.kill, counts, programs, judged.clone());
        let replacer = Rc::new(RefCell::new(replacer));
        let policy = policy(case, plan.kill);
        // Ctrl-C ends a run between two turns, with the result so far.
        let never = Interrupted::default();
        let wire = Box::new(wire);
        let live = plan.live(way);
        let mut session = Session::start_live(&wanted, &live, wire, &never, &mut |_| ())?;
        if plan.one_core && session.target.shares_a_core() {
            return Err(Error::impossible(
                "--one-core is for a machine with a core for the card and one for all else; this process may use \
                 one only, so leave it out, or allow another",
            ));
        }
        let beside = plan.one_core.then(|| (session.target_core(), plan.requester_nice()));
        let overseer = Overseer::start(policy, wanted.program, &mut session.target, beside)?;
        let session = session.with::<dyn Target>(|target| {
            Box::new(Supervised::new(*target, overseer, Rc::clone(&replacer)))
        });
        let cores = session.watch_cores();
        let (wire, run_id) = (judged, 0);
        Ok(Bench { plan, load, works, session, replacer, wire, responses, cores, run_id })
    }

    /// Tells of its card, of which nothing is lost if the run ends with an error.
    pub(super) fn known_to(&mut self, watch: &mut Watch) -> Result<(), Error> {
        watch.keep_findings_of(&mut self.session)
    }

    /// Tells what the target is, and what others have taken from its cores since the start.
    pub(super) fn shown_to(&mut self, watch: &mut Watch) {
        watch.saw(&mut self.session, &self.cores);
    }

    /// What beside a driver may keep it from being warm in time, behind what is said of one.
    pub(super) fn may_hold_up_starts(&self) -> &'static str {
        // Only then are drivers in our session.
        match self.session.machine.sessions_grouped {
            Some(true) if self.plan.one_core => {
                "; this system shares its cores out by session, which may hold a driver's start up for seconds: \
                 `sysctl kernel.sched_autogroup_enabled=0` ends that"
            }
            _ => "",
        }
    }

    /// What was called off, or failed without being asked to.
    pub(super) fn failures(&self) -> Vec<String> {
        self.replacer.borrow().failures.clone()
    }

    /// Ends the target.
    pub(super) fn stop(self) -> Result<(), Error> {
        Ok(self.session.stop()?)
    }

    /// One run of the workload.
    pub(super) fn run(&mut self, turn: &Turn) -> Result<Outcome, Error> {
        self.run_id = self.run_id.wrapping_add(1);
        let before = (self.wire.lock().seen(), self.responses.tcp_bytes());
        let works = self.works && self.load != Load::Idle;
        if works {
            self.wire.lock().datagrams.begin(self.run_id, MOST_DATAGRAMS, Look::Whole);
            self.begin_work(turn)?;
        }
        let begun = self.session.target.clock().now();
        self.replacer.borrow_mut().schedule(turn.moments.iter().map(|&moment| begun + moment));
        let injected = match (self.load, turn.length) {
            (Load::Heavy, Some(length)) => Some(self.receive(length)?),
            (_, Some(length)) => {
                self.serve_for(length)?;
                None
            }
            (_, None) => {
                let all = before.1 + SENDS * u64::from(SEND_BYTES);
                self.serve_until(WORK_WITHIN, |bench| bench.responses.tcp_bytes() >= all)?;
                None
            }
        };
        self.serve_until(OVER_WITHIN, |bench| bench.replacer.borrow().is_over())?;
        let mut outcome = Outcome::default();
        if works {
            let totals = self.session.target.ask(WorkStop {}, WORK_WITHIN)?;
            let all = before.1 + totals.sent_bytes;
            self.serve_until(OVER_WITHIN, |bench| bench.responses.tcp_bytes() >= all)?;
            self.session.target.serve_for(DRAIN)?;
            self.sent(&totals, before, &mut outcome);
        }
        if let Some(injected) = injected {
            outcome.arrived = injected.ledger.totals();
            outcome.arrived.without_driver().check()?;
            outcome.out_of_order = injected.received.out_of_order;
            outcome.duplicates = injected.received.duplicates;
        }
        let mut replacer = self.replacer.borrow_mut();
        if let Some(why) = &replacer.given_up {
            return Err(Error::GivenUp { why: format!("{why}{}", self.may_hold_up_starts()) });
        }
        outcome.observed = std::mem::take(&mut replacer.observed);
        Ok(outcome)
    }

    /// The connection of the run before may still be on its way to its end.
    fn begin_work(&mut self, turn: &Turn) -> Result<(), Error> {
        let start = self.work(turn);
        let mut tries = CLOSED_WITHIN.as_millis() / LOOK.as_millis();
        loop {
            match self.session.target.ask(start.clone(), Duration::ZERO) {
                Err(TargetError::Refused { .. }) if tries > 0 => tries -= 1,
                answer => return Ok(answer.map(drop)?),
            }
            self.session.target.serve_for(LOOK)?;
        }
    }

    fn work(&self, turn: &Turn) -> WorkStart {
        let datagrams = (self.load == Load::Heavy).then(|| WorkDatagrams {
            destination: format!("{NETWORK_IP}:{UDP_PORT}"),
            payload_bytes: DATAGRAM_BYTES,
            run_id: self.run_id,
            interval_us: 0,
        });
        WorkStart {
            destination: format!("{}:{}", Responder::ADDRESS, Responder::TCP_PORT),
            sends: if turn.length.is_none() { SENDS } else { 0 },
            send_bytes: SEND_BYTES,
            compute_us: COMPUTE_US,
            datagrams,
            timeout_ms: OVER_WITHIN.as_millis() as u64,
        }
    }

    /// Frames arrive for this long.
    fn receive(&mut self, length: Span) -> Result<Injected, Error> {
        let interval = self.plan.interval();
        let plan = InjectPlan {
            size_bytes: self.plan.frame_bytes,
            interval,
            count: (length.as_ps() / interval.as_ps().max(1)).max(1),
            receiver: Receiver::Application,
            seed: self.plan.seed,
            warmup: Warmup::NONE,
            ..InjectPlan::default()
        };
        let run_id = read_tsc() as u32;
        inject(&mut self.session, &plan, Application::default(), run_id, &mut |_| ())
    }

    fn serve_for(&mut self, length: Span) -> Result<(), Error> {
        let length = Duration::from_nanos(length.as_ps() / 1_000);
        Ok(self.session.target.serve_for(length)?)
    }

    /// Serves until `done`, or until it has taken too long.
    fn serve_until(&mut self, within: Duration, done: impl Fn(&Self) -> bool) -> Result<(), Error> {
        for _ in 0..within.as_millis() / LOOK.as_millis() {
            if done(self) {
                break;
            }
            self.session.target.serve_for(LOOK)?;
        }
        Ok(())
    }

    /// Judges what was sent.
    fn sent(&self, totals: &WorkTotals, before: (workload::Seen, u64), outcome: &mut Outcome) {
        let clock = self.session.target.clock();
        let took =
            |send: &warikomi_protocol::answers::SendTime| (clock.at(send.0), Span::from_ns(send.1));
        let seen = self.wire.lock().seen();
        outcome.sends = totals.send_times.iter().map(took).collect();
        outcome.datagrams = (totals.datagrams, seen.datagrams);
        outcome.segments = (seen.segments - before.0.segments, seen.again - before.0.again);
        let came = self.responses.tcp_bytes() - before.1;
        // Of a send that was under way when the work was stopped, some bytes may have come.
        let possible = totals.sent_bytes..=totals.sent_bytes + u64::from(SEND_BYTES);
        let wrong = self.responses.tcp_wrong_bytes();
        outcome.stream_wrong = totals.failure.clone().or_else(|| {
            let sent = totals.sent_bytes;
            (!possible.contains(&came) || wrong > 0).then(|| {
                format!("of {sent} bytes sent, {came} came; {wrong} bytes in all were wrong")
            })
        });
    }
}

fn policy(case: &Case, kills: bool) -> Policy {
    let mut policy = Policy { spare: case.spare == Spare::Kept, ..Policy::of(case.way) };
    if kills {
        policy.backoff.success_after = SUCCESS_AFTER_KILLS;
    }
    policy
}
