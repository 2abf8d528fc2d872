//! A driver is replaced under a workload, and nothing is lost.

use warikomi_lab::Watch;
use warikomi_lab::replace::{Load, Options, Plan, Replaced, Row, Soak, replace};
use warikomi_process::Way;
use warikomi_stack::Topology;

use crate::{along, program};

/// So slow that a machine on which much else runs loses nothing for want of descriptors.
const INTERVAL_NS: f64 = 200_000.0;

fn options(plan: Plan) -> Options {
    let session = along(Topology::Stack, warikomi_driver::strategy::Strategy::Napi { budget: 64 });
    Options { plan, session, to: program("driver") }
}

fn plan(way: Way, load: Load) -> Plan {
    let (ways, loads) = (vec![way], vec![load]);
    Plan { ways, loads, trials: 2, interval_ns: INTERVAL_NS, trial_ms: 200, ..Plan::default() }
}

fn replaced(plan: Plan) -> (Replaced, Row) {
    let found = replace(&options(plan), &mut Watch::unobserved());
    let found = found.unwrap_or_else(|error| panic!("{error}"));
    let [row] = &found.rows[..] else { panic!("{:?}", found.rows) };
    let row = row.clone();
    (found, row)
}

#[test]
fn each_way_replaces_an_idle_driver() {
    for way in Way::ALL {
        let (found, row) = replaced(plan(way, Load::Idle));
        assert_eq!((row.way.as_str(), row.replacements, row.called_off), (way.name(), 2, 0));
        assert_eq!(row.resets, if way == Way::Reload { 2 } else { 0 }, "{row:?}");
        assert_eq!(found.lines.len(), 2);
        assert!(found.timeline.iter().any(|moment| moment.what == "served"), "{way}");
    }
}

#[test]
fn a_connection_does_not_notice_that_the_driver_is_another() {
    let (found, row) = replaced(plan(Way::SharedState, Load::Busy));
    assert_eq!(row.broken(), None);
    assert!(found.broken.is_empty() && row.sent >= 2_000, "{row:?}");
    assert!(row.send_us.is_some() && row.send_with_us.is_some(), "{row:?}");
}

#[test]
fn nothing_is_lost_in_either_direction_when_drivers_are_killed() {
    let soak = Some(Soak { count: 20, every_ms: 50.0 });
    let killing = Plan { kill: true, soak, ..plan(Way::SharedState, Load::Heavy) };
    let (found, row) = replaced(killing);
    assert_eq!((row.replacements, row.resets), (20, 0), "{row:?}");
    let lost = (row.lost, row.duplicated, row.reordered, row.connections_lost);
    assert_eq!(lost, (0, 0, 0, 0), "{row:?}");
    assert!(row.received > 0 && row.sent > 0 && row.bridged_us.is_some(), "{row:?}");
    assert_eq!(found.result.figures["growth"].as_array().unwrap().len(), 1);
}
