//! What is above a driver: a pool of its own, or the layer that the frames are for.

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::{Acquire, Release};

use warikomi_pci::attach::area;

use crate::state::{Held, Shown, StateError, StateWords};
use crate::{Buffer, Received, RxSink};

/// Pieces that a frame on its way down may have.
pub const MOST_PIECES: usize = 8;

/// A frame to transmit, on its way down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transmit {
    pieces: [(u64, u32); MOST_PIECES],
    count: usize,
    token: u32,
}

impl Transmit {
    /// A frame made of these pieces (bus address, length in bytes), in order; `None` if there are more
    /// than [`MOST_PIECES`].
    pub fn new(pieces: &[(u64, u32)], token: u32) -> Option<Transmit> {
        let mut transmit = Transmit { count: pieces.len(), token, ..Transmit::default() };
        transmit.pieces.get_mut(..pieces.len())?.copy_from_slice(pieces);
        Some(transmit)
    }

    /// Bus address and length in bytes of each piece.
    pub fn pieces(&self) -> &[(u64, u32)] {
        &self.pieces[..self.count]
    }

    /// The owner's name for it.
    pub fn token(&self) -> u32 {
        self.token
    }

    /// Length of the frame in bytes.
    pub fn bytes(&self) -> u64 {
        self.pieces().iter().map(|piece| u64::from(piece.1)).sum()
    }
}

/// What a driver's loop serves besides the device.
pub trait Upper: RxSink {
    /// Shows what has been given since the last time; after each look at the ring.
    fn flush(&mut self);

    /// The next frame to transmit, if there is one; whoever only receives has none.
    #[inline]
    fn next_transmit(&mut self) -> Option<Transmit> {
        None
    }

    /// The device is done with a frame.
    fn sent(&mut self, token: u32) {
        let _ = token;
    }

    /// The device will not send a frame: it cannot.
    fn not_sent(&mut self, token: u32) {
        self.sent(token);
    }

    /// Says that the driver is about to sleep, and then looks: whether there is something to do after
    /// all. From here on until [`awake`](Self::awake), new work ends the sleep.
    fn prepare_to_sleep(&mut self) -> bool;

    /// The driver is awake again, or has not slept at all.
    fn awake(&mut self);

    /// What becomes readable when there is new work; polled together with the interrupt.
    fn wakeup(&self) -> Option<BorrowedFd<'_>>;

    /// Why there is no layer above any more; the driver then ends, too. Asked now and then.
    fn failure(&mut self) -> Option<String> {
        None
    }

    /// Frames that were given and for which there was no room.
    fn dropped(&self) -> u64 {
        0
    }

    /// Touches what will be needed, so that taking over does not wait for page tables.
    fn warm(&self) {}

    /// Does the part of [`resume`](Self::resume) that changes nothing, so that it is fast when it counts.
    fn rehearse(&self, held: &Held) {
        let _ = held;
    }

    /// Wakes the layer above, whatever it is thought to be doing: a driver that died may have shown something
    /// and not rung any more. Once after [`resume`](Self::resume) or [`forget`](Self::forget).
    fn wake(&mut self) {}

    /// What has been shown through all drivers so far.
    fn shown(&self) -> Shown {
        Shown::default()
    }

    /// Goes on where another driver's upper half stopped: the driver has what `held` says. Refused, and
    /// nothing done, if that cannot be.
    fn resume(&mut self, held: &Held) -> Result<(), StateError> {
        let _ = held;
        Err(StateError::Nonsense("what is above this driver belongs to it".to_owned()))
    }

    /// Gives back, unused or as not sent, all that a predecessor had and nobody can find any more: after
    /// a reset of the device.
    fn forget(&mut self) -> Forgotten {
        Forgotten::default()
    }
}

/// What was given back by [`Upper::forget`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Receive buffers: a frame may have been in each.
    pub buffers: u64,
    /// Frames to be sent: it is unknown whether each was sent.
    pub frames: u64,
}

/// A pool that cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{buffers} receive buffers of {buffer_bytes} bytes do not fit into {room_bytes} bytes of DMA \
     memory; ask for fewer or shorter ones, at least one of 64 bytes"
)]
pub struct PoolError {
    /// Buffers asked for.
    pub buffers: usize,
    /// Bytes of each buffer.
    pub buffer_bytes: u32,
    /// Bytes of memory that there are.
    pub room_bytes: u64,
}

/// No layer above: frames are counted, and their buffers go back on the ring.
pub struct OwnPool {
    first: u64,
    buffers: u32,
    buffer_bytes: u32,
    free: Vec<Buffer>,
    /// Frames and returned buffers that drivers have given, this one and those before it.
    given: u64,
    /// Where a successor finds that.
    state: Option<StateWords>,
}

/// Buffers begin at multiples of a cache line.
const BUFFER_ALIGNMENT: u64 = 64;
/// The shortest buffer: an Ethernet frame of the least length, with its check sequence.
const LEAST_BUFFER_BYTES: u32 = 64;

impl OwnPool {
    /// Buffers in the `room_bytes` of DMA memory from bus address `address` on.
    pub fn new(
        address: u64,
        room_bytes: u64,
        buffers: usize,
        buffer_bytes: u32,
    ) -> Result<OwnPool, PoolError> {
        let error = PoolError { buffers, buffer_bytes, room_bytes };
        let first = address.checked_next_multiple_of(BUFFER_ALIGNMENT).ok_or(error)?;
        let stride = u64::from(buffer_bytes).next_multiple_of(BUFFER_ALIGNMENT);
        let needed = stride.checked_mul(buffers as u64).and_then(|all| all.checked_add(first));
        let end = address.checked_add(room_bytes).ok_or(error)?;
        let fits = needed.is_some_and(|needed| needed <= end);
        if !fits || buffers == 0 || buffer_bytes < LEAST_BUFFER_BYTES {
            return Err(error);
        }
        let buffers = u32::try_from(buffers).map_err(|_| error)?;
        let mut pool =
            OwnPool { first, buffers, buffer_bytes, free: Vec::new(), given: 0, state: None };
        pool.fill(&HashSet::new());
        Ok(pool)
    }

    /// Counts in a state area what it is given, for the next driver.
    pub fn count_in(&mut self, state: StateWords) {
        self.given = state.load(area::ALONE_GIVEN, Acquire);
        self.state = Some(state);
    }

    /// Buffers that are not on the ring.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    fn place(&self, token: u32) -> Option<Buffer> {
        let stride = u64::from(self.buffer_bytes).next_multiple_of(BUFFER_ALIGNMENT);
        let address = self.first + stride * u64::from(token);
        Buffer::new(address, self.buffer_bytes, token)
    }

    /// All buffers are free but these. They are taken from the end: the first buffer first.
    fn fill(&mut self, posted: &HashSet<u32>) {
        let free = (0..self.buffers).rev().filter(|token| !posted.contains(token));
        self.free = free.filter_map(|token| self.place(token)).collect();
    }
}

impl RxSink for OwnPool {
    #[inline]
    fn buffer(&mut self) -> Option<Buffer> {
        self.free.pop()
    }

    #[inline]
    fn received(&mut self, buffer: Buffer, _: Received) {
        self.given += 1;
        self.free.push(buffer);
    }

    fn returned(&mut self, buffer: Buffer) {
        self.given += 1;
        self.free.push(buffer);
    }

    fn named(&self, token: u32) -> Option<Buffer> {
        if token < self.buffers { self.place(token) } else { None }
    }
}

impl Upper for OwnPool {
    #[inline]
    fn flush(&mut self) {
        if let Some(state) = &self.state {
            state.store(area::ALONE_GIVEN, self.given, Release);
        }
    }

    fn prepare_to_sleep(&mut self) -> bool {
        false
    }

    fn awake(&mut self) {}

    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn shown(&self) -> Shown {
        let given = |state: &StateWords| state.load(area::ALONE_GIVEN, Acquire);
        Shown { given: self.state.as_ref().map_or(self.given, given), sent: 0 }
    }

    fn resume(&mut self, held: &Held) -> Result<(), StateError> {
        let posted: HashSet<u32> = held.posted.iter().copied().collect();
        let given = self.shown().given;
        let known = posted.len() == held.posted.len() && posted.iter().all(|&t| t < self.buffers);
        if !known || !held.sending.is_empty() || held.posts_taken != given + posted.len() as u64 {
            let (buffers, sending) = (self.buffers, held.sending.len());
            let what = format!(
                "{} buffers of {buffers} on the ring and {sending} frames to be sent, {} posted where \
                 {given} were given back",
                held.posted.len(),
                held.posts_taken
            );
            return Err(StateError::Nonsense(what));
        }
        self.fill(&posted);
        self.given = given;
        Ok(())
    }

    fn forget(&mut self) -> Forgotten {
        self.given = self.shown().given;
        self.fill(&HashSet::new());
        Forgotten::default()
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use proptest::prelude::*;
    use warikomi_shared::{SharedWords, Words};

    #[test]
    fn a_frame_has_at_most_so_many_pieces() {
        let pieces = [(1, 2); MOST_PIECES + 1];
        assert_eq!(Transmit::new(&pieces, 7), None);
        let transmit = Transmit::new(&pieces[1..], 7).unwrap();
        assert_eq!((transmit.pieces(), transmit.token()), (&pieces[1..], 7));
        assert_eq!(transmit.bytes(), 2 * MOST_PIECES as u64);
    }

    fn counted(given: u64) -> (OwnPool, SharedWords) {
        let file = warikomi_shared::create_region("test", area::BYTES).unwrap();
        let words = SharedWords::map(file, 0, area::BYTES as usize).unwrap();
        words.store(area::ALONE_GIVEN, given, Release);
        let mut pool = OwnPool::new(0x1000, 1 << 16, 20, 2_048).unwrap();
        pool.count_in(Rc::new(words.clone()));
        (pool, words)
    }

    #[test]
    fn what_a_pool_was_given_is_counted_from_driver_to_driver_once_it_is_shown() {
        let (mut pool, words) = counted(7);
        let buffer = pool.buffer().unwrap();
        pool.received(buffer, Received { bytes: 60, checksums_good: false });
        assert_eq!(pool.shown().given, 7);
        pool.flush();
        assert_eq!((pool.shown().given, words.load(area::ALONE_GIVEN, Acquire)), (8, 8));
        pool.buffer().unwrap();
        pool.forget();
        assert_eq!((pool.free(), pool.shown().given), (20, 8));
    }

    proptest! {
        /// Whatever a predecessor is said to have had: it is refused and nothing changes, or each buffer is
        /// either on the ring or free.
        #[test]
        fn a_pool_goes_on_with_what_makes_sense(
            posted in prop::collection::vec(0u32..24, 0..8),
            sending in prop::collection::vec(0u32..24, 0..2),
            off in 0u64..3,
        ) {
            let (mut pool, _words) = counted(100);
            let posts_taken = 100 + posted.len() as u64 + off;
            let held = Held { posted, sending, posts_taken, transmits_taken: 0 };
            let distinct: HashSet<u32> = held.posted.iter().copied().collect();
            let sound = distinct.len() == held.posted.len()
                && distinct.iter().all(|token| *token < 20)
                && held.sending.is_empty()
                && off == 0;
            prop_assert_eq!(pool.resume(&held).is_ok(), sound);
            prop_assert_eq!(pool.free(), if sound { 20 - held.posted.len() } else { 20 });
            while let Some(buffer) = pool.buffer() {
                prop_assert!(!sound || !distinct.contains(&buffer.token()));
                prop_assert_eq!(pool.named(buffer.token()), Some(buffer));
            }
        }

        #[test]
        fn buffers_lie_inside_and_apart(address: u64, room in 0u64..1 << 20, buffers in 0usize..300, bytes in 0u32..20_000) {
            let Ok(mut pool) = OwnPool::new(address, room, buffers, bytes) else {
                let least = (u64::from(bytes).next_multiple_of(64)) * buffers as u64 + 63;
                let over = address.checked_add(room).is_none_or(|end| end > u64::MAX - 64);
                prop_assert!(buffers == 0 || bytes < 64 || least > room || over);
                return Ok(());
            };
            let mut end = address;
            while let Some(buffer) = pool.buffer() {
                prop_assert!(buffer.address >= end && buffer.bytes() == bytes);
                end = buffer.address + u64::from(bytes);
            }
            prop_assert!(end <= address + room);
        }
    }
}
