//! Whatever a driver does, nothing panics, nothing runs without a bound, and the account adds up.
//!
//! A failure is shrunk, printed and kept in `tests/properties.regressions`; every later run starts
//! with what is kept there, so `cargo test -p warikomi-nic --test properties` repeats it. `PROPTEST_CASES` sets the number
//! of histories.

#![allow(missing_docs)]

mod oc48;
mod rtl8168;
mod steps;
mod world;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use warikomi_nic::{MODELS, NicOptions, RxCounters};

use self::steps::{Step, step};
use self::world::World;

/// Every model as it is, and with transfers and a line that take their time.
fn subjects() -> Vec<NicOptions> {
    let slow = |model: &str| NicOptions {
        bus: "pci-64-66,mapping=200ns".parse().ok(),
        line_rate_bps: Some(100_000_000),
        mtu: Some(9_000),
        ..NicOptions::of(model)
    };
    MODELS.iter().flat_map(|info| [NicOptions::of(info.name), slow(info.name)]).collect()
}

fn config() -> ProptestConfig {
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/properties.regressions");
    ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(kept))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_wild_driver_breaks_nothing(steps in prop::collection::vec(step(), 1..150)) {
        for options in subjects() {
            let mut world = World::new(&options);
            for step in &steps {
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
        }
    }
}
