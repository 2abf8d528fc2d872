//! The experiment transmit on a process that sends.

use warikomi_driver::transmit::{Bounce, Completion, Thresholds};
use warikomi_lab::Error;
use warikomi_lab::transmit::{Amount, Options, Traffic, real, simulated};
use warikomi_measure::TimeBase;
use warikomi_nic::NicOptions;
use warikomi_process::Program;
use warikomi_session::OwnParts;
use warikomi_sim::transmit::SendCosts;
use warikomi_stack::buffers::BufferKind;
use warikomi_target::{Interrupted, TargetError};

use crate::program;

fn driver(name: &str) -> Program {
    program(&format!("driver {name}"))
}

const PARTS: OwnParts = OwnParts { driver, above: program };

fn options(model: &str) -> Options {
    Options {
        traffic: vec![
            Traffic::Size(64),
            Traffic::Size(7_000),
            Traffic::Mixture("64x10,1472x5".parse().unwrap()),
        ],
        buffers: vec![BufferKind::Mbuf { cluster_bytes: 2_048 }, BufferKind::Contiguous],
        completions: vec![
            Completion::Interrupt,
            Completion::InterruptFree,
            Completion::Adaptive(Thresholds::default()),
        ],
        bounces: vec![Bounce::None, Bounce::All, Bounce::Auto],
        separate: true,
        amount: Amount::Messages(400),
        repeats: 2,
        nic: NicOptions::of(model),
        driver: model.to_owned(),
        ..Options::default()
    }
}

#[test]
fn every_row_is_measured_on_each_model_and_judged_by_the_wire() {
    for model in ["oc48", "rtl8168"] {
        let options = options(model);
        let mut seen = 0;
        let found = real::transmit(&options, PARTS, &Interrupted::default(), &mut |progress| {
            assert_eq!((progress.done, progress.all), (seen, 2 * 27));
            seen += 1;
        })
        .unwrap_or_else(|error| panic!("{model}: {error}"));
        assert_eq!((found.rows.len(), found.result.time_base), (27, TimeBase::Real));
        for row in &found.rows {
            // 7,000 bytes fill a megabyte before they fill a FIFO of 256, or a ring of 1,024.
            let may_lock = row.completion == "interrupt-free" && row.size_bytes == 7_000;
            assert!(row.dead_locked || row.bps.is_some_and(|bps| bps > 0.0), "{row:?}");
            assert!(!row.dead_locked || may_lock, "{row:?}");
            assert!(row.cpu_share.is_none_or(|share| (0.0..=1.0).contains(&share)), "{row:?}");
        }
        let repetitions = found.repetitions.iter().filter(|one| !one.dead_locked);
        assert!(repetitions.clone().all(|one| one.messages == 400), "{:?}", found.repetitions);
        assert_eq!(found.result.rows.as_ref().map(Vec::len), Some(27));
        assert!(found.result.figures["advice"].as_array().is_some_and(|all| all.len() == 2));
        assert!(found.result.figures["shares"].as_array().is_some_and(|all| all.len() == 3));
    }
}

#[test]
fn real_and_virtual_rows_stand_side_by_side() {
    let options = Options { traffic: vec![Traffic::Size(1_472)], ..options("oc48") };
    let interrupted = Interrupted::default();
    let mut found = real::transmit(&options, PARTS, &interrupted, &mut |_| ()).unwrap();
    let costs = SendCosts::default();
    let simulated = simulated::transmit(&options, &costs, &interrupted, &mut |_| ()).unwrap();
    simulated::beside(&mut found, &simulated);
    assert_eq!(found.rows.len(), simulated.rows.len());
    for (row, of) in found.rows.iter().zip(&simulated.rows) {
        assert_eq!((&row.completion, &row.bounce), (&of.completion, &of.bounce));
        assert_eq!(row.virtual_bps, of.bps);
        let expected = of.bps.unwrap() / row.bps.unwrap() - 1.0;
        assert!((row.virtual_difference_share.unwrap() - expected).abs() < 1e-12, "{row:?}");
    }
    assert!(found.result.figures.contains_key("costs"));
}

#[test]
fn whoever_stops_it_gets_the_targets_answer() {
    let interrupted = Interrupted::default();
    let mut runs = 0;
    let stopped = real::transmit(&options("oc48"), PARTS, &interrupted, &mut |_| {
        runs += 1;
        if runs == 3 {
            interrupted.set();
        }
    });
    assert!(matches!(stopped, Err(Error::Target(TargetError::Interrupted))));
    assert_eq!(runs, 3);
}
