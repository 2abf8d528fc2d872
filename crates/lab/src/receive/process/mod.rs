//! Ways to receive in a driver of our own, in a process of its own.
//!
//! The receiver shares its core with a compute job of the same priority. What receiving takes is the
//! processor time of the target's processes, as a share of what they and the job have had together.
//! A new target is started for each row, so that no row knows anything of another.

mod compute;
mod search;

use std::time::Duration;

use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;
use serde::Serialize;
use warikomi_clock::{Span, read_tsc};
use warikomi_driver::strategy::{CpuBudget, Strategy};
use warikomi_inject::{Plan, Receiver};
use warikomi_measure::{TimeBase, table, texts};
use warikomi_process::Orders;
use warikomi_protocol::commands::Counters;
use warikomi_session::{PATH_BUFFER_BYTES, Session};

use self::compute::{ComputeJob, nanoseconds};
use super::doubts::Doubts;
use super::made::{Made, Received};
use super::row::{Burst, Row};
use super::traffic::Traffic;
use crate::error::Error;
use crate::inject::{Application, inject};
use crate::watch::Watch;

/// Bytes of a receive buffer.
pub const BUFFER_BYTES: u64 = PATH_BUFFER_BYTES;

/// What to compare.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "target", rename = "process")]
pub struct Options {
    /// The ways to receive; each that polls for a time is tried with each of `polls_us`.
    #[serde(serialize_with = "texts")]
    pub strategies: Vec<Strategy>,
    /// Poll times in microseconds.
    pub polls_us: Vec<u32>,
    /// Receive buffers, all together, in bytes.
    pub buffers_bytes: Vec<u64>,
    /// Looks for the smallest receive buffer without loss, rather than trying those.
    pub find_smallest_buffer: bool,
    /// What arrives.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Packets to the application, or to the driver alone.
    pub receiver: Receiver,
    /// Whether a compute job wants the same core.
    pub compute: bool,
}

impl Default for Options {
    /// The poll times and buffers that were published.
    fn default() -> Self {
        let auto = Strategy::Auto { cpu_budget: CpuBudget::from_ppm(250_000) };
        Options {
            strategies: vec![
                Strategy::Interrupt,
                Strategy::Poll,
                Strategy::Napi { budget: 64 },
                Strategy::Hybrid { poll_time: Span::from_us(100) },
                auto,
            ],
            polls_us: vec![100, 140, 300],
            buffers_bytes: vec![7_000_000, 10_000_000, 15_000_000],
            find_smallest_buffer: false,
            traffic: Traffic { frame_bytes: 8_000, ..Traffic::default() },
            receiver: Receiver::Driver,
            compute: true,
        }
    }
}

/// One row to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) strategy: Strategy,
    pub(super) buffer_bytes: u64,
    pub(super) burst_bytes: usize,
}

impl Case {
    fn poll_us(&self) -> Option<u64> {
        match self.strategy {
            Strategy::Hybrid { poll_time } => Some(poll_time.as_ps() / 1_000_000),
            _ => None,
        }
    }

    fn orders(&self) -> Orders {
        let buffers = (self.buffer_bytes / BUFFER_BYTES).max(1);
        Orders { strategy: self.strategy, buffers, buffer_bytes: BUFFER_BYTES }
    }
}

impl Options {
    /// Each strategy with each of its poll times.
    fn ways(&self) -> Vec<Strategy> {
        let with_polls = |&strategy: &Strategy| match strategy {
            Strategy::Hybrid { .. } => {
                let polls = self.polls_us.iter();
                polls.map(|&us| Strategy::Hybrid { poll_time: Span::from_us(us.into()) }).collect()
            }
            other => vec![other],
        };
        self.strategies.iter().flat_map(with_polls).collect()
    }

    pub(super) fn cases(&self) -> Vec<Case> {
        let largest = self.buffers_bytes.iter().max().copied();
        let buffers = match self.find_smallest_buffer {
            // The search begins at the largest.
            true => largest.into_iter().collect(),
            false => self.buffers_bytes.clone(),
        };
        let mut cases = Vec::new();
        for strategy in self.ways() {
            for &buffer_bytes in &buffers {
                for &burst_bytes in &self.traffic.bursts_bytes {
                    cases.push(Case { strategy, buffer_bytes, burst_bytes });
                }
            }
        }
        cases
    }
}

/// Brings a target up whose driver has these orders.
pub type BringUp<'a> = dyn FnMut(&Orders, &mut Watch) -> Result<Session, Error> + 'a;

/// Compares the ways to receive, one after the other.
pub fn receive(
    options: &Options,
    bring_up: &mut BringUp<'_>,
    watch: &mut Watch,
) -> Result<Received, Error> {
    let mut number = 0;
    let name = |case: &Case| case.strategy.name().to_owned();
    let made = watch.each(&options.cases(), name, |case, watch| {
        let mut bench = Bench { options, bring_up, watch, doubts: Doubts::default(), number };
        number += 1;
        let (row, bursts) = match options.find_smallest_buffer {
            true => search::smallest_buffer(&mut bench, case)?,
            false => bench.carry_out(case)?,
        };
        Ok(Made { row, bursts, doubts: bench.doubts })
    })?;
    let (mut target, machine) = watch.seen();
    // These are different in each row.
    target.settings.clear();
    Ok(Received::of(made, |rows| table("receive", TimeBase::Real, machine, target, options, rows)))
}

/// What a row is made with.
struct Bench<'a, 'b> {
    options: &'a Options,
    bring_up: &'a mut BringUp<'b>,
    watch: &'a mut Watch,
    doubts: Doubts,
    number: usize,
}

impl Bench<'_, '_> {
    /// One row.
    fn carry_out(&mut self, case: &Case) -> Result<(Row, Vec<Burst>), Error> {
        let plan = Plan {
            receiver: self.options.receiver,
            ..self.options.traffic.plan(case.burst_bytes)?
        };
        let orders = case.orders();
        let mut session = (self.bring_up)(&orders, self.watch)?;
        let job = match self.options.compute {
            true => Some(ComputeJob::start(session.target_core()).map_err(Error::CpuTime)?),
            false => None,
        };
        let processes = session.target.process_ids();
        // The scheduler's first moments with the two are not its usual ones.
        session.target.serve_for(Duration::from_millis(20))?;
        let before_cores = session.watch_cores();
        let before = Spent::now(&processes, job.as_ref())?;
        let counted = counters(&mut session)?;
        let run =
            inject(&mut session, &plan, Application::default(), read_tsc() as u32, &mut |_| ())?;
        run.check()?;
        let spent = Spent::now(&processes, job.as_ref())?.since(&before);
        let counted = counters(&mut session)?.since(&counted);
        self.watch.saw(&session, &before_cores);
        drop(job);
        session.stop()?;

        let buffer_bytes = orders.buffers * orders.buffer_bytes;
        let mut row =
            Row::new(case.strategy.name(), case.poll_us(), buffer_bytes, case.burst_bytes as u64);
        row.published_lost_share = Row::published_loss(row.poll_us, case.buffer_bytes);
        let bursts = row.account(self.number, &plan, &run.ledger, run.start);
        row.interrupts = run.result.interrupts.as_ref().map(|interrupts| interrupts.raised);
        row.sleeps = Some(counted.sleeps);
        row.polls = Some(counted.polls);
        row.poll_now_us = (counted.poll_ns > 0).then_some(counted.poll_ns as f64 / 1e3);
        row.cpu_share = Some(spent.share());
        self.doubts.add_run(&plan, &run);
        Ok((row, bursts))
    }
}

/// Processor and other time that has gone.
#[derive(Clone, Copy, Debug)]
struct Spent {
    receiver_ns: u64,
    job_ns: Option<u64>,
    wall_ns: u64,
}

impl Spent {
    fn now(processes: &[u32], job: Option<&ComputeJob>) -> Result<Spent, Error> {
        let mut receiver_ns = 0;
        for &id in processes {
            let time = clock_getcpuclockid(Pid::from_raw(id as i32)).and_then(ClockId::now);
            receiver_ns += nanoseconds(time.map_err(|e| Error::CpuTime(e.into()))?);
        }
        let wall = ClockId::CLOCK_MONOTONIC.now().map_err(|e| Error::CpuTime(e.into()))?;
        Ok(Spent { receiver_ns, job_ns: job.map(ComputeJob::cpu_ns), wall_ns: nanoseconds(wall) })
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
    fn each_way_has_a_row_for_each_of_its_parameters() {
        let options = Options::default();
        assert_eq!(options.cases().len(), (4 + 3) * 3);
        let searching = Options { find_smallest_buffer: true, ..options };
        let cases = searching.cases();
        assert_eq!(cases.len(), 4 + 3);
        assert!(cases.iter().all(|case| case.buffer_bytes == 15_000_000));
    }

    #[test]
    fn the_plan_of_a_result_has_everything() {
        let plan = warikomi_measure::as_object(&Options::default());
        assert_eq!(plan["strategies"].as_array().unwrap().len(), 5);
        assert_eq!(plan["frame_bytes"].as_u64(), Some(8_000));
    }

    #[test]
    fn a_share_is_of_what_both_have_had() {
        let spent = |job_ns| Spent { receiver_ns: 30, job_ns, wall_ns: 200 };
        assert!((spent(Some(90)).share() - 0.25).abs() < 1e-9);
        assert!((spent(None).share() - 0.15).abs() < 1e-9);
        // Its clock was read a moment before the wall's.
        assert_eq!(Spent { wall_ns: 29, ..spent(None) }.share(), 1.0);
    }
}
