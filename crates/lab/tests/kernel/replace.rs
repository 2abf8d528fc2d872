//! A kernel's driver is removed and loaded again under traffic.

use warikomi_clock::Span;
use warikomi_lab::Watch;
use warikomi_lab::replace::kernel::{Options, Traffic, WAY, replace};
use warikomi_lab::replace::{Load, Row};
use warikomi_measure::RunResult;

use crate::bring::{options, session_with};

fn replaced(asked: &Options) -> Vec<Row> {
    let (host, traffic) = Traffic::with_host();
    let mut session = session_with(Box::new(host));
    let replaced = replace(&mut session, &options(), &traffic, asked, &mut Watch::unobserved());
    let RunResult { rows, target, .. } = replaced.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((&*target.kind, &*target.driver), ("kernel", "r8169"));
    session.stop().unwrap();
    let rows = rows.unwrap().into_iter().map(serde_json::Value::Object);
    rows.map(|row| serde_json::from_value(row).unwrap()).collect()
}

fn once(load: Load) -> Options {
    Options { loads: vec![load], trials: 1, ..Options::default() }
}

#[test]
fn a_module_is_replaced_again_and_again() {
    let rows = replaced(&Options { trials: 3, ..once(Load::Idle) });
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((&*row.way, &*row.load, row.replacements), (WAY, "idle", 3), "{row:?}");
    assert!(row.swap_us.unwrap().min > 0.0 && row.lost == 0, "{row:?}");
    assert_eq!((row.outage_us, row.send_us, row.refused), (None, None, None));
}

#[test]
fn a_connection_outlives_its_interface() {
    let rows = replaced(&once(Load::Busy));
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((row.connections_lost, row.replacements), (0, 1), "{row:?}");
    assert!(row.send_us.is_some() && row.send_during_us.is_some(), "{row:?}");
    assert!(row.longest_send_gap_us.unwrap() >= 0.5 * row.swap_us.unwrap().min, "{row:?}");
}

#[test]
fn what_arrives_meanwhile_is_lost_and_counted() {
    let rows = replaced(&once(Load::Heavy));
    let [row] = &rows[..] else { panic!("{rows:?}") };
    let (gap_us, interval_us) = (row.longest_receive_gap_us.unwrap(), 200.0);
    assert_eq!(Options::default().interval, Span::from_us(200));
    assert!(gap_us > interval_us && row.not_receiving > 0, "{row:?}");
    // What came while there was no driver, and nothing else of that order.
    let missing = row.lost + row.no_descriptor + row.not_receiving;
    assert!(missing as f64 >= 0.5 * gap_us / interval_us, "{row:?}");
    assert!(missing < 2 * row.not_receiving, "one frame is in one column: {row:?}");
    assert!(row.received > 0, "{row:?}");
    assert_eq!((row.duplicated, row.connections_lost), (0, 0), "{row:?}");
    assert!(row.refused.unwrap() > 0, "nothing was sent meanwhile: {row:?}");
}
