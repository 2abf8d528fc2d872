//! From a result to what a person reads: text on a terminal, plots, a page of HTML, a comparison.
//!
//! Nothing here knows an experiment. What a table or a chart has in it follows from what the result says of its
//! columns ([`Layout`](warikomi_measure::Layout)).

mod columns;
pub mod compare;
mod figures;
pub mod html;
pub mod plot;
pub mod read;
pub mod terminal;
