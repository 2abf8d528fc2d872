//! Channels between the parts of a packet path, and packet memory: each end is written to by the other.

use std::sync::atomic::Ordering::Relaxed;

use arbitrary::{Result, Unstructured};
use etherparse::PacketBuilder;
use warikomi_clock::{Span, Time};
use warikomi_shared::{SharedWords, Wakeup, Words};
use warikomi_stack::{
    ChannelPlace, Destination, HEADROOM_BYTES, Hosts, OrdersWords, PacketMemory, Path, Place,
    ProviderEnd, Shape, Slice, SocketOrders, Station, UserEnd, flags, words,
};

use crate::harness::{bounded, number, once_in, steps};

const APPLICATION: u32 = 12;
const STACK: u32 = 3;
/// Places of a ring's counts, from a channel's first word.
const COUNTS: [usize; 8] = [
    words::POSTS,
    words::POSTS + words::TAIL,
    words::COMPLETIONS,
    words::COMPLETIONS + words::TAIL,
    words::TRANSMITS,
    words::TRANSMITS + words::TAIL,
    words::SENT,
    words::SENT + words::TAIL,
];
/// Entries that a ring of so few buffers holds.
const RING: usize = 16;

/// No part sleeps here.
#[derive(Clone)]
struct NoWakeup;

impl Wakeup for NoWakeup {
    fn wake(&self) {}
}

struct Chain {
    memory: PacketMemory,
    user: UserEnd<SharedWords, NoWakeup>,
    path: Path<NoWakeup>,
    driver: ProviderEnd<SharedWords, NoWakeup>,
    now: Time,
    /// Of either channel, whether its counts made no sense: nothing more may be done with it.
    corrupt: bool,
}

impl Chain {
    fn new(buffer_bytes: u32) -> Chain {
        let shape = Shape {
            channels: 2,
            application_buffers: APPLICATION,
            stack_buffers: STACK,
            buffer_bytes,
            tsc_hz: 1_000_000_000,
        };
        let (memory, _) = PacketMemory::create(shape).expect("memory");
        let station = Station { mac: [2; 6], address: [10, 9, 0, 1].into(), prefix_bits: 24 };
        let hosts = Hosts::new(vec![([10, 9, 0, 2].into(), [2, 0, 0, 0, 0, 2])]);
        let path = Path::new(memory.clone(), station, hosts, Some(80), NoWakeup, &NoWakeup);
        let (above, below) = (Chain::place(&memory, 0), Chain::place(&memory, 1));
        let tokens = memory.application_tokens();
        let user = UserEnd::new(memory.words(), above, tokens, buffer_bytes, &NoWakeup);
        let all = 0..APPLICATION + STACK;
        let driver = ProviderEnd::new(memory.words(), below, all, buffer_bytes, NoWakeup);
        let mut orders = OrdersWords::new(memory.words().clone(), above);
        orders.give(SocketOrders { port: 5_001, buffer_bytes: 1 << 20 });
        let path = path.expect("there are two channels");
        let mut chain = Chain { memory, user, path, driver, now: Time::ZERO, corrupt: false };
        // Some buffers are on their way down already.
        (0..APPLICATION / 2).for_each(|token| assert!(chain.user.post(token)));
        chain.user.flush();
        chain.path.pass(chain.now).expect("nothing is written over yet");
        while chain.driver.posted().expect("nothing is written over yet").is_some() {}
        chain
    }

    fn place(memory: &PacketMemory, channel: u32) -> ChannelPlace {
        memory.channel(channel).expect("there are two channels")
    }

    /// A word of a channel is written over: a count, an entry, or any.
    fn scribble(&self, from: &mut Unstructured<'_>) -> Result<()> {
        let place = Chain::place(&self.memory, from.int_in_range(0..=1)?);
        let all = ChannelPlace::words(place.capacity);
        let at = match from.int_in_range(0..=3u8)? {
            0 | 1 => *from.choose(&COUNTS)?,
            2 => words::ENTRIES + from.int_in_range(0..=8 * RING - 1)?,
            _ => from.int_in_range(0..=all - 1)?,
        };
        let at = place.first_word + at;
        let words = self.memory.words();
        let value = match from.int_in_range(0..=3u8)? {
            // As if a little more had been put in, or taken.
            0 | 1 => words.load(at, Relaxed).wrapping_add(from.int_in_range(0..=3)?),
            2 => entry(from)?,
            _ => number(from)?,
        };
        words.store(at, value, Relaxed);
        Ok(())
    }

    fn step(&mut self, from: &mut Unstructured<'_>) -> Result<()> {
        let token = from.int_in_range(0..=APPLICATION + STACK)?;
        match from.int_in_range(0..=9u8)? {
            0..=2 => self.scribble(from)?,
            3 => _ = self.user.post(token),
            4 => {
                let to = Destination { address: [10, 9, 0, 2].into(), port: 9, source_port: 5_001 };
                let flags = *from.choose(&[flags::UDP, flags::STREAM, 0, 0xff])?;
                let (offset, length) = (HEADROOM_BYTES, from.int_in_range(0..=600)?);
                _ = self.user.transmit(Slice { token, offset, length, flags, extra: to.to_word() });
            }
            5 => {
                let Some(token) = self.driver.custody().at(Place::Posted).next() else {
                    return Ok(());
                };
                let frame =
                    datagram(if once_in(from, 3)? { 0 } else { from.int_in_range(0..=60)? });
                let room = self.memory.shape().buffer_bytes - frame.len() as u32;
                let offset = if once_in(from, 3)? { room } else { from.int_in_range(0..=room)? };
                let place = self.memory.bytes(token, offset, frame.len() as u32);
                place.expect("it fits").copy_from(&frame);
                let (offset, length) = (offset as u16, frame.len() as u16);
                let slice =
                    Slice { offset, length, flags: from.arbitrary()?, ..Slice::posted(token) };
                _ = self.driver.complete(slice);
            }
            6 => {
                self.user.flush();
                let taken = (self.user.completion().is_err(), self.user.sent().is_err());
                self.corrupt |= taken.0 || taken.1;
            }
            7 => {
                self.driver.flush();
                self.corrupt |= self.driver.posted().is_err() || self.driver.transmit().is_err();
            }
            8 => {
                let sending = self.driver.custody().at(Place::Sending).next();
                _ = sending.is_some_and(|token| self.driver.sent(token, false));
                if once_in(from, 8)? {
                    self.corrupt |= self.driver.forget().is_err();
                }
            }
            _ => {
                self.now += Span::from_us(from.int_in_range(1..=100_000)?);
                self.corrupt |= self.path.pass(self.now).is_err();
            }
        }
        Ok(())
    }

    /// Each end's table has every buffer once.
    fn check(&self) {
        for (custody, buffers) in [
            (self.user.custody(), APPLICATION),
            (self.path.above().custody(), APPLICATION),
            (self.path.below().custody(), APPLICATION + STACK),
            (self.driver.custody(), APPLICATION + STACK),
        ] {
            let count = |place| custody.at(place).count() as u32;
            assert_eq!(
                (count(Place::Posted), count(Place::Sending)),
                (custody.posted(), custody.sending())
            );
            let all = count(Place::User) + count(Place::Posted) + count(Place::Sending);
            assert_eq!((all, custody.buffers()), (buffers, buffers));
        }
    }
}

/// An entry of a ring: a buffer, with bytes that are in it or not.
fn entry(from: &mut Unstructured<'_>) -> Result<u64> {
    let slice = Slice {
        token: if once_in(from, 4)? { 0xff_ffff } else { from.int_in_range(0..=20)? },
        offset: from.arbitrary()?,
        length: from.arbitrary()?,
        flags: from.arbitrary()?,
        extra: 0,
    };
    let [word, extra] = slice.to_entry();
    assert_eq!(Slice::from_entry([word, extra]), slice);
    Ok(word)
}

/// A frame for the application, with this many bytes of payload.
fn datagram(bytes: usize) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2, 0, 0, 0, 0, 2], [2; 6])
        .ipv4([10, 9, 0, 2], [10, 9, 0, 1], 64)
        .udp(9, 5_001)
        .write(&mut frame, &vec![7; bytes])
        .expect("memory");
    frame
}

/// Packet memory with a header that is written over is refused, or what it says holds.
fn mapped(from: &mut Unstructured<'_>) -> Result<()> {
    let shape = Shape {
        channels: 2,
        application_buffers: APPLICATION,
        stack_buffers: STACK,
        buffer_bytes: 2_048,
        tsc_hz: 1_000_000_000,
    };
    let (memory, file) = PacketMemory::create(shape).expect("memory");
    for _ in 0..from.int_in_range(1..=3u8)? {
        let at = from.int_in_range(0..=11)?;
        memory.words().store(at, number(from)?, Relaxed);
    }
    if let Ok(mapped) = PacketMemory::map(&file) {
        let bytes = file.metadata().expect("a file").len();
        assert!(mapped.shape().file_bytes() <= bytes);
        let (token, offset, length) =
            (number(from)? as u32, number(from)? as u32, number(from)? as u32);
        if let Some(place) = mapped.bytes(token, offset, length) {
            assert!(token < mapped.shape().buffers() && place.len() == length as usize);
        }
        let place = mapped.channel(mapped.shape().channels.saturating_sub(1));
        let end = place.map_or(0, |place| place.first_word + ChannelPlace::words(place.capacity));
        assert!(end <= Words::len(mapped.words()));
    }
    Ok(())
}

#[test]
fn channels() {
    bolero::check!().with_max_len(1_024).for_each(|input: &[u8]| {
        let mut from = Unstructured::new(input);
        bounded(|| {
            if from.int_in_range(0..=7u8) == Ok(0) {
                let _ = mapped(&mut from);
                return;
            }
            // A buffer as long as offsets can name, too.
            let long = from.int_in_range(0..=3u8) == Ok(0);
            let mut chain = Chain::new(if long { 0x1_0000 } else { 2_048 });
            steps(&mut from, 80, |from| {
                if chain.corrupt {
                    Err(arbitrary::Error::IncorrectFormat)
                } else {
                    chain.step(from)
                }
            });
            chain.check();
        });
    });
}
