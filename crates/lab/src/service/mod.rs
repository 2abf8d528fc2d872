//! A service that runs until it is stopped: NIC, driver, stack and an application that echoes, under a
//! supervisor that replaces the driver when it is asked to or must.

mod client;
mod control;
mod metrics;
mod report;
mod request;

use std::path::{Path, PathBuf};

use warikomi_clock::{Span, Time};
use warikomi_live::{Event, Policy, Program, Refused, Replacement, Supervisor};
use warikomi_nic::wire::{Wire, WireCounters};
use warikomi_target::process::ProcessTarget;
use warikomi_target::{Interrupted, Target, TargetError};

use crate::{ProcessSessionOptions, Session, SessionError};
pub use client::{AskError, ask};
pub use control::ControlError;
use control::{ClientId, Control};
use metrics::{Look, Metrics};
pub use report::{ReplacementReport, StatusReport};
pub use request::{Answer, MOST_REQUEST_BYTES, Request};

/// Clients are looked at, and the house is kept, once in this time, ...
const HOUSEKEEPING_EVERY: Span = Span::from_ms(1);
/// ... but during a replacement only after this one.
const HOUSEKEEPING_AT_LAST: Span = Span::from_ms(50);

/// What to run.
pub struct Options {
    /// The target with its first driver.
    pub session: ProcessSessionOptions,
    /// How its driver is replaced.
    pub policy: Policy,
    /// The control socket.
    pub control: PathBuf,
    /// The program of the driver of that name or path; the error says what there is.
    pub driver: fn(&str) -> Result<Program, String>,
    /// For how long; until it is stopped if `None`.
    pub duration: Option<Span>,
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
    wire: Box<dyn Wire>,
    interrupted: &Interrupted,
    say: &mut dyn FnMut(&str),
) -> Result<(), ServiceError> {
    // First: where a service runs already, nothing is started. It goes last, so that whoever waits for the
    // end sees it when all is gone.
    let control = Control::bind(&options.control)?;
    let metrics = Metrics::new()?;
    let mut session = Session::start_live(
        &options.session,
        options.policy.way,
        wire,
        interrupted,
        &mut |_| (),
        &mut |target| Box::new(target),
    )?;
    let Some(target) = session.target.as_process() else { return Ok(()) };
    let first = options.session.program.clone();
    let supervisor = Supervisor::new(options.policy.clone(), first.clone(), target);
    say(&format!("serving; controlled by {}", options.control.display()));
    let began = target.clock().now();
    let mut running = Running {
        options,
        supervisor,
        control,
        metrics,
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

/// A service that runs.
struct Running<'a> {
    options: &'a Options,
    supervisor: Supervisor,
    control: Control,
    metrics: Metrics,
    /// Programs that were asked for, and how.
    named: Vec<(Program, String)>,
    /// Whose replacement is going on.
    waiting: Option<ClientId>,
    last: Option<Replacement>,
    /// Somebody has asked to stop.
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
        if let Some(client) = self.waiting.take() {
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
            Ok(Request::Status {}) => Answer::done(&self.status(target, now)),
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

    fn status(&mut self, target: &mut ProcessTarget, now: Time) -> StatusReport {
        let status = self.supervisor.status(target);
        let wire = wire(target);
        let name = |program: &Program| {
            let named = self.named.iter().find(|(known, _)| known == program);
            named.map_or_else(|| program.path.display().to_string(), |(_, name)| name.clone())
        };
        let way = self.options.policy.way;
        StatusReport::of(now, way, &status, wire, self.last.as_ref(), name)
    }

    fn metrics(&mut self, target: &mut ProcessTarget, now: Time) -> Answer {
        let status = self.supervisor.status(target);
        let look = Look { now, status: &status, wire: wire(target) };
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

fn wire(target: &mut ProcessTarget) -> WireCounters {
    target.nic().0.wire().counters()
}
