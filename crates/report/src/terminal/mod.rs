//! Tables for a terminal.

mod compare;
mod ledger;
mod map;
mod style;
mod table;
mod view;

use warikomi_measure::layout::{Layout, View};
use warikomi_measure::{RunResult, TimeBase};

use crate::columns;
use table::Page;

pub use compare::compare;
pub use style::Style;

/// A result as a page of text: what was tested and asked for; its rows, or, of a result without any, what
/// became of the packets; its further tables; what a reader must be told, and what is to be said against it.
pub fn page(result: &RunResult, style: Style) -> String {
    let mut page = Page::new(style);
    let layout = &result.layout;
    page.heading(&tested(result));
    if let Some(asked) = layout.asked.clone().or_else(|| ledger::asked_for(result)) {
        page.paragraph("asked: ", &asked);
    }
    match &result.rows {
        None => ledger::sections(&mut page, result),
        Some(_) => views(&mut page, result, layout),
    }
    for table in &layout.tables {
        let (columns, rows) = columns::of_table(result, table);
        if !columns.is_empty() && !rows.is_empty() {
            page.blank();
            let view = View { turned: table.turned, notes: table.notes.clone(), ..View::default() };
            view::draw(&mut page, &table.title, &columns, &rows, &view);
        }
    }
    layout.maps.iter().for_each(|one| map::draw(&mut page, result, one));
    for remark in &layout.remarks {
        page.blank();
        page.paragraph(&format!("{}: ", remark.lead), &remark.text);
    }
    page.finish_with_warnings(result)
}

fn views(page: &mut Page, result: &RunResult, layout: &Layout) {
    let rows: Vec<_> = result.rows.iter().flatten().collect();
    let one = [View { turned: true, ..View::default() }];
    let views = if layout.views.is_empty() { &one[..] } else { &layout.views };
    views.iter().for_each(|view| view::view(page, layout, &rows, view));
}

/// The line that says what was tested.
fn tested(result: &RunResult) -> String {
    let target = &result.target;
    let kernel = target.kernel.as_ref().map_or(String::new(), |kernel| format!(", Linux {kernel}"));
    let time = match result.time_base {
        TimeBase::Real => "real time",
        TimeBase::Virtual => "virtual time",
    };
    match target.kind.as_str() {
        "" => format!("{}, {time}", result.experiment),
        kind => format!("{} on {} ({kind} target{kernel}), {time}", target.driver, target.model),
    }
}
