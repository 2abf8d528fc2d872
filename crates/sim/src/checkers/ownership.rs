use warikomi_clock::Time;

use super::checker::Checker;
use crate::Event;

/// A buffer has one owner at a time: nobody (free), the driver with its ring, or whoever is between
/// driver and application. It goes from one to the next and never comes twice.
pub struct Ownership {
    owners: Vec<Owner>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Free,
    Driver,
    /// The driver has given it back, without a frame.
    Returned,
    Above,
    /// The application is done with it.
    Done,
}

impl Ownership {
    /// For so many buffers, all free.
    pub fn new(buffers: usize) -> Ownership {
        Ownership { owners: vec![Owner::Free; buffers] }
    }

    fn passes(&mut self, token: u32, from: &[Owner], to: Owner) -> Result<(), String> {
        let owner = self
            .owners
            .get_mut(token as usize)
            .ok_or_else(|| format!("there is no buffer {token}"))?;
        let before = std::mem::replace(owner, to);
        if from.contains(&before) {
            return Ok(());
        }
        Err(format!("buffer {token} goes to {to:?} from {before:?}, not from one of {from:?}"))
    }
}

impl Checker for Ownership {
    fn name(&self) -> &'static str {
        "ownership"
    }

    fn check(&mut self, _: Time, event: &Event) -> Result<(), String> {
        use Owner::{Above, Done, Driver, Free, Returned};
        match *event {
            Event::BufferPosted { token } => self.passes(token, &[Free, Returned], Driver),
            Event::FrameReceived { token, .. } => self.passes(token, &[Driver], Above),
            Event::BufferReturned { token } => self.passes(token, &[Driver], Returned),
            Event::Delivered { token, .. } => self.passes(token, &[Above], Done),
            // Also from the ring and from above, when a part has died.
            Event::BufferFreed { token } => {
                self.passes(token, &[Done, Driver, Above, Returned], Free)
            }
            _ => Ok(()),
        }
    }
}
