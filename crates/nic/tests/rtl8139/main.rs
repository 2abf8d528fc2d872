//! The RTL8139 models, judged from their drivers' side.

#![allow(missing_docs)]

mod cp;
mod cplus;
mod paced;
mod receive;
mod registers;
mod too;
mod transmit;
