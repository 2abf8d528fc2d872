//! What all tables have in common.

use comfy_table::{
    Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle, Width,
};
use warikomi_measure::RunResult;
use warikomi_measure::layout::percent;

use super::style::{MIN_WIDTH, Style};

/// A rule below the header and nothing else, as in a book.
const BOOK: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─'));

/// How far lines hang behind a long first part.
const LONG_INDENT: usize = 2;

const BOLD: &str = "\x1b[1m";
const YELLOW: &str = "\x1b[1;33m";
const RED: &str = "\x1b[1;31m";
const PLAIN: &str = "\x1b[0m";

/// Text that is put together line by line.
///
/// Colours are put around finished lines, because inside of a cell their escape codes would count
/// as width.
pub(super) struct Page {
    style: Style,
    text: String,
}

impl Page {
    pub(super) fn new(style: Style) -> Page {
        Page { style: Style { width: style.width.max(MIN_WIDTH), ..style }, text: String::new() }
    }

    /// The width in columns.
    pub(super) fn width(&self) -> u16 {
        self.style.width
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    /// Ends the page: of a result with rows with the time that the host took, and with what is to be said
    /// against the figures.
    pub(super) fn finish_with_warnings(mut self, result: &RunResult) -> String {
        if let Some(stolen) = result.machine.stolen_percent.filter(|_| result.rows.is_some()) {
            self.blank();
            self.paragraph("time stolen by the host: ", &percent(stolen / 100.0));
        }
        for warning in &result.warnings {
            self.blank();
            self.warning(&warning.what, &warning.hint);
        }
        self.finish()
    }

    pub(super) fn blank(&mut self) {
        self.text.push('\n');
    }

    /// A line that heads what follows.
    pub(super) fn heading(&mut self, line: &str) {
        self.coloured(BOLD, line);
    }

    /// A paragraph, broken at the page's width, with every line but the first hanging.
    pub(super) fn paragraph(&mut self, first: &str, rest: &str) {
        // What is long is no heading, but a part of the text.
        let short = first.chars().count() <= usize::from(self.style.width) / 2;
        let text = if short { rest.to_owned() } else { format!("{first}{rest}") };
        let first = if short { first } else { "" };
        let indent = if short { first.chars().count() } else { LONG_INDENT };
        for (at, line) in wrapped(&text, usize::from(self.style.width) - indent).iter().enumerate()
        {
            let lead = if at == 0 { first.to_owned() } else { " ".repeat(indent) };
            self.line(&format!("{lead}{line}"));
        }
    }

    /// Something to heed, and what to do about it.
    pub(super) fn warning(&mut self, what: &str, hint: &str) {
        let start = self.text.len();
        self.paragraph("warning: ", what);
        if self.style.colour {
            let end = start + "warning:".len();
            self.text.insert_str(end, PLAIN);
            self.text.insert_str(start, YELLOW);
        }
        self.paragraph("   hint: ", hint);
    }

    /// A table: its header, and rows of which the ones marked `true` are alarming.
    pub(super) fn table(&mut self, header: &[&str], rows: &[(bool, Vec<String>)]) {
        let mut table = Table::new();
        table.load_style(BOOK);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(self.style.width);
        table.set_header(header.iter().enumerate().map(aligned));
        for (_, row) in rows {
            table.add_row(row.iter().enumerate().map(aligned));
        }
        self.keep_words_whole(&mut table, header, rows);
        let lines: Vec<String> = table.lines().collect();
        // A row that had to be broken takes several lines; then none is coloured, not the wrong
        // one.
        let one_line_each = lines.len() == rows.len() + 2;
        for (at, line) in lines.iter().enumerate() {
            let row = at.checked_sub(2).and_then(|row| rows.get(row));
            match row {
                None if at == 0 => self.coloured(BOLD, line.trim_end()),
                Some((true, _)) if one_line_each => self.coloured(RED, line.trim_end()),
                _ => self.line(line.trim_end()),
            }
        }
    }

    /// A header may be broken between its words, a figure nowhere. Where that is too wide, columns move
    /// together.
    fn keep_words_whole(&self, table: &mut Table, header: &[&str], rows: &[(bool, Vec<String>)]) {
        let length = |text: &str| text.chars().count();
        let least = |column: usize| {
            let words = header.get(column).into_iter().flat_map(|title| title.split(' '));
            let cells = rows.iter().filter_map(|(_, row)| row.get(column)).map(String::as_str);
            words.chain(cells).map(length).max().unwrap_or(0)
        };
        let columns = header.len();
        let content: usize = (0..columns).map(least).sum();
        let apart = content + 2 * columns <= usize::from(self.style.width);
        for (at, column) in table.column_iter_mut().enumerate() {
            let padding = match apart {
                true => (1, 1),
                false => (0, u16::from(at + 1 < columns)),
            };
            let width = least(at) + usize::from(padding.0 + padding.1);
            let width = Width::Fixed(u16::try_from(width).unwrap_or(u16::MAX));
            column.set_padding(padding).set_constraint(ColumnConstraint::LowerBoundary(width));
        }
    }

    fn line(&mut self, line: &str) {
        self.put(line);
        self.text.push('\n');
    }

    fn coloured(&mut self, colour: &str, line: &str) {
        if !self.style.colour {
            return self.line(line);
        }
        self.text.push_str(colour);
        self.put(line);
        self.text.push_str(PLAIN);
        self.text.push('\n');
    }

    /// A result may come from elsewhere: no escape sequence in it reaches the terminal.
    fn put(&mut self, line: &str) {
        self.text.extend(line.chars().filter(|c| !c.is_control()));
    }
}

/// Names to the left, figures to the right.
fn aligned<T: ToString>((column, content): (usize, T)) -> Cell {
    let side = if column == 0 { CellAlignment::Left } else { CellAlignment::Right };
    Cell::new(content).set_alignment(side)
}

/// Breaks a text between words. A word that is longer than a line has a line of its own.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn wrapping_loses_no_word(text in "[a-zé ]{0,200}", width in 1usize..80) {
            let lines = wrapped(&text, width);
            let words: Vec<&str> = text.split_whitespace().collect();
            let joined = lines.join(" ");
            prop_assert_eq!(joined.split_whitespace().collect::<Vec<_>>(), words);
            for line in &lines {
                prop_assert!(line.chars().count() <= width || !line.contains(' '));
            }
        }
    }

    #[test]
    fn a_table_that_is_too_wide_moves_together_and_breaks_no_figure() {
        let mut page = Page::new(Style { colour: false, width: 80 });
        let header = ["way", "load", "kind", "count", "min", "mean", "p99", "max", "outage max"];
        let row = ["shared-state", "busy", "planned", "5", "68.73 µs", "83.79 µs", "99.55 µs"];
        let row: Vec<String> =
            row.into_iter().chain(["99.55 µs", "95.24 µs"]).map(String::from).collect();
        page.table(&header, &[(false, row.clone())]);
        let text = page.finish();
        for cell in &row {
            assert!(text.contains(cell.as_str()), "{cell}:\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn no_control_character_of_a_result_reaches_the_terminal() {
        let draw = |colour| {
            let mut page = Page::new(Style { colour, width: 80 });
            let evil = "\x1b[2J\x07a";
            page.heading(evil);
            page.paragraph(evil, evil);
            page.table(&[evil, "b"], &[(true, vec![evil.into(), "1".into()])]);
            page.warning(evil, evil);
            page.finish()
        };
        let text = draw(false);
        assert!(
            text.contains("[2Ja") && !text.contains(|c: char| c.is_control() && c != '\n'),
            "{text:?}"
        );
        let own = [BOLD, YELLOW, RED, PLAIN];
        let coloured = own.iter().fold(draw(true), |text, code| text.replace(code, ""));
        assert_eq!(coloured, text, "colours are our own");
    }

    #[test]
    fn without_colour_there_is_no_escape_code() {
        let draw = |colour| {
            let mut page = Page::new(Style { colour, width: 80 });
            page.heading("head");
            page.table(&["a", "b"], &[(true, vec!["c".into(), "1".into()])]);
            page.warning("what", "hint");
            page.finish()
        };
        assert!(!draw(false).contains('\x1b'));
        let coloured = draw(true);
        let plain = [BOLD, YELLOW, RED, PLAIN]
            .iter()
            .fold(coloured.clone(), |text, code| text.replace(code, ""));
        assert_eq!(plain, draw(false), "colour adds nothing but colour");
        assert!(coloured.contains(RED) && coloured.contains(YELLOW));
    }
}
