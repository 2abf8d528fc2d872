//! An application of the user's own: how it is started, and what it says, held against what the driver accepted.
//!
//! Its library writes into memory that it shares with us how many messages it has received. It may write anything, and
//! so the figures of a row come from the card and the ledger. What it says stands beside them, and a row in which the
//! two differ says so and fails the run.

use std::path::Path;
use std::time::Duration;

use warikomi_driver::strategy::Strategy;
use warikomi_inject::Plan;
use warikomi_process::{Orders, Program};
use warikomi_protocol::commands::ReceiveStatus;
use warikomi_session::Session;
use warikomi_stack::POLL_VARIABLE;
use warikomi_target::{CardId, TargetError};

use crate::error::Error;
use crate::inject::Injected;
use crate::receive::row::Row;

/// The time between two looks at what it says.
const LOOK: Duration = Duration::from_millis(10);
/// It hangs if it has received nothing for so many looks, and there is something.
const QUIET_LOOKS: u32 = 300;
/// A slow one may take so many in all.
const MOST_LOOKS: u32 = 3_000;

/// What starts it: T is in its environment.
pub fn program(path: &Path, orders: &Orders) -> Program {
    let poll_ns = match orders.strategy {
        Strategy::Hybrid { poll_time } => poll_time.as_ps() / 1_000,
        _ => 0,
    };
    Program {
        path: path.to_owned(),
        environment: vec![(POLL_VARIABLE.into(), poll_ns.to_string().into())],
        ..Program::default()
    }
}

/// What it says that it has received.
pub(super) struct Said {
    messages: u64,
    bytes: u64,
    /// What is known otherwise, if that is something else.
    differs: Option<String>,
}

impl Said {
    /// Waits until it has received what the driver accepted in a run of a target that has had no other, and takes it
    /// at its word.
    pub(super) fn of(session: &mut Session, plan: &Plan, run: &Injected) -> Result<Said, Error> {
        let accepted = accepted(session)?;
        let mut said = session.target.ask(ReceiveStatus {}, Duration::ZERO)?;
        let (mut looks, mut quiet) = (0, 0);
        while said.datagrams < accepted && quiet < QUIET_LOOKS && looks < MOST_LOOKS {
            session.target.serve_for(LOOK)?;
            let now = session.target.ask(ReceiveStatus {}, Duration::ZERO)?;
            quiet = if now.datagrams == said.datagrams { quiet + 1 } else { 0 };
            looks += 1;
            said = now;
        }
        if said.datagrams < accepted {
            let console = session.target.console();
            return Err(Error::ApplicationHangs { received: said.datagrams, accepted, console });
        }
        let (messages, bytes) = (said.datagrams, said.bytes);
        let differs =
            difference((messages, bytes), (accepted, accepted_bytes(plan, run, accepted)));
        Ok(Said { messages, bytes, differs })
    }

    /// Writes it down.
    pub(super) fn enter(self, row: &mut Row) {
        row.application_messages = Some(self.messages);
        row.application_bytes = Some(self.bytes);
        row.application_differs = self.differs;
    }
}

/// Frames whose descriptors the driver has given back, since the card was switched on.
fn accepted(session: &mut Session) -> Result<u64, TargetError> {
    let (nic, mut host) = session.target.card(CardId::FIRST)?;
    let queues = 0..nic.info().rx_queues;
    Ok(queues.map(|queue| nic.rx_queue_progress(&mut host, queue, usize::MAX).accepted).sum())
}

/// Bytes of these: those of the run by the ledger, and those of the warm-up, which are all of one length. Nothing where
/// the ledger has not kept each packet.
fn accepted_bytes(plan: &Plan, run: &Injected, accepted: u64) -> Option<u64> {
    let shape = plan.burst()?;
    let length = |sequence| match shape.ends_with(sequence) {
        true => shape.last_frame_bytes() as u64,
        false => plan.size_bytes as u64,
    };
    let warmup = accepted.checked_sub(run.ledger.totals().accepted)?;
    let packets = run.ledger.rows().filter(|packet| packet.accepted.is_some());
    let of_run: u64 = packets.map(|packet| length(packet.sequence)).sum();
    run.ledger.is_detailed().then_some(of_run + warmup * plan.size_bytes as u64)
}

/// In words, in what two counts of messages and bytes differ, if they do.
fn difference(said: (u64, u64), known: (u64, Option<u64>)) -> Option<String> {
    let same = said.0 == known.0 && known.1.is_none_or(|bytes| bytes == said.1);
    let bytes = known.1.map(|bytes| format!(" of {bytes} bytes")).unwrap_or_default();
    (!same).then(|| {
        format!(
            "the application says that it has received {} messages of {} bytes, and the driver has accepted {}{bytes}",
            said.0, said.1, known.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use warikomi_clock::Span;

    #[test]
    fn it_is_told_the_poll_time_of_its_row_and_none_where_there_is_none() {
        let told = |strategy| {
            let orders = Orders { strategy, ..Orders::default() };
            program(Path::new("./mine"), &orders).environment
        };
        let hybrid = Strategy::Hybrid { poll_time: Span::from_us(140) };
        assert_eq!(told(hybrid), [("WARIKOMI_POLL_NS".into(), "140000".into())]);
        assert_eq!(told(Strategy::Interrupt), [("WARIKOMI_POLL_NS".into(), "0".into())]);
    }

    #[test]
    fn what_it_says_is_not_believed() {
        assert_eq!(difference((5, 500), (5, Some(500))), None);
        assert_eq!(difference((5, 500), (5, None)), None);
        for said in [(6, 500), (5, 501), (u64::MAX, u64::MAX), (0, 0)] {
            let differs = difference(said, (5, Some(500))).unwrap();
            assert!(differs.ends_with("has accepted 5 of 500 bytes"), "{differs}");
        }
    }
}
