//! Success against interval.

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;

use warikomi_inject::Receiver;
use warikomi_lab::inject::Application;
use warikomi_lab::sweep::{Cycle, CycleLog, Phase, SweepPlan, Swept, read_cycles, sweep};

use crate::bring::session;

#[derive(Clone, Default)]
struct File(Rc<RefCell<Vec<u8>>>);

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn plan() -> SweepPlan {
    SweepPlan {
        sizes_bytes: vec![1_500],
        count: 500,
        repeat: 2,
        line_rate_bps: Some(1_000_000_000),
        ..SweepPlan::default()
    }
}

/// Sweeps; returns the result and the cycles that it made or took over, and appends those that it made
/// to `file`.
fn swept(plan: &SweepPlan, file: &File, earlier: Vec<Cycle>) -> (Swept, Vec<Cycle>) {
    let mut session = session("sink");
    let mut log = CycleLog::new(Box::new(file.clone()), file.0.borrow().is_empty());
    let mut seen = Vec::new();
    let application = Application { socket_buffer_bytes: 106_496, ..Application::default() };
    let swept = sweep(&mut session, plan, application, earlier, &mut log, &mut |progress| {
        assert_eq!(progress.done, seen.len() as u64 + 1);
        seen.push(progress.cycle.clone());
    });
    session.stop().unwrap();
    (swept.unwrap(), seen)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn the_figures_follow_from_the_cycles_and_the_cycles_are_kept() {
    let file = File::default();
    let (swept, seen) = swept(&plan(), &file, vec![]);
    let (kept, _) = read_cycles(&file.0.borrow()).unwrap();
    assert_eq!(kept, seen);
    assert!(kept.iter().all(|cycle| cycle.unaccounted == 0 && cycle.delivered.is_some()));

    let row = &swept.result.rows.as_ref().unwrap()[0];
    let figure = |name: &str| row[name].as_f64().unwrap();
    let of = |phase: Phase| kept.iter().filter(move |c| c.phase == phase && !c.disturbed);
    let saturated = of(Phase::Saturated).map(|cycle| cycle.throughput_bps).collect();
    assert_eq!(figure("saturated_bps"), median(saturated));
    let shortest_ns = figure("shortest_loss_free_ns");
    assert!(
        of(Phase::Driver).any(|c| c.interval_ns == shortest_ns && c.accepted == c.injected),
        "a cycle at {shortest_ns} ns lost nothing"
    );
    assert_eq!(figure("loss_free_bps"), 8e9 * 1_500.0 / shortest_ns);
    assert_eq!(figure("share_of_saturated"), figure("loss_free_bps") / figure("saturated_bps"));
    assert!(figure("end_to_end_loss_free_ns") > 0.0);
    let line = of(Phase::Line).next().unwrap();
    assert_eq!(figure("on_line_bps"), line.throughput_bps);
    assert!(line.throughput_bps < 1e9, "a line of 1 Gbit/s carries less than that");

    let repeats = swept.repeats.iter().filter(|repeat| repeat.figure == "shortest_loss_free_ns");
    assert_eq!(median(repeats.map(|repeat| repeat.value).collect()), shortest_ns);
    let coarse: Vec<_> = of(Phase::Coarse).map(|cycle| cycle.interval_ns).collect();
    assert!(coarse.is_sorted() && coarse.len() > 4, "{coarse:?}");
}

#[test]
fn a_sweep_that_was_stopped_goes_on_where_it_was() {
    let file = File::default();
    let plan = SweepPlan { receiver: Receiver::Driver, repeat: 1, line_rate_bps: None, ..plan() };
    let (whole, cycles) = swept(&plan, &file, vec![]);
    // All of them: nothing is left to do, and the result is the same.
    let (again, _) = swept(&plan, &File::default(), cycles.clone());
    assert_eq!(again.result.rows, whole.result.rows);
    // Some: the rest is made anew.
    let some = cycles[..cycles.len() / 2].to_vec();
    let rest = File::default();
    let (_, seen) = swept(&plan, &rest, some.clone());
    assert_eq!(seen[..some.len()], some);
    let (made, _) = read_cycles(&rest.0.borrow()).unwrap();
    assert_eq!(made, seen[some.len()..]);
    // Cycles of another sweep are found out.
    let mut session = session("sink");
    let mut log = CycleLog::new(Box::new(File::default()), true);
    let other = SweepPlan { sizes_bytes: vec![60], ..plan };
    let application = Application::default();
    let error = sweep(&mut session, &other, application, some, &mut log, &mut |_| ()).err();
    assert!(error.unwrap().to_string().contains("begin anew"));
    session.stop().unwrap();
}
