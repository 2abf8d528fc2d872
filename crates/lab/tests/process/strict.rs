//! What a strict card has against our own drivers: nothing, by any strategy.

use warikomi_clock::Span;
use warikomi_driver::strategy::Strategy;
use warikomi_nic::NicOptions;
use warikomi_session::ProcessSessionOptions;
use warikomi_testbench::cards::duo;

use crate::{injected, options, plan, program, started};

fn strict(model: &str, strategy: Strategy) -> ProcessSessionOptions {
    let options = options(strategy);
    ProcessSessionOptions {
        driver: model.into(),
        program: program(&format!("driver {model}")),
        nic: NicOptions { strict: true, ..NicOptions::of(model) },
        make_nic: if model == "duo" { duo::make } else { options.make_nic },
        ..options
    }
}

#[test]
fn our_drivers_are_in_order_by_every_strategy() {
    for model in ["rtl8168", "oc48", "duo"] {
        for strategy in [
            Strategy::Interrupt,
            Strategy::Poll,
            Strategy::Napi { budget: 64 },
            Strategy::Hybrid { poll_time: Span::from_us(100) },
            Strategy::Awake,
        ] {
            let mut session = started(&strict(model, strategy));
            for (interval, count) in [(100, 300), (0, 5_000)] {
                let plan = plan(600, Span::from_us(interval), count);
                let figures = injected(&mut session, &plan).result.figures;
                let found = figures.get("strict_findings");
                assert_eq!(figures["strict_steps"], 0, "{model} {strategy}: {found:?}");
            }
            session.stop().unwrap();
        }
    }
}
