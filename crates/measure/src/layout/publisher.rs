//! Names the published system, and its year, beside what a layout has as published.

use super::{Column, Layout};

const WORD: &str = "published";

impl Layout {
    /// Says that `by` has published what stands in this layout as published. Short heads of a terminal's columns
    /// and the names of curves stay; a remark says it for them.
    pub fn name_publisher(&mut self, by: &str) {
        let tables = self.tables.iter_mut().flat_map(|table| &mut table.columns);
        let mut named = false;
        for column in self.columns.iter_mut().chain(tables) {
            named |= name_column(column, by);
        }
        // One that names a system itself says more.
        let figures = self.headline.iter_mut();
        for figure in figures.filter(|one| one.published.is_some() && !one.of.contains(WORD)) {
            named = true;
            let apart = if figure.of.is_empty() { "" } else { "; " };
            figure.of += &format!("{apart}published: {by}");
        }
        if named {
            self.say(WORD, format!("by {by}"));
        }
    }
}

fn name_column(column: &mut Column, by: &str) -> bool {
    let before = column.title.clone();
    let named = column.key.starts_with(WORD) && name_text(&mut column.title, by);
    if named && column.head.is_empty() {
        column.head = before;
    }
    named
}

/// Puts the name behind the first "published" of a text that has none yet.
fn name_text(text: &mut String, by: &str) -> bool {
    let Some(at) = text.find(WORD).filter(|_| !text.contains(by)) else { return false };
    text.insert_str(at + WORD.len(), &format!(" ({by})"));
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Headline, Table, Unit};

    const BY: &str = "a system, 1999";

    #[test]
    fn each_published_figure_names_its_system_and_year() {
        let columns = || {
            vec![
                Column::figure("send_ns", "send").published("published_send_ns"),
                Column::figure("published_send_ns", "send, published"),
                Column::figure("published_copy_ns", "copy, published").head("published copy"),
            ]
        };
        let mut layout = Layout {
            columns: columns(),
            tables: vec![Table::here("beside", "", columns(), vec![])],
            headline: vec![Headline {
                title: "send".into(),
                value: 1.0,
                unit: Unit::Ns,
                published: Some(2.0),
                of: "1 KB".into(),
            }],
            ..Layout::default()
        };
        layout.name_publisher(BY);
        for columns in [&layout.columns, &layout.tables[0].columns] {
            let said = [1, 2].map(|at| (&*columns[at].title, &*columns[at].head));
            assert_eq!(columns[0].title, "send");
            assert_eq!(said[0], ("send, published (a system, 1999)", "send, published"));
            assert_eq!(said[1], ("copy, published (a system, 1999)", "published copy"));
        }
        assert_eq!(layout.headline[0].of, "1 KB; published: a system, 1999");
        assert_eq!(layout.remarks[0].text, "by a system, 1999");
    }

    #[test]
    fn a_layout_without_published_figures_names_nobody() {
        let mut layout =
            Layout { columns: vec![Column::figure("send_ns", "send")], ..Layout::default() };
        let before = layout.clone();
        layout.name_publisher(BY);
        assert_eq!(layout, before);
    }
}
