//! The experiment transmit on a process that sends.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

use warikomi_driver::transmit::{Bounce, Completion, Thresholds};
use warikomi_lab::transmit::{Amount, Options, Traffic, real, simulated};
use warikomi_lab::{Error, NewRun, Progress, Watch};
use warikomi_measure::TimeBase;
use warikomi_nic::NicOptions;
use warikomi_process::Program;
use warikomi_session::OwnParts;
use warikomi_sim::transmit::SendCosts;
use warikomi_stack::buffers::BufferKind;
use warikomi_stack::send::Transport;
use warikomi_target::{Interrupted, TargetError};

use crate::program;

fn driver(name: &str) -> Program {
    program(&format!("driver {name}"))
}

const PARTS: OwnParts = OwnParts { driver, above: program };

/// Of a run that is kept here; `show` is told of each run of the sender.
fn watch(
    runs: &Path,
    interrupted: Interrupted,
    mut show: impl FnMut(Progress<'_>) + 'static,
) -> Watch {
    let (runs, name) = (runs.to_owned(), "transmit".to_owned());
    let run = NewRun { runs, name, now_s: 0, plan: String::new() };
    let show = move |progress: Progress<'_>| {
        // What is waited for before the first run is none.
        if progress.all > 0 {
            show(progress);
        }
    };
    let mut watch = Watch::of_new_run(interrupted, Box::new(show), run);
    watch.parts = PARTS;
    watch
}

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
        let (runs, mut seen) = (tempfile::tempdir().unwrap(), 0);
        let mut watch = watch(runs.path(), Interrupted::default(), move |progress| {
            assert_eq!((progress.done, progress.all), (seen, 2 * 30));
            seen += 1;
        });
        let found =
            real::transmit(&options, &mut watch).unwrap_or_else(|error| panic!("{model}: {error}"));
        assert_eq!((found.rows.len(), found.result.time_base), (30, TimeBase::Real));
        for row in &found.rows {
            // 7,000 bytes fill a megabyte before they fill a FIFO of 256, or a ring of 1,024.
            let may_lock = row.completion == "interrupt-free" && row.size_bytes == 7_000;
            assert!(row.dead_locked || row.bps.is_some_and(|bps| bps > 0.0), "{row:?}");
            assert!(!row.dead_locked || may_lock, "{row:?}");
            assert!(row.cpu_share.is_none_or(|share| (0.0..=1.0).contains(&share)), "{row:?}");
        }
        let repetitions = found.repetitions.iter().filter(|one| !one.dead_locked);
        assert!(repetitions.clone().all(|one| one.messages == 400), "{:?}", found.repetitions);
        assert_eq!(found.result.rows.as_ref().map(Vec::len), Some(30));
        assert!(found.result.figures["advice"].as_array().is_some_and(|all| all.len() == 2));
        assert!(found.result.figures["shares"].as_array().is_some_and(|all| all.len() == 3));
    }
}

#[test]
fn cards_are_compared_in_one_run_and_ip_cuts_what_is_longer_than_the_mtu_of_one() {
    let of = |card: &str| Options {
        traffic: vec![Traffic::Size(16_384), Traffic::Size(65_507)],
        amount: Amount::Messages(40),
        completions: vec![Completion::Adaptive(Thresholds::default())],
        bounces: vec![Bounce::None],
        separate: false,
        repeats: 1,
        is_one_of_several: true,
        ..options(card)
    };
    let cards = [of("oc48"), of("ge10")];
    let mut watch = Watch::unobserved();
    watch.parts = PARTS;
    let found = real::transmit_all(&cards, &mut watch).unwrap();
    let simulated = simulated::transmit_all(&cards, &SendCosts::default(), &mut watch).unwrap();
    let buffers = cards[0].buffers.len();
    for found in [&found, &simulated] {
        let names: Vec<_> = found.rows.iter().map(|row| row.card.as_deref().unwrap()).collect();
        assert_eq!(names, [vec!["oc48"; 2 * buffers], vec!["ge10"; 2 * buffers]].concat());
        for row in found.rows.iter().filter(|row| row.buffers == "contiguous") {
            let frames = match (row.card.as_deref(), row.size_bytes) {
                (Some("ge10"), 16_384) => 2.0,
                (Some("ge10"), _) => 5.0,
                _ => 1.0,
            };
            assert_eq!(row.transfers_per_packet, Some(frames), "{row:?}");
        }
        let rows: Vec<_> = found.repetitions.iter().map(|line| line.row).collect();
        assert_eq!(rows, (0..4 * buffers).collect::<Vec<_>>());
        assert_eq!(found.result.target.model, "oc48, ge10");
    }
}

#[test]
fn real_and_virtual_rows_stand_side_by_side() {
    let options = Options { traffic: vec![Traffic::Size(1_472)], ..options("oc48") };
    let mut watch = Watch::unobserved();
    watch.parts = PARTS;
    let mut found = real::transmit(&options, &mut watch).unwrap();
    let simulated = simulated::transmit(&options, &SendCosts::default(), &mut watch).unwrap();
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
    let (runs, by_user) = (Rc::new(Cell::new(0)), interrupted.clone());
    let counted = Rc::clone(&runs);
    let directory = tempfile::tempdir().unwrap();
    let mut watch = watch(directory.path(), interrupted, move |_| {
        counted.set(counted.get() + 1);
        if counted.get() == 3 {
            by_user.set();
        }
    });
    let stopped = real::transmit(&options("oc48"), &mut watch);
    assert!(matches!(stopped, Err(Error::Target(TargetError::Interrupted))));
    assert_eq!(runs.get(), 3);
}

#[test]
fn tcp_is_cut_into_segments_by_the_stack_or_by_the_card_in_real_and_in_virtual_time() {
    for model in ["ge10", "rtl8168"] {
        let options = Options {
            transports: vec![Transport::Tcp, Transport::TcpTso],
            traffic: vec![
                Traffic::Size(64),
                Traffic::Size(65_507),
                Traffic::Mixture("64x10,9000x5".parse().unwrap()),
            ],
            buffers: vec![BufferKind::Contiguous],
            completions: vec![Completion::Interrupt, Completion::Adaptive(Thresholds::default())],
            bounces: vec![Bounce::None],
            separate: false,
            amount: Amount::Messages(100),
            repeats: 1,
            nic: NicOptions { mtu: Some(1_500), ..NicOptions::of(model) },
            ..options(model)
        };
        let mut watch = Watch::unobserved();
        watch.parts = PARTS;
        let real = real::transmit(&options, &mut watch).unwrap();
        let simulated = simulated::transmit(&options, &SendCosts::default(), &mut watch).unwrap();
        for found in [&real, &simulated] {
            assert_eq!(found.rows.len(), 12);
            for row in &found.rows {
                let tso = row.tso.unwrap();
                let (transfers, segments) = match (&row.mixture, row.size_bytes) {
                    (Some(_), _) => (if tso { 1.0 } else { 3.0 }, 3.0),
                    (None, 65_507) => (if tso { 2.0 } else { 45.0 }, 45.0),
                    (None, _) => (1.0, 1.0),
                };
                let counted = (row.transfers_per_packet.unwrap(), row.segments_per_packet.unwrap());
                // A mixture's run need not end where its turns do.
                let near = |counted: f64, due: f64| (counted - due).abs() < 0.5;
                assert!(near(counted.0, transfers) && near(counted.1, segments), "{row:?}");
                assert_eq!(row.summed_bytes_per_packet == Some(0.0), tso, "{row:?}");
                assert!(row.busy_ns_per_byte.unwrap() > 0.0 && row.bps.unwrap() > 0.0, "{row:?}");
                assert_eq!((row.published_bps, row.dead_locked), (None, false), "{row:?}");
            }
            assert!(found.result.figures["advice"].as_array().is_some_and(Vec::is_empty));
        }
    }
}
