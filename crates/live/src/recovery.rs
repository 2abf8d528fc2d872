//! One driver comes into the place of one that has died, or has to.

use warikomi_clock::Time;
use warikomi_process::{Baton, How, Wanted, Way};

use crate::phase::{Attempt, Cleanup, Driver, Phase, Restart};
use crate::supervisor::{Supervisor, Turn};
use crate::{Drivers, Kind};

impl Supervisor {
    pub(crate) fn cleaning_up(
        &mut self,
        cleanup: Cleanup,
        now: Time,
        target: &mut dyn Drivers,
    ) -> Turn {
        if !target.end_seat(cleanup.generation) {
            return (Phase::CleaningUp(cleanup), None);
        }
        let how = self.next_ownership(&cleanup, target.baton());
        let program = self.next_program();
        let candidate = cleanup.candidate.or_else(|| self.take_spare(&program));
        let restart = Restart { at: now, program, candidate, how, begun: cleanup.begun, gone: now };
        self.restart(restart, cleanup.why, cleanup.generation, target)
    }

    /// How the next driver comes by the baton.
    fn next_ownership(&self, cleanup: &Cleanup, baton: Baton) -> How {
        let handed_on = baton.generation != cleanup.generation && baton.owner == cleanup.generation;
        match self.policy.way {
            // It had left everything in order for somebody who has not accepted it.
            Way::DataStore | Way::SharedState if handed_on => baton.how,
            Way::SharedState if !cleanup.had_just_taken_over => How::Died,
            _ => How::Start,
        }
    }

    pub(crate) fn waiting(
        &mut self,
        restart: Restart,
        now: Time,
        target: &mut dyn Drivers,
    ) -> Turn {
        if now < restart.at {
            return (Phase::Waiting(restart), None);
        }
        let Restart { program, candidate, how, begun, gone, .. } = restart;
        let candidate = candidate.or_else(|| self.take_spare(&program));
        let prepared = match candidate {
            Some(driver) => {
                target.hasten(driver.generation, Wanted::AtOnce);
                Ok(driver)
            }
            None => target
                .prepare(&program, Wanted::AtOnce)
                .map(|generation| Driver { generation, program: program.clone() }),
        };
        match prepared {
            Ok(to) => {
                let until = now + self.policy.warm_within;
                let kind = Kind::Recovery;
                let attempt = Attempt::new(kind, to, how, begun);
                (
                    Phase::Warming(Attempt { creating: now, gone: Some(gone), until, ..attempt }),
                    None,
                )
            }
            Err(error) => {
                let next = Restart { at: now, program, candidate: None, how, begun, gone: now };
                self.restart(next, error.to_string(), self.current.generation, target)
            }
        }
    }
}
