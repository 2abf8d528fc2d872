use warikomi_clock::Time;

use super::checker::Checker;
use crate::Event;

/// When the driver has stopped its device, every buffer is back.
pub struct Balance {
    buffers: u64,
    out: u64,
    back: u64,
    quiesced: bool,
}

impl Balance {
    /// A checker for this number of buffers.
    pub fn new(buffers: usize) -> Balance {
        Balance { buffers: buffers as u64, out: 0, back: 0, quiesced: false }
    }
}

impl Checker for Balance {
    fn name(&self) -> &'static str {
        "balance"
    }

    fn check(&mut self, _: Time, event: &Event) -> Result<(), String> {
        match event {
            Event::BufferPosted { .. } => self.out += 1,
            Event::BufferReturned { .. } | Event::BufferFreed { .. } => self.back += 1,
            Event::Took { .. } => self.quiesced = false,
            Event::Quiesced | Event::PoweredOn => self.quiesced = true,
            Event::End if !self.quiesced => return Err("the driver did not stop its device".into()),
            Event::End => {}
            _ => return Ok(()),
        }
        match self.out.checked_sub(self.back) {
            None => Err("more buffers came back than went out".to_owned()),
            Some(out) if out > self.buffers => {
                Err(format!("{out} buffers are out, and there are {}", self.buffers))
            }
            Some(missing) if missing > 0 && *event == Event::End => {
                Err(format!("{missing} of {} buffers did not come back", self.buffers))
            }
            Some(_) => Ok(()),
        }
    }
}
