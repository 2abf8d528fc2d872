use warikomi_clock::{Span, Time};

use super::checker::Checker;
use crate::{Disturbances, Event, Options, Order, Part, Parting, Topology, Way};

/// A device has one driver at a time, and a driver gives up only if the device is at fault: what its predecessor
/// has left is something to go on with. What was on the rings is forgotten only where nothing is left to go on with, and
/// once: the device is new, was stopped, or its driver has died.
pub struct Succession {
    may_fail: bool,
    /// Driver and application are one process: the device is reset when that dies.
    direct: bool,
    /// A driver that dies leaves something to go on with.
    shared_state: bool,
    driver: Option<u32>,
    /// How the driver left the device that is about to be told dead.
    dying: Option<Parting>,
    /// The next driver may begin anew, and forget what was on the rings.
    may_forget: bool,
    /// How many drivers may try to go on with what the last has left, each behind the death of the one before it.
    heirs: u8,
    /// The device may be reset from outside: what would go on with it is dead.
    may_reset: bool,
    /// It is being reset from outside, by which all is forgotten.
    reset: bool,
    /// How often a driver may stop its device because that was ordered.
    ordered_stops: usize,
    /// Parts are to die.
    may_die: bool,
    /// The end has come: the last driver stops the device.
    stopping: bool,
}

impl Succession {
    /// Of the drivers of a history with these options.
    pub fn new(options: &Options) -> Succession {
        let direct = options.topology == Topology::Direct;
        let Disturbances { faults, kills, orders, .. } = &options.disturbances;
        let stops = |(_, order): &&(Span, Order)| matches!(order, Order::Restart | Order::Replace);
        Succession {
            may_fail: !faults.is_empty(),
            may_die: !faults.is_empty() || !kills.is_empty(),
            ordered_stops: orders.iter().filter(stops).count(),
            direct,
            shared_state: !direct && options.way == Way::SharedState,
            driver: None,
            dying: None,
            may_forget: !direct,
            heirs: 0,
            may_reset: false,
            reset: false,
            stopping: false,
        }
    }

    fn took(&mut self, generation: u32) -> Result<(), String> {
        match self.driver.replace(generation) {
            Some(other) => {
                Err(format!("generation {generation} takes the device, which {other} has"))
            }
            None => Ok(()),
        }
    }

    fn left(&mut self, generation: u32, how: Parting) -> Result<(), String> {
        self.dying = Some(how).filter(|how| !matches!(how, Parting::GaveAway | Parting::Stopped));
        if how != Parting::Unaccepted {
            self.may_forget = false;
            // Its successor, and itself, if that dies before it has accepted.
            self.heirs = if how == Parting::GaveAway { 2 } else { 0 };
        }
        match self.driver.take() {
            Some(driver) if driver == generation => Ok(()),
            other => Err(format!("generation {generation} leaves the device of {other:?}")),
        }
    }

    /// A driver's process is dead; of the one that had the device, it was told before how it left it.
    fn driver_died(&mut self) {
        self.may_reset |= self.direct;
        match self.dying.take() {
            Some(Parting::Died) if self.shared_state => self.heirs = 1,
            Some(Parting::Died | Parting::Failed) => self.may_forget = !self.direct,
            _ if self.driver.is_none() && self.heirs > 0 => {
                self.heirs -= 1;
                self.may_forget |= self.heirs == 0;
            }
            _ => {}
        }
    }

    /// The driver has stopped its device, with which no other can go on.
    fn quiesced(&mut self) -> Result<(), String> {
        self.may_forget = !self.direct;
        if self.stopping {
            return Ok(());
        }
        let left = self.ordered_stops.checked_sub(1);
        self.ordered_stops = left.ok_or("the driver stopped its device, and was not told to")?;
        Ok(())
    }

    fn powered_on(&mut self) -> Result<(), String> {
        self.reset = true;
        match std::mem::take(&mut self.may_reset) {
            true => Ok(()),
            false => Err("the device is reset from outside, and nothing has died".to_owned()),
        }
    }

    fn forgotten(&mut self) -> Result<(), String> {
        if std::mem::take(&mut self.reset) {
            // The device is new, and with it whatever a driver begins with.
            (self.may_forget, self.heirs) = (!self.direct, 0);
            return Ok(());
        }
        match (self.driver, std::mem::take(&mut self.may_forget)) {
            (Some(_), true) => Ok(()),
            (Some(driver), false) => Err(format!(
                "generation {driver} begins anew, where there was something to go on with"
            )),
            (None, _) => Err("what is on the rings is forgotten, and no driver begins".to_owned()),
        }
    }
}

impl Checker for Succession {
    fn name(&self) -> &'static str {
        "succession"
    }

    fn check(&mut self, _: Time, event: &Event) -> Result<(), String> {
        match *event {
            Event::Took { generation } => return self.took(generation),
            Event::Left { generation, how } => return self.left(generation, how),
            Event::BufferPosted { token }
            | Event::FrameReceived { token, .. }
            | Event::BufferReturned { token }
                if self.driver.is_none() =>
            {
                return Err(format!("buffer {token} is a driver's, and none has the device"));
            }
            Event::Killed(part) if !self.may_die => {
                return Err(format!("{part:?} has died, and nothing was to die"));
            }
            Event::Killed(Part::Driver) => self.driver_died(),
            Event::Killed(Part::First) => self.may_reset = true,
            Event::Quiesced => return self.quiesced(),
            Event::PoweredOn => return self.powered_on(),
            Event::Forgotten => return self.forgotten(),
            Event::Stopping => self.stopping = true,
            Event::DriverFailed => {
                self.may_reset |= self.stopping;
                if !self.may_fail {
                    return Err(
                        "a driver gave up, and nothing was wrong with its device".to_owned()
                    );
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Trigger;
    use crate::tests::options;

    /// What the checker says of the last of these events, and that it says nothing of those before.
    fn judged(topology: Topology, way: Way, events: &[Event]) -> Result<(), String> {
        let disturbances = Disturbances {
            kills: vec![(Trigger::Event(1), Part::Driver)],
            orders: vec![(Span::ZERO, Order::Restart)],
            ..Disturbances::default()
        };
        let mut succession = Succession::new(&Options { topology, way, disturbances, ..options() });
        let (last, before) = events.split_last().unwrap();
        before.iter().for_each(|event| succession.check(Time::ZERO, event).unwrap());
        succession.check(Time::ZERO, last)
    }

    const BOTH: Topology = Topology::Application;
    const DEAD: Event = Event::Killed(Part::Driver);
    use Event::{Forgotten, PoweredOn, Quiesced};

    fn took(generation: u32) -> Event {
        Event::Took { generation }
    }

    fn left(generation: u32, how: Parting) -> Event {
        Event::Left { generation, how }
    }

    #[test]
    fn what_a_dead_driver_left_in_shared_state_is_not_forgotten() {
        let died = [took(1), Forgotten, left(1, Parting::Died), DEAD, took(2), Forgotten];
        let error = judged(BOTH, Way::SharedState, &died).unwrap_err();
        assert!(error.contains("generation 2 begins anew"), "{error}");
        for way in [Way::Reload, Way::DataStore] {
            assert_eq!(judged(BOTH, way, &died), Ok(()));
        }
        let failed = died.map(|event| match event {
            Event::Left { .. } => left(1, Parting::Failed),
            event => event,
        });
        assert_eq!(judged(BOTH, Way::SharedState, &failed), Ok(()));
    }

    #[test]
    fn a_driver_that_begins_anew_forgets_once() {
        assert!(judged(BOTH, Way::Reload, &[took(1), Forgotten, Forgotten]).is_err());
        let stopped = [took(1), Forgotten, left(1, Parting::Stopped), Quiesced, took(2), Forgotten];
        assert_eq!(judged(BOTH, Way::SharedState, &stopped), Ok(()));
        assert!(judged(BOTH, Way::SharedState, &[&stopped[..], &[Forgotten]].concat()).is_err());
    }

    #[test]
    fn nothing_is_forgotten_for_a_death_that_was_none_or_without_a_driver() {
        let not_dead = [took(1), Forgotten, left(1, Parting::Died), took(2), Forgotten];
        assert!(judged(BOTH, Way::Reload, &not_dead).is_err());
        assert!(judged(BOTH, Way::Reload, &[Forgotten]).is_err());
        let not_stopped = [took(1), Forgotten, left(1, Parting::Stopped), took(2), Forgotten];
        assert!(judged(BOTH, Way::Reload, &not_stopped).is_err());
    }

    #[test]
    fn what_was_given_away_is_gone_on_with_unless_giver_and_successor_die() {
        let given = [took(1), Forgotten, left(1, Parting::GaveAway), took(2)];
        let with = |more: &[Event]| {
            judged(
                BOTH,
                Way::DataStore,
                &[&given[..], &[left(2, Parting::Unaccepted)], more].concat(),
            )
        };
        assert!(judged(BOTH, Way::DataStore, &[&given[..], &[Forgotten]].concat()).is_err());
        assert!(with(&[DEAD, took(3), Forgotten]).is_err());
        assert_eq!(with(&[DEAD, DEAD, took(3), Forgotten]), Ok(()));
    }

    #[test]
    fn a_driver_stops_its_device_only_when_it_is_told_to() {
        let once =
            [took(1), left(1, Parting::Stopped), Quiesced, took(2), left(2, Parting::Stopped)];
        let error = judged(BOTH, Way::Reload, &[&once[..], &[Quiesced]].concat()).unwrap_err();
        assert!(error.contains("was not told to"), "{error}");
        let end = [&once[..3], &[took(2), Event::Stopping, Quiesced]].concat();
        assert_eq!(judged(BOTH, Way::Reload, &end), Ok(()));
    }

    #[test]
    fn nothing_dies_where_nothing_is_to_die() {
        let mut succession = Succession::new(&options());
        let error = succession.check(Time::ZERO, &DEAD).unwrap_err();
        assert_eq!(error, "Driver has died, and nothing was to die");
    }

    #[test]
    fn a_device_is_reset_from_outside_only_behind_a_death() {
        let error = judged(BOTH, Way::Reload, &[took(1), PoweredOn]).unwrap_err();
        assert!(error.contains("nothing has died"), "{error}");
        let reset = [Event::Killed(Part::First), PoweredOn, Forgotten, took(1), Forgotten];
        assert_eq!(judged(BOTH, Way::Reload, &reset), Ok(()));
        assert!(judged(BOTH, Way::Reload, &[&reset[..], &[Forgotten]].concat()).is_err());
        let direct = [took(1), left(1, Parting::Died), DEAD, PoweredOn, Forgotten, took(2)];
        assert_eq!(judged(Topology::Direct, Way::Reload, &direct), Ok(()));
        // Its drivers set up a device that is reset, and have nothing to forget.
        let forgets = [&direct[..], &[Forgotten]].concat();
        assert!(judged(Topology::Direct, Way::Reload, &forgets).is_err());
    }

    #[test]
    fn no_buffer_goes_to_a_driver_that_does_not_have_the_device() {
        let posted = Event::BufferPosted { token: 0 };
        assert!(judged(BOTH, Way::Reload, &[posted]).is_err());
        assert_eq!(judged(BOTH, Way::Reload, &[took(1), posted]), Ok(()));
        let gone = [took(1), left(1, Parting::GaveAway), posted];
        assert!(judged(BOTH, Way::SharedState, &gone).is_err());
    }
}
