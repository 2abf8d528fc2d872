//! What says "fitted" where figures rest on something that was fitted to a published result: the bus
//! `fitted-2004`, the costs `fitted-bsd-2004`. What stands beside the published figure was put in then.

use serde_json::{Value, json};
use warikomi_measure::RunResult;
use warikomi_measure::layout::{Column, Layout};
use warikomi_nic::bus::Bus;
use warikomi_sim::transmit::SendCosts;

/// The key in `figures`: the names of what was fitted.
pub(super) const KEY: &str = "fitted";
/// The most names that are shown.
const MOST_NAMES: usize = 4;

/// Keeps in the result what of this was fitted.
pub(super) fn note(result: &mut RunResult, bus: Option<&Bus>, costs: Option<&SendCosts>) {
    let bus = bus.filter(|bus| bus.is_fitted()).map(|bus| format!("bus {bus}"));
    let costs = costs.and_then(SendCosts::fitted_name).map(|name| format!("costs {name}"));
    let all: Vec<String> = bus.into_iter().chain(costs).collect();
    if !all.is_empty() {
        result.figures.insert(KEY.to_owned(), json!(all));
    }
}

fn names(result: &RunResult) -> Vec<String> {
    let names = result.figures.get(KEY).and_then(Value::as_array);
    let names = names.into_iter().flatten().filter_map(Value::as_str);
    names.take(MOST_NAMES).map(str::to_owned).collect()
}

/// Writes it into every column, table, chart, headline and remark of the result's layout.
pub(super) fn mark(result: &mut RunResult) {
    let names = names(result);
    if names.is_empty() {
        return;
    }
    let layout = &mut result.layout;
    layout.columns.iter_mut().for_each(mark_column);
    for text in texts(layout) {
        mark_text(text);
    }
    for remark in &mut layout.remarks {
        remark.text += " (fitted)";
    }
    for table in &mut layout.tables {
        table.columns.iter_mut().for_each(mark_title);
    }
    layout.say(
        KEY,
        format!(
            "{} follow from the published figures, so what stands beside these is what was put in",
            names.join(" and ")
        ),
    );
}

/// Titles of views, charts and headlines.
fn texts(layout: &mut Layout) -> impl Iterator<Item = &mut String> {
    let views = layout.views.iter_mut().map(|view| &mut view.title);
    let charts = layout.charts.iter_mut().map(|chart| &mut chart.title);
    let headlines = layout.headline.iter_mut().map(|headline| &mut headline.title);
    views.chain(charts).chain(headlines)
}

fn mark_text(text: &mut String) {
    text.push_str(if text.is_empty() { KEY } else { ", fitted" });
}

/// A figure's title says it; a terminal, which has little room, says it above the table.
fn mark_column(column: &mut Column) {
    if column.head.is_empty() {
        column.head.clone_from(&column.title);
    }
    mark_title(column);
}

fn mark_title(column: &mut Column) {
    if !column.parameter && !column.key.starts_with("published") {
        mark_text(&mut column.title);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transmit::Row;
    use warikomi_measure::layout::{Chart, Headline, Table, Unit, View};
    use warikomi_measure::{Machine, TargetInfo, TimeBase, table};

    fn described() -> RunResult {
        let columns =
            || vec![Column::parameter("size_bytes", "bytes"), Column::figure("bps", "Mbit/s")];
        let here =
            vec![Column::figure("published_bps", "published"), Column::figure("here_bps", "here")];
        let headline = Headline {
            title: "gain".into(),
            value: 0.1,
            unit: Unit::Change,
            published: None,
            of: String::new(),
        };
        let target = (Machine::default(), TargetInfo::default());
        let rows: [Row; 0] = [];
        let mut result =
            table("transmit", TimeBase::Virtual, target.0, target.1, &json!({}), &rows);
        result.layout = Layout {
            columns: columns(),
            views: vec![View { title: "mbuf-2k".into(), ..View::default() }],
            tables: vec![Table::here("published", "", here, Vec::new())],
            charts: vec![Chart { title: "Throughput".into(), ..Chart::default() }],
            headline: vec![headline],
            ..Layout::default()
        };
        result.layout.say("advice", "use adaptive");
        result
    }

    #[test]
    fn what_rests_on_a_fitted_bus_or_fitted_costs_says_so_in_each_column_table_and_remark() {
        let mut result = described();
        let bus = "fitted-2004,wait=60ns".parse().unwrap();
        note(&mut result, Some(&bus), Some(&SendCosts::FITTED_BSD_2004));
        mark(&mut result);
        let layout = &result.layout;
        let titles: Vec<_> = layout.columns.iter().map(|column| column.title.as_str()).collect();
        assert_eq!(titles, ["bytes", "Mbit/s, fitted"]);
        assert_eq!(layout.columns[1].head, "Mbit/s");
        let titles: Vec<_> = layout.tables[0].columns.iter().map(|c| c.title.as_str()).collect();
        assert_eq!(titles, ["published", "here, fitted"]);
        assert_eq!(layout.views[0].title, "mbuf-2k, fitted");
        assert_eq!(layout.charts[0].title, "Throughput, fitted");
        assert_eq!(layout.headline[0].title, "gain, fitted");
        assert_eq!(layout.remarks[0].text, "use adaptive (fitted)");
        let said = &layout.remarks[1].text;
        assert!(said.starts_with("bus fitted-2004,wait=60ns and costs fitted-bsd-2004"), "{said}");
    }

    #[test]
    fn what_follows_from_documents_and_counted_costs_is_shown_as_it_is() {
        let mut result = described();
        let bus = "pci-64-66".parse().unwrap();
        note(&mut result, Some(&bus), Some(&SendCosts::default()));
        mark(&mut result);
        assert_eq!(result.layout, described().layout);
        assert!(result.figures.is_empty());
    }
}
