use warikomi_clock::Time;

use super::Checker;
use crate::Event;

/// A device has one driver at a time, and a driver gives up only if the device is at fault: what its predecessor
/// has left is something to go on with.
pub struct Succession {
    may_fail: bool,
    driver: Option<u32>,
}

impl Succession {
    /// Of a device that may be at fault, or not.
    pub fn new(may_fail: bool) -> Succession {
        Succession { may_fail, driver: None }
    }
}

impl Checker for Succession {
    fn name(&self) -> &'static str {
        "succession"
    }

    fn check(&mut self, _: Time, event: &Event) -> Result<(), String> {
        match *event {
            Event::Took { generation } => match self.driver.replace(generation) {
                Some(other) => {
                    Err(format!("generation {generation} takes the device, which {other} has"))
                }
                None => Ok(()),
            },
            Event::Left { generation } => match self.driver.take() {
                Some(driver) if driver == generation => Ok(()),
                other => Err(format!("generation {generation} leaves the device of {other:?}")),
            },
            Event::DriverFailed if !self.may_fail => {
                Err("a driver gave up, and nothing was wrong with its device".to_owned())
            }
            _ => Ok(()),
        }
    }
}
