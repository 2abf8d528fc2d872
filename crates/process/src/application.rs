//! An application of the user's own above a driver.
//!
//! It speaks no protocol of ours: its library writes into packet memory what it has received. That is read here and
//! believed by nobody.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use warikomi_protocol::answers::ReceiveTotals;
use warikomi_shared::SharedWords;
use warikomi_stack::{ChannelPlace, PacketMemory, UserAccount};

/// How long an application may take from its start until it has posted a buffer.
pub const APPLICATION_TIMEOUT: Duration = Duration::from_secs(10);

/// Where it says what it has received.
pub(super) struct OwnApplication {
    words: SharedWords,
    place: ChannelPlace,
    /// The other end of a line on which nobody asks: one that hangs up would wake the application all the time.
    _control: Option<UnixStream>,
}

impl OwnApplication {
    /// The application that has the first channel of packet memory.
    pub(super) fn above(
        packets: &PacketMemory,
        _control: Option<UnixStream>,
    ) -> Option<OwnApplication> {
        let place = packets.channel(0)?;
        Some(OwnApplication { words: packets.words().clone(), place, _control })
    }

    fn account(&self) -> UserAccount {
        UserAccount::of_channel(&self.words, self.place)
    }

    /// Whether it has buffers to receive into.
    pub(super) fn is_ready(&self) -> bool {
        self.missing().is_none()
    }

    /// What it has not done yet to receive.
    pub(super) fn missing(&self) -> Option<&'static str> {
        match self.account() {
            UserAccount { attached: false, .. } => Some(
                "it has not attached: wk_vi_connect() of include/warikomi_vi.h, or Vi::connect() in Rust",
            ),
            UserAccount { posted: 0, .. } => Some(
                "it has attached, but posts no buffer to receive into: wk_vi_post(), and then wk_vi_flush() or any \
                 function that receives",
            ),
            _ => None,
        }
    }

    /// What it says now, in the form in which applications of ours answer.
    pub(super) fn totals(&self) -> ReceiveTotals {
        let UserAccount { messages, bytes, .. } = self.account();
        ReceiveTotals { datagrams: messages, bytes, ..ReceiveTotals::default() }
    }
}
