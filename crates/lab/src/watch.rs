//! What an experiment has around it while it runs: somebody who may stop it and wants to know how far it has
//! come, the steps that have been made, and the targets and machines on which they were made.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use warikomi_measure::{Machine, RunDirectory, TargetInfo};
use warikomi_session::{CoreWatch, OwnParts, Prepared, Session};
use warikomi_target::{Interrupted, Target};
use warikomi_wire::Wire;

use crate::error::Error;
use crate::journal::{Journal, NewRun, Seen};

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
    /// The step of [`each`](Self::each) that is being made, and how many there are.
    part: Option<(u64, u64)>,
}

/// Parts of a step that a bar can show.
const PARTS_OF_A_STEP: u64 = 1_000;

impl Watch {
    /// For an experiment of which nothing is kept and nobody is told.
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

    fn new(interrupted: Interrupted, show: Show, journal: Journal) -> Watch {
        Watch { interrupted, parts: OwnParts::OURSELVES, show, journal, seen: None, part: None }
    }

    /// Says how far it has come; within [`each`](Self::each), how far its step has.
    pub fn progress(&mut self, done: u64, all: u64, at_work: &str) {
        let (done, all) = match self.part {
            None => (done, all),
            Some((number, steps)) => {
                let of_step =
                    (done.min(all) as f64 / all.max(1) as f64 * PARTS_OF_A_STEP as f64) as u64;
                (number * PARTS_OF_A_STEP + of_step, steps * PARTS_OF_A_STEP)
            }
        };
        (self.show)(Progress { done, all, at_work });
    }

    /// The same.
    pub fn tell(&mut self, progress: Progress<'_>) {
        self.progress(progress.done, progress.all, progress.at_work);
    }

    /// Says what is being waited for.
    pub fn waiting(&mut self, what: &str) {
        self.progress(0, 0, what);
    }

    /// Brings a target up.
    pub fn start(&mut self, prepared: &Prepared, wire: Box<dyn Wire>) -> Result<Session, Error> {
        let interrupted = self.interrupted.clone();
        Ok(prepared.start(wire, &interrupted, &mut |what| self.waiting(what))?)
    }

    /// One step for each case, in order; `name` is what the bar shows of a case.
    pub fn each<C, R: Serialize + DeserializeOwned>(
        &mut self,
        cases: &[C],
        name: impl Fn(&C) -> String,
        mut make: impl FnMut(&C, &mut Watch) -> Result<R, Error>,
    ) -> Result<Vec<R>, Error> {
        let mut made = Vec::new();
        for (case, number) in cases.iter().zip(0..) {
            let name = name(case);
            self.part = Some((number, cases.len() as u64));
            self.progress(0, 1, &name);
            let step = self.step(&format!("{number} {name}"), |watch| make(case, watch));
            self.part = None;
            made.push(step?);
        }
        Ok(made)
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
        let made = made?;
        // What the user has stopped may be cut short.
        if !self.interrupted.is_set() {
            self.journal.keep(name, &made, seen.as_ref())?;
        }
        self.add(seen);
        Ok(made)
    }

    /// Takes note of a target, and of what others have taken from its cores since then.
    pub fn saw<T: Target + ?Sized>(&mut self, session: &Session<T>, since: &CoreWatch) {
        let (target, machine) = (session.info.clone(), session.machine_since(since));
        self.add(Some(Seen { target, machine }));
    }

    fn add(&mut self, later: Option<Seen>) {
        self.seen = match (self.seen.take(), later) {
            (Some(before), Some(later)) => Some(before.and(later)),
            (before, later) => later.or(before),
        };
    }

    /// The last target that was seen, and all machines as one.
    pub fn seen(&self) -> (TargetInfo, Machine) {
        let Seen { target, machine } = self.seen.clone().unwrap_or_default();
        (target, machine)
    }

    /// How many steps an earlier run of this directory has made that have not been asked for yet.
    pub fn earlier_steps(&self) -> usize {
        self.journal.earlier_steps()
    }

    /// The directory of the run, if something has been kept in it.
    pub fn directory(&self) -> Option<&RunDirectory> {
        self.journal.directory()
    }

    /// Ends it; the directory of the run is made now if nothing was kept before.
    pub fn end(self) -> Result<RunDirectory, Error> {
        self.journal.end()
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
            watch.add(Some(Seen { target: TargetInfo::default(), machine: watched(ms) }));
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
