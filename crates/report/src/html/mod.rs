//! One file of HTML for any number of runs: tables, plots, the numbers behind both, the plans, the
//! machines and the warnings. Nothing in it comes from a network.

mod tables;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use warikomi_measure::{RunResult, TimeBase, Warning};

use crate::plot::{Chart, DrawError};
use crate::read::Run;
use tables::{Table, machine, tables};

/// A run and its charts.
#[derive(Clone, Debug)]
pub struct Section {
    /// The run.
    pub run: Run,
    /// Its charts, as [`crate::plot::charts`] makes them.
    pub charts: Vec<Chart>,
}

/// The page.
pub fn page(sections: &[Section]) -> Result<String, DrawError> {
    let bodies = sections
        .iter()
        .enumerate()
        .map(|(at, one)| section(at + 1, one))
        .collect::<Result<Vec<_>, _>>()?;
    let title = match sections {
        [one] => format!("Warikomi: {}", one.run.result.experiment),
        several => format!("Warikomi: {} runs", several.len()),
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body {
                h1 { (title) }
                @if sections.len() > 1 {
                    ul {
                        @for (at, one) in sections.iter().enumerate() {
                            li { a href={ "#run-" (at + 1) } { (one.run.result.experiment) } " (" (one.run.name) ")" }
                        }
                    }
                }
                @for body in &bodies { (body) }
                p.soft {
                    "Made by warikomi " (env!("CARGO_PKG_VERSION")) ". Hold the pointer over a figure \
                     to see it in full. Downloads are in this file: it needs no network."
                }
            }
        }
    };
    Ok(page.into_string())
}

fn section(number: usize, section: &Section) -> Result<Markup, DrawError> {
    let Section { run, charts } = section;
    let result = &run.result;
    let plots = charts.iter().map(|chart| figure(run, chart)).collect::<Result<Vec<_>, _>>()?;
    Ok(html! {
        section id={ "run-" (number) } {
            h2 { (result.experiment) ": " (run.name) }
            p { (what_was_tested(result)) }
            (warnings(&result.warnings))
            @for table in tables(result) { (table_markup(run, &table)) }
            @for plot in &plots { (plot) }
            h3 { "Machine" }
            (words(&machine(&result.machine)))
            details {
                summary { "Plan and settings" }
                @if let Some(plan) = &run.plan {
                    p.soft { "plan.toml: runs it again" }
                    pre { (plan) }
                } @else if !result.plan.is_empty() {
                    pre { (serde_json::to_string_pretty(&result.plan).unwrap_or_default()) }
                } @else {
                    p { "This run has no plan." }
                }
                @if !result.target.settings.is_empty() {
                    p.soft { "In force in the target" }
                    pre { (serde_json::to_string_pretty(&result.target.settings).unwrap_or_default()) }
                }
            }
        }
    })
}

fn what_was_tested(result: &RunResult) -> String {
    let target = &result.target;
    let kernel = target.kernel.as_ref().map_or(String::new(), |kernel| format!(", Linux {kernel}"));
    let time = match result.time_base {
        TimeBase::Real => "real time",
        TimeBase::Virtual => "virtual time",
    };
    let version =
        result.version.as_ref().map_or(String::new(), |version| format!("; warikomi {version}"));
    format!(
        "{} on {} ({} target{kernel}), {time}{version}",
        target.driver, target.model, target.kind
    )
}

fn warnings(warnings: &[Warning]) -> Markup {
    html! {
        @for warning in warnings {
            div.warning role="note" {
                p { strong { "Warning: " } (warning.what) }
                p { "What to do: " (warning.mend) }
            }
        }
    }
}

/// Rows that a page shows without being asked: what is behind a longer table would not be found.
const ROWS_SHOWN: usize = 60;

fn table_markup(run: &Run, table: &Table) -> Markup {
    html! {
        h3 { (table.title) }
        @if table.rows.len() > ROWS_SHOWN {
            details {
                summary { (table.rows.len()) " rows" }
                (grid(table))
            }
        } @else {
            (grid(table))
        }
        @for note in &table.notes { p.soft { (note) } }
        p.soft { (download(run, table.name, &table.csv())) }
    }
}

fn grid(table: &Table) -> Markup {
    html! {
        div.wide {
            table {
                thead { tr { @for head in &table.header { th scope="col" { (head.shown) } } } }
                tbody {
                    @for row in &table.rows {
                        tr { @for cell in row { td { data value=(cell.raw) title=(cell.raw) { (cell.shown) } } } }
                    }
                }
            }
        }
    }
}

fn words(rows: &[(&'static str, String)]) -> Markup {
    html! {
        table.words { tbody { @for (name, value) in rows { tr { th scope="row" { (name) } td { (value) } } } } }
    }
}

fn figure(run: &Run, chart: &Chart) -> Result<Markup, DrawError> {
    let svg = chart.svg()?;
    Ok(html! {
        figure {
            div.wide { (PreEscaped(svg)) }
            figcaption {
                @for note in &chart.notes { (note) " " }
                (download(run, &chart.name, &chart.csv()))
            }
        }
    })
}

/// A link that has its file in itself.
fn download(run: &Run, name: &str, csv: &str) -> Markup {
    let file = format!("{}-{name}.csv", run.name);
    html! {
        a download=(file) href={ "data:text/csv;charset=utf-8;base64," (STANDARD.encode(csv)) } {
            "The numbers (CSV)"
        }
    }
}
