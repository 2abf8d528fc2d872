//! What an experiment has around it while it runs: the user, who may stop it and sees how far it has come; the
//! steps that have been made; and the targets and machines on which they were made.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use warikomi_clock::Time;
use warikomi_measure::{Machine, MadeShard, RunDirectory, RunResult, Shard, TargetInfo, TimeBase};
use warikomi_nic::strict::KeptFindings;
use warikomi_session::{CoreWatch, OwnParts, Prepared, Session};
use warikomi_target::{CardId, Interrupted, Target, TargetError};
use warikomi_wire::{Wire, WireKind};

use crate::error::Error;
use crate::journal::{Journal, NewRun, STEPS_UNTIL_THE_ERROR, Seen};
use crate::shards::{self, ShardDirectory};
use crate::strict::{self, Found};

/// How far something has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// So much is done.
    pub done: u64,
    /// Of so much in all, as far as can be told; 0 if it cannot.
    pub all: u64,
    /// What is being done.
    pub at_work: &'a str,
}

/// Who is told of progress.
type Show = Box<dyn FnMut(Progress<'_>)>;

/// What an experiment has around it.
pub struct Watch {
    /// Set when the user wants it to end.
    pub interrupted: Interrupted,
    /// What runs the parts of a process target.
    pub parts: OwnParts,
    show: Show,
    journal: Journal,
    seen: Option<Seen>,
    part: Option<Part>,
    /// The shard that is to be made; nothing for a whole run.
    shard: Option<Shard>,
    /// The shards that made the steps of this run; none if it makes them itself.
    shards: Vec<MadeShard>,
    /// Whether the cards of its targets are strict.
    strict: bool,
    /// What those have found that was not taken yet, and since when they are known.
    untaken: Vec<(KeptFindings, Time)>,
    /// What the case is called that is being made.
    at_work: Option<String>,
}

/// The case that is being made.
#[derive(Clone, Copy)]
struct Part {
    /// Its number among all cases, from 0.
    case: u64,
    /// Cases that are made here, and how many will be.
    done: u64,
    all: u64,
}

/// Parts of a case that a bar can show.
const PARTS_OF_A_CASE: u64 = 1_000;

impl Watch {
    /// For an experiment of which nothing is kept and nothing is shown.
    pub fn unobserved() -> Watch {
        Watch::new(Interrupted::default(), Box::new(|_| ()), Journal::of_nothing())
    }

    /// For a run that begins.
    pub fn of_new_run(interrupted: Interrupted, show: Show, run: NewRun) -> Watch {
        Watch::new(interrupted, show, Journal::begin(run))
    }

    /// For a run that was stopped and goes on in its directory.
    pub fn of_resumed_run(
        interrupted: Interrupted,
        show: Show,
        directory: &Path,
    ) -> Result<Watch, Error> {
        Ok(Watch::new(interrupted, show, Journal::resume(directory)?))
    }

    /// For a run whose steps were all made by its shards: each is given back, and none is made.
    pub fn of_merged_run(
        interrupted: Interrupted,
        show: Show,
        run: NewRun,
        shards: Vec<ShardDirectory>,
    ) -> Result<Watch, Error> {
        let (steps, shards) = shards::join(shards)?;
        let watch = Watch::new(interrupted, show, Journal::of_shards(run, steps));
        Ok(Watch { shards, ..watch })
    }

    fn new(interrupted: Interrupted, show: Show, journal: Journal) -> Watch {
        let parts = OwnParts::OURSELVES;
        let (seen, part, shard, shards) = (None, None, None, Vec::new());
        let (strict, untaken, at_work) = (false, Vec::new(), None);
        Watch {
            interrupted,
            parts,
            show,
            journal,
            seen,
            part,
            shard,
            shards,
            strict,
            untaken,
            at_work,
        }
    }

    /// Makes the cases of this shard alone, if one is named. The run then ends with [`Error::ShardMade`].
    #[must_use]
    pub fn with_shard(self, shard: Option<Shard>) -> Watch {
        Watch { shard, ..self }
    }

    /// From now on the cards of its targets name the steps that a driver must not take, or do not.
    pub(crate) fn make_strict(&mut self, strict: bool) {
        self.strict = strict;
    }

    /// Whether they do.
    pub(crate) fn is_strict(&self) -> bool {
        self.strict
    }

    /// Whether one shard of a run is being made, or all of them are merged.
    pub fn is_sharded(&self) -> bool {
        self.shard.is_some() || !self.shards.is_empty()
    }

    /// Says how far it has come; within [`each`](Self::each), how far its case has.
    pub fn progress(&mut self, done: u64, all: u64, at_work: &str) {
        let (done, all) = match self.part {
            None => (done, all),
            Some(part) => {
                let of_case =
                    (done.min(all) as f64 / all.max(1) as f64 * PARTS_OF_A_CASE as f64) as u64;
                (part.done * PARTS_OF_A_CASE + of_case, part.all * PARTS_OF_A_CASE)
            }
        };
        (self.show)(Progress { done, all, at_work });
    }

    /// Says how far it has come.
    pub fn tell(&mut self, progress: Progress<'_>) {
        self.progress(progress.done, progress.all, progress.at_work);
    }

    /// Says what is being waited for.
    pub fn waiting(&mut self, what: &str) {
        self.progress(0, 0, what);
    }

    /// Brings a target up whose NIC is cabled to a wire of this kind.
    pub fn start(&mut self, prepared: &Prepared, wire: &WireKind) -> Result<Session, Error> {
        let is_virtual = prepared.kernel().is_some_and(|kernel| kernel.virtual_time.is_some());
        if is_virtual && wire.is_outside() {
            return Err(Error::impossible(
                "the program at the other end of a socket does not run in virtual time; choose another --wire, or leave \
                 --virtual out",
            ));
        }
        self.start_on(prepared, wire.build().map_err(Error::NoWire)?)
    }

    /// Brings a target up whose NIC is cabled to this wire.
    pub fn start_on(&mut self, prepared: &Prepared, wire: Box<dyn Wire>) -> Result<Session, Error> {
        if self.journal.is_complete() {
            return Err(Error::impossible(
                "merging starts no target, and this experiment wants one although all of its steps are made",
            ));
        }
        let strict = self.strict.then(|| prepared.with_strict_card());
        let prepared = strict.as_ref().unwrap_or(prepared);
        let interrupted = self.interrupted.clone();
        let mut session = prepared.start(wire, &interrupted, &mut |what| self.waiting(what))?;
        self.keep_findings_of(&mut session)?;
        if let Some(kernel) = strict.as_ref().and_then(Prepared::kernel) {
            strict::call(&mut session, kernel)?;
        }
        Ok(session)
    }

    /// One step for each case, in order; `name` is what the bar shows of a case. A shard makes those of its
    /// cases, and does not go on behind them.
    pub fn each<C, R: Serialize + DeserializeOwned>(
        &mut self,
        cases: &[C],
        name: impl Fn(&C) -> String,
        mut make: impl FnMut(&C, &mut Watch) -> Result<R, Error>,
    ) -> Result<Vec<R>, Error> {
        self.in_order(cases, |case, number, watch| {
            let name = name(case);
            watch.progress(0, 1, &name);
            let step = format!("{number} {name}");
            watch.at_work = Some(name);
            let made = watch.step(&step, |watch| make(case, watch));
            watch.at_work = None;
            made
        })
    }

    /// The same for cases that consist of steps, one or more each. The steps of one case must not depend on
    /// those of another, and what `make` returns must follow from them alone.
    pub fn each_of_steps<C, R>(
        &mut self,
        cases: &[C],
        mut make: impl FnMut(&C, &mut Watch) -> Result<R, Error>,
    ) -> Result<Vec<R>, Error> {
        self.in_order(cases, |case, _, watch| make(case, watch))
    }

    /// Makes the cases, or those of the shard; a case has its number among all.
    fn in_order<C, R>(
        &mut self,
        cases: &[C],
        mut make: impl FnMut(&C, u64, &mut Watch) -> Result<R, Error>,
    ) -> Result<Vec<R>, Error> {
        let of_cases = cases.len() as u64;
        if let Some(shard) = self.shard.filter(|shard| u64::from(shard.of()) > of_cases) {
            return Err(Error::impossible(format!(
                "there is no shard {shard} of {of_cases} cases: choose as many shards at most"
            )));
        }
        let own = |number: &u64| self.shard.is_none_or(|shard| shard.has(*number));
        let own: Vec<(u64, &C)> = (0..).zip(cases).filter(|(number, _)| own(number)).collect();
        let mut made = Vec::new();
        for (done, (case, parameters)) in (0..).zip(&own) {
            self.part = Some(Part { case: *case, done, all: own.len() as u64 });
            let one = make(parameters, *case, self);
            self.part = None;
            made.push(one?);
        }
        match self.shard {
            None => Ok(made),
            Some(_) if self.interrupted.is_set() => Err(TargetError::Interrupted.into()),
            Some(shard) => {
                let (cases, machine) = (own.len() as u64, self.machine());
                Err(Error::ShardMade(Box::new(MadeShard { shard, cases, of_cases, machine })))
            }
        }
    }

    /// The machine of the steps so far; this one, unwatched, in virtual time.
    fn machine(&self) -> Machine {
        let seen = self.seen.as_ref().and_then(|seen| seen.machine.clone());
        seen.unwrap_or_else(Machine::read)
    }

    /// Makes a step and keeps what came of it, unless the user has stopped it meanwhile; of a run that goes on,
    /// gives back what was kept. Steps come in the same order every time, and none is made within another.
    pub fn step<R: Serialize + DeserializeOwned>(
        &mut self,
        name: &str,
        make: impl FnOnce(&mut Watch) -> Result<R, Error>,
    ) -> Result<R, Error> {
        if let Some((made, seen)) = self.journal.earlier(name)? {
            self.add(seen);
            return Ok(made);
        }
        let before = self.seen.take();
        let made = make(self);
        let seen = std::mem::replace(&mut self.seen, before);
        let made = match made {
            Ok(made) => made,
            Err(error) => {
                self.add(seen);
                return Err(error);
            }
        };
        // What the user has stopped may be cut short.
        if !self.interrupted.is_set() {
            let case = self.part.map(|part| part.case);
            self.journal.keep(name, case, &made, seen.as_ref())?;
        }
        self.add(seen);
        Ok(made)
    }

    /// Takes note of a target, of what others have taken from its cores since then, and of what its card has found
    /// since it was last asked.
    pub fn saw<T: Target + ?Sized>(&mut self, session: &mut Session<T>, since: &CoreWatch) {
        let (target, machine) = (session.info.clone(), Some(session.machine_since(since)));
        let card = session.target.card(CardId::FIRST).ok();
        let findings = card.and_then(|(nic, _)| Some(nic.strict()?.take_findings()));
        let found =
            findings.map(|findings| Found::of(&findings, since.begun(), self.at_work.as_deref()));
        let virtual_time = session.target.clock().is_virtual();
        let time_base = if virtual_time { TimeBase::Virtual } else { TimeBase::Real };
        self.add(Some(Seen { target, machine, time_base, found, unanswering: 0 }));
    }

    /// Takes note of a target alone: under virtual time, or before its cores have been watched for long enough.
    pub fn saw_target(&mut self, target: &TargetInfo, time_base: TimeBase) {
        self.add(Some(Seen { target: target.clone(), time_base, ..Seen::default() }));
    }

    fn add(&mut self, later: Option<Seen>) {
        self.seen = match (self.seen.take(), later) {
            (Some(before), Some(later)) => Some(before.and(later)),
            (before, later) => later.or(before),
        };
    }

    /// The last target that was seen, and all machines as one.
    pub fn seen(&self) -> (TargetInfo, Machine) {
        let Seen { target, machine, .. } = self.seen.clone().unwrap_or_default();
        (target, machine.unwrap_or_default())
    }

    /// What strict cards have found.
    pub(crate) fn found(&self) -> Option<&Found> {
        self.seen.as_ref()?.found.as_ref()
    }

    /// Takes note of a target that did not answer what came to it first, though nothing had struck.
    pub(crate) fn saw_unanswering(&mut self, target: &TargetInfo) {
        self.add(Some(Seen { target: target.clone(), unanswering: 1, ..Seen::default() }));
    }

    /// How many such targets there were.
    pub(crate) fn unanswering(&self) -> u64 {
        self.seen.as_ref().map_or(0, |seen| seen.unanswering)
    }

    /// Takes note of the card of a target that was not started by [`start_on`](Self::start_on): if it is strict, what
    /// it finds is not lost with it.
    pub(crate) fn keep_findings_of<T: Target + ?Sized>(
        &mut self,
        session: &mut Session<T>,
    ) -> Result<(), Error> {
        let now = session.target.clock().now();
        if let Some(strict) = session.target.card(CardId::FIRST)?.0.strict() {
            self.keep_findings(strict.keep_findings(), now);
        }
        Ok(())
    }

    /// Takes note of what a strict card finds; times count from `since`.
    pub(crate) fn keep_findings(&mut self, kept: KeptFindings, since: Time) {
        self.untaken.push((kept, since));
    }

    /// What strict cards have found in a run that ends with an error: also of targets that are gone, and of the case
    /// that was being made.
    pub(crate) fn found_until_the_error(&self) -> Found {
        let untaken = self.untaken.iter();
        let untaken =
            untaken.map(|(kept, since)| Found::of(&kept.get(), *since, self.at_work.as_deref()));
        untaken.fold(self.found().cloned().unwrap_or_default(), Found::and)
    }

    /// Keeps in the run's directory what strict cards have found in a run that ends with an error; the path of the
    /// file, if the run is kept at all.
    pub(crate) fn keep_until_the_error(&mut self, found: &Found) -> Result<Option<PathBuf>, Error> {
        self.journal.keep_beside(STEPS_UNTIL_THE_ERROR, found)
    }

    /// The clock of the last target that was seen.
    pub fn time_base(&self) -> TimeBase {
        self.seen.as_ref().map_or_else(TimeBase::default, |seen| seen.time_base)
    }

    /// Notes in the result of a merged run which shards it is of. It is an error if a step of theirs is left.
    pub fn note_shards(&self, result: &mut RunResult) -> Result<(), Error> {
        if self.journal.is_complete() {
            if self.journal.earlier_steps() > 0 {
                return Err(Error::OtherRun);
            }
            shards::note(&self.shards, result);
        }
        Ok(())
    }

    /// How many steps an earlier run of this directory has made that have not been asked for yet.
    pub fn earlier_steps(&self) -> usize {
        self.journal.earlier_steps()
    }

    /// The directory of the run, if something has been kept in it.
    pub fn directory(&self) -> Option<&RunDirectory> {
        self.journal.directory()
    }

    /// Ends it; the directory of the run is made now if nothing was kept before. A shard's steps stay in it.
    pub fn end(self) -> Result<RunDirectory, Error> {
        self.journal.end(self.shard.is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    fn new_run(runs: &Path) -> NewRun {
        NewRun { runs: runs.to_owned(), name: "test".into(), now_s: 0, plan: "# plan".into() }
    }

    fn begin(runs: &Path) -> Watch {
        Watch::of_new_run(Interrupted::default(), Box::new(|_| ()), new_run(runs))
    }

    fn double(cases: &[u32], watch: &mut Watch, made: &mut Vec<u32>) -> Result<Vec<u32>, Error> {
        watch.each(cases, ToString::to_string, |case, _| {
            made.push(*case);
            if *case == 3 { Err(Error::NoWork) } else { Ok(2 * case) }
        })
    }

    #[test]
    fn a_step_during_which_the_user_stops_the_run_is_not_kept() {
        let runs = tempfile::tempdir().unwrap();
        let mut watch = begin(runs.path());
        let made = watch.each(&[1, 2], ToString::to_string, |case, watch| {
            if *case == 2 {
                watch.interrupted.set();
            }
            Ok(10 * case)
        });
        assert_eq!(made.unwrap(), [10, 20]);
        let directory = watch.directory().unwrap().path().to_owned();
        let show = Box::new(|_: Progress<'_>| ());
        let again = Watch::of_resumed_run(Interrupted::default(), show, &directory).unwrap();
        assert_eq!(again.earlier_steps(), 1);
    }

    #[test]
    fn what_was_made_before_it_was_stopped_is_not_made_again() {
        let runs = tempfile::tempdir().unwrap();
        let (mut watch, mut made) = (begin(runs.path()), Vec::new());
        assert!(double(&[1, 2, 3], &mut watch, &mut made).is_err());
        let directory = watch.directory().unwrap().path().to_owned();
        drop(watch);

        let show = Box::new(|_: Progress<'_>| ());
        let mut watch = Watch::of_resumed_run(Interrupted::default(), show, &directory).unwrap();
        assert_eq!(watch.earlier_steps(), 2);
        let mut again = Vec::new();
        let cases = [1, 2, 4];
        assert_eq!(double(&cases, &mut watch, &mut again).unwrap(), [2, 4, 8]);
        assert_eq!((made, again), (vec![1, 2, 3], vec![4]));
        let directory = watch.end().unwrap();
        let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "plan.toml alone: {left:?}");
    }

    #[test]
    fn a_run_of_which_nothing_is_kept_has_no_directory_before_it_ends() {
        let runs = tempfile::tempdir().unwrap();
        let watch = begin(runs.path());
        assert!(watch.directory().is_none());
        assert!(std::fs::read_dir(runs.path()).unwrap().next().is_none());
        assert!(watch.end().unwrap().path().join("plan.toml").exists());
    }

    #[test]
    fn machines_of_earlier_steps_count_as_well() {
        let watched = |ms: f64| Machine { watched_ms: Some(ms), ..Machine::default() };
        let runs = tempfile::tempdir().unwrap();
        let mut watch = begin(runs.path());
        let see = |ms: f64, watch: &mut Watch| {
            watch.add(Some(Seen { machine: Some(watched(ms)), ..Seen::default() }));
            Ok(())
        };
        watch.step("a", |watch| see(2.0, watch)).unwrap();
        watch.step("b", |watch| see(3.0, watch)).unwrap();
        assert_eq!(watch.seen().1.watched_ms, Some(5.0));
        let directory = watch.directory().unwrap().path().to_owned();
        let show = Box::new(|_: Progress<'_>| ());
        let mut again = Watch::of_resumed_run(Interrupted::default(), show, &directory).unwrap();
        again.step::<()>("a", |_| unreachable!()).unwrap();
        assert_eq!(again.seen().1.watched_ms, Some(2.0));
        let other = again.step::<()>("another", |_| unreachable!()).unwrap_err();
        assert!(other.to_string().contains("begin anew"), "{other}");
    }

    #[test]
    fn progress_within_a_step_is_a_part_of_all_steps() {
        let shown = Rc::new(RefCell::new(Vec::new()));
        let mut watch = Watch::unobserved();
        let by_show = Rc::clone(&shown);
        watch.show =
            Box::new(move |progress| by_show.borrow_mut().push((progress.done, progress.all)));
        watch.progress(1, 4, "alone");
        let cases = [(), ()];
        let made = watch.each(
            &cases,
            |()| String::new(),
            |(), watch| {
                watch.progress(1, 2, "half");
                Ok(())
            },
        );
        made.unwrap();
        assert_eq!(
            *shown.borrow(),
            [(1, 4), (0, 2_000), (500, 2_000), (1_000, 2_000), (1_500, 2_000)]
        );
    }
}
