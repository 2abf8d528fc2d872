//! A driver in C, by `include/warikomi_live.h`, and ours replace each other under traffic in both directions.

use std::path::Path;

use warikomi_driver::strategy::Strategy;
use warikomi_lab::Watch;
use warikomi_lab::replace::{Load, Options, Plan, Soak, Spare, replace};
use warikomi_process::{Program, Way};
use warikomi_session::ProcessSessionOptions;
use warikomi_stack::Topology;

use crate::c_driver::{compile, root};
use crate::{along, program};

/// So slow that a machine on which much else runs loses nothing for want of descriptors.
const INTERVAL_NS: f64 = 200_000.0;
const REPLACEMENTS: u64 = 12;

fn example(directory: &Path) -> Program {
    let path = compile(&root().join("examples/c/rtl8168_live.c"), directory);
    Program { path, ..Program::default() }
}

/// Replaces `first` by `second`, that by `first` again, and so on, and insists that nothing is lost.
fn lossless(first: &Program, second: &Program, kill: bool, strategy: Strategy) {
    let session =
        ProcessSessionOptions { program: first.clone(), ..along(Topology::Stack, strategy) };
    let plan = Plan {
        ways: vec![Way::SharedState],
        loads: vec![Load::Heavy],
        // What is kept ready is another process of the driver that runs.
        spares: vec![if kill { Spare::Kept } else { Spare::None }],
        kill,
        soak: Some(Soak { count: REPLACEMENTS, every_ms: 50.0 }),
        interval_ns: INTERVAL_NS,
        ..Plan::default()
    };
    let options = Options { plan, session, to: second.clone() };
    let found = replace(&options, &mut Watch::unobserved());
    let found = found.unwrap_or_else(|error| panic!("{error}"));
    let [row] = &found.rows[..] else { panic!("{:?}", found.rows) };
    // On a busy machine one may be called off and asked for again.
    assert_eq!((row.replacements, row.resets), (REPLACEMENTS, 0), "{row:?}");
    let lost = (row.lost, row.duplicated, row.reordered, row.connections_lost);
    assert_eq!(lost, (0, 0, 0, 0), "{row:?}");
    assert!(row.received > 0 && row.sent > 0, "{row:?}");
}

#[test]
fn a_driver_in_c_and_ours_hand_over_to_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, theirs) = (program("driver"), example(directory.path()));
    lossless(&ours, &theirs, false, Strategy::Napi { budget: 64 });
    lossless(&theirs, &ours, false, Strategy::Interrupt);
}

#[test]
fn a_driver_in_c_and_ours_go_on_where_the_other_was_killed() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, theirs) = (program("driver"), example(directory.path()));
    lossless(&ours, &theirs, true, Strategy::Napi { budget: 64 });
    lossless(&theirs, &theirs, true, Strategy::Poll);
}

#[test]
fn drivers_of_two_versions_hand_over_to_each_other() {
    let older = program("driver of version 1");
    lossless(&older, &program("driver"), false, Strategy::Napi { budget: 64 });
}
