//! Replacements that were asked for.

use warikomi_live::{Kind, Refused, Service, Way};

use crate::programs::{as_good, good};
use crate::rig::{BUFFERS, Rig, policy};

const ROUNDS: u64 = 12;

fn replace_again_and_again(way: Way) -> Rig {
    let mut rig = Rig::new(policy(way));
    for round in 0..ROUNDS {
        rig.must_flow();
        // Every third time nothing is ready for it.
        if round % 3 != 0 {
            rig.wait_until_ready();
        }
        let to = rig.replace(&if round % 2 == 0 { as_good() } else { good() });
        assert_eq!(rig.supervisor.replace(&good(), &mut rig.target).unwrap(), Err(Refused::Busy));
        let replaced = rig.next_replacement();
        assert_eq!((replaced.kind, replaced.to), (Kind::Planned, to), "{replaced:?}");
        assert_eq!(replaced.reset, way == Way::Reload);
        assert!(replaced.begun <= replaced.handed_over && replaced.handed_over <= replaced.awake);
        assert!(replaced.awake <= replaced.accepted && replaced.accepted <= replaced.served);
    }
    rig.must_flow();
    let status = rig.status();
    assert_eq!((status.planned, status.recovered, status.rolled_back), (ROUNDS, 0, 0));
    assert_eq!(status.fenced_accesses, 0);
    rig
}

#[test]
fn with_shared_state_no_frame_is_lost() {
    replace_again_and_again(Way::SharedState).finish().must_be_complete();
}

#[test]
fn through_the_data_store_no_frame_is_lost() {
    replace_again_and_again(Way::DataStore).finish().must_be_complete();
}

#[test]
fn by_reloading_only_what_was_on_the_ring_is_lost() {
    let outcome = replace_again_and_again(Way::Reload).finish();
    outcome.must_be_in_order();
    let lost = outcome.accepted - outcome.received.delivered;
    assert!(lost <= ROUNDS * u64::from(BUFFERS), "{outcome:?}");
}

#[test]
fn a_program_that_was_replaced_can_be_gone_back_to() {
    let mut rig = Rig::new(policy(Way::SharedState));
    let back = rig.supervisor.roll_back(&mut rig.target).unwrap();
    assert_eq!(back, Err(Refused::NothingBefore));
    rig.replace(&as_good());
    rig.next_replacement();
    assert_eq!(rig.status().before, Some(good()));
    rig.supervisor.roll_back(&mut rig.target).unwrap().unwrap();
    rig.next_replacement();
    let status = rig.status();
    assert_eq!((status.program, status.before), (good(), Some(as_good())));
    assert_eq!(status.service, Service::Running);
    rig.finish().must_be_complete();
}
