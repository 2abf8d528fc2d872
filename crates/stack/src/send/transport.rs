//! What carries messages.

use std::fmt;
use std::str::FromStr;

/// What carries messages, and who cuts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// UDP; IP cuts what is longer than the MTU.
    #[default]
    Udp,
    /// TCP; the stack cuts segments.
    Tcp,
    /// TCP; the device cuts segments and makes their checksums (TSO).
    TcpTso,
}

impl Transport {
    /// All, in the order in which they are shown.
    pub const ALL: [Transport; 3] = [Transport::Udp, Transport::Tcp, Transport::TcpTso];

    /// Whether it is TCP.
    pub fn is_tcp(self) -> bool {
        self != Transport::Udp
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
            Transport::TcpTso => "tcp-tso",
        })
    }
}

/// Why a text names nothing that carries messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' carries no messages; there are udp, tcp and tcp-tso")]
pub struct ParseTransportError(String);

impl FromStr for Transport {
    type Err = ParseTransportError;

    fn from_str(text: &str) -> Result<Transport, ParseTransportError> {
        let found = Transport::ALL.into_iter().find(|transport| transport.to_string() == text);
        found.ok_or_else(|| ParseTransportError(text.to_owned()))
    }
}
