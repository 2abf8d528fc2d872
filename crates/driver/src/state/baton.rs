//! The baton: whose the device is.

use std::sync::atomic::Ordering::{Acquire, Release};

use warikomi_pci::attach::area::{BATON, OWNER, how};
use warikomi_shared::Words;

use super::error::{StateError, invalid};

/// How a driver comes by a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Its predecessor has written its record and left the device alone since.
    HandedOver,
    /// Its predecessor ended at some instruction.
    Died,
    /// The device is reset and set up.
    Start,
}

/// The owner of the baton, and how it got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The generation that the device belongs to.
    pub generation: u32,
    /// How the owner got the baton.
    pub how: How,
}

/// The baton and the owner word of a state area. Who may give the baton when is in docs/replacement.md.
#[derive(Clone, Debug)]
pub struct Baton<W> {
    words: W,
}

impl<W: Words> Baton<W> {
    /// That of the state area in these words.
    pub fn new(words: W) -> Baton<W> {
        assert!(words.len() > OWNER, "{} words are no state area", words.len());
        Baton { words }
    }

    /// Whose turn it is. What its predecessor stored before it gave the baton is seen after this.
    #[inline]
    pub fn turn(&self) -> Result<Turn, StateError> {
        let word = self.words.load(BATON, Acquire);
        let how = match word >> 32 {
            how::HANDED_OVER => How::HandedOver,
            how::DIED => How::Died,
            how::START => How::Start,
            other => return invalid(format!("there is no way {other} to get the baton")),
        };
        Ok(Turn { generation: word as u32, how })
    }

    /// Gives the baton away. By whoever has it, as the last thing that it stores; by the support side once
    /// whoever had it is dead, or, if it had been given to one that died before it accepted it, to whoever
    /// gave it.
    pub fn give(&self, turn: Turn) {
        let how = match turn.how {
            How::HandedOver => how::HANDED_OVER,
            How::Died => how::DIED,
            How::Start => how::START,
        };
        self.words.store(BATON, how << 32 | u64::from(turn.generation), Release);
    }

    /// Accepts the baton: before anything else is stored.
    pub fn accept(&self, generation: u32) {
        self.words.store(OWNER, generation.into(), Release);
    }

    /// The generation that has last accepted it; 0 if none has.
    pub fn owner(&self) -> u32 {
        self.words.load(OWNER, Acquire) as u32
    }
}
