//! The data store's process: it keeps what drivers know while one follows another.
//!
//! Its standard input is a socket of the support side, which hands it a socket to each driver. It keeps
//! everything in its own memory, so what it has is gone when it ends. A store that follows another is
//! handed the same sockets: a driver notices only that nothing is there any more.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendFlags, send};
use warikomi_driver::run::store::{Message, Snapshot};
use warikomi_stack::StackError;

/// The message with which it is started.
pub const HELLO: &[u8] = b"warikomi store 1";
/// The message with which each driver's socket comes.
pub const CLIENT: &[u8] = b"driver";
/// The message that says that requests of a replacement wait for their turn.
pub const IN_TURN: &[u8] = b"in turn";

/// Keys under which something is kept at most.
const MOST_KEYS: usize = 64;
/// Drivers at a time.
const MOST_CLIENTS: usize = 64;

/// Runs until the support side is gone.
pub fn main() -> Result<(), StackError> {
    let support = io::stdin().as_fd().try_clone_to_owned()?;
    let (message, _) = warikomi_shared::receive(&support)?;
    if message != HELLO {
        let what = "the first message is not one to a data store".to_owned();
        return Err(StackError::Invitation(what));
    }
    Store::new(support).run()
}

struct Store {
    support: OwnedFd,
    clients: Vec<OwnedFd>,
    kept: BTreeMap<u64, Snapshot>,
    /// Requests that belong to a replacement come in their turn, rather than first.
    in_turn: bool,
}

impl Store {
    fn new(support: OwnedFd) -> Store {
        Store { support, clients: Vec::new(), kept: BTreeMap::new(), in_turn: false }
    }

    fn run(mut self) -> Result<(), StackError> {
        loop {
            let (support, clients) = self.wait()?;
            if support && !self.accept_client()? {
                return Ok(());
            }
            self.serve(&clients);
        }
    }

    /// Waits until something is to be read; whether the support side has something, and which of the
    /// clients have.
    fn wait(&self) -> io::Result<(bool, Vec<bool>)> {
        let all = std::iter::once(&self.support).chain(&self.clients);
        let mut files: Vec<PollFd<'_>> = all.map(|file| PollFd::new(file, PollFlags::IN)).collect();
        match poll(&mut files, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut readable = files.iter().map(|file| !file.revents().is_empty());
        Ok((readable.next().unwrap_or(false), readable.collect()))
    }

    /// Takes a client's socket; `false` if the support side is gone.
    fn accept_client(&mut self) -> Result<bool, StackError> {
        let (message, files) = warikomi_shared::receive(&self.support)?;
        self.in_turn |= message == IN_TURN;
        if message == CLIENT && self.clients.len() < MOST_CLIENTS {
            self.clients.extend(files);
        }
        Ok(!message.is_empty())
    }

    /// Answers one request of each client; those that belong to a replacement come first, unless they are to
    /// come in their turn. A client that is gone, makes no sense, or does not take its answer is let go of.
    fn serve(&mut self, readable: &[bool]) {
        let mut requests = Vec::new();
        let mut keep = vec![true; self.clients.len()];
        for (number, client) in self.clients.iter().enumerate() {
            // One that has just come is looked at the next time.
            if readable.get(number) != Some(&true) {
                continue;
            }
            match Message::receive(client) {
                Ok(Some(request)) => requests.push((number, request)),
                Ok(None) => {}
                Err(_) => keep[number] = false,
            }
        }
        if !self.in_turn {
            requests.sort_by_key(|(_, request)| !request.is_urgent());
        }
        for (number, request) in requests {
            let answered = answer(&mut self.kept, request).is_some_and(|answer| {
                let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                send(&self.clients[number], &answer.to_bytes(), flags).is_ok()
            });
            keep[number] &= answered;
        }
        let mut keep = keep.into_iter();
        self.clients.retain(|_| keep.next().unwrap_or(true));
    }
}

/// Does what is asked for; `None` if it makes no sense.
fn answer(kept: &mut BTreeMap<u64, Snapshot>, request: Message) -> Option<Message> {
    match request {
        Message::Put { key, snapshot, .. } => {
            let generation = snapshot.generation;
            // A damaged one would only be found out when it is needed.
            if !snapshot.is_whole() || (kept.len() >= MOST_KEYS && !kept.contains_key(&key)) {
                return None;
            }
            kept.insert(key, snapshot);
            Some(Message::Stored { key, generation })
        }
        Message::Get { key, .. } => Some(match kept.get(&key) {
            Some(snapshot) => Message::Found { key, snapshot: snapshot.clone() },
            None => Message::Missing { key },
        }),
        Message::Stored { .. } | Message::Found { .. } | Message::Missing { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use warikomi_driver::run::store::{SnapshotStore, StoreClient, StoreError};

    fn pair() -> (OwnedFd, OwnedFd) {
        let kind = SocketType::SEQPACKET;
        socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap()
    }

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn what_one_driver_puts_another_gets_until_the_store_is_gone() {
        let (support, theirs) = pair();
        let store = Store::new(theirs);
        let thread = std::thread::spawn(move || store.run());
        let join = || {
            let (near, far) = pair();
            warikomi_shared::send(&support, CLIENT, &[far.as_fd()]).unwrap();
            near
        };
        let [one, other] = [(); 2].map(|()| StoreClient::new(join(), 7, PATIENCE));
        assert!(matches!(other.get(), Err(StoreError::Missing(7))));
        let snapshot = Snapshot::new(1, vec![1, 2, 3]);
        one.put(snapshot.clone()).unwrap();
        assert_eq!(other.get().unwrap(), snapshot);
        // One that makes no sense is let go of, and nobody else notices.
        let odd = join();
        send(&odd, b"nonsense", SendFlags::NOSIGNAL).unwrap();
        let odd = StoreClient::new(odd, 7, PATIENCE);
        assert!(matches!(odd.get(), Err(StoreError::Gone | StoreError::Socket(_))));
        drop(one);
        assert_eq!(other.get().unwrap(), snapshot);
        drop(support);
        thread.join().unwrap().unwrap();
        assert!(matches!(other.get(), Err(StoreError::Gone | StoreError::Socket(_))));
    }

    #[test]
    fn what_belongs_to_a_replacement_comes_first_or_in_its_turn() {
        for in_turn in [false, true] {
            let (support, theirs) = pair();
            let mut store = Store::new(theirs);
            if in_turn {
                warikomi_shared::send(&support, IN_TURN, &[]).unwrap();
                assert!(store.accept_client().unwrap());
            }
            let ends = [pair(), pair()];
            for (_, far) in &ends {
                warikomi_shared::send(&support, CLIENT, &[far.as_fd()]).unwrap();
                assert!(store.accept_client().unwrap());
            }
            // Another client puts something, and only then a driver asks for it.
            let snapshot = Snapshot::new(1, vec![5]);
            let put = Message::Put { key: 7, snapshot: snapshot.clone(), urgent: false };
            put.send(&ends[0].0).unwrap();
            Message::Get { key: 7, urgent: true }.send(&ends[1].0).unwrap();
            store.serve(&[true, true]);
            let answer = Message::receive(&ends[1].0).unwrap().unwrap();
            let found = Message::Found { key: 7, snapshot };
            assert_eq!(answer, if in_turn { found } else { Message::Missing { key: 7 } });
        }
    }

    #[test]
    fn what_is_damaged_or_too_much_is_not_kept() {
        let mut kept = BTreeMap::new();
        let put = |key, snapshot| Message::Put { key, snapshot, urgent: false };
        let damaged = Snapshot { checksum: 0, ..Snapshot::new(1, vec![1]) };
        assert_eq!(answer(&mut kept, put(0, damaged)), None);
        for key in 0..MOST_KEYS as u64 {
            assert!(answer(&mut kept, put(key, Snapshot::new(1, vec![key]))).is_some());
        }
        assert_eq!(answer(&mut kept, put(u64::MAX, Snapshot::new(1, vec![]))), None);
        assert!(answer(&mut kept, put(0, Snapshot::new(2, vec![]))).is_some());
        assert_eq!(kept[&0].generation, 2);
        assert_eq!(answer(&mut kept, Message::Missing { key: 0 }), None);
    }
}
