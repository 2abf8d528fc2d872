//! What is above the driver in its process.

use std::os::fd::OwnedFd;

use warikomi_driver::Upper;

use super::DirectUpper;
use crate::memory::PacketMemory;
use crate::upper::ChannelUpper;
use crate::wait::{Event, Watch};
use crate::{Invitation, StackError};

/// What is above a driver that was given packet memory.
pub enum Above {
    /// A channel to the next process.
    Channel(Box<ChannelUpper>),
    /// The application, in the driver's own process.
    Direct(Box<DirectUpper>),
}

impl Above {
    /// As the driver's loop wants it.
    pub fn upper(&mut self) -> &mut dyn Upper {
        match self {
            Above::Channel(upper) => &mut **upper,
            Above::Direct(upper) => &mut **upper,
        }
    }
}

/// What the files say that came with the driver's message behind those of the device
/// (`Device::take_files`): the socket in which the invitation waits.
pub fn above_driver(files: Vec<OwnedFd>) -> Result<Above, StackError> {
    let Ok([socket]) = <[OwnedFd; 1]>::try_from(files) else {
        let what = "the driver's message has no invitation to a packet path".to_owned();
        return Err(StackError::Invitation(what));
    };
    let mut invitation = Invitation::receive(socket)?;
    let memory = PacketMemory::map(&invitation.file("packet memory")?.into())?;
    if invitation.settings.part == "direct" {
        return Ok(Above::Direct(Box::new(DirectUpper::new(memory, invitation)?)));
    }
    let own = Event::from(invitation.file("the own event")?);
    let user = Event::from(invitation.file("the event of who is above")?);
    let name = if memory.shape().channels == 1 { "the application" } else { "the stack" };
    let watch = Watch::new(own, vec![invitation.neighbour(name)?], None);
    let no_channel = || StackError::Invitation("packet memory has no channel".to_owned());
    let upper = ChannelUpper::new(memory, user, watch)?.ok_or_else(no_channel)?;
    Ok(Above::Channel(Box::new(upper)))
}
