use warikomi_clock::Time;

use super::checker::Checker;
use crate::Event;

/// A buffer has one owner at a time: none (free), the driver with its ring, or what is between driver and
/// application. It goes from one to the next and never comes twice. A driver that stops its device keeps none, and only
/// what was forgotten with the rings is freed without it.
pub struct Ownership {
    owners: Vec<Owner>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Free,
    Driver,
    /// It was on a ring that is forgotten, and comes back.
    Forgotten,
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

    fn ring_is_forgotten(&mut self) {
        let on_ring = self.owners.iter_mut().filter(|owner| **owner == Owner::Driver);
        on_ring.for_each(|owner| *owner = Owner::Forgotten);
    }

    fn quiesced(&self) -> Result<(), String> {
        match self.owners.iter().position(|owner| *owner == Owner::Driver) {
            Some(token) => Err(format!("the driver stopped its device and kept buffer {token}")),
            None => Ok(()),
        }
    }
}

impl Checker for Ownership {
    fn name(&self) -> &'static str {
        "ownership"
    }

    fn check(&mut self, _: Time, event: &Event) -> Result<(), String> {
        use Owner::{Above, Done, Driver, Forgotten, Free, Returned};
        match *event {
            Event::BufferPosted { token } => self.passes(token, &[Free, Returned], Driver),
            Event::FrameReceived { token, .. } => self.passes(token, &[Driver], Above),
            Event::BufferReturned { token } => self.passes(token, &[Driver], Returned),
            Event::Delivered { token, .. } => self.passes(token, &[Above], Done),
            // From above when a part has died: the ledger asks for that.
            Event::BufferFreed { token } => self.passes(token, &[Done, Forgotten, Above], Free),
            Event::Forgotten => {
                self.ring_is_forgotten();
                Ok(())
            }
            Event::Quiesced => self.quiesced(),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POSTED: Event = Event::BufferPosted { token: 0 };
    const FREED: Event = Event::BufferFreed { token: 0 };
    const RETURNED: Event = Event::BufferReturned { token: 0 };

    fn judged(events: &[Event]) -> Result<(), String> {
        let mut ownership = Ownership::new(1);
        events.iter().try_for_each(|event| ownership.check(Time::ZERO, event))
    }

    #[test]
    fn a_buffer_on_the_ring_is_freed_only_if_the_ring_is_forgotten() {
        assert_eq!(judged(&[POSTED, Event::Forgotten, FREED, POSTED]), Ok(()));
        assert!(judged(&[POSTED, FREED]).unwrap_err().contains("goes to Free from Driver"));
        // What is posted behind it is on a new ring.
        assert!(judged(&[Event::Forgotten, POSTED, FREED]).is_err());
        // And what was forgotten holds no frame.
        let received = Event::FrameReceived { token: 0, sequence: Some(0), bytes: 60 };
        assert!(judged(&[POSTED, Event::Forgotten, received]).is_err());
    }

    #[test]
    fn a_driver_that_stops_its_device_keeps_no_buffer() {
        assert_eq!(judged(&[POSTED, RETURNED, Event::Quiesced]), Ok(()));
        assert!(judged(&[POSTED, Event::Quiesced]).unwrap_err().contains("kept buffer 0"));
    }
}
