//! A channel between two neighbours on the way of a packet.
//!
//! The *user* is the end nearer to the application, the *provider* the end nearer to the NIC. Four
//! rings: buffers to be received into go down (*posts*) and come back filled (*completions*);
//! buffers to be sent go down (*transmits*) and come back when the NIC has read them (*sent*). No byte
//! of a packet is copied on the way.
//!
//! Each end may sleep. It says so in a word, looks once more, and sleeps; whoever publishes something
//! for it looks at the word behind a full fence (see `warikomi_shared::Bell`). A provider that has
//! buffers enough does not want to be woken for each that is posted, so it has a second word for
//! those.
//!
//! What the other end says is checked against this end's own table of who has which buffer
//! ([`Custody`]): a token that is none, or that the other end does not have, is counted as refused and
//! never used.
//!
//! A provider gives buffers back in any order; a driver of a card with several queues does. Every entry of
//! it answers one that it has taken, so the counts alone say how many buffers a provider had that has died.
//! Which these are the user knows by its table, and nobody else needs to.

mod lost;
mod successor;

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use warikomi_shared::{Bell, Consumer, Corrupt, Producer, RingPlace, Wakeup, Words};

use crate::custody::{Custody, Place};
use crate::entry::{NO_TOKEN, Slice, flags};

use self::lost::Lost;

/// Place of a channel in packet memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelPlace {
    /// Index of its first word.
    pub first_word: usize,
    /// Entries that each of its rings holds.
    pub capacity: usize,
}

/// Words of a channel, from its first. Heads and tails are 16 words apart, two cache lines.
pub mod words {
    /// Head of the ring of posts; its tail, and the other rings', follow.
    pub const POSTS: usize = 0;
    /// Head of the ring of completions.
    pub const COMPLETIONS: usize = 32;
    /// Head of the ring of transmits.
    pub const TRANSMITS: usize = 64;
    /// Head of the ring of what was sent.
    pub const SENT: usize = 96;
    /// From the head of a ring to its tail.
    pub const TAIL: usize = 16;
    /// Not 0 while the user sleeps.
    pub const USER_SLEEPING: usize = 128;
    /// Not 0 while the provider sleeps.
    pub const PROVIDER_SLEEPING: usize = 144;
    /// Not 0 while the provider sleeps and wants to be woken for posts.
    pub const PROVIDER_HUNGRY: usize = 160;
    /// What the user wants of the provider's socket; see [`crate::ip`].
    pub const SOCKET_ORDERS: usize = 192;
    /// What the provider counts.
    pub const COUNTERS: usize = 224;
    /// Not 0 once a user has mapped packet memory; what its library has received follows ([`crate::account`]).
    pub const USER_ATTACHED: usize = 256;
    /// Buffers that it was given filled.
    pub const USER_MESSAGES: usize = 257;
    /// Bytes in these.
    pub const USER_BYTES: usize = 258;
    /// The first entry of the first ring; the others' follow.
    pub const ENTRIES: usize = 512;
}

impl ChannelPlace {
    /// Words of a channel whose rings hold `capacity` entries.
    pub const fn words(capacity: usize) -> usize {
        words::ENTRIES + 4 * 2 * capacity
    }

    fn ring(self, head: usize) -> RingPlace {
        let number = head / (words::COMPLETIONS - words::POSTS);
        RingPlace {
            head: self.first_word + head,
            tail: self.first_word + head + words::TAIL,
            entries: self.first_word + words::ENTRIES + number * 2 * self.capacity,
            capacity: self.capacity,
            latest: None,
        }
    }
}

/// Entries that an end refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Entries of the other end that named no buffer of this channel.
    pub unknown: u64,
    /// Entries that named a buffer that the other end did not have: posted twice, say.
    pub not_theirs: u64,
    /// Entries whose bytes reach beyond the buffer.
    pub outside: u64,
}

impl Refusals {
    /// The sum of all refusals.
    pub fn total(&self) -> u64 {
        self.unknown + self.not_theirs + self.outside
    }
}

/// What both ends are made of.
struct Tables {
    custody: Custody,
    buffer_bytes: u32,
    refusals: Refusals,
}

impl Tables {
    /// Takes what an entry says, if the other end may say it.
    #[inline]
    fn accept(&mut self, slice: Slice, from: Place, to: Place) -> bool {
        u32::from(slice.offset) + u32::from(slice.length) <= self.buffer_bytes
            && self.custody.shift(slice.token, from, to)
    }

    /// Counts what the other end may not say.
    #[cold]
    fn refuse(&mut self, slice: Slice) {
        if u32::from(slice.offset) + u32::from(slice.length) > self.buffer_bytes {
            self.refusals.outside += 1;
        } else if self.custody.place(slice.token).is_none() {
            self.refusals.unknown += 1;
        } else {
            self.refusals.not_theirs += 1;
        }
    }
}

/// The end nearer to the application.
pub struct UserEnd<W, K> {
    words: W,
    sleeping: usize,
    posts: Producer<W>,
    completions: Consumer<W>,
    transmits: Producer<W>,
    sent: Consumer<W>,
    for_posts: Bell<W, K>,
    for_transmits: Bell<W, K>,
    unpublished: [bool; 2],
    /// What comes back of the buffers of a provider that has died: those posted, and those to be sent.
    lost: [Lost; 2],
    tables: Tables,
}

impl<W: Words + Clone, K: Wakeup + Clone> UserEnd<W, K> {
    /// The user's end of a channel whose buffers are `tokens`, of `buffer_bytes` each; `wakeup` ends
    /// the provider's sleep.
    pub fn new(
        words: &W,
        place: ChannelPlace,
        tokens: Range<u32>,
        buffer_bytes: u32,
        wakeup: &K,
    ) -> Self {
        let bell = |at| Bell::new(words.clone(), place.first_word + at, wakeup.clone());
        UserEnd {
            words: words.clone(),
            sleeping: place.first_word + words::USER_SLEEPING,
            posts: Producer::new(words.clone(), place.ring(words::POSTS)),
            completions: Consumer::new(words.clone(), place.ring(words::COMPLETIONS)),
            transmits: Producer::new(words.clone(), place.ring(words::TRANSMITS)),
            sent: Consumer::new(words.clone(), place.ring(words::SENT)),
            for_posts: bell(words::PROVIDER_HUNGRY),
            for_transmits: bell(words::PROVIDER_SLEEPING),
            unpublished: [false; 2],
            lost: Default::default(),
            tables: Tables {
                custody: Custody::new(tokens),
                buffer_bytes,
                refusals: Refusals::default(),
            },
        }
    }
}

/// Entries that are refused in one call: the other end may put more in as fast as they are taken out, and keeps nothing
/// else waiting. What is behind them is found by the next call, and looked for before a sleep.
const REFUSED_AT_ONCE: usize = 64;

/// The next acceptable answer in a ring. An entry that names no buffer fails as any other that may not be
/// said, so that looking for such costs the others nothing.
#[inline]
fn take_back<W: Words>(
    answers: &mut Consumer<W>,
    asked: &Producer<W>,
    tables: &mut Tables,
    lost: &mut Lost,
    from: Place,
) -> Result<Option<Slice>, Corrupt> {
    for _ in 0..REFUSED_AT_ONCE {
        let Some(entry) = answers.pop()? else { break };
        let mut slice = Slice::from_entry(entry);
        if tables.accept(slice, from, Place::User) {
            return Ok(Some(slice));
        }
        if slice.token == NO_TOKEN && slice.has(flags::FORGOTTEN) {
            let at = answers.count().wrapping_sub(1);
            slice = lost.next(slice, at, asked, &tables.custody, from).unwrap_or(slice);
            if tables.accept(slice, from, Place::User) {
                return Ok(Some(slice));
            }
        }
        tables.refuse(slice);
    }
    Ok(None)
}

impl<W: Words, K: Wakeup> UserEnd<W, K> {
    /// Posts a buffer to be received into; `false`, and nothing done, if it is not the user's, or if
    /// the provider has not taken what was posted before.
    #[inline]
    pub fn post(&mut self, token: u32) -> bool {
        if self.tables.custody.place(token) != Some(Place::User)
            || !self.posts.push(Slice::posted(token).to_entry())
        {
            return false;
        }
        self.unpublished[0] = true;
        self.tables.custody.shift(token, Place::User, Place::Posted)
    }

    /// Hands a buffer over to be sent; `false`, and nothing done, if it cannot be.
    #[inline]
    pub fn transmit(&mut self, slice: Slice) -> bool {
        let inside = u32::from(slice.offset) + u32::from(slice.length) <= self.tables.buffer_bytes;
        if !inside
            || self.tables.custody.place(slice.token) != Some(Place::User)
            || !self.transmits.push(slice.to_entry())
        {
            return false;
        }
        self.unpublished[1] = true;
        self.tables.custody.shift(slice.token, Place::User, Place::Sending)
    }

    /// The next buffer that was received into, in the order of arrival. It is the user's again.
    #[inline]
    pub fn completion(&mut self) -> Result<Option<Slice>, Corrupt> {
        let [lost, _] = &mut self.lost;
        take_back(&mut self.completions, &self.posts, &mut self.tables, lost, Place::Posted)
    }

    /// The next buffer that was sent. It is the user's again.
    #[inline]
    pub fn sent(&mut self) -> Result<Option<Slice>, Corrupt> {
        let [_, lost] = &mut self.lost;
        take_back(&mut self.sent, &self.transmits, &mut self.tables, lost, Place::Sending)
    }

    /// Shows the provider what was posted and handed over.
    #[inline]
    pub fn flush(&mut self) {
        self.completions.release();
        self.sent.release();
        let [posts, transmits] = std::mem::take(&mut self.unpublished);
        if posts {
            self.posts.publish();
        }
        if transmits {
            self.transmits.publish();
            self.for_transmits.ring();
        }
        if posts {
            self.for_posts.ring();
        }
    }

    /// Wakes the provider, if it sleeps, for something that is not in the rings.
    pub fn wake_provider(&mut self) {
        self.for_transmits.ring();
    }

    /// Whether something has come.
    #[inline]
    pub fn ready(&mut self) -> Result<bool, Corrupt> {
        Ok(self.completions.look()? > 0 || self.sent.look()? > 0)
    }

    /// Says that the user sleeps from now on, then looks: `true` if there is something to do after
    /// all.
    pub fn prepare_to_sleep(&mut self) -> Result<bool, Corrupt> {
        self.words.store(self.sleeping, 1, Relaxed);
        self.words.fence();
        self.ready()
    }

    /// The user is awake again.
    pub fn awake(&mut self) {
        self.words.store(self.sleeping, 0, Relaxed);
    }

    /// The owner of each buffer.
    pub fn custody(&self) -> &Custody {
        &self.tables.custody
    }

    /// What the provider has said that it may not say.
    pub fn refusals(&self) -> Refusals {
        self.tables.refusals
    }

    /// How often the provider was woken: a system call each.
    pub fn wakeups(&self) -> u64 {
        self.for_posts.wakeups() + self.for_transmits.wakeups()
    }
}

/// The end nearer to the NIC.
pub struct ProviderEnd<W, K> {
    words: W,
    sleeping: usize,
    hungry: usize,
    posts: Consumer<W>,
    completions: Producer<W>,
    transmits: Consumer<W>,
    sent: Producer<W>,
    bell: Bell<W, K>,
    unpublished: bool,
    /// The last look at the ring of posts found nothing.
    starved: bool,
    /// Posts are worth being woken for, however many buffers there are.
    wanting: bool,
    /// With fewer buffers than this, posts are worth being woken for.
    low_water: u32,
    tables: Tables,
}

/// Posted buffers that are enough to go on sleeping with: as many as a quarter of all.
const LOW_WATER_PART: u32 = 4;

impl<W: Words + Clone, K: Wakeup> ProviderEnd<W, K> {
    /// The provider's end of a channel whose buffers are `tokens`, of `buffer_bytes` each; `wakeup`
    /// ends the user's sleep.
    pub fn new(
        words: &W,
        place: ChannelPlace,
        tokens: Range<u32>,
        buffer_bytes: u32,
        wakeup: K,
    ) -> Self {
        let at = |word| place.first_word + word;
        ProviderEnd {
            words: words.clone(),
            sleeping: at(words::PROVIDER_SLEEPING),
            hungry: at(words::PROVIDER_HUNGRY),
            posts: Consumer::new(words.clone(), place.ring(words::POSTS)),
            completions: Producer::new(words.clone(), place.ring(words::COMPLETIONS)),
            transmits: Consumer::new(words.clone(), place.ring(words::TRANSMITS)),
            sent: Producer::new(words.clone(), place.ring(words::SENT)),
            bell: Bell::new(words.clone(), at(words::USER_SLEEPING), wakeup),
            unpublished: false,
            starved: true,
            wanting: false,
            low_water: (tokens.len() as u32 / LOW_WATER_PART).max(1),
            tables: Tables {
                custody: Custody::new(tokens),
                buffer_bytes,
                refusals: Refusals::default(),
            },
        }
    }
}

/// The next acceptable entry of a ring from the user.
#[inline]
fn take<W: Words>(
    ring: &mut Consumer<W>,
    tables: &mut Tables,
    to: Place,
) -> Result<Option<Slice>, Corrupt> {
    for _ in 0..REFUSED_AT_ONCE {
        let Some(entry) = ring.pop()? else { break };
        let slice = Slice::from_entry(entry);
        if tables.accept(slice, Place::User, to) {
            return Ok(Some(slice));
        }
        tables.refuse(slice);
    }
    Ok(None)
}

impl<W: Words, K: Wakeup> ProviderEnd<W, K> {
    /// The next buffer that the user has posted.
    #[inline]
    pub fn posted(&mut self) -> Result<Option<u32>, Corrupt> {
        let posted = take(&mut self.posts, &mut self.tables, Place::Posted)?;
        self.starved = posted.is_none();
        Ok(posted.map(|slice| slice.token))
    }

    /// Gives a posted buffer back, filled (or with [`flags::RETURNED`]). `false`, and nothing done, if
    /// the user does not await it, or does not take what comes.
    #[inline]
    pub fn complete(&mut self, slice: Slice) -> bool {
        self.give(slice, Place::Posted)
    }

    /// The next buffer that the user wants sent.
    #[inline]
    pub fn transmit(&mut self) -> Result<Option<Slice>, Corrupt> {
        take(&mut self.transmits, &mut self.tables, Place::Sending)
    }

    /// Gives a buffer back that was sent, or with [`flags::FAILED`] was not.
    #[inline]
    pub fn sent(&mut self, token: u32, failed: bool) -> bool {
        let flags = if failed { flags::FAILED } else { 0 };
        self.give(Slice { flags, ..Slice::posted(token) }, Place::Sending)
    }

    #[inline]
    fn give(&mut self, slice: Slice, from: Place) -> bool {
        let ring = if from == Place::Posted { &mut self.completions } else { &mut self.sent };
        if self.tables.custody.place(slice.token) != Some(from) || !ring.push(slice.to_entry()) {
            return false;
        }
        self.unpublished = true;
        self.tables.custody.shift(slice.token, from, Place::User)
    }

    /// Shows the user what was given.
    #[inline]
    pub fn flush(&mut self) {
        self.posts.release();
        self.transmits.release();
        if std::mem::take(&mut self.unpublished) {
            self.completions.publish();
            self.sent.publish();
            self.bell.ring();
        }
    }

    /// Whether the provider wants to be woken for posts even if it has buffers enough to receive
    /// into.
    pub fn want_posts(&mut self, wanting: bool) {
        self.wanting = wanting;
    }

    fn wants_posts(&self) -> bool {
        self.wanting || (self.starved && self.tables.custody.posted() < self.low_water)
    }

    /// Whether something is to be done: something to be sent, or, if there are few buffers to receive
    /// into, more of them.
    #[inline]
    pub fn ready(&mut self) -> Result<bool, Corrupt> {
        Ok(self.transmits.look()? > 0 || (self.wants_posts() && self.posts.look()? > 0))
    }

    /// Says that the provider sleeps from now on, then looks: `true` if there is something to do
    /// after all.
    pub fn prepare_to_sleep(&mut self) -> Result<bool, Corrupt> {
        self.words.store(self.sleeping, 1, Relaxed);
        self.words.store(self.hungry, u64::from(self.wants_posts()), Relaxed);
        self.words.fence();
        self.ready()
    }

    /// The provider is awake again.
    pub fn awake(&mut self) {
        self.words.store(self.sleeping, 0, Relaxed);
        self.words.store(self.hungry, 0, Relaxed);
    }

    /// The owner of each buffer.
    pub fn custody(&self) -> &Custody {
        &self.tables.custody
    }

    /// What the user has said that it may not say.
    pub fn refusals(&self) -> Refusals {
        self.tables.refusals
    }

    /// How often the user was woken: a system call each.
    pub fn wakeups(&self) -> u64 {
        self.bell.wakeups()
    }
}
