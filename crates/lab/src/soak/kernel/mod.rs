//! Histories of the kernel target: runs of `inject --virtual` that a seed draws.

mod checkers;
mod line;
mod observed;
mod planted;

use std::path::PathBuf;

use clap::{Args, Command, FromArgMatches};
use warikomi_clock::Dice;
use warikomi_inject::Planned;
use warikomi_session::Session;
use warikomi_target::TargetError;

use self::checkers::violations;
use self::line::Line;
use self::observed::Observed;
use self::planted::Planted;
use super::history::{History, Judged, Violation};
use crate::error::Error;
use crate::experiment::Experiment;
use crate::inject::{Inject, Injected, Order, Ordered, inject_from, inject_plan};
use crate::watch::Watch;

pub(super) use planted::Bug;

/// Which kernel; as `inject` chooses it if neither is given.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct KernelArguments {
    /// A kernel binary made by `warikomi kernel build --virtual` [default: the newest]
    #[arg(long, value_name = "PATH", conflicts_with = "kernel_version")]
    pub(super) kernel: Option<PathBuf>,
    /// The kernel that `warikomi kernel build --virtual` made from this version, such as 6.1
    #[arg(long, value_name = "VERSION")]
    pub(super) kernel_version: Option<String>,
}

impl KernelArguments {
    /// As words of a command line.
    pub(super) fn words(&self) -> Vec<String> {
        let kernel = self.kernel.as_ref().map(|path| path.display().to_string());
        let flags = [("--kernel", kernel), ("--kernel-version", self.kernel_version.clone())];
        let given = flags.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        given.flat_map(|(name, value)| [name, value]).collect()
    }

    pub(super) fn are_given(&self) -> bool {
        self.kernel.is_some() || self.kernel_version.is_some()
    }
}

/// A history of the kernel target.
#[derive(Clone, Debug)]
pub(super) struct KernelHistory {
    line: Line,
    kernel: Vec<String>,
    /// What is planted, to be found.
    bug: Option<Bug>,
}

impl KernelHistory {
    /// The history of this seed.
    pub(super) fn draw(seed: u64, dice: &mut Dice, kernel: &KernelArguments) -> KernelHistory {
        KernelHistory { line: Line::draw(seed, dice), kernel: kernel.words(), bug: None }
    }

    /// A plain one in which something is wrong.
    pub(super) fn with(bug: Bug, kernel: &KernelArguments) -> KernelHistory {
        let mut flags = vec![("seed", "1"), ("count", "100"), ("interval", "20us")];
        flags.extend(bug.fault().map(|fault| ("fault", fault)));
        KernelHistory { line: Line::of(&flags), kernel: kernel.words(), bug: Some(bug) }
    }

    /// Why it cannot be run here, if it cannot: there is no such kernel.
    pub(super) fn refused(&self) -> Result<(), Error> {
        self.inject()?.prepared().map(|_| ())
    }

    fn inject(&self) -> Result<Inject, Error> {
        let words = [self.line.words(), self.kernel.clone()].concat();
        let command = Inject::augment_args(Command::new(Inject::NAME).no_binary_name(true));
        let matches = command.try_get_matches_from(words).map_err(Error::impossible_as)?;
        Inject::from_arg_matches(&matches).map_err(Error::impossible_as)
    }

    /// What is seen of it, and its digest.
    fn observe(
        &self,
        session: &mut Session,
        ordered: &Ordered<'_>,
    ) -> Result<(Observed, String), Error> {
        let harm = harm(session)?;
        let Ordered { plan, application, run_id, .. } = *ordered;
        let order = Order { plan, application, run_id, tape: None };
        let injected = match self.bug {
            None => inject_plan(session, &order, &mut |_| ()),
            Some(bug) => inject_from(
                session,
                &order,
                |addresses, start| {
                    let packets = Planned::new(plan, addresses, run_id, start)?;
                    let others = Planned::new(plan, addresses, run_id ^ 1, start)?;
                    Ok(Planted { packets, others, bug })
                },
                &mut |_| (),
            ),
        }?;
        let Injected { result, ledger, received, .. } = injected;
        let mut plan = plan.clone();
        if self.bug.is_some() {
            plan.faults.clear();
        }
        let mut observed = Observed {
            plan,
            has_costs: self.line.has_costs(),
            totals: ledger.totals(),
            rows: ledger.rows().collect(),
            faults: result.faults,
            received,
            console: session.target.console().0,
            harm: 0,
        };
        if !observed.was_cut_short() {
            observed.harm = self::harm(session)? & !harm;
        }
        let digest = result.figures.get("digest").and_then(|digest| digest.as_str());
        Ok((observed, digest.unwrap_or_default().to_owned()))
    }
}

/// Marks of harm that the kernel has set.
fn harm(session: &mut Session) -> Result<u64, TargetError> {
    session.target.agent().map_or(Ok(0), |agent| agent.fault_marks())
}

impl History for KernelHistory {
    const TARGET: &'static str = "kernel";

    fn features(&self) -> Vec<String> {
        self.line.features().into_iter().collect()
    }

    fn command(&self) -> String {
        let words = [self.line.words(), self.kernel.clone()].concat();
        format!("warikomi inject {}", words.join(" "))
    }

    fn shorter(&self) -> Vec<KernelHistory> {
        let shorter = self.line.shorter().into_iter();
        shorter.map(|line| KernelHistory { line, ..self.clone() }).collect()
    }

    fn run(&self, watch: &mut Watch) -> Result<Judged, Error> {
        let inject = self.inject()?;
        let seen = inject.carry_out(watch, |session, ordered, _| self.observe(session, &ordered));
        match seen {
            Ok((observed, digest)) => Ok(Judged {
                packets: observed.totals.injected,
                delivered: observed.totals.delivered + observed.totals.unclaimed,
                digest,
                violations: violations(&observed),
            }),
            Err(error) if is_the_guests(&error) => {
                let lines: Vec<_> = error.to_string().lines().map(str::to_owned).collect();
                let why = lines.join("; ");
                Ok(Judged { violations: vec![Violation::by("end", why)], ..Judged::default() })
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether it says something about the history, and not about this machine, or about the user.
fn is_the_guests(error: &Error) -> bool {
    let of_target = matches!(error, Error::Target(_) | Error::Stalled { .. });
    of_target && !error.is_interrupted()
}
