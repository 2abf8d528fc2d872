//! What is above the driver in its process.

use std::os::fd::OwnedFd;

use warikomi_driver::device::Device;
use warikomi_driver::run::{RunError, own_pool, serve};
use warikomi_driver::{NicDriver, by_name};
use warikomi_pci::attach::area;
use warikomi_stack::{ChannelUpper, Event, Invitation, PacketMemory, StackError, Watch};

use super::tell::tell;
use super::{DirectUpper, sender};

/// What is above a driver that was given packet memory.
pub enum Above {
    /// A channel to the next process.
    Channel(Box<ChannelUpper>),
    /// The application, in the driver's own process.
    Direct(Box<DirectUpper>),
    /// All of a system that sends, in the driver's own process.
    Sender(Box<Invitation>),
}

/// The program of a driver: attaches to the device that the environment names, and drives it with the
/// driver called `name`, below whatever came with it: a packet path, or nothing at all.
pub fn main(name: &str) -> Result<(), StackError> {
    main_of_version(name, None)
}

/// The same, as a driver that knows state areas only up to a version, and writes that.
pub fn main_of_version(name: &str, state_version: Option<u64>) -> Result<(), StackError> {
    let driver = by_name(name).ok_or_else(|| failed(RunError::UnknownDriver(name.to_owned())))?;
    drive(driver, state_version)
}

/// The same, with a driver that has no name here.
pub fn main_with(driver: Box<dyn NicDriver>) -> Result<(), StackError> {
    drive(driver, None)
}

fn failed(error: RunError) -> StackError {
    StackError::Driver(error.to_string())
}

fn drive(mut driver: Box<dyn NicDriver>, state_version: Option<u64>) -> Result<(), StackError> {
    let mut device = Device::from_environment().map_err(|error| failed(error.into()))?;
    device.set_state_version(state_version.unwrap_or(area::VERSION));
    let files = device.take_files();
    let driver = driver.as_mut();
    let served = if files.is_empty() {
        let pool = own_pool(&device, driver).map_err(failed);
        let mut pool = pool.inspect_err(|error| tell(&device, error))?;
        serve(&mut device, driver, &mut pool)
    } else {
        match above_driver(files).inspect_err(|error| tell(&device, error))? {
            Above::Channel(mut upper) => serve(&mut device, driver, &mut *upper),
            Above::Direct(mut upper) => serve(&mut device, driver, &mut *upper),
            Above::Sender(invitation) => return sender::serve(&mut device, driver, *invitation),
        }
    };
    served.map_err(failed)
}

/// What the files say that came with the driver's message behind those of the device
/// (`Device::take_files`): the socket in which the invitation waits.
pub fn above_driver(files: Vec<OwnedFd>) -> Result<Above, StackError> {
    let Ok([socket]) = <[OwnedFd; 1]>::try_from(files) else {
        let what = "the driver's message has no invitation to a packet path".to_owned();
        return Err(StackError::Invitation(what));
    };
    let mut invitation = Invitation::receive(socket)?;
    if invitation.settings.part == "sender" {
        return Ok(Above::Sender(Box::new(invitation)));
    }
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
