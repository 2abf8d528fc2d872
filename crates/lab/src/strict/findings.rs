//! What a strict card has found, in a result.

use serde_json::{Value, json};
use warikomi_clock::Time;
use warikomi_measure::layout::{Column, Layout, Table, Unit};
use warikomi_measure::{RunResult, Warning};
use warikomi_nic::strict::{Finding, Findings};

/// The figure with the number of steps that the driver must not take; only of a strict card.
const STEPS: &str = "strict_steps";
/// The list of them.
const FINDINGS: &str = "strict_findings";
/// What was not looked at, in words.
const UNSEEN: &str = "strict_unseen";

/// How many steps there were that the driver must not take.
pub(crate) fn steps(result: &RunResult) -> u64 {
    result.figures.get(STEPS).and_then(Value::as_u64).unwrap_or_default()
}

/// Adds what was found to a result; `start` is the time of the first deadline.
pub(crate) fn add(result: &mut RunResult, findings: &Findings, start: Time) {
    let list = findings.list();
    let steps = findings.omitted() + list.iter().map(|finding| finding.count).sum::<u64>();
    result.figures.insert(STEPS.to_owned(), steps.into());
    if list.is_empty() {
        return;
    }
    let rows = list.iter().map(|finding| row(finding, start)).collect();
    result.figures.insert(FINDINGS.to_owned(), Value::Array(rows));
    let mut kinds: Vec<_> = list.iter().map(|finding| finding.kind.name()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    result.warnings.push(Warning {
        what: format!(
            "the driver took {steps} step{} that it must not take: {}",
            if steps == 1 { "" } else { "s" },
            kinds.join(", ")
        ),
        hint: "look at the table of these steps; docs/strict.md says what each kind means"
            .to_owned(),
    });
}

/// Adds what could not be looked at in this target.
pub(crate) fn not_looked_at(result: &mut RunResult, unseen: &[&str]) {
    if !unseen.is_empty() {
        result.figures.insert(UNSEEN.to_owned(), unseen.into());
    }
}

fn row(finding: &Finding, start: Time) -> Value {
    let Finding { kind, place, what, stack, source, count, first } = finding;
    let mut row = json!({
        "kind": kind.name(), "place": place.to_string(), "what": what, "count": count, "source": source,
    });
    if !stack.is_empty() {
        row["in"] = stack.first().cloned().into();
        row["stack"] = json!(stack);
    }
    if *first >= start {
        row["first_ns"] = first.since(start).as_ns().into();
    } else {
        row["before"] = true.into();
    }
    row
}

/// Findings of which the table's notes say the first step; all have it in a column, where there is room.
const NOTED: usize = 16;
/// Frames of a stack that the notes have; the result has all.
const NOTED_FRAMES: usize = 8;

/// Adds to the layout what was found, or that nothing was.
pub(crate) fn describe(result: &RunResult, layout: &mut Layout) {
    layout.tables.extend(table(result));
    if result.figures.get(STEPS).and_then(Value::as_u64) == Some(0) {
        layout.say("strict", "The driver took no step that it must not take.");
    }
    for unseen in texts(result.figures.get(UNSEEN)) {
        layout.say("strict", format!("Not looked at: {unseen}."));
    }
}

fn texts(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn table(result: &RunResult) -> Option<Table> {
    let findings = result.figures.get(FINDINGS).and_then(Value::as_array)?;
    let columns = vec![
        Column::parameter("kind", "step"),
        Column::parameter("place", "where"),
        Column::figure("count", "count").unit(Unit::Count).alarm(),
        Column::figure("first_ns", "first").unit(Unit::Ns).instead("before", "before the run"),
        Column::parameter("what", "the first of them").wide(),
        Column::parameter("in", "the driver was in").wide(),
        Column::parameter("source", "see").wide(),
    ];
    let columns = columns.into_iter().map(|column| Column { better: None, ..column }).collect();
    let table = Table::of_figures("strict", "Steps that a driver must not take", FINDINGS, columns);
    let table = table.note("Times count from the first deadline. The first of each:");
    Some(findings.iter().take(NOTED).fold(table, |table, finding| {
        let text = |key: &str| finding.get(key).and_then(Value::as_str).unwrap_or_default();
        let table = table.note(format!(
            "{}: {}: {} ({})",
            text("kind"),
            text("place"),
            text("what"),
            text("source")
        ));
        let stack: Vec<_> = texts(finding.get("stack")).take(NOTED_FRAMES).collect();
        match stack.is_empty() {
            true => table,
            false => table.note(format!("   in {}", stack.join("; from "))),
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warikomi_measure::{Machine, TimeBase};

    fn result() -> RunResult {
        RunResult::new("inject", TimeBase::Real, Machine::default())
    }

    #[test]
    fn a_driver_without_findings_has_a_figure_and_no_table() {
        let mut result = result();
        assert!(!result.figures.contains_key(STEPS), "of a card that is not strict");
        add(&mut result, &Findings::default(), Time::ZERO);
        assert_eq!((steps(&result), &result.figures[STEPS]), (0, &json!(0)));
        assert!(table(&result).is_none() && result.warnings.is_empty());
        let mut layout = Layout::default();
        describe(&result, &mut layout);
        assert_eq!((layout.tables.len(), layout.remarks.len()), (0, 1));
    }

    #[test]
    fn what_was_not_looked_at_is_said() {
        let mut result = result();
        add(&mut result, &Findings::default(), Time::ZERO);
        not_looked_at(&mut result, &["one thing", "another"]);
        let mut layout = Layout::default();
        describe(&result, &mut layout);
        assert_eq!(layout.remarks.len(), 3);
        assert_eq!(layout.remarks[2].text, "Not looked at: another.");
    }

    #[test]
    fn a_step_says_when_it_was_first_taken() {
        let finding = |ps| Finding {
            kind: warikomi_nic::strict::FindingKind::Width,
            place: warikomi_nic::strict::Place::Bar(2),
            what: "1-byte write".into(),
            stack: (0..ps / 1_000 - 4).map(|frame| format!("frame_{frame}")).collect(),
            source: "here",
            count: 2,
            first: Time::from_ps(ps),
        };
        let start = Time::from_ps(5_000);
        let [before, after] = [4_000, 7_000].map(|ps| row(&finding(ps), start));
        assert_eq!((&before["before"], before.get("first_ns")), (&json!(true), None));
        assert_eq!((&after["first_ns"], &after["kind"]), (&json!(2.0), &json!("access width")));
        let mut result = result();
        result.figures.insert(FINDINGS.into(), json!([before, after]));
        result.layout.tables.extend(table(&result));
        result.layout.check().unwrap();
        let [table] = &result.layout.tables[..] else { panic!("one table") };
        assert_eq!(table.notes.len(), 4);
        assert_eq!(table.notes[1], "access width: BAR 2: 1-byte write (here)");
        assert_eq!(table.notes[3], "   in frame_0; from frame_1; from frame_2");
        assert_eq!((&after["in"], before.get("in")), (&json!("frame_0"), None));
    }
}
