//! One file of HTML for any number of runs: tables, plots, the numbers behind both, the plans, the
//! machines and the warnings. Nothing in it comes from a network. It runs one script, ours, which its content
//! security policy names by its hash; without the script the page is complete.

mod maps;
mod parts;
mod tables;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};
use warikomi_measure::layout::{Headline, Remark};
use warikomi_measure::{RunResult, TimeBase, Warning};

use crate::plot::Chart;
use crate::read::Run;
use maps::map_markup;
use parts::{cell_markup, download, json};
use tables::{Table, machine, tables};

/// A run and its charts.
#[derive(Clone, Debug)]
pub struct Section {
    /// The run.
    pub run: Run,
    /// Its charts, as [`crate::plot::charts`] makes them.
    pub charts: Vec<Chart>,
}

/// Our script. Nothing else in a page runs: the page allows a script with this content only.
const SCRIPT: &str = include_str!("script.js");

/// The page.
pub fn page(sections: &[Section]) -> String {
    let bodies: Vec<Markup> =
        sections.iter().enumerate().map(|(at, one)| section(at + 1, one)).collect();
    let title = match sections {
        [one] => format!("Warikomi: {}", one.run.result.experiment),
        several => format!("Warikomi: {} runs", several.len()),
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy());
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
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// What a page may do: show itself, and run our script. A script that a file smuggled in would not run, and
/// nothing is loaded from anywhere.
fn policy() -> String {
    let hash = STANDARD.encode(Sha256::digest(SCRIPT));
    format!("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'")
}

fn section(number: usize, section: &Section) -> Markup {
    let Section { run, charts } = section;
    let result = &run.result;
    html! {
        section id={ "run-" (number) } {
            h2 { (result.experiment) ": " (run.name) }
            p { (what_was_tested(result)) }
            @if let Some(asked) = &result.layout.asked { p.soft { "Asked: " (asked) } }
            (headline(&result.layout.headline))
            (remarks(&result.layout.remarks))
            (warnings(&result.warnings))
            @if !charts.is_empty() {
                p.soft.how hidden {
                    "Plots: hold the pointer near a point for its numbers, drag a box to zoom, double-click to go \
                     back, click a name below a plot to switch it off."
                }
                div.charts { @for chart in charts { (figure(run, chart)) } }
            }
            @for map in &result.layout.maps { (map_markup(run, map)) }
            @for table in tables(result) { (table_markup(run, &table)) }
            h3 { "Machine" }
            (words(&machine(&result.machine)))
            (plan(run))
        }
    }
}

/// The figures that matter most, with what was published.
fn headline(figures: &[Headline]) -> Markup {
    html! {
        @if !figures.is_empty() {
            div.cards {
                @for figure in figures {
                    div.card {
                        p { (figure.title) }
                        p.value { data value=(figure.value) title=(figure.value) { (figure.unit.show(figure.value)) } }
                        @if let Some(published) = figure.published {
                            p.published { "published: " (figure.unit.show(published)) }
                        }
                        p.soft { (figure.of) }
                    }
                }
            }
        }
    }
}

/// What a reader must be told. Advice comes first.
fn remarks(remarks: &[Remark]) -> Markup {
    let (first, others): (Vec<_>, Vec<_>) =
        remarks.iter().partition(|remark| remark.lead == "advice");
    html! {
        @for remark in first {
            div.remark.first { p { strong { (remark.lead) ": " } (remark.text) } }
        }
        @for remark in others {
            div.remark { p { strong { (remark.lead) ": " } (remark.text) } }
        }
    }
}

fn plan(run: &Run) -> Markup {
    let result = &run.result;
    html! {
        details {
            summary { "Plan and settings" }
            @if let Some(plan) = &run.plan {
                p.soft { "plan.toml: runs it again" }
                pre { (plan) }
            } @else if !result.plan.is_empty() {
                (json(&result.plan))
            } @else {
                p { "This run has no plan." }
            }
            @if !result.target.settings.is_empty() {
                p.soft { "In force in the target" }
                (json(&result.target.settings))
            }
        }
    }
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
                p { "What to do: " (warning.hint) }
            }
        }
    }
}

/// Rows that a page shows without being asked: what is behind a longer table would not be found.
const ROWS_SHOWN: usize = 60;

fn table_markup(run: &Run, table: &Table) -> Markup {
    html! {
        @if !table.title.is_empty() { h3 { (table.title) } }
        @if table.rows.len() > ROWS_SHOWN {
            details {
                summary { (table.rows.len()) " rows" }
                (grid(table))
            }
        } @else {
            (grid(table))
        }
        @for note in &table.notes { p.soft { (note) } }
        p.soft { (download(run, &table.name, &table.csv())) }
    }
}

fn grid(table: &Table) -> Markup {
    html! {
        div.wide {
            table {
                thead { tr { @for head in &table.header { th scope="col" title=(head.raw) { (head.shown) } } } }
                tbody { @for row in &table.rows { tr { @for cell in row { (cell_markup(cell)) } } } }
            }
        }
    }
}

fn words(rows: &[(&'static str, String)]) -> Markup {
    html! {
        table.words { tbody { @for (name, value) in rows { tr { th scope="row" { (name) } td { (value) } } } } }
    }
}

fn figure(run: &Run, chart: &Chart) -> Markup {
    html! {
        figure {
            div.wide { (PreEscaped(chart.svg())) }
            figcaption {
                @for note in &chart.notes { (note) " " }
                (download(run, &chart.name, &chart.csv()))
            }
        }
    }
}
