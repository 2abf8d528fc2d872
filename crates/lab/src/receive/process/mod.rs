//! Ways to receive in a driver of our own, in a process of its own.

mod compute;
