//! Success against interval.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use warikomi_inject::Receiver;
use warikomi_lab::inject::Application;
use warikomi_lab::sweep::{Cycle, Phase, SweepPlan, Swept, sweep};
use warikomi_lab::{Error, OnDemand, Progress, Watch};
use warikomi_measure::median;
use warikomi_target::Interrupted;

use crate::bring::{session, watch};

fn plan() -> SweepPlan {
    SweepPlan {
        sizes_bytes: vec![1_500],
        count: 500,
        repeat: 2,
        curve: 2,
        line_rate_bps: Some(1_000_000_000),
        ..SweepPlan::default()
    }
}

/// A sweep that is kept.
struct Run {
    watch: Watch,
    /// How much was said to be done, each time.
    told: Rc<RefCell<Vec<u64>>>,
}

impl Run {
    fn begin(runs: &Path) -> Run {
        let told = Rc::new(RefCell::new(Vec::new()));
        let by_watch = Rc::clone(&told);
        let watch = watch(runs, move |progress| by_watch.borrow_mut().push(progress.done));
        Run { watch, told }
    }

    /// Goes on after these steps.
    fn resume(runs: &Path, steps: &str) -> Run {
        let begun = Run::begin(runs);
        let directory = begun.watch.end().unwrap();
        std::fs::write(directory.path().join("steps.jsonl"), steps).unwrap();
        let (interrupted, show) = (Interrupted::default(), Box::new(|_: Progress<'_>| ()));
        let watch = Watch::of_resumed_run(interrupted, show, directory.path()).unwrap();
        Run { watch, ..begun }
    }

    fn sweep(&mut self, plan: &SweepPlan) -> Result<Swept, Error> {
        let mut target = OnDemand::new(|_| Ok(session("sink")));
        let application = Application { socket_buffer_bytes: 106_496, ..Application::default() };
        let swept = sweep(&mut target, plan, application, &mut self.watch);
        target.stop().unwrap();
        swept
    }

    fn file(&self) -> String {
        let directory = self.watch.directory().unwrap();
        std::fs::read_to_string(directory.path().join("steps.jsonl")).unwrap()
    }

    /// The cycles in the file of steps.
    fn steps(&self) -> Vec<Cycle> {
        let step = |line: &str| {
            let step: serde_json::Value = serde_json::from_str(line).unwrap();
            serde_json::from_value(step["made"].clone()).unwrap()
        };
        self.file().lines().map(step).collect()
    }
}

#[test]
fn the_figures_follow_from_the_cycles_and_the_cycles_are_kept() {
    let runs = tempfile::tempdir().unwrap();
    let mut run = Run::begin(runs.path());
    let swept = run.sweep(&plan()).unwrap();
    let kept = &swept.cycles;
    assert_eq!(*kept, run.steps());
    // Before each cycle it is said how much has been made.
    assert!(run.told.borrow().is_sorted() && run.told.borrow().len() == kept.len());
    assert!(kept.iter().all(|cycle| cycle.unaccounted == 0 && cycle.delivered.is_some()));

    let row = &swept.result.rows.as_ref().unwrap()[0];
    let figure = |name: &str| row[name].as_f64().unwrap();
    let of = |phase: Phase| kept.iter().filter(move |c| c.phase == phase && !c.disturbed);
    let saturated = of(Phase::Saturated).map(|cycle| cycle.throughput_bps);
    assert_eq!(figure("saturated_bps"), median(saturated));
    let shortest_ns = figure("shortest_loss_free_ns");
    assert!(
        of(Phase::Driver).any(|c| c.interval_ns == shortest_ns && c.accepted == c.injected),
        "a cycle at {shortest_ns} ns lost nothing"
    );
    let loss_free_bps = figure("loss_free_bps");
    assert!(
        of(Phase::Driver).any(|c| c.throughput_bps == loss_free_bps && c.accepted == c.injected),
        "{loss_free_bps} bit/s was seen in a cycle"
    );
    assert_eq!(figure("share_of_saturated"), figure("loss_free_bps") / figure("saturated_bps"));
    assert!(figure("end_to_end_loss_free_ns") > 0.0);
    let line = of(Phase::Line).next().unwrap();
    assert_eq!(figure("on_line_bps"), line.throughput_bps);
    assert!(line.throughput_bps < 1e9, "a line of 1 Gbit/s carries less than that");

    let repeats = swept.repeats.iter().filter(|repeat| repeat.figure == "shortest_loss_free_ns");
    assert_eq!(median(repeats.map(|repeat| repeat.value)), shortest_ns);
    let coarse: Vec<_> = of(Phase::Coarse).map(|cycle| cycle.interval_ns).collect();
    assert!(coarse.is_sorted() && coarse.len() > 4, "{coarse:?}");
    // What became of them may be anything on a busy machine; that they were looked at is not.
    assert!(swept.result.figures["dips"].is_array());
    assert_eq!(of(Phase::Curve).count(), 2 * coarse.len());
    for cycle in kept {
        assert!(cycle.net_rx_softirqs > Some(0) && cycle.context_switches > Some(0), "{cycle:?}");
        assert!(cycle.softnet_squeezed.is_some() && cycle.ksoftirqd_runs.is_some(), "{cycle:?}");
        let lost = cycle.accepted - cycle.delivered.unwrap();
        assert!(
            cycle.socket_overflows.unwrap() + cycle.backlog_drops.unwrap() >= lost,
            "{cycle:?}"
        );
    }
}

#[test]
fn a_sweep_that_was_stopped_goes_on_where_it_was() {
    let runs = tempfile::tempdir().unwrap();
    let plan = SweepPlan { receiver: Receiver::Driver, repeat: 1, line_rate_bps: None, ..plan() };
    let mut first = Run::begin(runs.path());
    let whole = first.sweep(&plan).unwrap();
    // All of them: nothing is left to do, and the result is the same.
    let mut again = Run::resume(runs.path(), &first.file());
    assert_eq!(again.sweep(&plan).unwrap().result.rows, whole.result.rows);
    assert_eq!(again.file(), first.file());
    // Some: the rest is made anew.
    let some = whole.cycles.len() / 2;
    let half: String = first.file().split_inclusive('\n').take(some).collect();
    let mut rest = Run::resume(runs.path(), &half);
    let cycles = rest.sweep(&plan).unwrap().cycles;
    assert_eq!(cycles[..some], whole.cycles[..some]);
    assert_eq!(cycles, rest.steps());
    // Cycles of another sweep are found out.
    let other = SweepPlan { sizes_bytes: vec![60], ..plan };
    let error = Run::resume(runs.path(), &half).sweep(&other).err();
    assert!(error.unwrap().to_string().contains("begin anew"));
}
