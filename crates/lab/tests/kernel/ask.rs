//! What a session is asked in test after test.

use std::time::Duration;

use warikomi_protocol::{answers, commands};
use warikomi_session::Session;
use warikomi_target::CardId;

/// What the guest's kernel counts of its first interface.
pub(crate) fn counters(session: &mut Session) -> answers::Counters {
    session.target.ask(commands::Counters { interface: None }, Duration::ZERO).unwrap()
}

/// Packets that this interface has received.
pub(crate) fn received(session: &mut Session) -> u64 {
    counters(session).interface["rx_packets"]
}

/// Whether the guest's kernel has a link there.
pub(crate) fn link(session: &mut Session) -> answers::LinkState {
    session.target.ask(commands::LinkState { interface: None }, Duration::ZERO).unwrap()
}

/// Frames that the first card has sent.
pub(crate) fn on_the_wire(session: &mut Session) -> u64 {
    session.target.card(CardId::FIRST).unwrap().0.wire().counters().tx_frames
}
