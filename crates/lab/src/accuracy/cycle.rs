//! The whole cycle of an interrupt, access by access: raised, status read, masked, acknowledged, and, after the
//! driver's poll, unmasked. A run of its own, because recording costs each access some nanoseconds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use warikomi_clock::{Span, Time};
use warikomi_inject::Plan;
use warikomi_measure::Samples;
use warikomi_measure::as_object;
use warikomi_measure::layout::{
    Axis, Chart, Column, Curve, Kind, Object, Scale, Source, Table, Unit,
};
use warikomi_nic::ModelInfo;
use warikomi_nic::register::Role;
use warikomi_pci::Width;
use warikomi_session::Session;
use warikomi_target::CardId;
use warikomi_trace::{Access, EventKind, Reader};
use warikomi_wire::WireKind;

use crate::error::Error;
use crate::inject::{Application, run_id};
use crate::record::record;
use crate::watch::Watch;

/// Cycles that are looked at.
const CYCLES: u64 = 1_000;

/// One step of one cycle: a line of `cycle.csv`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CycleStep {
    /// Which interrupt, from 1.
    pub interrupt: u64,
    /// The step's place in its cycle, from 1.
    pub place: usize,
    /// What the driver did.
    pub step: String,
    /// How long after the interrupt had risen.
    pub since_raise_ns: f64,
}

/// A step of all cycles that had it at this place.
#[derive(Serialize)]
struct Row {
    place: usize,
    step: String,
    count: u64,
    since_raise_p50_ns: f64,
    since_raise_p99_ns: f64,
}

/// Records a run of the plan, and takes its interrupts apart.
pub(super) fn measure(
    session: &mut Session,
    plan: &Plan,
    watch: &mut Watch,
) -> Result<Vec<CycleStep>, Error> {
    let plan = Plan { count: plan.count.min(CYCLES), ..plan.clone() };
    let run_id = run_id(&*session.target);
    let recording =
        record(session, &plan, Application::default(), run_id, &WireKind::Sink, &mut |at| {
            watch.progress(at.done, at.all, "recording cycles");
        })?;
    recording.injected.check()?;
    let mut trace = Vec::new();
    recording.trace.write_to(&mut trace).expect("memory takes it");
    let info = session.target.card(CardId::FIRST)?.0.info();
    let mut reader = Reader::new(&*trace)?;
    let mut cycles = Cycles::new(info);
    while let Some(event) = reader.next_event()? {
        cycles.take(event.at, &event.what);
    }
    Ok(cycles.steps)
}

/// Takes the events of a trace in order.
struct Cycles {
    info: &'static ModelInfo,
    steps: Vec<CycleStep>,
    interrupts: u64,
    raised: Option<Time>,
    place: usize,
}

impl Cycles {
    fn new(info: &'static ModelInfo) -> Cycles {
        Cycles { info, steps: Vec::new(), interrupts: 0, raised: None, place: 0 }
    }

    fn take(&mut self, at: Time, what: &EventKind) {
        match *what {
            EventKind::Interrupt(..) => {
                self.interrupts += 1;
                (self.raised, self.place) = (Some(at), 0);
            }
            EventKind::Read(access, _) => self.step(at, access, None),
            EventKind::Write(access, value) => self.step(at, access, Some(value)),
            _ => {}
        }
    }

    fn step(&mut self, at: Time, access: Access, written: Option<u64>) {
        let Some(raised) = self.raised else { return };
        self.place += 1;
        self.steps.push(CycleStep {
            interrupt: self.interrupts,
            place: self.place,
            step: self.name(access, written),
            since_raise_ns: at.since(raised).as_ns(),
        });
    }

    /// What an access is called: by what its register is for, or else by its name.
    fn name(&self, access: Access, written: Option<u64>) -> String {
        let verb = if written.is_some() { "written" } else { "read" };
        let Some(bar) = access.bar else { return format!("configuration {verb}") };
        let offset = u64::from(access.offset);
        let width = Width::from_bytes(access.width_bytes.into()).unwrap_or(Width::B1);
        for role in self.info.roles(bar, offset, width) {
            let name = match (role, written) {
                (Role::Status(_), None) => "status read",
                (Role::Status(_), Some(_)) => "acknowledged",
                (Role::Mask(_), None) => "mask read",
                (Role::Mask(_), Some(0)) => "masked",
                (Role::Mask(_), Some(_)) => "unmasked",
                (Role::Doorbell(_), Some(_)) => "doorbell",
                _ => continue,
            };
            return name.to_owned();
        }
        let named = self.info.registers.iter().find(|row| {
            row.bar == bar
                && (offset..offset + u64::from(access.width_bytes)).contains(&row.offset.into())
        });
        match named {
            Some(row) => format!("{} {verb}", row.name),
            None => format!("{offset:#x} {verb}"),
        }
    }
}

/// The steps that most cycles have, in their order, as rows of a table.
pub(super) fn rows(steps: &[CycleStep]) -> Vec<Object> {
    let cycles = steps.iter().filter(|step| step.place == 1).count();
    let mut by_step: BTreeMap<(usize, &str), Samples> = BTreeMap::new();
    for step in steps {
        let samples = by_step.entry((step.place, &step.step)).or_default();
        samples.record(Span::from_ps((step.since_raise_ns * 1e3) as u64));
    }
    let row = |((place, step), samples): ((usize, &str), Samples)| {
        let summary = samples.summary()?;
        let row = Row {
            place,
            step: step.to_owned(),
            count: summary.count,
            since_raise_p50_ns: summary.p50,
            since_raise_p99_ns: summary.p99,
        };
        (summary.count as usize * 2 > cycles).then(|| as_object(&row))
    };
    by_step.into_iter().filter_map(row).collect()
}

/// The table of the steps.
pub(super) fn table() -> Table {
    let columns = vec![
        Column::parameter("step", "Since the interrupt rose"),
        Column::figure("count", "cycles").unit(Unit::Count),
        Column::figure("since_raise_p50_ns", "p50"),
        Column::figure("since_raise_p99_ns", "p99"),
    ];
    Table::of_figures("cycle", "", "cycle", columns).note(
        "of the steps that most cycles have; between acknowledged and unmasked the driver polls",
    )
}

/// The timeline of the steps.
pub(super) fn chart() -> Chart {
    let x = Axis::new("since_raise_from_ns", "time since the interrupt rose", Unit::Ns, Scale::Log);
    let y = Axis::new("steps", "steps", Unit::Count, Scale::Zero);
    Chart::new("cycle", "An interrupt's cycle, step by step", x, y)
        .from(Source::File("cycle".to_owned()))
        .kind(Kind::Distribution)
        .series(&["step"])
        .curve(Curve::new("since_raise_ns", ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warikomi_pci::{Interrupt, MsiMessage};

    fn at(ns: u64) -> Time {
        Time::from_ps(ns * 1_000)
    }

    #[test]
    fn a_cycle_begins_with_its_interrupt_and_steps_are_called_by_what_registers_are_for() {
        let info = warikomi_testbench::card("rtl8168").info();
        let access = |offset, width_bytes| Access { bar: Some(2), offset, width_bytes };
        let (status, mask) = (access(0x3e, 2), access(0x3c, 2));
        let raise = EventKind::Interrupt(Interrupt::Msi(MsiMessage { address: 0, data: 0 }), None);
        let mut cycles = Cycles::new(info);
        cycles.take(at(1), &EventKind::Read(status, 1));
        for (number, late) in [(1, 0), (2, 100), (3, 0)] {
            let begun = number * 10_000;
            cycles.take(at(begun), &raise);
            cycles.take(at(begun + 500 + late), &EventKind::Read(status, 1));
            cycles.take(at(begun + 600), &EventKind::Write(mask, 0));
            cycles.take(at(begun + 700), &EventKind::Write(status, 1));
            cycles.take(at(begun + 2_000), &EventKind::Write(mask, 0x3f));
        }
        cycles.take(at(40_000), &EventKind::Read(access(0x6c, 1), 1));
        let rows = rows(&cycles.steps);
        let steps: Vec<_> = rows.iter().map(|row| row["step"].as_str().unwrap()).collect();
        assert_eq!(steps, ["status read", "masked", "acknowledged", "unmasked"]);
        assert_eq!((&rows[0]["count"], &rows[3]["count"]), (&3.into(), &3.into()));
        let p99 = rows[0]["since_raise_p99_ns"].as_f64().unwrap();
        assert!((590.0..=610.0).contains(&p99), "{p99}");
        assert_eq!(cycles.steps.len(), 13, "what was before the first interrupt is of no cycle");
        assert!(cycles.steps[12].step.ends_with(" read"), "{:?}", cycles.steps[12]);
    }
}
