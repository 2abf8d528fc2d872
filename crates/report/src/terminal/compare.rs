//! What `warikomi compare` prints.

use warikomi_measure::layout::{count, percent};

use super::style::Style;
use super::table::Page;
use crate::compare::{Compared, Comparison, Verdict};

/// Two runs side by side, and what follows.
pub fn compare(comparison: &Comparison, style: Style) -> String {
    let mut page = Page::new(style);
    page.heading(&format!("{}: A and B", comparison.experiment));
    page.paragraph("A: ", &comparison.a);
    page.paragraph("B: ", &comparison.b);
    let (tested, untested): (Vec<_>, Vec<_>) =
        comparison.figures.iter().partition(|figure| figure.p.is_some());
    if !tested.is_empty() {
        page.blank();
        let rows: Vec<_> = tested.into_iter().map(|figure| row(figure, true)).collect();
        page.table(&["Figure", "of", "A", "B", "B - A", "p", "verdict"], &rows);
    }
    if !untested.is_empty() {
        page.blank();
        let rows: Vec<_> = untested.into_iter().map(|figure| row(figure, false)).collect();
        page.table(&["No repeats, cannot tell", "of", "A", "B", "B - A"], &rows);
    }
    page.blank();
    page.paragraph(
        "test: ",
        &format!(
            "{}; a difference is beyond noise if p is at most {}, and matters from {} on",
            comparison.test,
            comparison.alpha,
            percent(comparison.threshold_share)
        ),
    );
    let by_chance = comparison.alpha * comparison.tested as f64;
    page.paragraph(
        "tested: ",
        &format!(
            "{} of {} figures; of so many, {by_chance:.2} are expected to differ by chance",
            comparison.tested,
            comparison.figures.len()
        ),
    );
    for caution in &comparison.cautions {
        page.paragraph("note: ", caution);
    }
    page.blank();
    page.paragraph("", conclusion(comparison));
    page.finish()
}

fn conclusion(comparison: &Comparison) -> &'static str {
    match (comparison.is_worse(), comparison.can_tell()) {
        (true, _) => "B is worse than A, beyond noise.",
        (false, true) => "B is not worse than A beyond noise.",
        (false, false) => {
            "No figure has enough repetitions on both sides, so nothing can be told: repeat both \
             (--repeat 5 or more)."
        }
    }
}

fn row(figure: &Compared, tested: bool) -> (bool, Vec<String>) {
    let value = |value| figure.unit.show(value);
    let sign = if figure.b > figure.a { "+" } else { "" };
    let share = figure.difference_share;
    let bytes = figure.size_bytes.map(|bytes| format!("{} bytes", count(bytes)));
    let of: Vec<String> = bytes.into_iter().chain(Some(figure.of.clone())).collect();
    let mut cells = vec![
        figure.title.clone(),
        of.join(" ").trim().to_owned(),
        value(figure.a),
        value(figure.b),
        share.map_or("from 0".to_owned(), |share| format!("{sign}{:.2}%", 100.0 * share)),
    ];
    if tested {
        cells.push(figure.p.map_or(String::new(), |p| format!("{p:.4}")));
        cells.push(word(figure.verdict).to_owned());
    }
    (figure.verdict == Verdict::Worse, cells)
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Worse => "WORSE",
        Verdict::Better => "better",
        Verdict::Differs => "differs",
        Verdict::BelowThreshold => "below threshold",
        Verdict::WithinNoise => "within noise",
        Verdict::TooFewRepeats => "too few repeats",
        Verdict::NoRepeats => "no repeats",
    }
}
