//! A running program stopped at places in its code.
//!
//! Nothing of the program is changed but for the byte of a breakpoint while it stands: a [`Tracee`] is a process
//! that we trace (ptrace), [`Code`] says where in a program or a kernel's module a function, a line, an
//! instruction is, and [`call_stack`] who called what. [`Gdb`] takes over where it stands.

mod code;
mod elf;
mod function;
mod gdb;
mod libraries;
mod lines;
mod memory;
mod place;
mod stack;
mod tracee;
mod types;

pub use code::{Code, Location, Program};
pub use elf::{Mark, Variable};
pub use function::{CodeError, Function};
pub use gdb::Gdb;
pub use memory::Memory;
pub use place::{ParsePlaceError, Place, PlaceError};
pub use stack::{Frame, call_stack};
pub use tracee::{Registers, Stop, Tracee, TraceeError};
