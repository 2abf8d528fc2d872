//! What tables, maps and plots of a page have in common: cells, and files to be downloaded.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, html};
use serde::Serialize;

use super::tables::Cell;
use crate::read::Run;

/// A text that is longer has lines.
const LONG: usize = 40;

/// The longest text of a result's own settings, in bytes. A nested one is longer than its file by what it is indented.
const MAX_JSON_BYTES: usize = 1024 * 1024;

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

/// Settings of a result, as they are in its file.
pub(super) fn json(values: &impl Serialize) -> Markup {
    let mut text = Bounded(Vec::new());
    match serde_json::to_writer_pretty(&mut text, values) {
        Ok(()) => html! { pre { (String::from_utf8_lossy(&text.0)) } },
        Err(_) => html! { p { "Too long to be shown: see result.json." } },
    }
}

/// Takes no more than a page can show.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_JSON_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    #[test]
    fn settings_are_shown_up_to_a_length_that_a_page_can_have() {
        assert_eq!(
            super::json(&json!({ "a": "<1>" })).0,
            "<pre>{\n  &quot;a&quot;: &quot;&lt;1&gt;&quot;\n}</pre>"
        );
        let nested = (0..100).fold(json!(vec![1; 10_000]), |inner, _| Value::Array(vec![inner]));
        assert!(super::json(&nested).0.contains("see result.json"));
    }
}
