//! Trials one behind the other, each in a target that works.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use warikomi_session::{CoreWatch, Prepared};

use super::case::Case;
use super::coverage::coverage;
use super::places::{Instruction, address_of, by_address};
use super::row::{Explored, PlaceRow, command};
use super::tried::{TRIES_TO_REACH, Tried};
use crate::error::Error;
use crate::strike::{
    Attempt, Check, KernelCode, Operation, Scene, Striking, Trial, Verdict, Where,
};
use crate::watch::Watch;

/// What the trials have in common.
pub(super) struct Plan {
    pub(super) striking: Striking,
    /// What must hold at the place; of two, the first.
    pub(super) conditions: Vec<Check>,
    /// What the driver is made to do, each in turn until a place is reached.
    pub(super) operations: Vec<Operation>,
    /// Tries no more once something is wrong at this number of places.
    pub(super) stop_after: Option<u64>,
    /// Flags that say which driver and what must hold, for commands.
    pub(super) flags: String,
}

/// Targets, one at a time.
pub(super) struct Stage<'a> {
    prepared: &'a Prepared,
    plan: Plan,
    scene: Option<(Scene, CoreWatch)>,
    kernel: KernelCode,
    /// The operation that reaches a place, once that was looked for.
    reached: Option<BTreeMap<Instruction, Operation>>,
    /// All places that are explored.
    places: Vec<Instruction>,
    /// Of the first place of a pair: those that are reached behind a strike there.
    behind: Option<(Instruction, BTreeSet<Instruction>)>,
    /// Places at which something is wrong.
    found: u64,
}

impl<'a> Stage<'a> {
    pub(super) fn new(prepared: &'a Prepared, plan: Plan) -> Stage<'a> {
        let (places, behind) = (Vec::new(), None);
        let kernel = KernelCode::default();
        Stage { prepared, plan, scene: None, kernel, reached: None, places, behind, found: 0 }
    }

    /// Looks which of these places are reached, unless that is known. It differs a little from one time to the
    /// next, so it belongs to no step that shards have in common.
    pub(super) fn look_around(
        &mut self,
        places: &[Instruction],
        watch: &mut Watch,
    ) -> Result<(), Error> {
        if self.reached.is_some() {
            return Ok(());
        }
        watch.waiting("looking which places are reached");
        let (mut left, mut all) = (places.iter().cloned().collect(), BTreeMap::new());
        for operation in self.operations() {
            let reached = coverage(self.scene(watch)?, &mut left, operation);
            // What one operation has left shall not be what the next one finds.
            self.end_scene(watch);
            all.extend(reached?.into_iter().map(|place| (place, operation)));
        }
        self.reached = Some(all);
        self.places = places.to_vec();
        Ok(())
    }

    pub(super) fn operations(&self) -> Vec<Operation> {
        self.plan.operations.clone()
    }

    /// The target, brought up if there is none.
    pub(super) fn scene(&mut self, watch: &mut Watch) -> Result<&mut Scene, Error> {
        if self.scene.is_none() {
            let scene = Scene::start(watch, self.prepared, &mut self.kernel)?;
            let cores = scene.session.watch_cores();
            self.scene = Some((scene, cores));
        }
        match &mut self.scene {
            Some((scene, _)) => Ok(scene),
            None => unreachable!("it has just been made"),
        }
    }

    /// Ends the target, and notes what others have taken from its cores.
    pub(super) fn end_scene(&mut self, watch: &mut Watch) {
        if let Some((mut scene, cores)) = self.scene.take() {
            watch.saw(&mut scene.session, &cores);
        }
    }

    /// Strikes at a place as often as it takes to be sure.
    pub(super) fn explore(&mut self, case: &Case, watch: &mut Watch) -> Result<Explored, Error> {
        let begun = Instant::now();
        let mut explored = self.explore_in_usual(case, watch)?;
        // What an operation reaches only the first time in a kernel, another one may reach each time.
        let usual = explored.row.operation.clone();
        let was_reached = matches!(case, Case::Instruction(_)) && !usual.is_empty();
        if was_reached && explored.row.verdict == Verdict::NotReached {
            let operations = self.operations().into_iter();
            for operation in operations.filter(|other| other.to_string() != usual) {
                let other = self.explore_in(case, operation, 1, 1, watch)?;
                if other.row.verdict != Verdict::NotReached {
                    explored = other;
                    break;
                }
            }
        }
        self.found += u64::from(explored.row.verdict.is_bad());
        Ok(Explored { seconds: begun.elapsed().as_secs_f64(), ..explored })
    }

    /// In the operation that is known to reach it.
    fn explore_in_usual(&mut self, case: &Case, watch: &mut Watch) -> Result<Explored, Error> {
        let reached = |place: &Instruction| self.reached.as_ref()?.get(place).copied();
        let (operation, nth) = match case {
            Case::Instruction(place) => (reached(place), 1),
            // The second is looked for in the traffic that reaches the first, also where nothing reaches it alone.
            Case::Pair(place, _) => (reached(place), 1),
            Case::Access(nth, operation) => (Some(*operation), *nth),
        };
        let Some(operation) = operation else {
            return Ok(Explored::without_trial(case, Verdict::NotReached));
        };
        if self.plan.stop_after.is_some_and(|most| self.found >= most) {
            return Ok(Explored::without_trial(case, Verdict::NotTried));
        }
        if let Case::Pair(first, then) = case
            && !self.reached_behind(first, operation, watch)?.contains(then)
        {
            return Ok(Explored::without_trial(case, Verdict::NotReached));
        }
        self.explore_in(case, operation, nth, TRIES_TO_REACH, watch)
    }

    /// The places that are reached behind a strike at this one: all, where that strike alone shows a mistake. One trial
    /// tells it of all of them, and of most pairs leaves nothing to try.
    fn reached_behind(
        &mut self,
        first: &Instruction,
        operation: Operation,
        watch: &mut Watch,
    ) -> Result<&BTreeSet<Instruction>, Error> {
        if self.behind.as_ref().is_none_or(|(of, _)| of != first) {
            let mut reached = BTreeSet::new();
            for _ in 0..TRIES_TO_REACH {
                reached = self.seek_behind(first, operation, watch)?;
                if !reached.is_empty() {
                    break;
                }
            }
            self.behind = Some((first.clone(), reached));
        }
        match &self.behind {
            Some((_, reached)) => Ok(reached),
            None => unreachable!("it has just been looked for"),
        }
    }

    fn seek_behind(
        &mut self,
        first: &Instruction,
        operation: Operation,
        watch: &mut Watch,
    ) -> Result<BTreeSet<Instruction>, Error> {
        let all = self.places.clone();
        let scene = self.scene(watch)?;
        let known = by_address(&scene.program, &all);
        scene.seek_behind(&known.keys().copied().collect::<Vec<_>>());
        let trial = self.attempt(&Case::Instruction(first.clone()), operation, 1, watch)?;
        if let Some((scene, _)) = &mut self.scene {
            scene.end_seeking()?;
        }
        let Some((scene, _)) = self.scene.as_mut().filter(|_| !trial.verdict.is_bad()) else {
            let not_reached = trial.verdict == Verdict::NotReached;
            return Ok(if not_reached { BTreeSet::new() } else { all.into_iter().collect() });
        };
        let reached = scene.take_reached();
        Ok(reached.iter().filter_map(|address| known.get(address).cloned()).collect())
    }

    /// In one operation.
    fn explore_in(
        &mut self,
        case: &Case,
        operation: Operation,
        nth: u64,
        to_reach: u32,
        watch: &mut Watch,
    ) -> Result<Explored, Error> {
        let mut tried = Tried::default();
        let mut worst = self.attempt(case, operation, nth, watch)?;
        tried.add(worst.verdict);
        while !tried.is_enough(worst.verdict, to_reach) {
            let trial = self.attempt(case, operation, nth, watch)?;
            tried.add(trial.verdict);
            if trial.verdict > worst.verdict {
                worst = trial;
            }
        }
        Ok(self.judged(case, operation, nth, tried, worst))
    }

    fn attempt(
        &mut self,
        case: &Case,
        operation: Operation,
        nth: u64,
        watch: &mut Watch,
    ) -> Result<Trial, Error> {
        let (striking, conditions) = (self.plan.striking.clone(), self.plan.conditions.clone());
        let scene = self.scene(watch)?;
        let program = scene.program.clone();
        let place_of = |instruction: &Instruction| {
            let address = address_of(&program, instruction).ok_or(Error::OtherRun)?;
            Ok::<_, Error>(Where::Code(vec![address]))
        };
        let (place, then) = match case {
            Case::Instruction(place) => (place_of(place)?, None),
            Case::Pair(place, then) => (place_of(place)?, Some(place_of(then)?)),
            Case::Access(..) => (Where::AnyAccess, None),
        };
        let trial =
            scene.attempt(&Attempt { place, then, nth, conditions, operation, striking })?;
        if trial.spoils_the_target() {
            self.end_scene(watch);
        }
        Ok(trial)
    }

    fn judged(
        &self,
        case: &Case,
        operation: Operation,
        nth: u64,
        tried: Tried,
        trial: Trial,
    ) -> Explored {
        let Tried { struck, missed, bad } = tried;
        let verdict = tried.verdict(trial.verdict);
        let instruction = case.instruction();
        let place = match (instruction, &trial.access) {
            (Some(instruction), _) => instruction.to_string(),
            (None, Some(access)) => access.clone(),
            (None, None) => "any access".to_owned(),
        };
        let written = match case {
            Case::Instruction(_) => format!("'{place}'"),
            Case::Pair(_, then) => format!("'{place}' --then '{then}'"),
            Case::Access(..) => "'any access'".to_owned(),
        };
        let Plan { striking, flags, .. } = &self.plan;
        let command = command(&written, nth, operation, striking, flags);
        let row = PlaceRow {
            tries: struck + missed,
            struck,
            confirmed: match verdict {
                Verdict::NotReached => missed,
                _ if verdict.is_bad() => bad,
                _ => struck,
            },
            deferred: trial.deferred,
            handler: trial.handler.clone().unwrap_or_default(),
            evidence: if verdict.is_bad() { trial.evidence.clone() } else { String::new() },
            command,
            then: case.then(),
            ..PlaceRow::new(place, instruction, Some(operation), verdict)
        };
        Explored { row, trial: verdict.is_bad().then_some(trial), seconds: 0.0 }
    }
}
