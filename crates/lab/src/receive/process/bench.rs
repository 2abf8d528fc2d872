//! What a row is made with, and what it took.

use std::time::Duration;

use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;
use warikomi_clock::read_tsc;
use warikomi_inject::{Plan, Warmup};
use warikomi_process::Orders;
use warikomi_protocol::commands::Counters;
use warikomi_session::Session;
use warikomi_target::realtime::{self, PRIORITY};

use super::application::Said;
use super::children;
use super::competitor::Competitor;
use super::compute::{ComputeJob, nanoseconds};
use super::options::{Case, Options};
use super::quota::Quota;
use crate::error::Error;
use crate::inject::{Application, Injected, inject};
use crate::receive::doubts::Doubts;
use crate::receive::row::{Burst, Row};
use crate::watch::Watch;

/// Brings a target up whose driver has these orders.
pub type BringUp<'a> = dyn FnMut(&Orders, &mut Watch) -> Result<Session, Error> + 'a;

/// What a row is made with.
pub(super) struct Bench<'a, 'b> {
    pub(super) options: &'a Options,
    pub(super) bring_up: &'a mut BringUp<'b>,
    pub(super) watch: &'a mut Watch,
    pub(super) doubts: Doubts,
}

impl Bench<'_, '_> {
    /// One row.
    pub(super) fn carry_out(&mut self, case: &Case) -> Result<(Row, Vec<Burst>), Error> {
        let plan = self.options.plan(case)?;
        let orders = case.orders(self.options.buffer_bytes_of(case));
        let mut session = (self.bring_up)(&orders, self.watch)?;
        let job = match self.options.compute {
            true => Some(ComputeJob::start(session.target_core()).map_err(Error::CpuTime)?),
            false => None,
        };
        let processes = session.target.process_ids();
        if case.setting.real_time == Some(true) {
            claim_real_time(&processes)?;
        }
        // The scheduler's first moments with the two are not its usual ones.
        session.target.serve_for(Duration::from_millis(20))?;
        let job = match self.options.own_compute {
            true => Job::Children(children::of(&session)?),
            false => job.map_or(Job::None, Job::Ours),
        };
        if let Some(warmup) = plan.warmup_plan() {
            inject_once(&mut session, &warmup)?;
        }
        let plan = Plan { warmup: Warmup::NONE, ..plan };
        let before_cores = session.watch_cores();
        let before = Spent::now(&processes, &job)?;
        let counted = counters(&mut session)?;
        let competitor = self.compete(&session)?;
        let quota = self.options.quota.map(|share| Quota::limit(share, &processes)).transpose()?;
        let run = inject_once(&mut session, &plan)?;
        run.check()?;
        let spent = Spent::now(&processes, &job)?.since(&before);
        let counted = counters(&mut session)?.since(&counted);
        let taken = competitor.map(Competitor::end).transpose().map_err(Error::CpuTime)?;
        let said = match self.options.application {
            Some(_) => Some(Said::of(&mut session, &plan, &run)?),
            None => None,
        };
        let throttled = quota.as_ref().map(Quota::throttled_ms).transpose();
        let throttled = throttled.map_err(Error::CpuTime)?;
        drop(quota);
        self.watch.saw(&mut session, &before_cores);
        drop(job);
        session.stop()?;

        let buffer_bytes = orders.buffers * orders.buffer_bytes;
        let mut row = case.row(case.poll_us(), buffer_bytes);
        row.stalled_ms = taken.map(|taken| taken.cpu_ns as f64 / 1e6).or(throttled);
        let by_quota = self.options.quota.map(|share| format!("a quota of {share}"));
        row.stalled_by = taken.map(|taken| taken.claim.to_string()).or(by_quota);
        let bursts = row.account(&plan, &run.ledger, run.start);
        row.interrupts = run.result.interrupts.as_ref().map(|interrupts| interrupts.raised);
        row.sleeps = Some(counted.sleeps);
        row.polls = Some(counted.polls);
        row.poll_now_us = (counted.poll_ns > 0).then_some(counted.poll_ns as f64 / 1e3);
        row.cpu_share = Some(spent.share());
        if let Some(said) = said {
            said.enter(&mut row);
        }
        self.doubts.add_run(&plan, &run);
        Ok((row, bursts))
    }
}

fn inject_once(session: &mut Session, plan: &Plan) -> Result<Injected, Error> {
    inject(session, plan, Application::default(), read_tsc() as u32, &mut |_| ())
}

impl Bench<'_, '_> {
    /// What takes the core away from the target, if anything is to.
    fn compete(&self, session: &Session) -> Result<Option<Competitor>, Error> {
        let Some(stall) = &self.options.stall else { return Ok(None) };
        if session.target.shares_a_core() {
            return Err(Error::impossible(
                "--stall takes the target's core away, and here it is ours as well; it needs a second core",
            ));
        }
        let times = stall.times(self.options.traffic.duration, self.options.traffic.seed);
        Competitor::start(session.target_core(), times).map(Some).map_err(Error::CpuTime)
    }
}

/// Gives what receives real-time priority, above what takes the core away.
fn claim_real_time(processes: &[u32]) -> Result<(), Error> {
    let claimed = processes.iter().try_for_each(|&id| realtime::claim(id, PRIORITY + 1));
    claimed.map_err(|why| {
        Error::impossible(format!(
            "what receives cannot have real-time priority ({why}); it takes CAP_SYS_NICE, or `ulimit -r {}`",
            PRIORITY + 1
        ))
    })
}

/// What computes beside what receives.
enum Job {
    None,
    /// A thread of ours.
    Ours(ComputeJob),
    /// Processes of the user's own application.
    Children(Vec<u32>),
}

/// Processor time that these processes have had, in nanoseconds.
fn processor_ns(processes: &[u32]) -> Result<u64, Error> {
    let of = |&id: &u32| clock_getcpuclockid(Pid::from_raw(id as i32)).and_then(ClockId::now);
    let times = processes.iter().map(of).map(|time| time.map(nanoseconds));
    times.sum::<nix::Result<u64>>().map_err(|error| Error::CpuTime(error.into()))
}

/// Processor and other time that has gone.
#[derive(Clone, Copy, Debug)]
struct Spent {
    receiver_ns: u64,
    job_ns: Option<u64>,
    wall_ns: u64,
}

impl Spent {
    fn now(processes: &[u32], job: &Job) -> Result<Spent, Error> {
        let receiver_ns = processor_ns(processes)?;
        let job_ns = match job {
            Job::None => None,
            Job::Ours(job) => Some(job.cpu_ns()),
            Job::Children(children) => Some(processor_ns(children)?),
        };
        let wall = ClockId::CLOCK_MONOTONIC.now().map_err(|e| Error::CpuTime(e.into()))?;
        Ok(Spent { receiver_ns, job_ns, wall_ns: nanoseconds(wall) })
    }

    fn since(&self, before: &Spent) -> Spent {
        Spent {
            receiver_ns: self.receiver_ns.saturating_sub(before.receiver_ns),
            job_ns: self.job_ns.zip(before.job_ns).map(|(now, then)| now.saturating_sub(then)),
            wall_ns: self.wall_ns.saturating_sub(before.wall_ns),
        }
    }

    /// The receiver's share: of what it and the job have had, or, without a job, of the time.
    fn share(&self) -> f64 {
        // Clocks are read one after the other: between two of them a receiver that polls goes on, and would
        // have had more than all of the time.
        let all =
            self.job_ns.map_or(self.wall_ns.max(self.receiver_ns), |job| self.receiver_ns + job);
        self.receiver_ns as f64 / all.max(1) as f64
    }
}

/// What the driver counts about its strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counted {
    sleeps: u64,
    polls: u64,
    poll_ns: u64,
}

impl Counted {
    /// The poll time is that of now.
    fn since(&self, before: &Counted) -> Counted {
        Counted {
            sleeps: self.sleeps.saturating_sub(before.sleeps),
            polls: self.polls.saturating_sub(before.polls),
            poll_ns: self.poll_ns,
        }
    }
}

fn counters(session: &mut Session) -> Result<Counted, Error> {
    let counters = session.target.ask(Counters { interface: None }, Duration::ZERO)?;
    let count = |name: &str| counters.driver.get(name).copied().unwrap_or(0);
    Ok(Counted { sleeps: count("sleeps"), polls: count("polls"), poll_ns: count("poll_ns") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_what_both_have_had() {
        let spent = |job_ns| Spent { receiver_ns: 30, job_ns, wall_ns: 200 };
        assert!((spent(Some(90)).share() - 0.25).abs() < 1e-9);
        assert!((spent(None).share() - 0.15).abs() < 1e-9);
        // Its clock was read a moment before the wall's.
        assert_eq!(Spent { wall_ns: 29, ..spent(None) }.share(), 1.0);
    }
}
