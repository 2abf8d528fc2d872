//! Transmit: message size × buffers × completion strategy × bounce buffer.

mod row;
pub mod wire;

pub use row::Row;
