//! One provider after another goes on with a channel, whatever the one before had done and not shown: what
//! was posted or handed over comes back exactly once, and in order. And nothing that a user writes over the
//! channel makes a successor panic, or store anything when it refuses.

use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;
use warikomi_driver::state::Held;
use warikomi_shared::{SharedWords, Wakeup, Words};
use warikomi_stack::{
    ChannelPlace, PacketMemory, Place, ProviderEnd, Shape, Slice, UserEnd, flags,
};

const BUFFERS: u32 = 12;
const BUFFER_BYTES: u32 = 2_048;

#[derive(Clone)]
struct Nobody;

impl Wakeup for Nobody {
    fn wake(&self) {}
}

type Provider = ProviderEnd<SharedWords, Nobody>;

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
    ProviderEnd::new(memory.words(), place, 0..BUFFERS, BUFFER_BYTES, Nobody)
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
    user: UserEnd<SharedWords, Nobody>,
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
        let user = UserEnd::new(memory.words(), place, 0..BUFFERS, BUFFER_BYTES, &Nobody);
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

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
