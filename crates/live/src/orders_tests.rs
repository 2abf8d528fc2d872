//! Orders of events that a supervisor must stand, and that real processes come to too seldom to be waited for.

use std::collections::BTreeMap;
use std::path::PathBuf;

use warikomi_clock::{Span, Time};
use warikomi_pci::attach::layout::{state, times};
use warikomi_process::{Baton, How, Program, Seat, Wanted, Way};
use warikomi_target::TargetError;

use crate::watch::tests::SEAT;
use crate::{Drivers, Event, Policy, Refused, Supervisor};

const OLD: u32 = 1;
const NEW: u32 = 2;

/// Drivers that do what a test says.
struct Scripted {
    now: Time,
    seats: BTreeMap<u32, Seat>,
    baton: Baton,
    /// What the owner turns out to be when this seat is taken away.
    owner_at_the_end_of: Option<u32>,
    told_to_stop: Vec<u32>,
    given: Vec<(u32, How)>,
}

fn seat(generation: u32, state: u64) -> Seat {
    Seat { generation, state, ..SEAT }
}

impl Scripted {
    fn end(&mut self, generation: u32) {
        self.seats.get_mut(&generation).unwrap().ended = Some("killed".into());
    }
}

impl Drivers for Scripted {
    fn now(&mut self) -> Time {
        self.now
    }
    fn prepare(&mut self, _: &Program, _: Wanted) -> Result<u32, TargetError> {
        let generation = self.next_generation();
        self.seats.insert(generation, seat(generation, state::WARM));
        Ok(generation)
    }
    fn hasten(&mut self, _: u32, _: Wanted) {}
    fn seat(&mut self, generation: u32) -> Option<Seat> {
        self.seats.get(&generation).cloned()
    }
    fn next_generation(&mut self) -> u32 {
        self.seats.keys().max().unwrap() + 1
    }
    fn served(&mut self) -> u32 {
        OLD
    }
    fn alert(&mut self, generation: u32, _: u32) {
        if let Some(seat) = self.seats.get_mut(&generation).filter(|seat| seat.is_warm()) {
            seat.state = state::ALERT;
        }
    }
    fn order_hand_over(&mut self, _: u32) {}
    fn order_stop(&mut self, generation: u32) {
        self.told_to_stop.push(generation);
    }
    fn baton(&mut self) -> Baton {
        self.baton
    }
    fn give_baton(&mut self, to: u32, how: How) {
        self.baton = Baton { generation: to, how, ..self.baton };
        self.given.push((to, how));
    }
    fn serve_seat(&mut self, _: u32) {}
    fn end_seat(&mut self, generation: u32) -> bool {
        if self.owner_at_the_end_of == Some(generation) {
            self.baton.owner = generation;
        }
        self.end(generation);
        true
    }
    fn fenced_accesses(&mut self) -> u64 {
        0
    }
    fn process_id(&mut self) -> u32 {
        0
    }
    fn work_waits(&mut self) -> bool {
        false
    }
}

fn program(name: &str) -> Program {
    Program { path: PathBuf::from(name), arguments: vec![], environment: vec![] }
}

/// The old driver serves, and has been ordered to hand over to the new one.
fn handing_over() -> (Supervisor, Scripted) {
    let mut drivers = Scripted {
        now: Time::ZERO + Span::from_ms(1_000),
        seats: BTreeMap::from([(OLD, seat(OLD, state::READY))]),
        baton: Baton { generation: OLD, how: How::Start, owner: OLD },
        owner_at_the_end_of: None,
        told_to_stop: Vec::new(),
        given: Vec::new(),
    };
    let policy = Policy { spare: false, ..Policy::of(Way::SharedState) };
    let mut supervisor = Supervisor::new(policy, program("old"), &mut drivers);
    let to = supervisor.replace(&program("new"), &mut drivers).unwrap();
    assert_eq!(to, Ok(NEW));
    // Warm, alert, awake.
    steps(&mut supervisor, &mut drivers, 4);
    (supervisor, drivers)
}

/// Looks so often, a tenth of a millisecond apart; what was told.
fn steps(supervisor: &mut Supervisor, drivers: &mut Scripted, count: usize) -> Vec<Event> {
    let step = |_| {
        drivers.now += Span::from_us(100);
        supervisor.step(drivers).unwrap()
    };
    (0..count).filter_map(step).collect()
}

/// The old driver hands over and dies in the moment in which the order is taken back, so that both are seen at once.
fn died_behind_its_hand_over() -> (Supervisor, Scripted) {
    let (mut supervisor, mut drivers) = handing_over();
    // The order is taken back after this.
    drivers.now += Span::from_ms(100);
    steps(&mut supervisor, &mut drivers, 1);
    drivers.baton = Baton { generation: NEW, how: How::HandedOver, owner: OLD };
    drivers.end(OLD);
    let told = steps(&mut supervisor, &mut drivers, 2);
    let [Event::Failed { generation: OLD, next_after: Span::ZERO, .. }] = told[..] else {
        panic!("{told:?}")
    };
    (supervisor, drivers)
}

#[test]
fn an_old_driver_ends_also_if_the_new_one_fails_in_the_moment_in_which_it_accepts() {
    let (mut supervisor, mut drivers) = handing_over();
    drivers.baton = Baton { generation: NEW, how: How::HandedOver, owner: OLD };
    steps(&mut supervisor, &mut drivers, 1);
    // It is seen to have failed, and that it had accepted is seen when it is gone.
    drivers.seats.get_mut(&NEW).unwrap().state = state::FAILED;
    drivers.owner_at_the_end_of = Some(NEW);
    steps(&mut supervisor, &mut drivers, 3);
    assert_eq!(drivers.told_to_stop, [OLD]);
    steps(&mut supervisor, &mut drivers, 3);
    assert_eq!(drivers.given, [(NEW + 1, How::Died)], "another goes on");
}

#[test]
fn a_driver_that_has_been_given_the_device_is_not_replaced_before_it_has_begun() {
    let (mut supervisor, mut drivers) = died_behind_its_hand_over();
    let asked = supervisor.replace(&program("another"), &mut drivers).unwrap();
    assert_eq!(asked, Err(Refused::Busy));
    assert!(drivers.told_to_stop.is_empty());
    drivers.baton.owner = NEW;
    drivers.seats.get_mut(&NEW).unwrap().times[times::SERVED] = drivers.now;
    let told = steps(&mut supervisor, &mut drivers, 5);
    assert!(matches!(&told[..], [Event::Replaced(replaced)] if replaced.to == NEW), "{told:?}");
}

/// What was left for it is no longer as it was: it has stored since.
#[test]
fn a_driver_that_ends_right_behind_its_accepting_has_died_with_the_device() {
    let (mut supervisor, mut drivers) = died_behind_its_hand_over();
    drivers.baton.owner = NEW;
    drivers.end(NEW);
    steps(&mut supervisor, &mut drivers, 5);
    // The second failure in a row: the next driver comes after a while.
    drivers.now += Span::from_ms(1_000);
    steps(&mut supervisor, &mut drivers, 3);
    assert_eq!(drivers.given, [(NEW + 1, How::Died)]);
}
