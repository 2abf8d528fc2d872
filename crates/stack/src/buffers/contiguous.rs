//! Contiguous buffers.
