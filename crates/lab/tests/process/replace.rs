//! A driver is replaced under a workload, and nothing is lost.

use warikomi_lab::Watch;
use warikomi_lab::replace::{Load, Options, Plan, Replaced, Row, Soak, Spare, replace};
use warikomi_process::{StateIo, Way};
use warikomi_stack::Topology;
use warikomi_testbench::skipped;

use crate::{along, program};

/// So slow that a machine on which much else runs loses nothing for want of descriptors.
const INTERVAL_NS: f64 = 200_000.0;

fn options(plan: Plan) -> Options {
    let session = along(Topology::Stack, warikomi_driver::strategy::Strategy::Napi { budget: 64 });
    Options { plan, session, to: program("driver") }
}

fn plan(way: Way, load: Load) -> Plan {
    let spares = vec![if way == Way::Reload { Spare::None } else { Spare::Kept }];
    Plan {
        ways: vec![way],
        loads: vec![load],
        spares,
        trials: 2,
        interval_ns: INTERVAL_NS,
        trial_ms: 200,
        ..Plan::default()
    }
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
fn the_time_to_replace_has_the_creation_of_a_process_that_was_not_kept_ready() {
    for way in [Way::DataStore, Way::SharedState] {
        let spares = vec![Spare::None];
        let (found, row) = replaced(Plan { spares, ..plan(way, Load::Idle) });
        let [replace, create, switch] =
            [row.replace_us, row.create_us, row.swap_us].map(Option::unwrap);
        // Even an idle processor starts no process in 100 us.
        assert!(create.min > 100.0 && switch.min > 0.0, "{row:?}");
        assert!(replace.min >= create.min + switch.min, "{row:?}");
        let steps = [row.create_us, row.write_state_us, row.start_us, row.read_state_us];
        let named: f64 = steps.map(|step| step.unwrap().mean).iter().sum();
        assert!(named <= replace.mean, "{row:?}");
        for line in &found.lines {
            let order = [0.0, line.warm_us, line.order_us, line.handed_over_us, line.awake_us];
            assert!(order.is_sorted() && line.accepted_us <= line.served_us, "{line:?}");
            assert!(line.replace_us.unwrap() > line.warm_us, "{line:?}");
        }
    }
}

#[test]
fn a_supervisor_on_the_core_of_its_drivers_replaces_them_as_well() {
    let priorities = ["requester=1", "drivers=2", "stack=3", "application=4", "store=5"];
    let priorities = priorities.map(|claim| claim.parse().unwrap()).to_vec();
    let spares = vec![Spare::None];
    let asked = Plan { one_core: true, priorities, spares, ..plan(Way::DataStore, Load::Busy) };
    let found = replace(&options(asked), &mut Watch::unobserved());
    // A machine with one core has none for the card alone.
    if std::thread::available_parallelism().unwrap().get() == 1 {
        assert!(found.is_err_and(|error| error.to_string().contains("a core for the card")));
        return skipped("needs two cores");
    }
    let found = found.unwrap_or_else(|error| panic!("{error}"));
    let row = &found.rows[0];
    assert_eq!((row.replacements, row.broken()), (2, None), "{row:?}");
    assert!(row.dispatches.unwrap() >= 1.0, "{row:?}");
    let usual = row.usual_interval_us.unwrap();
    // A send computes for 1 ms in between.
    assert!(usual > 900.0 && row.longest_interval_us.unwrap() > 900.0, "{row:?}");
    assert!(row.excess_us.is_some(), "{row:?}");
}

/// While a read is waited for the application gets the processor, and keeps it: neither does it give it away while it
/// computes, nor does a look of the supervisor's take it.
#[test]
fn each_read_that_a_creation_waits_for_dispatches_the_application_about_once() {
    if std::thread::available_parallelism().unwrap().get() == 1 {
        return skipped("needs two cores");
    }
    const READS: u32 = 10;
    let asked = Plan {
        one_core: true,
        creation_io: READS,
        spares: vec![Spare::None],
        ..plan(Way::SharedState, Load::Busy)
    };
    let found = replace(&options(asked), &mut Watch::unobserved());
    let row = &found.unwrap_or_else(|error| panic!("{error}")).rows[0];
    assert_eq!((row.replacements, row.broken()), (2, None), "{row:?}");
    let (all, in_reads) = (row.dispatches.unwrap(), row.read_dispatches.unwrap());
    // A send that falls into a read wakes driver and stack, and each comes before the application then.
    assert!(in_reads <= all && in_reads <= 3.0 * f64::from(READS), "{row:?}");
    assert!(in_reads >= 0.5 * f64::from(READS), "{row:?}");
}

#[test]
fn state_goes_through_a_store_that_others_keep_busy() {
    for state_io in [StateIo::InTurn, StateIo::First] {
        let asked = Plan { store_load: 4, state_io, ..plan(Way::DataStore, Load::Idle) };
        let (_, row) = replaced(asked);
        assert_eq!((row.replacements, row.resets, row.called_off), (2, 0, 0), "{row:?}");
        // Each of them asks once a millisecond, and a trial has 200.
        let usual = row.store_request_us.unwrap();
        assert!(0.0 < usual.min && usual.min <= usual.mean && usual.mean <= usual.max, "{row:?}");
    }
}

#[test]
fn a_connection_does_not_notice_that_the_driver_is_another() {
    let (found, row) = replaced(plan(Way::SharedState, Load::Busy));
    assert_eq!(row.broken(), None);
    // A segment may have what is left of one send and the beginning of the next.
    let segments = (2_000_u64 * 1_024).div_ceil(1_460);
    assert!(found.broken.is_empty() && row.sent >= segments, "{row:?}");
    assert!(row.send_us.is_some() && row.send_with_us.is_some(), "{row:?}");
}

#[test]
fn drivers_that_are_killed_faster_than_others_can_be_had_do_not_count_as_such_that_cannot_run() {
    let soak = Some(Soak { count: 40, every_ms: 1.0 });
    let spares = vec![Spare::None];
    let killing = Plan { kill: true, soak, spares, ..plan(Way::SharedState, Load::Idle) };
    let (_, row) = replaced(killing);
    assert_eq!((row.replacements, row.resets), (40, 0), "{row:?}");
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
