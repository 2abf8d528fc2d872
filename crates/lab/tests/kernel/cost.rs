//! What a packet costs, on the real kernel.

use std::cell::RefCell;
use std::rc::Rc;

use warikomi_lab::Progress;
use warikomi_lab::cost::{CALLS, COUNTED, CostOptions, cost};

use crate::bring::{session, watch};

#[test]
fn every_figure_is_that_of_the_calls_and_the_line_behind_it() {
    let mut session = session("sink");
    let sizes_bytes = vec![1_024, 4_096, 8_192];
    let options = CostOptions { sizes_bytes: sizes_bytes.clone(), repeat: 3, sampling: false };
    let runs = tempfile::tempdir().unwrap();
    let steps = Rc::new(RefCell::new(Vec::new()));
    let told = Rc::clone(&steps);
    let show = move |at: Progress<'_>| told.borrow_mut().push((at.done, at.all));
    let mut watch = watch(runs.path(), show);
    let found = cost(&mut session, &options, &mut watch).unwrap();
    session.stop().unwrap();
    assert_eq!(*steps.borrow(), (0..9).map(|done| (done * 1_000, 9_000)).collect::<Vec<_>>());
    let rows = found.result.rows.unwrap();
    assert_eq!(rows.len(), 3);
    for ((row, size), (of_size, calls)) in rows.iter().zip(sizes_bytes).zip(&found.calls) {
        assert_eq!((row["size_bytes"].as_u64(), *of_size), (Some(size as u64), size));
        assert!(calls.is_sorted_by(|a, b| a.number < b.number));
        assert!(calls.last().unwrap().number <= CALLS);
        let counted: Vec<f64> = calls
            .iter()
            .filter(|call| COUNTED.contains(&call.number))
            .map(|call| call.took.as_ns())
            .collect();
        let mean = counted.iter().sum::<f64>() / counted.len() as f64;
        let figure = |name: &str| row.get(name).and_then(serde_json::Value::as_f64);
        assert!((figure("send_ns").unwrap() - mean).abs() < 1e-3, "{row:?} {mean}");
        assert!(figure("send_p50_ns") <= figure("send_p99_ns"));
        assert!(row.contains_key("published_send_ns"));
        // At this pace each packet has an interrupt of its own, but for those that a pause brought together.
        assert!(figure("interrupts_per_send").unwrap() > 0.5, "{row:?}");
        let added = figure("send_signalled_ns").unwrap() - figure("send_ns").unwrap();
        assert!((figure("telling_ns").unwrap() - added).abs() < 1e-6, "{row:?}");
        assert_eq!(row.contains_key("published_copy_ns"), size == 8_192);
        assert!(!row.contains_key("sampled_copy_ns"), "nothing was sampled");
        for (whole, copy, rest) in [
            ("receive_ns", "copy_ns", "rest_ns"),
            ("end_to_end_ns", "end_to_end_copy_ns", "end_to_end_rest_ns"),
        ] {
            let line = whole.replace("_ns", "_ns_per_byte");
            let Some(copied) = figure(copy) else { continue };
            let slope = found.result.figures[&line].as_f64().unwrap();
            assert!((copied - slope * size as f64).abs() < 1e-6, "{row:?}");
            let parts = copied + figure(rest).unwrap();
            assert!((parts - figure(whole).unwrap()).abs() < 1e-6, "{row:?}");
        }
        // A receiver that was not saturated has no figure, and the result says so.
        let missing = figure("receive_ns").is_none();
        let warned = found.result.warnings.iter().any(|warning| {
            warning.what.contains("not saturated") && warning.what.contains(&size.to_string())
        });
        assert!(!missing || warned, "{row:?}");
        let of_size = found.repeats.iter().filter(|each| each.size_bytes == Some(size));
        let sends: Vec<f64> =
            of_size.filter(|each| each.figure == "send_ns").map(|each| each.value).collect();
        assert!(sends.iter().any(|send| Some(*send) == figure("send_ns")), "{sends:?}");
    }
}
