//! Histories of a wild driver: whatever it does, nothing panics, nothing runs without a bound, and the
//! account adds up.

mod any;
mod world;

use proptest::prelude::*;
use warikomi_nic::RxCounters;
use warikomi_nic::strict::Findings;

use self::any::{step, step_or_burst};
pub(crate) use self::world::World;
use crate::cards::step::Step;
use crate::cards::{Subject, TestCard};
use crate::property::check;

/// The card as it is, and with transfers and a line that take their time, lives through any history.
pub fn a_wild_driver_breaks_nothing(card: &'static dyn TestCard, config: ProptestConfig) {
    let subjects = [Subject::of(card), Subject::slow(card)];
    check(config, &prop::collection::vec(step_or_burst(card), 1..150), |steps| {
        subjects.iter().try_for_each(|subject| live_through(subject, &steps))
    });
}

/// The card lives through these steps, from power-on, and its account adds up after each.
pub fn live_through(subject: &Subject, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut world = World::new(subject);
    for step in steps {
        world.apply(step);
        world.check()?;
    }
    // Frames that the wire delivered count as well, so there may be more on the ring.
    prop_assert!(world.last.on_ring >= world.on_ring);
    // What is still out is settled by a power cycle: nothing stays in the air.
    world.apply(&Step::PowerOn);
    world.check()?;
    let RxCounters { on_ring, accepted, abandoned } = world.last;
    prop_assert_eq!(on_ring, accepted + abandoned);
    Ok(())
}

/// A card that is strict does the same as one that is not, whatever the driver does, and its findings stay few.
pub fn a_strict_card_does_the_same(card: &'static dyn TestCard, config: ProptestConfig) {
    let subjects = [Subject::of(card), Subject::slow(card)];
    check(config, &prop::collection::vec(step(card), 1..100), |steps| {
        for subject in &subjects {
            let mut worlds =
                [subject.clone(), subject.clone().strict()].map(|one| World::new(&one));
            for step in &steps {
                worlds.iter_mut().for_each(|world| world.apply(step));
                let [plain, strict] = &mut worlds;
                plain.check()?;
                strict.check()?;
                prop_assert_eq!(plain.last, strict.last);
            }
            prop_assert!(worlds[0].seen() == worlds[1].seen(), "memory or interrupts differ");
            prop_assert!(worlds[1].findings().list().len() <= 256);
        }
        Ok(())
    });
}

/// What a strict card finds in these steps, from power-on.
pub fn found_in(subject: &Subject, steps: &[Step]) -> Findings {
    let mut world = World::new(&subject.clone().strict());
    steps.iter().for_each(|step| world.apply(step));
    world.findings()
}

/// Tests each card, a line for each: `card_histories!(rtl8168: warikomi_testbench::RTL8168);`
///
/// What has failed is kept in `tests/histories.regressions` of the crate that says so.
#[macro_export]
macro_rules! card_histories {
    ($($name:ident: $card:expr),+ $(,)?) => {
        mod a_wild_driver_breaks_nothing {
            use super::*;
            $(#[test]
            fn $name() {
                const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/histories.regressions");
                $crate::history::a_wild_driver_breaks_nothing($card, $crate::kept_in(KEPT));
            })+
        }

        mod a_strict_card_does_the_same {
            use super::*;
            $(#[test]
            fn $name() {
                const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/histories.regressions");
                $crate::history::a_strict_card_does_the_same($card, $crate::kept_in(KEPT));
            })+
        }
    };
}
