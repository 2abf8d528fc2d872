//! The report against the raw samples.

mod fixtures;
