//! Another client of the data store: it puts something there, gets it again, and begins anew as soon as it has
//! been answered. Its requests belong to no replacement.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use warikomi_driver::run::store::{Snapshot, SnapshotStore, StoreClient, StoreError};
use warikomi_stack::StackError;

/// The message with which it is started, and its socket to the store comes: this, and its number.
pub const HELLO: &str = "warikomi store client ";
/// Keys of these clients begin here: drivers have others.
const FIRST_KEY: u64 = 1 << 32;
/// Words that each keeps: a page.
const WORDS: u64 = 512;
/// How long the store may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// Rounds between two looks whether the support side is there.
const LOOK_EVERY: u64 = 256;

/// Runs until the support side or the store's socket is gone.
pub fn main() -> Result<(), StackError> {
    let support = io::stdin().as_fd().try_clone_to_owned()?;
    let (message, files) = warikomi_shared::receive(&support)?;
    let nonsense = || {
        StackError::Invitation(
            "the first message is not one to a client of a data store".to_owned(),
        )
    };
    let number = std::str::from_utf8(&message).ok().and_then(|text| text.strip_prefix(HELLO));
    let number: u32 = number.and_then(|number| number.parse().ok()).ok_or_else(nonsense)?;
    let [socket] = <[OwnedFd; 1]>::try_from(files).map_err(|_| nonsense())?;
    let store = StoreClient::new(socket, FIRST_KEY + u64::from(number), PATIENCE).in_turn();
    for round in 0_u64.. {
        match exchange(&store, round) {
            Ok(()) => {}
            Err(StoreError::Gone | StoreError::Socket(_)) => break,
            // It has been started anew, or takes long.
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
        if round.is_multiple_of(LOOK_EVERY) && has_hung_up(&support) {
            break;
        }
    }
    Ok(())
}

fn exchange(store: &StoreClient, round: u64) -> Result<(), StoreError> {
    store.put(Snapshot::new(0, (0..WORDS).map(|word| word ^ round).collect()))?;
    store.get().map(drop)
}

fn has_hung_up(support: &OwnedFd) -> bool {
    let mut files = [PollFd::new(support, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    // Nothing is said to it, so what is to be read is the end.
    poll(&mut files, Some(&at_once)).is_ok_and(|ready| ready > 0)
}
