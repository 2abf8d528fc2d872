//! The RTL8168 model, judged from the driver's side.

#![allow(missing_docs)]

mod driver;
mod receive;
mod speed;
