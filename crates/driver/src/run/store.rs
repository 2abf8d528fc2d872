//! What a driver and the data store say to each other.
//!
//! Messages on a socket that keeps them apart (SOCK_SEQPACKET), made of 64-bit words in the processor's
//! byte order: [`MAGIC`], what it is, the key, the generation, the checksum, and then the snapshot's words.
//! Neither end believes the other: a message that makes no sense is an error, and a snapshot is held
//! against its checksum by whoever gets it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags};
use warikomi_pci::attach::area;

/// First word of a message: "WKSTORE1", little-endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"WKSTORE1");
/// Words that a snapshot has at most.
pub const MOST_WORDS: usize = area::WORDS;

const HEAD_WORDS: usize = 5;
/// Bytes that a message has at most.
pub const MOST_MESSAGE_BYTES: usize = (HEAD_WORDS + MOST_WORDS) * 8;

mod what {
    pub(super) const PUT: u64 = 1;
    pub(super) const GET: u64 = 2;
    pub(super) const STORED: u64 = 3;
    pub(super) const FOUND: u64 = 4;
    pub(super) const MISSING: u64 = 5;
}
/// Added to what a message is if it belongs to a replacement.
const URGENT: u64 = 1 << 32;

/// What a driver knew at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The driver that wrote it.
    pub generation: u32,
    /// Checksum of the words, as the writer had them ([`area::checksum`]).
    pub checksum: u64,
    /// The words, at most [`MOST_WORDS`].
    pub words: Vec<u64>,
}

impl Snapshot {
    /// A snapshot of these words.
    pub fn new(generation: u32, words: Vec<u64>) -> Snapshot {
        Snapshot { generation, checksum: area::checksum(words.iter().copied()), words }
    }

    /// Whether the words are those that were written.
    pub fn is_whole(&self) -> bool {
        area::checksum(self.words.iter().copied()) == self.checksum
    }
}

/// A message between a driver and the data store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Driver to store: keep this under the key, instead of what was there.
    Put {
        /// The key.
        key: u64,
        /// The snapshot to keep.
        snapshot: Snapshot,
        /// It belongs to a replacement, and comes before what does not.
        urgent: bool,
    },
    /// Driver to store: what is there under the key?
    Get {
        /// The key.
        key: u64,
        /// It belongs to a replacement, and comes before what does not.
        urgent: bool,
    },
    /// Store to driver: it is kept.
    Stored {
        /// The key.
        key: u64,
        /// The generation that wrote it.
        generation: u32,
    },
    /// Store to driver: this is there.
    Found {
        /// The key.
        key: u64,
        /// The snapshot that the store holds.
        snapshot: Snapshot,
    },
    /// Store to driver: nothing is there.
    Missing {
        /// The key.
        key: u64,
    },
}

/// Why the store is of no use.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The socket does not work.
    #[error("the data store cannot be reached: {0}")]
    Socket(#[from] io::Error),
    /// The store closed the socket.
    #[error("the data store is gone: it has closed its socket")]
    Gone,
    /// A message makes no sense.
    #[error("a message of the data store makes no sense: {0}")]
    Nonsense(String),
    /// The store did not answer within this time.
    #[error("the data store has not answered within {0:?}")]
    Silent(Duration),
    /// The store holds nothing under this key.
    #[error(
        "the data store has nothing under the key {0:#x}: it was started anew, or never had it"
    )]
    Missing(u64),
    /// What it has is not what was put there.
    #[error("what the data store has of generation {0} does not have its checksum")]
    Damaged(u32),
}

impl Message {
    /// Whether it belongs to a replacement, and comes before what does not.
    pub fn is_urgent(&self) -> bool {
        matches!(self, Message::Put { urgent: true, .. } | Message::Get { urgent: true, .. })
    }

    /// The message as it is sent.
    pub fn to_bytes(&self) -> Vec<u8> {
        let flag = if self.is_urgent() { URGENT } else { 0 };
        let none = (0, 0, &[][..]);
        let full = |of: &Snapshot| (u64::from(of.generation), of.checksum);
        let (what, key, (generation, checksum, words)) = match self {
            Message::Put { key, snapshot, .. } => {
                let (generation, checksum) = full(snapshot);
                (what::PUT, key, (generation, checksum, &snapshot.words[..]))
            }
            Message::Get { key, .. } => (what::GET, key, none),
            Message::Stored { key, generation } => {
                (what::STORED, key, ((*generation).into(), 0, &[][..]))
            }
            Message::Found { key, snapshot } => {
                let (generation, checksum) = full(snapshot);
                (what::FOUND, key, (generation, checksum, &snapshot.words[..]))
            }
            Message::Missing { key } => (what::MISSING, key, none),
        };
        let head = [MAGIC, what | flag, *key, generation, checksum];
        head.iter().chain(words).flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// Reads a message; refuses one that is malformed.
    pub fn from_bytes(bytes: &[u8]) -> Result<Message, StoreError> {
        let nonsense = |what: String| StoreError::Nonsense(what);
        let (chunks, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() || bytes.len() > MOST_MESSAGE_BYTES || chunks.len() < HEAD_WORDS {
            return Err(nonsense(format!("it has {} bytes", bytes.len())));
        }
        let mut words = chunks.iter().map(|chunk| u64::from_ne_bytes(*chunk));
        let mut next = || words.next().unwrap_or(0);
        let [magic, what, key, generation, checksum] = [next(), next(), next(), next(), next()];
        let Ok(generation) = u32::try_from(generation) else {
            return Err(nonsense(format!("it is of generation {generation}")));
        };
        if magic != MAGIC {
            return Err(nonsense(format!("it begins with {magic:#018x}")));
        }
        let urgent = what & URGENT != 0;
        let snapshot = Snapshot { generation, checksum, words: words.collect() };
        match what & !URGENT {
            what::PUT => Ok(Message::Put { key, snapshot, urgent }),
            what::GET => Ok(Message::Get { key, urgent }),
            what::STORED => Ok(Message::Stored { key, generation }),
            what::FOUND => Ok(Message::Found { key, snapshot }),
            what::MISSING => Ok(Message::Missing { key }),
            other => Err(nonsense(format!("it is of no known kind, {other}"))),
        }
    }

    /// Sends it, waiting for room if need be.
    pub fn send(&self, socket: impl AsFd) -> Result<(), StoreError> {
        let bytes = self.to_bytes();
        let sent = rustix::net::send(socket, &bytes, SendFlags::NOSIGNAL);
        match sent.map_err(io::Error::from)? {
            sent if sent == bytes.len() => Ok(()),
            sent => Err(StoreError::Nonsense(format!("{sent} of {} bytes were sent", bytes.len()))),
        }
    }

    /// Receives one; `None` if none has come.
    pub fn receive(socket: impl AsFd) -> Result<Option<Message>, StoreError> {
        // A byte more, so that one that is too long is not taken for one that is not.
        let mut bytes = vec![0; MOST_MESSAGE_BYTES + 1];
        match rustix::net::recv(socket, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => Err(StoreError::Gone),
            Ok((length, _)) => Message::from_bytes(&bytes[..length]).map(Some),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }
}

/// Where a driver leaves what it knows for its successor.
pub trait SnapshotStore {
    /// Keeps a snapshot; when this returns, the store has it.
    fn put(&self, snapshot: Snapshot) -> Result<(), StoreError>;

    /// The snapshot that is kept, whole.
    fn get(&self) -> Result<Snapshot, StoreError>;
}

/// How long the data store may take to answer a driver.
pub const STORE_PATIENCE: Duration = Duration::from_millis(50);

/// Answers that are thrown away before a request: one for each request that was given up lately.
const STALE_ANSWERS: usize = 64;

/// A driver's end of the store.
#[derive(Debug)]
pub struct StoreClient {
    socket: OwnedFd,
    key: u64,
    patience: Duration,
    urgent: bool,
}

impl StoreClient {
    /// Reaches the store by `socket` for what is kept under `key`; each request is answered within
    /// `patience`, or given up.
    pub fn new(socket: OwnedFd, key: u64, patience: Duration) -> StoreClient {
        StoreClient { socket, key, patience, urgent: true }
    }

    /// The same for requests that belong to no replacement.
    #[must_use]
    pub fn in_turn(self) -> StoreClient {
        StoreClient { urgent: false, ..self }
    }

    /// Sends a request and waits for what `take` accepts as its answer.
    fn ask<T>(
        &self,
        request: &Message,
        mut take: impl FnMut(Message) -> Option<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let deadline = Instant::now() + self.patience;
        // The answer to a request that was given up may have come since.
        for _ in 0..STALE_ANSWERS {
            if Message::receive(&self.socket)?.is_none() {
                break;
            }
        }
        let bytes = request.to_bytes();
        while !self.send_now(&bytes)? {
            self.wait_until(deadline, PollFlags::OUT)?;
        }
        loop {
            if let Some(answer) = Message::receive(&self.socket)?
                && let Some(taken) = take(answer)
            {
                return taken;
            }
            // Also behind an answer to something else: a store that says such without end is given up all the same.
            self.wait_until(deadline, PollFlags::IN)?;
        }
    }

    /// Sends a message, if there is room for it; whether there was.
    fn send_now(&self, bytes: &[u8]) -> Result<bool, StoreError> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match rustix::net::send(&self.socket, bytes, flags) {
            Ok(sent) if sent == bytes.len() => Ok(true),
            Ok(sent) => {
                Err(StoreError::Nonsense(format!("{sent} of {} bytes were sent", bytes.len())))
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }

    /// Waits until the socket can be read or written, as `flags` say, or something else happens to it; an error when
    /// time is up.
    fn wait_until(&self, deadline: Instant, flags: PollFlags) -> Result<(), StoreError> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(StoreError::Silent(self.patience));
        }
        let left = Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos().into() };
        let mut files = [PollFd::new(&self.socket, flags)];
        match poll(&mut files, Some(&left)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }
}

impl SnapshotStore for StoreClient {
    fn put(&self, snapshot: Snapshot) -> Result<(), StoreError> {
        let (key, urgent, of) = (self.key, self.urgent, snapshot.generation);
        self.ask(&Message::Put { key, snapshot, urgent }, |answer| match answer {
            Message::Stored { key: of_key, generation } => {
                (of_key == key && generation == of).then_some(Ok(()))
            }
            _ => None,
        })
    }

    fn get(&self) -> Result<Snapshot, StoreError> {
        let (key, urgent) = (self.key, self.urgent);
        let found = self.ask(&Message::Get { key, urgent }, |answer| match answer {
            Message::Found { key: of_key, snapshot } => (of_key == key).then_some(Ok(snapshot)),
            Message::Missing { key: of_key } => {
                (of_key == key).then_some(Err(StoreError::Missing(key)))
            }
            _ => None,
        })?;
        if found.is_whole() { Ok(found) } else { Err(StoreError::Damaged(found.generation)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (OwnedFd, OwnedFd) {
        let kind = SocketType::SEQPACKET;
        socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap()
    }

    fn client(patience: Duration) -> (StoreClient, OwnedFd) {
        let (near, far) = pair();
        (StoreClient::new(near, 7, patience), far)
    }

    /// The next message, however long that takes.
    fn next(socket: &OwnedFd) -> Message {
        loop {
            if let Some(message) = Message::receive(socket).unwrap() {
                return message;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_is_put_is_got_again_past_answers_that_came_too_late() {
        let (client, far) = client(Duration::from_secs(60));
        let store = std::thread::spawn(move || {
            let Message::Put { key, snapshot, urgent: true } = next(&far) else { panic!("no put") };
            Message::Stored { key, generation: 1 }.send(&far).unwrap();
            Message::Missing { key: 9 }.send(&far).unwrap();
            Message::Stored { key, generation: snapshot.generation }.send(&far).unwrap();
            let Message::Get { key, urgent: true } = next(&far) else { panic!("no get") };
            Message::Found { key, snapshot: snapshot.clone() }.send(&far).unwrap();
            next(&far);
            let damaged = Snapshot { checksum: snapshot.checksum ^ 1, ..snapshot };
            Message::Found { key, snapshot: damaged }.send(&far).unwrap();
            next(&far);
            Message::Missing { key }.send(&far).unwrap();
        });
        let snapshot = Snapshot::new(2, (0..MOST_WORDS as u64).collect());
        client.put(snapshot.clone()).unwrap();
        assert_eq!(client.get().unwrap(), snapshot);
        assert!(matches!(client.get(), Err(StoreError::Damaged(2))));
        assert!(matches!(client.get(), Err(StoreError::Missing(7))));
        store.join().unwrap();
        assert!(matches!(client.get(), Err(StoreError::Gone | StoreError::Socket(_))));
    }

    #[test]
    fn a_store_that_says_nothing_is_given_up() {
        let (client, _far) = client(Duration::from_millis(1));
        assert!(matches!(client.get(), Err(StoreError::Silent(_))));
    }

    #[test]
    fn a_store_that_answers_anything_else_without_end_is_given_up_in_time() {
        let (client, far) = client(Duration::from_millis(20));
        let store = std::thread::spawn(move || {
            // Until the client has hung up.
            while (Message::Missing { key: 9 }).send(&far).is_ok() {}
        });
        let begun = Instant::now();
        for _ in 0..5 {
            assert!(matches!(client.get(), Err(StoreError::Silent(_))));
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        drop(client);
        store.join().unwrap();
    }

    #[test]
    fn answers_to_something_else_are_thrown_away_as_far_as_there_is_time() {
        const OTHERS: usize = 2 * STALE_ANSWERS;
        let (client, far) = client(Duration::ZERO);
        (0..OTHERS).for_each(|_| Message::Missing { key: 9 }.send(&far).unwrap());
        assert!(matches!(client.get(), Err(StoreError::Silent(_))));
        let left = std::iter::from_fn(|| Message::receive(&client.socket).unwrap()).count();
        assert_eq!(left, OTHERS - STALE_ANSWERS - 1);
    }

    #[test]
    fn a_store_that_takes_nothing_is_given_up_also_when_its_socket_is_full() {
        let (client, far) = client(Duration::ZERO);
        let snapshot = Snapshot::new(2, vec![7; MOST_WORDS]);
        for _ in 0..500 {
            assert!(matches!(client.put(snapshot.clone()), Err(StoreError::Silent(_))));
        }
        drop(far);
    }

    #[test]
    fn a_message_that_is_too_long_is_refused() {
        let (near, far) = pair();
        rustix::net::send(&near, &vec![0; MOST_MESSAGE_BYTES + 8], SendFlags::empty()).unwrap();
        assert!(matches!(Message::receive(&far), Err(StoreError::Nonsense(_))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_mean_themselves(
            mut bytes in prop::collection::vec(any::<u8>(), 0..200),
            kind in 0u64..8,
            headed: bool,
        ) {
            if headed && bytes.len() >= 40 {
                bytes.truncate(bytes.len() / 8 * 8);
                bytes[..8].copy_from_slice(&MAGIC.to_ne_bytes());
                bytes[8..16].copy_from_slice(&kind.to_ne_bytes());
                bytes[28..32].fill(0);
            }
            if let Ok(message) = Message::from_bytes(&bytes) {
                prop_assert_eq!(Message::from_bytes(&message.to_bytes()).unwrap(), message);
            }
        }

        #[test]
        fn a_snapshot_survives(key: u64, generation: u32, urgent: bool, words in prop::collection::vec(any::<u64>(), 0..50)) {
            let snapshot = Snapshot::new(generation, words);
            prop_assert!(snapshot.is_whole());
            let message = Message::Put { key, snapshot, urgent };
            prop_assert_eq!(Message::from_bytes(&message.to_bytes()).unwrap(), message);
        }
    }
}
