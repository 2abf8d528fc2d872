//! What an injection is asked to do.

use std::rc::Rc;

use warikomi_inject::{Plan, Receiver};
use warikomi_protocol::commands::Wait;
use warikomi_trace::Tape;

use crate::error::Error;

/// What the application in the guest is given.
#[derive(Clone, Copy, Debug)]
pub struct Application {
    /// The socket's receive buffer in bytes.
    pub socket_buffer_bytes: u32,
    /// How it waits for packets, as one of equals on its processor; `None` for asleep, and behind
    /// everything else.
    pub wait: Option<Wait>,
}

impl Default for Application {
    fn default() -> Self {
        Application { socket_buffer_bytes: 16 << 20, wait: None }
    }
}

impl Application {
    /// With a socket receive buffer of this size.
    pub fn with_buffer(socket_buffer_bytes: u32) -> Application {
        Application { socket_buffer_bytes, ..Application::default() }
    }

    /// The same with the buffer that was asked for, if one was; refused where no application receives.
    pub fn asked(self, socket_buffer: Option<u32>, receiver: Receiver) -> Result<Self, Error> {
        // What is usual is in the plan.toml of earlier versions, and asks for nothing.
        match socket_buffer.filter(|bytes| *bytes != self.socket_buffer_bytes) {
            None => Ok(self),
            Some(bytes) if receiver == Receiver::Application => Ok(Application::with_buffer(bytes)),
            Some(_) => Err(Error::impossible(
                "--socket-buffer is of an application that receives, and here there is none; leave it out",
            )),
        }
    }
}

/// What is to be carried out.
#[derive(Clone, Copy)]
pub struct Order<'a> {
    /// What comes before the packets, how far they go, and what is said about them.
    pub plan: &'a Plan,
    /// What the application in the target does.
    pub application: Application,
    /// Tells this run's packets from those of an earlier one.
    pub run_id: u32,
    /// Where to record from the first packet until the driver has taken the last; nowhere if `None`.
    pub tape: Option<&'a Rc<Tape>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_refused_where_none_receives_but_for_the_usual_one_of_an_older_plan() {
        let asked = |bytes, receiver| Application::default().asked(bytes, receiver);
        let bytes = |bytes, receiver| asked(bytes, receiver).unwrap().socket_buffer_bytes;
        for receiver in [Receiver::Application, Receiver::Driver, Receiver::SecondCard] {
            assert_eq!(bytes(None, receiver), 16 << 20);
            assert_eq!(bytes(Some(16 << 20), receiver), 16 << 20);
        }
        assert_eq!(bytes(Some(9_000), Receiver::Application), 9_000);
        assert!(asked(Some(9_000), Receiver::Driver).is_err());
    }
}
