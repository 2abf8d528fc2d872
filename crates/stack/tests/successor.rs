//! One provider after another goes on with a channel, whatever the one before had done and not shown: what
//! was posted or handed over comes back exactly once, and in order, if that is the order in which providers
//! give back. And nothing that a user writes over the
//! channel makes a successor panic, or store anything when it refuses.

use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;
use warikomi_driver::state::Held;
use warikomi_shared::{SharedWords, Wakeup, Words};
use warikomi_stack::{
    ChannelPlace, PacketMemory, Place, ProviderEnd, Shape, Slice, UserEnd, flags, words,
};

const BUFFERS: u32 = 12;
const BUFFER_BYTES: u32 = 2_048;

#[derive(Clone)]
struct NoWakeup;

impl Wakeup for NoWakeup {
    fn wake(&self) {}
}

type Provider = ProviderEnd<SharedWords, NoWakeup>;

fn memory() -> PacketMemory {
    let shape = Shape {
        channels: 1,
        application_buffers: BUFFERS,
        stack_buffers: 0,
        buffer_bytes: BUFFER_BYTES,
        tsc_hz: 1_000_000_000,
    };
    PacketMemory::create(shape).unwrap().0
}

fn provider(memory: &PacketMemory) -> Provider {
    let place = memory.channel(0).unwrap();
    ProviderEnd::new(memory.words(), place, 0..BUFFERS, BUFFER_BYTES, NoWakeup)
}

/// One direction, as it must be: tokens in the order in which each side has had them.
#[derive(Default)]
struct Truth {
    asked: Vec<u32>,
    /// Taken by the present provider or its predecessors.
    taken: usize,
    /// Given back, shown or not.
    given: usize,
    back: Vec<u32>,
}

/// A provider with several queues: it gives back in any order.
#[derive(Default)]
struct Queues {
    /// Taken by the present provider and not given back by it.
    has: Vec<u32>,
    /// Of each buffer: how often it went down, and how often it came back.
    asked: [u32; BUFFERS as usize],
    back: [u32; BUFFERS as usize],
}

impl Truth {
    /// What a successor holds of it, if `unbegun` of the last buffers taken went nowhere.
    fn held(&mut self, shown: u64, unbegun: usize) -> (Vec<u32>, u64) {
        let shown = shown as usize;
        self.taken = (self.taken - unbegun.min(self.taken - shown)).max(shown);
        self.given = shown;
        (self.asked[shown..self.taken].to_vec(), self.taken as u64)
    }

    fn forgotten(&mut self, shown: u64) {
        (self.taken, self.given) = (shown as usize, shown as usize);
    }
}

struct World {
    memory: PacketMemory,
    user: UserEnd<SharedWords, NoWakeup>,
    provider: Provider,
    posts: Truth,
    frames: Truth,
}

#[derive(Clone, Debug)]
enum Step {
    Post(u32),
    Send(u32),
    ShowAsked,
    TakePost,
    TakeFrame,
    GivePost,
    GiveFrame,
    Show,
    TakeBack,
    /// The provider dies; of the last buffers and frames so many were not begun.
    Resume(usize, usize),
    Forget,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..BUFFERS).prop_map(Step::Post),
        (0..BUFFERS).prop_map(Step::Send),
        Just(Step::ShowAsked),
        Just(Step::TakePost),
        Just(Step::TakeFrame),
        Just(Step::GivePost),
        Just(Step::GiveFrame),
        Just(Step::Show),
        Just(Step::TakeBack),
        (0usize..4, 0usize..4).prop_map(|(buffers, frames)| Step::Resume(buffers, frames)),
        Just(Step::Forget),
    ]
}

impl World {
    fn new() -> World {
        let memory = memory();
        let place = memory.channel(0).unwrap();
        let user = UserEnd::new(memory.words(), place, 0..BUFFERS, BUFFER_BYTES, &NoWakeup);
        let provider = provider(&memory);
        World { user, provider, posts: Truth::default(), frames: Truth::default(), memory }
    }

    fn perform(&mut self, step: &Step) {
        match *step {
            Step::Post(token) if self.user.post(token) => self.posts.asked.push(token),
            Step::Send(token) if self.user.transmit(Slice::posted(token)) => {
                self.frames.asked.push(token);
            }
            Step::Post(_) | Step::Send(_) => {}
            Step::ShowAsked => self.user.flush(),
            Step::TakePost => {
                if let Some(token) = self.provider.posted().unwrap() {
                    assert_eq!(token, self.posts.asked[self.posts.taken]);
                    self.posts.taken += 1;
                }
            }
            Step::TakeFrame => {
                if let Some(slice) = self.provider.transmit().unwrap() {
                    assert_eq!(slice.token, self.frames.asked[self.frames.taken]);
                    self.frames.taken += 1;
                }
            }
            Step::GivePost if self.posts.given < self.posts.taken => {
                assert!(self.provider.complete(Slice::posted(self.posts.asked[self.posts.given])));
                self.posts.given += 1;
            }
            Step::GiveFrame if self.frames.given < self.frames.taken => {
                assert!(self.provider.sent(self.frames.asked[self.frames.given], false));
                self.frames.given += 1;
            }
            Step::GivePost | Step::GiveFrame => {}
            Step::Show => self.provider.flush(),
            Step::TakeBack => self.take_back(),
            Step::Resume(buffers, frames) => self.resume(buffers, frames),
            Step::Forget => self.forget(),
        }
    }

    fn take_back(&mut self) {
        while let Some(back) = self.user.completion().unwrap() {
            self.posts.back.push(back.token);
        }
        while let Some(back) = self.user.sent().unwrap() {
            self.frames.back.push(back.token);
        }
    }

    fn resume(&mut self, buffers: usize, frames: usize) {
        let mut next = provider(&self.memory);
        let shown = next.shown();
        let (posted, posts_taken) = self.posts.held(shown.given, buffers);
        let (sending, transmits_taken) = self.frames.held(shown.sent, frames);
        let held = Held { posted, sending, posts_taken, transmits_taken };
        next.resume(&held).unwrap();
        for (tokens, place) in [(&held.posted, Place::Posted), (&held.sending, Place::Sending)] {
            let mut sorted = tokens.clone();
            sorted.sort_unstable();
            assert!(next.custody().at(place).eq(sorted));
        }
        self.provider = next;
    }

    fn forget(&mut self) {
        let mut next = provider(&self.memory);
        let before = next.shown();
        let forgotten = next.forget().unwrap();
        let shown = next.shown();
        assert_eq!(forgotten.buffers, shown.given - before.given);
        assert_eq!(forgotten.frames, shown.sent - before.sent);
        assert!(
            shown.given as usize <= self.posts.taken && shown.sent as usize <= self.frames.taken
        );
        assert_eq!((next.custody().posted(), next.custody().sending()), (0, 0));
        self.posts.forgotten(shown.given);
        self.frames.forgotten(shown.sent);
        self.provider = next;
    }

    fn finish(&mut self) {
        self.user.flush();
        while self.posts.given < self.posts.asked.len() {
            self.perform(&Step::TakePost);
            self.perform(&Step::GivePost);
        }
        while self.frames.given < self.frames.asked.len() {
            self.perform(&Step::TakeFrame);
            self.perform(&Step::GiveFrame);
        }
        self.provider.flush();
        self.take_back();
        assert_eq!(self.posts.back, self.posts.asked);
        assert_eq!(self.frames.back, self.frames.asked);
        assert_eq!(self.user.refusals().total() + self.provider.refusals().total(), 0);
        assert_eq!((self.user.custody().posted(), self.user.custody().sending()), (0, 0));
    }
}

/// A channel below which providers with several queues follow one another.
struct ManyQueues {
    memory: PacketMemory,
    user: UserEnd<SharedWords, NoWakeup>,
    provider: Provider,
    /// Of buffers to be received into, and to be sent.
    ways: [Queues; 2],
}

impl ManyQueues {
    fn new() -> ManyQueues {
        let World { memory, user, provider, .. } = World::new();
        ManyQueues { memory, user, provider, ways: Default::default() }
    }

    fn perform(&mut self, step: &Step, choice: usize) {
        let ManyQueues { user, provider, ways: [posts, frames], .. } = self;
        let count = |counts: &mut [u32], token: u32| counts[token as usize] += 1;
        match *step {
            Step::Post(token) if user.post(token) => count(&mut posts.asked, token),
            Step::Send(token) if user.transmit(Slice::posted(token)) => {
                count(&mut frames.asked, token);
            }
            Step::Post(_) | Step::Send(_) => {}
            Step::ShowAsked => user.flush(),
            Step::TakePost => posts.has.extend(provider.posted().unwrap()),
            Step::TakeFrame => {
                frames.has.extend(provider.transmit().unwrap().map(|frame| frame.token));
            }
            Step::GivePost if !posts.has.is_empty() => {
                let token = posts.has.remove(choice % posts.has.len());
                assert!(provider.complete(Slice { length: 60, ..Slice::posted(token) }));
            }
            Step::GiveFrame if !frames.has.is_empty() => {
                let token = frames.has.remove(choice % frames.has.len());
                assert!(provider.sent(token, false));
            }
            Step::GivePost | Step::GiveFrame => {}
            Step::Show => provider.flush(),
            Step::TakeBack => self.take_back(),
            Step::Resume(..) | Step::Forget => self.forget(),
        }
    }

    fn forget(&mut self) {
        self.provider = provider(&self.memory);
        self.provider.forget().unwrap();
        self.ways.iter_mut().for_each(|way| way.has.clear());
    }

    fn take_back(&mut self) {
        let ManyQueues { user, ways: [posts, frames], .. } = self;
        while let Some(back) = user.completion().unwrap() {
            posts.back[back.token as usize] += 1;
            let returned = if back.length == 0 { flags::RETURNED } else { 0 };
            assert_eq!((back.flags, back.offset, back.extra), (returned, 0, 0));
        }
        while let Some(back) = user.sent().unwrap() {
            frames.back[back.token as usize] += 1;
            assert!(matches!(back.flags, 0 | flags::FAILED), "{back:?}");
        }
        for way in &self.ways {
            for (asked, back) in way.asked.iter().zip(way.back) {
                assert!(back <= *asked && asked - back <= 1, "{:?} {:?}", way.asked, way.back);
            }
        }
    }

    /// The last provider dies, too, with everything.
    fn finish(&mut self) {
        self.user.flush();
        while self.provider.posted().unwrap().is_some() {}
        while self.provider.transmit().unwrap().is_some() {}
        self.provider.flush();
        self.forget();
        self.take_back();
        for way in &self.ways {
            assert_eq!(way.asked, way.back);
        }
        assert_eq!(self.user.refusals().total() + self.provider.refusals().total(), 0);
        assert_eq!((self.user.custody().posted(), self.user.custody().sending()), (0, 0));
    }
}

fn all_words(memory: &PacketMemory) -> Vec<u64> {
    (0..memory.words().len()).map(|at| memory.words().load(at, Relaxed)).collect()
}

/// A provider that has two buffers and a frame, all of which the user knows.
fn two_buffers_and_a_frame() -> (World, Held) {
    let mut world = World::new();
    for step in [Step::Post(4), Step::Post(2), Step::Send(7), Step::ShowAsked] {
        world.perform(&step);
    }
    for step in [Step::TakePost, Step::TakePost, Step::TakeFrame, Step::Show] {
        world.perform(&step);
    }
    let held = Held { posted: vec![4, 2], sending: vec![7], posts_taken: 2, transmits_taken: 1 };
    (world, held)
}

#[test]
fn what_cannot_be_is_refused_and_nothing_is_stored() {
    let (world, good) = two_buffers_and_a_frame();
    for bad in [
        Held { posted: vec![4], ..good.clone() },
        Held { posted: vec![4, 4], ..good.clone() },
        Held { posted: vec![4, BUFFERS], ..good.clone() },
        Held { sending: vec![4], ..good.clone() },
        Held { sending: vec![], ..good.clone() },
        Held { posts_taken: 3, ..good.clone() },
        // More than the user has posted.
        Held { posted: vec![4, 2, 1], posts_taken: 3, ..good.clone() },
        Held { posts_taken: u64::MAX, ..good.clone() },
        Held { transmits_taken: 0, ..good.clone() },
    ] {
        let mut next = provider(&world.memory);
        let before = all_words(&world.memory);
        next.resume(&bad).unwrap_err();
        assert_eq!(all_words(&world.memory), before, "{bad:?}");
        assert_eq!((next.custody().posted(), next.custody().sending()), (0, 0));
        next.resume(&good).unwrap();
    }
}

#[test]
fn what_is_forgotten_goes_back_as_what_it_is() {
    let (mut world, _) = two_buffers_and_a_frame();
    world.forget();
    for token in [4, 2] {
        let back = world.user.completion().unwrap().unwrap();
        assert_eq!((back.token, back.flags), (token, flags::RETURNED));
    }
    let back = world.user.sent().unwrap().unwrap();
    assert_eq!((back.token, back.flags), (7, flags::FAILED));
    // A second time there is nothing.
    let again = provider(&world.memory).forget().unwrap();
    assert_eq!((again.buffers, again.frames), (0, 0));
}

/// A queue that gets nothing keeps its buffer while the other's goes round and round.
#[test]
fn a_buffer_that_a_dead_provider_had_for_long_comes_back() {
    let mut world = ManyQueues::new();
    let down = [Step::Post(9), Step::ShowAsked, Step::TakePost, Step::Show];
    down.iter().for_each(|step| world.perform(step, 0));
    for _ in 0..100 {
        let round = [Step::Post(3), Step::ShowAsked, Step::TakePost, Step::GivePost, Step::Show];
        round.iter().for_each(|step| world.perform(step, 1));
        world.perform(&Step::TakeBack, 0);
    }
    // One that no provider has seen yet stays posted.
    world.perform(&Step::Post(5), 0);
    world.forget();
    let back = world.user.completion().unwrap().unwrap();
    assert_eq!((back.token, back.flags), (9, flags::RETURNED));
    assert_eq!(world.user.completion().unwrap(), None);
    assert!(world.user.custody().at(Place::Posted).eq([5]));
}

/// What a provider claims that its predecessor had and the user does not know of.
#[test]
fn more_than_a_dead_provider_had_does_not_come_back() {
    let (mut world, _) = two_buffers_and_a_frame();
    let forged =
        Slice { token: 0xff_ffff, offset: 0, length: 0, flags: flags::RETURNED | 32, extra: 0 };
    let place = world.memory.channel(0).unwrap();
    for (count, extra) in [(0, u64::MAX), (1, 1 << 40), (2, 7), (3, 0), (4, 1), (5, u64::MAX - 3)] {
        let [word, extra] = Slice { extra, ..forged }.to_entry();
        let at = place.first_word + words::ENTRIES + 2 * place.capacity + 2 * count;
        world.memory.words().store(at, word, Relaxed);
        world.memory.words().store(at + 1, extra, Relaxed);
        let head = place.first_word + words::COMPLETIONS;
        world.memory.words().store(head, count as u64 + 1, Relaxed);
        while let Some(back) = world.user.completion().unwrap() {
            assert!([4, 2].contains(&back.token));
        }
    }
    let posted = world.user.custody().posted();
    assert_eq!(world.user.refusals().total(), 4 + u64::from(posted));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn in_whatever_order_it_is_given_back_everything_comes_back_once(steps in prop::collection::vec((step(), any::<usize>()), 0..300)) {
        let mut world = ManyQueues::new();
        for (step, choice) in &steps {
            world.perform(step, *choice);
        }
        world.finish();
    }

    #[test]
    fn everything_comes_back_once_and_in_order(steps in prop::collection::vec(step(), 0..200)) {
        let mut world = World::new();
        for step in &steps {
            world.perform(step);
        }
        world.finish();
    }

    /// Whatever a user has written: a successor goes on, or says that it cannot.
    #[test]
    fn scribbling_over_the_channel_is_survived(
        writes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u64>(), 0u64..40]), 0..30),
        posted in prop::collection::vec(0..BUFFERS + 2, 0..6),
        sending in prop::collection::vec(0..BUFFERS + 2, 0..6),
        counts: [u8; 2],
    ) {
        let (world, _) = two_buffers_and_a_frame();
        let place = world.memory.channel(0).unwrap();
        for (at, value) in writes {
            let word = place.first_word + at.index(ChannelPlace::words(place.capacity));
            world.memory.words().store(word, value, Relaxed);
        }
        let held = Held {
            posted,
            sending,
            posts_taken: counts[0].into(),
            transmits_taken: counts[1].into(),
        };
        let mut next = provider(&world.memory);
        let before = all_words(&world.memory);
        if next.resume(&held).is_err() {
            prop_assert_eq!(all_words(&world.memory), before);
        }
        let mut next = provider(&world.memory);
        if let Ok(forgotten) = next.forget() {
            let most = place.capacity as u64;
            prop_assert!(forgotten.buffers <= most && forgotten.frames <= most);
            prop_assert_eq!(next.custody().posted() + next.custody().sending(), 0);
        }
        let _ = (next.posted(), next.transmit());
        next.flush();
    }
}
