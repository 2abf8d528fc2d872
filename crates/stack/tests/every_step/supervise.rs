//! What the support side does about a driver that is to be replaced, or that has died.

use std::collections::VecDeque;
use std::rc::Rc;

use warikomi_driver::run::RunError;
use warikomi_driver::state::{Baton, How, Turn};
use warikomi_shared::SharedWords;

use crate::process::{Process, is_unreadable};
use crate::world::{Scenario, World};

/// What a run has been through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Drivers killed.
    pub(crate) killed: usize,
    /// Resets of the card after a death.
    pub(crate) resets: u64,
    /// Frames that were lost in these.
    pub(crate) lost: u64,
    /// Hand-overs taken back because the new driver died before it had accepted.
    pub(crate) rolled_back: u64,
    /// Frames received, and sent.
    pub(crate) frames: (usize, usize),
}

struct Run {
    world: Rc<World>,
    scenario: Scenario,
    baton: Baton<SharedWords>,
    /// The stores that each generation has, in order; those after them live on.
    kills: VecDeque<u64>,
    generations: u32,
    summary: Summary,
}

/// Looks at the rings after which everything must have come to rest.
const PATIENCE: u64 = 3_000;
/// Turns of everybody else between two looks.
const BETWEEN: u64 = 10;
/// Turns of everybody else until a death is noticed and the next driver runs.
const UNNOTICED: u64 = 12;

/// Runs a scenario in which the drivers are killed at these stores, and judges it.
pub(crate) fn run(scenario: &Scenario, kills: &[u64]) -> Summary {
    let world = World::new(scenario);
    let baton = Baton::new(world.area.clone());
    let mut run = Run {
        world,
        scenario: scenario.clone(),
        baton,
        kills: kills.iter().copied().collect(),
        generations: 0,
        summary: Summary::default(),
    };
    let first = run.spawn();
    let driver = run.give(first, How::Start);
    let driver = run.serve(driver);
    run.judge(driver)
}

impl Run {
    fn spawn(&mut self) -> Process {
        self.generations += 1;
        let stores = self.kills.pop_front().unwrap_or(u64::MAX);
        Process::new(&self.world, self.generations, stores, self.scenario.descriptors)
    }

    /// All looks of the scenario, and then as many as it takes until nothing is under way.
    fn serve(&mut self, mut driver: Process) -> Process {
        for pass in 0..self.scenario.passes {
            let hand_over = self.scenario.hand_over_before.contains(&pass);
            driver = if hand_over { self.replace(driver) } else { driver };
            driver = self.pass(driver);
        }
        self.world.calm();
        for _ in 0..PATIENCE {
            if self.world.is_at_rest() {
                return driver;
            }
            driver = self.pass(driver);
        }
        panic!("something is never sent, or never comes");
    }

    fn pass(&mut self, mut driver: Process) -> Process {
        (0..BETWEEN).for_each(|_| self.world.turn());
        let passed = driver.pass();
        self.survived(driver, passed)
    }

    /// Whoever drives the device after a driver has done something.
    fn survived(&mut self, driver: Process, outcome: Result<(), RunError>) -> Process {
        if driver.life.is_over() {
            return self.recover(driver);
        }
        outcome.expect("a driver that lives does not fail");
        driver
    }

    /// The driver is dead: another one goes on.
    fn recover(&mut self, dead: Process) -> Process {
        self.summary.killed += 1;
        drop(dead);
        self.wait();
        let next = self.spawn();
        self.give(next, How::Died)
    }

    fn wait(&self) {
        (0..UNNOTICED).for_each(|_| self.world.turn());
    }

    /// Gives the device to a driver, by the support side's hand.
    fn give(&mut self, driver: Process, how: How) -> Process {
        self.baton.give(Turn { generation: driver.generation, how });
        self.begin(driver)
    }

    /// A driver takes the device as the baton says. Whoever has it in the end.
    fn begin(&mut self, mut driver: Process) -> Process {
        let turn = self.baton.turn().expect("the baton says who");
        assert_eq!(turn.generation, driver.generation);
        match driver.begin() {
            _ if driver.life.is_over() => self.recover(driver),
            Ok(forgotten) if turn.how == How::Start => {
                assert_eq!(forgotten.frames, 0, "none was taken before the card was set up");
                self.world.hear();
                driver
            }
            Ok(_) => driver,
            Err(error) => {
                assert!(is_unreadable(&error) && turn.how == How::Died, "{error}");
                let next = self.spawn();
                self.reset(next)
            }
        }
    }

    /// Nobody can go on: the card is set up again.
    fn reset(&mut self, driver: Process) -> Process {
        self.summary.resets += 1;
        self.summary.lost += self.world.lose();
        self.give(driver, How::Start)
    }

    /// A planned replacement.
    fn replace(&mut self, mut old: Process) -> Process {
        let new = self.spawn();
        let handed = old.hand_over(new.generation);
        let turn = self.baton.turn().expect("the baton says who");
        if turn.generation == old.generation {
            assert!(old.life.is_over(), "{handed:?}");
            self.summary.killed += 1;
            self.wait();
            return self.give(new, How::Died);
        }
        self.accept(old, new)
    }

    /// The new driver has the baton; the old one waits until it has accepted.
    fn accept(&mut self, old: Process, mut new: Process) -> Process {
        let turn = self.baton.turn().expect("the baton says who");
        assert_eq!((turn.generation, turn.how), (new.generation, How::HandedOver));
        let begun = new.begin();
        if !new.life.is_over() {
            begun.expect("what was handed over can be gone on with");
            return new;
        }
        if self.baton.owner() == new.generation || old.life.is_over() {
            self.summary.killed += usize::from(old.life.is_over());
            return self.recover(new);
        }
        self.summary.killed += 1;
        self.summary.rolled_back += 1;
        self.wait();
        self.baton.give(Turn { generation: old.generation, how: How::HandedOver });
        old
    }

    /// Everything has come, everything has gone, and every buffer comes back.
    fn judge(mut self, mut driver: Process) -> Summary {
        self.world.judge_wire();
        driver.life.spare();
        driver.order_to_stop();
        self.world.expect_the_end();
        driver.stop();
        let mut user = self.world.user.borrow_mut();
        user.end();
        self.world.judge_account(self.summary.lost);
        self.summary.frames = (user.expected.iter().flatten().count(), user.sent.len());
        self.summary
    }
}
