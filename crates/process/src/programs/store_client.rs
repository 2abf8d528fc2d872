//! Another client of the data store: at its interval it puts something there and gets it again, in turns. Its
//! requests belong to no replacement. It notes how long each answer took.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use warikomi_clock::{Span, read_tsc};
use warikomi_driver::run::store::{Snapshot, SnapshotStore, StoreClient, StoreError};
use warikomi_stack::StackError;

use crate::request_log::Writer;
use crate::succession::MOST_STORE_CLIENTS;

/// The message with which it is started begins so.
const HELLO: &str = "warikomi store client ";
/// Keys of these clients begin here: drivers have others.
const FIRST_KEY: u64 = 1 << 32;
/// Words that each keeps: a page.
const WORDS: u64 = 512;
/// How long the store may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// The message with which it is started, and its socket to the store and its log come: its number, and how often it
/// asks.
pub fn hello(number: usize, interval: Span) -> String {
    format!("{HELLO}{number} {}", interval.as_ps() / 1_000)
}

/// Number and interval.
fn parsed(message: &[u8]) -> Option<(u64, Duration)> {
    let text = std::str::from_utf8(message).ok()?.strip_prefix(HELLO)?;
    let (number, interval_ns) = text.split_once(' ')?;
    let number: u32 = number.parse().ok()?;
    Some((number.into(), Duration::from_nanos(interval_ns.parse().ok()?)))
}

/// Runs until the support side or the store's socket is gone.
pub fn main() -> Result<(), StackError> {
    let support = io::stdin().as_fd().try_clone_to_owned()?;
    let (message, files) = warikomi_shared::receive(&support)?;
    let nonsense = || {
        StackError::Invitation(
            "the first message is not one to a client of a data store".to_owned(),
        )
    };
    let (number, interval) = parsed(&message).ok_or_else(nonsense)?;
    let [socket, log] = <[OwnedFd; 2]>::try_from(files).map_err(|_| nonsense())?;
    let mut log = Writer::new(log)?;
    let store = StoreClient::new(socket, FIRST_KEY + number, PATIENCE).in_turn();
    // Clients of the same interval do not all ask at the same moment.
    let mut due = Instant::now() + interval * (number as u32) / MOST_STORE_CLIENTS;
    for round in 0_u64.. {
        if has_hung_up(&support, due.saturating_duration_since(Instant::now())) {
            break;
        }
        let (tsc, begun) = (read_tsc(), Instant::now());
        match exchange(&store, round) {
            Ok(()) => log.note(tsc, u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)),
            Err(StoreError::Gone | StoreError::Socket(_)) => break,
            // It has been started anew, or takes long: what was not answered took no time.
            Err(_) => {}
        }
        // One that was answered late does not ask more often behind it.
        due = (due + interval).max(Instant::now());
    }
    Ok(())
}

/// One request: puts a page, or gets it.
fn exchange(store: &StoreClient, round: u64) -> Result<(), StoreError> {
    if round.is_multiple_of(2) {
        return store.put(Snapshot::new(0, (0..WORDS).map(|word| word ^ round).collect()));
    }
    store.get().map(drop)
}

/// Waits for so long; whether the support side is gone.
fn has_hung_up(support: &OwnedFd, wait: Duration) -> bool {
    let mut files = [PollFd::new(support, PollFlags::IN)];
    let wait = Timespec { tv_sec: wait.as_secs() as _, tv_nsec: wait.subsec_nanos().into() };
    // Nothing is said to it, so what is to be read is the end.
    poll(&mut files, Some(&wait)).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_started_with_its_number_and_its_interval() {
        let hello = hello(7, Span::from_us(250));
        assert_eq!(parsed(hello.as_bytes()), Some((7, Duration::from_micros(250))));
        for nonsense in ["", HELLO, "warikomi store client 7", "warikomi store client 7 x"] {
            assert_eq!(parsed(nonsense.as_bytes()), None, "{nonsense}");
        }
    }
}
