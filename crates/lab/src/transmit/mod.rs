//! Transmit: message size × buffers × completion strategy × bounce buffer.

pub mod kernel;
mod row;
pub mod wire;

pub use row::Row;
