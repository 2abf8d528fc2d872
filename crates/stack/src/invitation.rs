//! How a part learns what it shall do and gets its files: one message over the socket that is its
//! standard input.
//!
//! The message begins with [`PREFIX`]; behind it are [`Settings`] as JSON. The files come in the order
//! that [`crate::Chain`] says. Standard input, because it is the one descriptor that a child gets and
//! its siblings do not: a socket that a sibling held open too would never hang up.

use std::collections::VecDeque;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use warikomi_pci::attach::layout::SOCKET_VARIABLE;

use crate::StackError;
use crate::datagram::Station;
use crate::wait::Neighbour;

/// What the message begins with, in ASCII, with its version.
pub const PREFIX: &[u8] = b"warikomi part 1\n";

/// The variable that tells an application how long to poll before it sleeps, in nanoseconds.
pub const POLL_VARIABLE: &str = "WARIKOMI_POLL_NS";

/// How long an application of the user's shall poll before it sleeps: what the support side wants to know about. It
/// does not poll if nobody says.
pub fn poll_time() -> Duration {
    let given = std::env::var(POLL_VARIABLE).ok().and_then(|text| text.parse().ok());
    Duration::from_nanos(given.unwrap_or(0))
}

/// How a part waits for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Waiting {
    /// Sleeps at once.
    Wait,
    /// Polls for a time, then sleeps.
    Hybrid {
        /// The time in nanoseconds.
        poll_ns: u64,
    },
    /// Never sleeps.
    Poll,
}

/// Settings of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Name of the part.
    pub part: String,
    /// Who we are on the network.
    pub station: Station,
    /// Hosts whose Ethernet addresses need not be asked for.
    pub hosts: Vec<(Ipv4Addr, [u8; 6])>,
    /// The port on which the stack accepts a TCP connection.
    pub tcp_port: Option<u16>,
    /// How the part waits.
    pub waiting: Waiting,
    /// The application copies each datagram out of its buffer, as `recv` of a socket would.
    pub copy_out: bool,
    /// Whether a control socket is the last file.
    pub control: bool,
}

/// A message that has been received.
#[derive(Debug)]
pub struct Invitation {
    /// Settings of the part.
    pub settings: Settings,
    files: VecDeque<OwnedFd>,
    support: Option<OwnedFd>,
}

impl Settings {
    /// The message.
    pub fn to_message(&self) -> Vec<u8> {
        let mut message = PREFIX.to_vec();
        // These types have string keys and no failing serializer, so this cannot fail.
        message.extend(serde_json::to_vec(self).expect("settings are always valid JSON"));
        message
    }

    fn from_message(message: &[u8]) -> Result<Settings, StackError> {
        let wrong = |what: String| StackError::Invitation(what);
        let text = message
            .strip_prefix(PREFIX)
            .ok_or_else(|| wrong("the first message is not warikomi's".to_owned()))?;
        serde_json::from_slice(text)
            .map_err(|error| wrong(format!("the first message has no settings ({error})")))
    }
}

impl Invitation {
    /// Receives the message for `part` from standard input.
    pub fn accept(part: &str) -> Result<Invitation, StackError> {
        if std::env::var(SOCKET_VARIABLE).as_deref() != Ok("0") {
            let what =
                format!("{SOCKET_VARIABLE} is not 0, so standard input is no socket of ours");
            return Err(StackError::Invitation(what));
        }
        let socket = io::stdin().as_fd().try_clone_to_owned()?;
        let invitation = Invitation::receive(socket)?;
        if invitation.settings.part != part {
            let what = format!("this is the part {part}, not {}", invitation.settings.part);
            return Err(StackError::Invitation(what));
        }
        Ok(invitation)
    }

    /// Receives the message from this socket.
    pub fn receive(socket: OwnedFd) -> Result<Invitation, StackError> {
        let (message, files) = warikomi_shared::receive(&socket)?;
        if message.is_empty() {
            return Err(StackError::Gone("the support side"));
        }
        let settings = Settings::from_message(&message)?;
        Ok(Invitation { settings, files: files.into(), support: Some(socket) })
    }

    /// The next file.
    pub fn file(&mut self, what: &'static str) -> Result<OwnedFd, StackError> {
        let missing = || StackError::Invitation(format!("the file of {what} is missing"));
        self.files.pop_front().ok_or_else(missing)
    }

    /// The next file, a neighbour's socket.
    pub fn neighbour(&mut self, name: &'static str) -> Result<Neighbour, StackError> {
        Ok(Neighbour { name, socket: self.file("a neighbour's socket")? })
    }

    /// The support side, once.
    pub fn support(&mut self) -> Option<Neighbour> {
        Some(Neighbour { name: "the support side", socket: self.support.take()? })
    }

    /// A second descriptor of the control socket, which is the next file; `None` if there is none.
    pub fn control(&self) -> Result<Option<OwnedFd>, StackError> {
        if !self.settings.control {
            return Ok(None);
        }
        self.files.front().map(OwnedFd::try_clone).transpose().map_err(StackError::System)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_message_is_settings_or_an_error(message in prop::collection::vec(any::<u8>(), 0..300), prefixed: bool) {
            let mut whole = if prefixed { PREFIX.to_vec() } else { Vec::new() };
            whole.extend(message);
            let _ = Settings::from_message(&whole);
        }
    }

    #[test]
    fn settings_survive_the_way() {
        let settings = Settings {
            part: "stack".to_owned(),
            station: Station { mac: [2; 6], address: Ipv4Addr::new(10, 9, 0, 1), prefix_bits: 24 },
            hosts: vec![(Ipv4Addr::new(10, 9, 0, 2), [4; 6])],
            tcp_port: Some(5_001),
            waiting: Waiting::Hybrid { poll_ns: 100_000 },
            copy_out: true,
            control: false,
        };
        assert_eq!(Settings::from_message(&settings.to_message()).unwrap(), settings);
    }
}
