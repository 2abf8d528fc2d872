//! Transmit: message size × buffers × completion strategy × bounce buffer.
//!
//! [`Options`] say which rows there are. A row is a run of the sender (`warikomi_stack::send`), in real time
//! in a process of its own ([`real`]), or in virtual time ([`simulated`]); every frame that it sends is judged
//! by the wire ([`numbered`](warikomi_wire::peer::numbered)), and one that is lost, doubled, out of order or
//! changed fails the experiment. Each run of the sender is a step that is kept, the pilots by which rates are
//! estimated as well: a comparison that goes on has the same numbers of messages as before. A real kernel sends by its own driver, from its own buffers ([`kernel`]).

mod advice;
mod beside;
mod columns;
mod fitted;
mod flags;
pub mod kernel;
mod lengths;
mod made;
pub mod mixed;
mod options;
pub mod real;
mod row;
mod segmentation;
mod series;
mod shares;
pub mod simulated;
mod traffic;

pub use flags::Transmit;
pub use made::Transmitted;
pub use options::{Amount, Options, Pace};
pub use row::{Repetition, Row};
pub use traffic::{Mixture, Traffic};
