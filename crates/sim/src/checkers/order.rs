use warikomi_clock::Time;

use super::Checker;
use crate::Event;

/// Packets reach the application in the order in which they arrived at the NIC.
#[derive(Default)]
pub struct Order {
    last: Option<u64>,
}

impl Checker for Order {
    fn name(&self) -> &'static str {
        "order"
    }

    fn check(&mut self, _: Time, event: &Event) -> Result<(), String> {
        let Event::Delivered { sequence: Some(sequence), .. } = *event else { return Ok(()) };
        match self.last.replace(sequence) {
            Some(last) if last > sequence => {
                Err(format!("packet {sequence} was delivered behind packet {last}"))
            }
            _ => Ok(()),
        }
    }
}
