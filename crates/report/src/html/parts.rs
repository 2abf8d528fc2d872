//! What tables, maps and plots of a page have in common: cells, and files to be downloaded.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, html};

use super::tables::Cell;
use crate::read::Run;

/// A text that is longer has lines.
const LONG: usize = 40;

/// A cell of a table, with its figure in full behind it.
pub(super) fn cell_markup(cell: &Cell) -> Markup {
    let figure = html! { data value=(cell.raw) title=(cell.raw) { (cell.shown) } };
    html! {
        @if let Some(part) = cell.bar {
            td.bar style={ "--part:" (part) "%" } { (figure) }
        } @else if cell.shown.len() > LONG {
            td.long { (figure) }
        } @else {
            td { (figure) }
        }
    }
}

/// A link that has its file in itself.
pub(super) fn download(run: &Run, name: &str, csv: &str) -> Markup {
    let file = format!("{}-{name}.csv", run.name);
    html! {
        a download=(file) href={ "data:text/csv;charset=utf-8;base64," (STANDARD.encode(csv)) } {
            "The numbers (CSV)"
        }
    }
}
