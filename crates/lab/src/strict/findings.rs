//! What a strict card has found, in a result.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use warikomi_clock::Time;
use warikomi_measure::layout::{Column, Table, Unit};
use warikomi_measure::{RunResult, Warning};
use warikomi_nic::strict::{Finding, Findings};

/// The figure with the number of steps that the driver must not take; only of a strict card.
const STEPS: &str = "strict_steps";
/// The list of them.
const FINDINGS: &str = "strict_findings";
/// What was not looked at, in words.
const UNSEEN: &str = "strict_unseen";

/// Different findings of a run that are kept.
const MOST: usize = 256;

/// What a strict card has found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Found {
    /// Steps that the driver must not take.
    steps: u64,
    /// One for each kind and place, with the first step.
    findings: Vec<Row>,
    /// What was not looked at, in words.
    unseen: Vec<String>,
}

/// A finding, as a result has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Row {
    kind: String,
    place: String,
    what: String,
    count: u64,
    source: String,
    /// The row of the result in which it came first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    during: Option<String>,
    /// The innermost frame of the stack.
    #[serde(default, rename = "in", skip_serializing_if = "Option::is_none")]
    within: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    stack: Vec<String>,
    /// Time of the first; absent if it was before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_ns: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<bool>,
}

impl Found {
    /// What a card has found, while this row was made; times count from `start`.
    pub(crate) fn of(findings: &Findings, start: Time, during: Option<&str>) -> Found {
        let list = findings.list();
        Found {
            steps: findings.omitted() + list.iter().map(|finding| finding.count).sum::<u64>(),
            findings: list.iter().map(|finding| Row::of(finding, start, during)).collect(),
            unseen: findings.unseen().iter().map(|&unseen| unseen.to_owned()).collect(),
        }
    }

    /// This, and what was found later.
    pub(crate) fn and(mut self, later: Found) -> Found {
        self.steps = self.steps.saturating_add(later.steps);
        for row in later.findings {
            let same = |known: &&mut Row| known.kind == row.kind && known.place == row.place;
            let full = self.findings.len() >= MOST;
            match self.findings.iter_mut().find(same) {
                Some(known) => known.count = known.count.saturating_add(row.count),
                None if !full => self.findings.push(row),
                None => {}
            }
        }
        for unseen in later.unseen {
            if !self.unseen.contains(&unseen) {
                self.unseen.push(unseen);
            }
        }
        self
    }

    /// The steps in a sentence for an error, the first of each kind and place; `None` if there are none.
    pub(crate) fn in_words(&self) -> Option<String> {
        let said = self.findings.iter().take(NOTED).map(
            |Row { kind, place, what, count, within, .. }| {
                let within =
                    within.as_ref().map(|frame| format!(", in {frame}")).unwrap_or_default();
                format!("{kind}, {count} times at {place}, first {what}{within}")
            },
        );
        let said: Vec<_> = said.collect();
        (self.steps > 0).then(|| {
            format!("{} until then: {}", steps_that_must_not_be(self.steps), said.join("; "))
        })
    }

    /// Adds it to a result.
    pub(crate) fn put(&self, result: &mut RunResult) {
        let Found { steps, findings, unseen } = self;
        result.figures.insert(STEPS.to_owned(), (*steps).into());
        if !unseen.is_empty() {
            result.figures.insert(UNSEEN.to_owned(), json!(unseen));
        }
        if findings.is_empty() {
            return;
        }
        result.figures.insert(FINDINGS.to_owned(), json!(findings));
        let mut kinds: Vec<_> = findings.iter().map(|finding| &*finding.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        result.warnings.push(Warning {
            what: format!("{}: {}", steps_that_must_not_be(*steps), kinds.join(", ")),
            hint: "look at the table of these steps; docs/strict.md says what each kind means"
                .to_owned(),
        });
    }
}

fn steps_that_must_not_be(steps: u64) -> String {
    let plural = if steps == 1 { "" } else { "s" };
    format!("the driver took {steps} step{plural} that it must not take")
}

impl Row {
    fn of(finding: &Finding, start: Time, during: Option<&str>) -> Row {
        let Finding { kind, place, what, stack, source, count, first } = finding;
        Row {
            kind: kind.name().to_owned(),
            place: place.to_string(),
            what: what.clone(),
            count: *count,
            source: (*source).to_owned(),
            during: during.map(str::to_owned),
            within: stack.first().cloned(),
            stack: stack.clone(),
            first_ns: (*first >= start).then(|| first.since(start).as_ns()),
            before: (*first < start).then_some(true),
        }
    }
}

/// How many steps there were that the driver must not take.
pub(crate) fn steps(result: &RunResult) -> u64 {
    result.figures.get(STEPS).and_then(Value::as_u64).unwrap_or_default()
}

/// Findings of which the table's notes say the first step; all have it in a column, where there is room.
const NOTED: usize = 16;
/// Frames of a stack that the notes have; the result has all.
const NOTED_FRAMES: usize = 8;

/// Adds to the layout what was found, or that nothing was.
pub(crate) fn describe(result: &mut RunResult) {
    let mut layout = std::mem::take(&mut result.layout);
    layout.tables.extend(table(result));
    if result.figures.get(STEPS).and_then(Value::as_u64) == Some(0) {
        layout.say("strict", "The driver took no step that it must not take.");
    }
    for unseen in texts(result.figures.get(UNSEEN)) {
        layout.say("strict", format!("Not looked at: {unseen}."));
    }
    result.layout = layout;
}

fn texts(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// What times count from.
fn origin(findings: &[Value]) -> &'static str {
    match findings.iter().any(|finding| finding.get("during").is_some()) {
        true => "the beginning of the row",
        false => "the first deadline",
    }
}

fn table(result: &RunResult) -> Option<Table> {
    let findings = result.figures.get(FINDINGS).and_then(Value::as_array)?;
    let columns = vec![
        Column::parameter("kind", "step"),
        Column::parameter("place", "where"),
        Column::parameter("during", "during"),
        Column::figure("count", "count").unit(Unit::Count).alarm(),
        Column::figure("first_ns", "first").unit(Unit::Ns).instead("before", "before the run"),
        Column::parameter("what", "the first of them").wide(),
        Column::parameter("in", "the driver was in").wide(),
        Column::parameter("source", "see").wide(),
    ];
    let columns = columns.into_iter().map(|column| Column { better: None, ..column }).collect();
    let table = Table::of_figures("strict", "Steps that a driver must not take", FINDINGS, columns);
    let table = table.note(format!("Times count from {}. The first of each:", origin(findings)));
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

    fn put(findings: &Findings) -> RunResult {
        let mut result = result();
        Found::of(findings, Time::ZERO, None).put(&mut result);
        result
    }

    #[test]
    fn a_driver_without_findings_has_a_figure_and_no_table() {
        assert!(!result().figures.contains_key(STEPS), "of a card that is not strict");
        let mut result = put(&Findings::default());
        assert_eq!((steps(&result), &result.figures[STEPS]), (0, &json!(0)));
        assert!(table(&result).is_none() && result.warnings.is_empty());
        describe(&mut result);
        let layout = &result.layout;
        assert_eq!((layout.tables.len(), layout.remarks.len()), (0, 1));
    }

    #[test]
    fn what_was_not_looked_at_is_said() {
        let of = |unseen: &[&str]| Found {
            unseen: unseen.iter().map(|&one| one.to_owned()).collect(),
            ..Found::default()
        };
        let mut result = result();
        of(&["one thing"]).and(of(&["one thing", "another"])).put(&mut result);
        describe(&mut result);
        let layout = &result.layout;
        assert_eq!(layout.remarks.len(), 3);
        assert_eq!(layout.remarks[2].text, "Not looked at: another.");
    }

    fn finding(ps: u64) -> Finding {
        Finding {
            kind: warikomi_nic::strict::FindingKind::Width,
            place: warikomi_nic::strict::Place::Bar(2),
            what: "1-byte write".into(),
            stack: (0..ps / 1_000 - 4).map(|frame| format!("frame_{frame}")).collect(),
            source: "here",
            count: 2,
            first: Time::from_ps(ps),
        }
    }

    #[test]
    fn a_step_says_when_it_was_first_taken() {
        let start = Time::from_ps(5_000);
        let [before, after] = [4_000, 7_000].map(|ps| json!(Row::of(&finding(ps), start, None)));
        assert_eq!((&before["before"], before.get("first_ns")), (&json!(true), None));
        assert_eq!((&after["first_ns"], &after["kind"]), (&json!(2.0), &json!("access width")));
        assert_eq!((&after["in"], before.get("in")), (&json!("frame_0"), None));
        let mut result = result();
        result.figures.insert(FINDINGS.into(), json!([before, after]));
        result.layout.tables.extend(table(&result));
        result.layout.check().unwrap();
        let [table] = &result.layout.tables[..] else { panic!("one table") };
        assert_eq!(table.notes.len(), 4);
        assert!(table.notes[0].contains("from the first deadline"), "{:?}", table.notes);
        assert_eq!(table.notes[1], "access width: BAR 2: 1-byte write (here)");
        assert_eq!(table.notes[3], "   in frame_0; from frame_1; from frame_2");
    }

    #[test]
    fn what_was_found_in_several_rows_is_added_up_and_kept_between_runs() {
        let found = |during: &str| Found {
            steps: 2,
            findings: vec![Row::of(&finding(7_000), Time::ZERO, Some(during))],
            unseen: vec![],
        };
        let kept = serde_json::to_string(&found("idle")).unwrap();
        let again: Found = serde_json::from_str(&kept).unwrap();
        let both = again.and(found("busy"));
        let mut result = result();
        both.put(&mut result);
        assert_eq!((steps(&result), result.warnings.len()), (4, 1));
        let words = both.in_words().unwrap();
        assert_eq!(
            words,
            "the driver took 4 steps that it must not take until then: access width, 4 times at BAR 2, first 1-byte \
             write, in frame_0"
        );
        assert_eq!(Found::default().in_words(), None);
        let [row] = &both.findings[..] else { panic!("{both:?}") };
        assert_eq!((row.count, row.during.as_deref()), (4, Some("idle")));
        let table = table(&result).unwrap();
        assert!(table.notes[0].contains("from the beginning of the row"), "{:?}", table.notes);
    }

    #[test]
    fn a_run_of_many_rows_does_not_fill_memory() {
        let of = |number: usize| {
            let row =
                Row { place: number.to_string(), ..Row::of(&finding(7_000), Time::ZERO, None) };
            Found { steps: 2, findings: vec![row], unseen: vec![] }
        };
        let all = (0..2 * MOST).map(of).reduce(Found::and).unwrap();
        assert_eq!((all.findings.len(), all.steps), (MOST, 4 * MOST as u64));
    }
}
