//! How far packets of several lengths get: the share that reaches the driver's end of the way, and how long
//! that takes.

use clap::Args;
use serde::{Deserialize, Serialize};
use warikomi_clock::Span;
use warikomi_inject::{FrameBytes, Plan};
use warikomi_lab::inject::{Application, inject};
use warikomi_lab::{Conclusion, Error, Experiment, Watch};
use warikomi_measure::layout::{Axis, Better, Chart, Column, Curve, Layout, Scale, Unit};
use warikomi_measure::{RunResult, Samples, Thresholds, TimeBase, table, warnings};
use warikomi_session::{Session, TargetArguments};
use warikomi_wire::WireKind;

/// How far packets of several lengths get, and how long they take.
#[derive(Args)]
pub(crate) struct Reach {
    #[command(flatten)]
    target: TargetArguments,
    /// Frame lengths without check sequence, with commas
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',', default_value = "60,600,1500")]
    sizes: Vec<FrameBytes>,
    /// Packets of each length
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    count: u64,
    /// Time from one packet to the next
    #[arg(long, value_name = "TIME", default_value = "38us")]
    interval: Span,
}

/// What became of the packets of one length.
#[derive(Serialize, Deserialize)]
struct Row {
    size_bytes: usize,
    accepted_share: f64,
    /// From a packet's deadline until it is where it was meant to go; absent if none got there.
    delay_p99_ns: Option<f64>,
}

/// What the plan in `result.json` says.
#[derive(Serialize)]
struct Asked {
    count: u64,
    interval_ns: f64,
}

impl Experiment for Reach {
    const NAME: &'static str = "reach";
    const ABOUT: &'static str = "How far packets of several lengths get";

    fn run(&self, watch: &mut Watch) -> Result<Conclusion, Error> {
        let plans = self.sizes.iter().map(|size| self.plan(size.0));
        let plans = plans.collect::<Result<Vec<Plan>, Error>>()?;
        let mut prepared = self.target.prepare()?;
        prepared.defer_nothing();
        let mut session = watch.start(&prepared, &WireKind::Sink)?;
        let name = |plan: &Plan| format!("{} bytes", plan.size_bytes);
        let rows = watch.each(&plans, name, |plan, watch| {
            let before = session.watch_cores();
            let row = measure(&mut session, plan, watch)?;
            watch.saw(&mut session, &before);
            Ok(row)
        })?;
        session.stop()?;
        let (target, machine) = watch.seen();
        let asked = Asked { count: self.count, interval_ns: self.interval.as_ns() };
        let mut result = table(Self::NAME, TimeBase::Real, machine, target, &asked, &rows);
        result.warnings = warnings(&result, &Thresholds::default());
        Ok(Conclusion::new(result).with_table("rows", rows))
    }

    fn describe(result: &mut RunResult) {
        let size = Axis::new("size_bytes", "frame (bytes)", Unit::Count, Scale::Zero);
        let delay = Axis::new("delay_p99_ns", "delay, 99th percentile", Unit::Ns, Scale::Zero);
        let chart = Chart::new("delay", "Delay against frame length", size, delay);
        result.layout = Layout {
            columns: vec![
                Column::parameter("size_bytes", "frame, bytes").unit(Unit::Count),
                Column::figure("accepted_share", "accepted").better(Better::More),
                Column::figure("delay_p99_ns", "delay p99").better(Better::Less),
            ],
            charts: vec![chart.curve(Curve::new("delay_p99_ns", "delay"))],
            ..Layout::default()
        };
    }
}

impl Reach {
    fn plan(&self, size_bytes: usize) -> Result<Plan, Error> {
        let plan = Plan {
            size_bytes,
            interval: self.interval,
            count: self.count,
            receiver: self.target.receiver(),
            ..Plan::default()
        };
        plan.validate()?;
        Ok(plan)
    }
}

fn measure(session: &mut Session, plan: &Plan, watch: &mut Watch) -> Result<Row, Error> {
    // Different for each length, so that no packet is taken for one of another.
    let run_id = plan.size_bytes as u32;
    let mut show = |progress: warikomi_lab::Progress<'_>| watch.tell(progress);
    let run = inject(session, plan, Application::default(), run_id, &mut show)?;
    run.check()?;
    let mut delays = Samples::new();
    for packet in run.ledger.rows() {
        let there = packet.delivered.or(packet.accepted);
        if let (Some(planned), Some(there)) = (packet.planned, there) {
            delays.record(there.since(planned));
        }
    }
    let totals = run.ledger.totals();
    Ok(Row {
        size_bytes: plan.size_bytes,
        accepted_share: totals.accepted as f64 / totals.injected.max(1) as f64,
        delay_p99_ns: delays.summary().map(|delays| delays.p99),
    })
}
