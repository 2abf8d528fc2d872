//! Transmit: message size × buffers × completion strategy × bounce buffer.

mod row;

pub use row::Row;
