//! Every buffer is in exactly one place, whatever is done in whatever order; and nothing that a
//! neighbour writes makes it otherwise, or makes anybody panic.

use std::net::Ipv4Addr;

use etherparse::PacketBuilder;
use proptest::prelude::*;
use std::sync::atomic::Ordering;
use warikomi_clock::{Span, Time};
use warikomi_shared::{SharedWords, Wakeup, Words};
use warikomi_stack::{
    ChannelPlace, Destination, HEADROOM_BYTES, Hosts, OrdersWords, PacketMemory, Path, Place,
    ProviderEnd, Shape, Slice, SocketOrders, Station, UserEnd, flags,
};

const GUEST: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const NETWORK: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const PORT: u16 = 5_001;
const APPLICATION: u32 = 12;
const STACK: u32 = 3;

/// Nobody sleeps here.
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
    orders: OrdersWords<SharedWords>,
    now: Time,
}

impl Chain {
    fn new() -> Chain {
        Chain::with_buffers(2_048)
    }

    /// With buffers of this length.
    fn with_buffers(buffer_bytes: u32) -> Chain {
        let (memory, _file) = PacketMemory::create(Shape {
            channels: 2,
            application_buffers: APPLICATION,
            stack_buffers: STACK,
            buffer_bytes,
            tsc_hz: 1_000_000_000,
        })
        .unwrap();
        let station = Station { mac: [2, 0, 0, 0, 0, 1], address: GUEST, prefix_bits: 24 };
        let hosts = Hosts::new(vec![(NETWORK, [2, 0, 0, 0, 0, 2])]);
        let path =
            Path::new(memory.clone(), station, hosts, Some(80), NoWakeup, &NoWakeup).unwrap();
        let (above, below) = (memory.channel(0).unwrap(), memory.channel(1).unwrap());
        let words = memory.words();
        let tokens = memory.application_tokens();
        let user = UserEnd::new(words, above, tokens, buffer_bytes, &NoWakeup);
        let driver = ProviderEnd::new(words, below, 0..APPLICATION + STACK, buffer_bytes, NoWakeup);
        let orders = OrdersWords::new(words.clone(), above);
        Chain { user, path, driver, orders, now: Time::ZERO, memory }
    }

    fn pass(&mut self) {
        self.now += Span::from_us(10);
        self.user.flush();
        self.driver.flush();
        self.path.pass(self.now).unwrap();
    }

    fn fill(&mut self, token: u32, what: u8) -> Slice {
        let payload = [7; 100];
        let mut frame = Vec::new();
        let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]).ipv4(
            NETWORK.octets(),
            GUEST.octets(),
            64,
        );
        match what {
            0 => builder.icmpv4_echo_request(1, 2).write(&mut frame, &payload).unwrap(),
            1 => builder.tcp(9, 80, 5, 1_000).syn().write(&mut frame, &[]).unwrap(),
            2 => builder.udp(9, PORT + 1).write(&mut frame, &payload).unwrap(),
            _ => builder.udp(9, PORT).write(&mut frame, &payload).unwrap(),
        }
        if what == 3 {
            frame[30] ^= 1;
        }
        let length = frame.len() as u16;
        self.memory.bytes(token, 0, u32::from(length)).unwrap().copy_from(&frame);
        Slice { length, extra: 5, ..Slice::posted(token) }
    }

    /// Where the buffers are, counted once all rings are empty.
    fn check(&self) {
        for token in 0..APPLICATION {
            let (user, stack_above) =
                (self.user.custody().place(token), self.path.above().custody().place(token));
            assert_eq!(user, stack_above, "buffer {token}: application and stack disagree");
            let (stack_below, driver) =
                (self.path.below().custody().place(token), self.driver.custody().place(token));
            assert_eq!(stack_below, driver, "buffer {token}: stack and driver disagree");
            // What the application has given away the driver has, and nothing else; but for what
            // waits for a connection.
            let waits = self.path.waiting_streams().filter(|&waiting| waiting == token).count();
            let expected = if waits == 1 { Some(Place::User) } else { user };
            assert!(waits == 0 || user == Some(Place::Sending), "buffer {token} waits for nobody");
            assert_eq!(driver, expected, "buffer {token} is lost in the stack");
        }
        let with_driver = (APPLICATION..APPLICATION + STACK)
            .filter(|&token| self.driver.custody().place(token) != Some(Place::User))
            .count();
        let at_hand = self.path.general().buffers_at_hand();
        assert_eq!(with_driver + at_hand, STACK as usize, "the stack's own");
        for refusals in [
            self.user.refusals(),
            self.driver.refusals(),
            self.path.above().refusals(),
            self.path.below().refusals(),
        ] {
            assert_eq!(refusals.total(), 0);
        }
    }

    /// Until nothing moves.
    fn settle(&mut self) {
        for _ in 0..8 {
            self.pass();
            while self.user.completion().unwrap().is_some() {}
            while self.user.sent().unwrap().is_some() {}
            while self.driver.posted().unwrap().is_some() {}
            while self.driver.transmit().unwrap().is_some() {}
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Post(u32),
    Send(u32, bool),
    Fill(u8),
    Give,
    Sent,
    TakeAbove,
    TakeBelow,
    Pass,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..APPLICATION + 2).prop_map(Step::Post),
        (0..APPLICATION, any::<bool>()).prop_map(|(token, stream)| Step::Send(token, stream)),
        (0u8..9).prop_map(Step::Fill),
        Just(Step::Give),
        Just(Step::Sent),
        Just(Step::TakeAbove),
        Just(Step::TakeBelow),
        Just(Step::Pass),
        Just(Step::Pass),
    ]
}

fn perform(chain: &mut Chain, step: Step) {
    match step {
        Step::Post(token) => {
            let mine = chain.user.custody().place(token) == Some(Place::User);
            assert_eq!(chain.user.post(token), mine);
        }
        Step::Send(token, stream) => {
            let to = Destination { address: NETWORK, port: 9, source_port: PORT };
            let flags = if stream { flags::STREAM } else { flags::UDP };
            let slice =
                Slice { token, offset: HEADROOM_BYTES, length: 50, flags, extra: to.to_word() };
            chain.user.transmit(slice);
        }
        Step::Fill(what) => {
            let posted = chain.driver.custody().at(Place::Posted).next();
            if let Some(token) = posted {
                let slice = chain.fill(token, what);
                assert!(chain.driver.complete(slice));
            }
        }
        Step::Give => {
            let posted = chain.driver.custody().at(Place::Posted).last();
            if let Some(token) = posted {
                let slice = Slice { flags: flags::RETURNED, ..Slice::posted(token) };
                assert!(chain.driver.complete(slice));
            }
        }
        Step::Sent => {
            let sending = chain.driver.custody().at(Place::Sending).next();
            if let Some(token) = sending {
                assert!(chain.driver.sent(token, false));
            }
        }
        Step::TakeAbove => {
            chain.user.completion().unwrap();
            chain.user.sent().unwrap();
        }
        Step::TakeBelow => {
            chain.driver.posted().unwrap();
            chain.driver.transmit().unwrap();
        }
        Step::Pass => chain.pass(),
    }
}

/// Found by the target `channels` of `fuzz`: the payload would begin at 65,536, and an offset has 16 bits.
#[test]
fn a_datagram_without_payload_at_the_end_of_the_longest_buffer_is_malformed() {
    let mut chain = Chain::with_buffers(0x1_0000);
    chain.orders.give(SocketOrders { port: PORT, buffer_bytes: 1 << 20 });
    assert!(chain.user.post(0));
    chain.settle();
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]);
    let builder = builder.ipv4(NETWORK.octets(), GUEST.octets(), 64).udp(9, PORT);
    let mut frame = Vec::new();
    builder.write(&mut frame, &[]).unwrap();
    let (offset, length) = ((0x1_0000 - frame.len()) as u16, frame.len() as u16);
    chain.memory.bytes(0, offset.into(), length.into()).unwrap().copy_from(&frame);
    assert!(chain.driver.complete(Slice { offset, length, ..Slice::posted(0) }));
    chain.settle();
    let counters = chain.path.socket().counters;
    assert_eq!((counters.received, counters.malformed), (1, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_buffer_is_somewhere_exactly_once(steps in prop::collection::vec(step(), 0..300), full: bool) {
        let mut chain = Chain::new();
        chain.orders.give(SocketOrders { port: PORT, buffer_bytes: if full { 250 } else { 1 << 20 } });
        for step in steps {
            perform(&mut chain, step);
        }
        chain.settle();
        chain.check();
        let counters = chain.path.socket().counters;
        prop_assert_eq!(counters.received, counters.delivered + counters.no_socket + counters.buffer_full + counters.malformed);
    }

    /// A neighbour that writes anything anywhere in the channels: the stack ends with an error or
    /// goes on, and never gives one buffer to two.
    #[test]
    fn scribbling_over_the_channels_is_survived(writes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u64>(), 0u64..40]), 1..80)) {
        let mut chain = Chain::new();
        for token in 0..6 {
            chain.user.post(token);
        }
        chain.pass();
        let first = chain.memory.channel(0).unwrap().first_word;
        let places = 2 * ChannelPlace::words(chain.memory.channel(0).unwrap().capacity);
        for (at, value) in writes {
            chain.memory.words().store(first + at.index(places), value, Ordering::Relaxed);
            chain.now += Span::from_us(10);
            if chain.path.pass(chain.now).is_err() {
                break;
            }
            let _ = chain.user.completion();
            let _ = chain.driver.posted();
        }
    }
}
