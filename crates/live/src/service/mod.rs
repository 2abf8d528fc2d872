//! A service that runs until it is stopped: NIC, driver, stack and an application that echoes, under a
//! supervisor that replaces the driver when it is asked to or must.

mod client;
mod control;
mod metrics;
mod report;
mod request;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use warikomi_clock::{Span, Time};
use warikomi_inject::GUEST_IP;
use warikomi_process::ProcessTarget;
use warikomi_process::programs::echo;
use warikomi_session::{LiveOptions, ProcessSessionOptions, Session, SessionError};
use warikomi_target::{CardId, Interrupted, Target, TargetError};
use warikomi_wire::{EchoPlan, Echoes, Responder, WireCounters};

use crate::{Event, Policy, Program, Refused, Replacement, Supervisor};

pub use client::{AskError, ask};
pub use control::{ClientId, Control, ControlError};
use metrics::{Look, Metrics};
pub use report::{EchoReport, ReplacementReport, StatusReport};
pub use request::{Answer, MOST_REQUEST_BYTES, Request};

/// Clients are looked at, and the house is kept, once in this time, ...
const HOUSEKEEPING_EVERY: Span = Span::from_ms(1);
/// ... but during a replacement only after this one.
const HOUSEKEEPING_AT_LAST: Span = Span::from_ms(50);

/// What the service runs.
pub struct Options {
    /// The target with its first driver. The programs above it are a stack and an echo service, whose port
    /// is opened.
    pub session: ProcessSessionOptions,
    /// How its driver is replaced.
    pub policy: Policy,
    /// The control socket.
    pub control: PathBuf,
    /// How the client at the other end of the cable asks for echoes.
    pub client: Client,
    /// The program of the driver of that name or path; the error says what there is.
    pub driver: fn(&str) -> Result<Program, String>,
    /// For how long; until it is stopped if `None`.
    pub duration: Option<Span>,
}

/// The client at the other end of the cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// Time between two messages, over TCP and over UDP.
    pub interval: Span,
    /// Bytes of a message, 8 to 1,400.
    pub message_bytes: usize,
}

impl Default for Client {
    fn default() -> Self {
        Client { interval: Span::from_us(200), message_bytes: 1_024 }
    }
}

/// Why a service ended.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// It cannot be controlled.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Its target could not be brought up.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Its target failed, beyond its driver.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Its metrics cannot be had.
    #[error("cannot make metrics: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// Where the control socket is unless something else is said: where this user's runtime files are.
pub fn usual_control() -> PathBuf {
    let directory = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
    let directory = directory.map_or_else(
        || std::env::temp_dir().join(format!("warikomi-{}", nix::unistd::getuid())),
        |path| Path::new(&path).join("warikomi"),
    );
    directory.join("live")
}

/// Runs a service until it is asked to stop, interrupted, or fails; `say` is told what happens, a line each.
pub fn serve(
    options: &Options,
    interrupted: &Interrupted,
    say: &mut dyn FnMut(&str),
) -> Result<(), ServiceError> {
    // First: where a service runs already, nothing is started. It goes last, so that whoever waits for the
    // end sees it when all is gone.
    let control = Control::bind(&options.control)?;
    let metrics = Metrics::new()?;
    let (host, echoes) = Responder::default().with_echo_client(EchoPlan {
        address: GUEST_IP,
        port: echo::PORT,
        interval: options.client.interval,
        block_bytes: options.client.message_bytes,
    });
    let mut launch = options.session.clone();
    launch.path.tcp_port = Some(echo::PORT);
    let live = LiveOptions::of(options.policy.way);
    let mut session =
        Session::start_live(&launch, &live, Box::new(host), interrupted, &mut |_| ())?;
    let target = &mut *session.target;
    let first = options.session.program.clone();
    let supervisor = Supervisor::new(options.policy.clone(), first.clone(), target);
    say(&format!("serving; controlled by {}", options.control.display()));
    let began = target.clock().now();
    echoes.set_active(true);
    let mut running = Running {
        options,
        supervisor,
        control,
        metrics,
        echoes,
        longest_round_trip: Span::ZERO,
        named: vec![(first, options.session.driver.clone())],
        waiting: None,
        last: None,
        stopping: false,
        say,
        began,
    };
    let ended = running.run(target);
    let stopped = session.stop();
    match (ended, stopped) {
        (Ok(()) | Err(TargetError::Interrupted), Ok(()) | Err(TargetError::Interrupted)) => {
            (running.say)("stopped");
            Ok(())
        }
        (Err(error), _) | (_, Err(error)) => Err(error.into()),
    }
}

/// State of a running service.
struct Running<'a> {
    options: &'a Options,
    supervisor: Supervisor,
    control: Control,
    metrics: Metrics,
    echoes: Arc<Echoes>,
    longest_round_trip: Span,
    /// Programs that were asked for, and how.
    named: Vec<(Program, String)>,
    /// Whose replacement is going on.
    waiting: Option<ClientId>,
    last: Option<Replacement>,
    /// A user has asked to stop.
    stopping: bool,
    say: &'a mut dyn FnMut(&str),
    began: Time,
}

impl Running<'_> {
    fn run(&mut self, target: &mut ProcessTarget) -> Result<(), TargetError> {
        let clock = target.clock();
        let mut kept_house = self.began;
        loop {
            let now = target.poll()?.at;
            if let Some(event) = self.supervisor.step(target)? {
                self.happened(&event, clock.now());
            }
            let since = now.since(kept_house);
            let quiet = self.waiting.is_none() || since > HOUSEKEEPING_AT_LAST;
            if since > HOUSEKEEPING_EVERY && quiet {
                target.housekeep()?;
                for (client, request) in self.control.look(now) {
                    self.answer(client, request, target, now);
                }
                kept_house = clock.now();
            }
            let over = self.options.duration.is_some_and(|most| now.since(self.began) > most);
            if over || self.stopping {
                return Ok(());
            }
            if target.shares_a_core() {
                std::thread::yield_now();
            }
        }
    }

    fn happened(&mut self, event: &Event, now: Time) {
        self.metrics.note(event);
        let line = report::line(event);
        let answer = match event {
            Event::Replaced(replacement) => {
                self.last = Some(*replacement);
                Answer::done(&ReplacementReport::of(replacement))
            }
            _ => Answer::refused(&line),
        };
        // Who waits does so for a replacement.
        if !matches!(event, Event::SpareFailed { .. })
            && let Some(client) = self.waiting.take()
        {
            self.control.answer(client, &answer, now);
        }
        (self.say)(&format!("{:12.6} s  {line}", now.since(self.began).as_secs()));
    }

    fn answer(
        &mut self,
        client: ClientId,
        request: Result<Request, String>,
        target: &mut ProcessTarget,
        now: Time,
    ) {
        let answer = match request {
            Err(why) => Answer::refused(why),
            Ok(Request::Status {}) => match self.status(target, now) {
                Ok(status) => Answer::done(&status),
                Err(error) => Answer::refused(error),
            },
            Ok(Request::Metrics {}) => self.metrics(target, now),
            Ok(Request::Stop {}) => {
                self.stopping = true;
                Answer::done(&())
            }
            Ok(Request::Replace { driver }) => match self.replace(&driver, target) {
                Ok(()) => return self.waiting = Some(client),
                Err(why) => Answer::refused(why),
            },
            Ok(Request::Rollback {}) => match begun(self.supervisor.roll_back(target)) {
                Ok(()) => return self.waiting = Some(client),
                Err(why) => Answer::refused(why),
            },
        };
        self.control.answer(client, &answer, now);
    }

    fn replace(&mut self, driver: &str, target: &mut ProcessTarget) -> Result<(), String> {
        let program = (self.options.driver)(driver)?;
        begun(self.supervisor.replace(&program, target))?;
        if !self.named.iter().any(|(known, _)| *known == program) {
            self.named.push((program, driver.to_owned()));
        }
        Ok(())
    }

    fn echo(&mut self) -> EchoReport {
        let longest = self.echoes.take_longest_round_trip();
        self.longest_round_trip = self.longest_round_trip.max(longest);
        EchoReport::of(&self.echoes, self.longest_round_trip)
    }

    fn status(
        &mut self,
        target: &mut ProcessTarget,
        now: Time,
    ) -> Result<StatusReport, TargetError> {
        let status = self.supervisor.status(target);
        let (wire, echo) = (wire(target)?, self.echo());
        let name = |program: &Program| {
            let named = self.named.iter().find(|(known, _)| known == program);
            named.map_or_else(|| program.path.display().to_string(), |(_, name)| name.clone())
        };
        let way = self.options.policy.way;
        Ok(StatusReport::of(now, way, &status, wire, echo, self.last.as_ref(), name))
    }

    fn metrics(&mut self, target: &mut ProcessTarget, now: Time) -> Answer {
        let status = self.supervisor.status(target);
        let wire = match wire(target) {
            Ok(wire) => wire,
            Err(error) => return Answer::refused(error),
        };
        let look = Look { now, status: &status, wire, echo: self.echo() };
        match self.metrics.text(&look) {
            Ok(text) => Answer::done(&text),
            Err(error) => Answer::refused(error),
        }
    }
}

/// Whether a replacement has begun. What cannot be started is nothing to the driver that runs.
fn begun(asked: Result<Result<u32, Refused>, TargetError>) -> Result<(), String> {
    match asked {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(refused)) => Err(refused.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

fn wire(target: &mut ProcessTarget) -> Result<WireCounters, TargetError> {
    Ok(target.card(CardId::FIRST)?.0.wire().counters())
}
