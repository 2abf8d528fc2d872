//! From a result to what a person reads: text on a terminal, plots, a page of HTML, a comparison.

pub mod compare;
mod figures;
pub mod html;
pub mod plot;
pub mod read;
mod replace;
pub mod terminal;
mod transmit;
