//! Our driver of the RTL8139: a ring of bytes, four slots, and interrupts by the pin.

use warikomi_clock::Span;
use warikomi_driver::strategy::Strategy;
use warikomi_lab::Watch;
use warikomi_lab::replace::{Load, Options, Plan, Spare, replace};
use warikomi_nic::NicOptions;
use warikomi_process::Way;
use warikomi_session::ProcessSessionOptions;
use warikomi_stack::Topology;

use crate::{along, perfect, plan, program, started};

fn options(topology: Topology, strategy: Strategy) -> ProcessSessionOptions {
    ProcessSessionOptions {
        driver: "rtl8139".into(),
        program: program("driver rtl8139"),
        nic: NicOptions { line_rate_bps: Some(100_000_000), ..NicOptions::of("rtl8139") },
        ..along(topology, strategy)
    }
}

#[test]
fn every_packet_arrives_by_polling_and_by_the_pin() {
    let mut repeated = Vec::new();
    for strategy in [Strategy::Poll, Strategy::Interrupt, Strategy::Napi { budget: 64 }] {
        let mut session = started(&options(Topology::DriverAlone, strategy));
        for size in [60, 300, 1_514] {
            let plan = plan(size, Span::from_us(200), 1_000);
            // Its ring holds 20 of the longest frames: a short pause is enough to lose one.
            let Some(run) = perfect(&mut session, &plan, &mut repeated) else { return };
            let totals = run.ledger.totals();
            let seen = (totals.accepted, totals.unaccounted, totals.lost);
            assert_eq!(seen, (1_000, 0, 0), "{strategy:?}: {size} bytes, {totals:?}");
        }
        session.stop().unwrap();
    }
}

#[test]
fn the_driver_is_replaced_under_a_service() {
    for load in [Load::Idle, Load::Busy] {
        let strategy = Strategy::Napi { budget: 64 };
        let session = options(Topology::Stack, strategy);
        let plan = Plan {
            ways: vec![Way::Reload],
            loads: vec![load],
            spares: vec![Spare::None],
            trials: 2,
            interval_ns: 1_000_000.0,
            trial_ms: 200,
            ..Plan::default()
        };
        let asked = Options { plan, session, to: program("driver rtl8139") };
        let found = replace(&asked, &mut Watch::unobserved());
        let found = found.unwrap_or_else(|error| panic!("{error}"));
        let row = &found.rows[0];
        assert_eq!((row.replacements, row.resets, row.called_off), (2, 2, 0), "{row:?}");
    }
}
