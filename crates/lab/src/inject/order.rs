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

    /// With the socket receive buffer that was asked for, if one was; refused where no application receives.
    pub fn asked(socket_buffer: Option<u32>, receiver: Receiver) -> Result<Application, Error> {
        match (socket_buffer, receiver) {
            (None, _) => Ok(Application::default()),
            (Some(bytes), Receiver::Application) => Ok(Application::with_buffer(bytes)),
            (Some(_), _) => Err(Error::impossible(
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
