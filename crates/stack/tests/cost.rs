//! What the chain costs a packet, without a NIC and without a second process: prints, and judges
//! nothing, because it measures time.
//!
//! `cargo test --release -p warikomi-stack --test cost -- --ignored --nocapture`

use std::net::Ipv4Addr;

use etherparse::PacketBuilder;
use warikomi_clock::{Span, TscClock};
use warikomi_shared::Wakeup;
use warikomi_stack::{
    Hosts, OrdersWords, PacketMemory, Path, ProviderEnd, Shape, Slice, SocketOrders, Station,
    UserEnd, flags,
};

const GUEST: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const NETWORK: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const BUFFERS: u32 = 512;
const PACKETS: u64 = 4_000_000;

#[derive(Clone)]
struct NoWakeup;

impl Wakeup for NoWakeup {
    fn wake(&self) {}
}

#[test]
#[ignore = "it measures time"]
fn a_packet_through_driver_end_stack_and_application_end() {
    let clock = TscClock::calibrate().unwrap();
    let (memory, _file) = PacketMemory::create(Shape {
        channels: 2,
        application_buffers: BUFFERS,
        stack_buffers: 16,
        buffer_bytes: 2_048,
        tsc_hz: clock.ticks_per_second() as u64,
    })
    .unwrap();
    let (above, below) = (memory.channel(0).unwrap(), memory.channel(1).unwrap());
    let words = memory.words().clone();
    let station = Station { mac: [2; 6], address: GUEST, prefix_bits: 24 };
    let mut path =
        Path::new(memory.clone(), station, Hosts::default(), None, NoWakeup, &NoWakeup).unwrap();
    let mut user = UserEnd::new(&words, above, memory.application_tokens(), 2_048, &NoWakeup);
    let mut driver = ProviderEnd::new(&words, below, 0..BUFFERS + 16, 2_048, NoWakeup);
    OrdersWords::new(words, above).give(SocketOrders { port: 5_001, buffer_bytes: 1 << 24 });
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([4; 6], [2; 6])
        .ipv4(NETWORK.octets(), GUEST.octets(), 64)
        .udp(9, 5_001)
        .write(&mut frame, &[7; 1_458])
        .unwrap();
    let length = frame.len() as u16;
    for token in 0..BUFFERS {
        memory.bytes(token, 0, u32::from(length)).unwrap().copy_from(&frame);
        user.post(token);
    }
    for batch in [1, 8, 32] {
        let begin = clock.now();
        let mut received = 0;
        while received < PACKETS {
            user.flush();
            for _ in 0..batch {
                let Some(token) = driver.posted().unwrap() else { break };
                let flags = flags::CHECKSUMS_GOOD;
                assert!(driver.complete(Slice { length, flags, ..Slice::posted(token) }));
            }
            driver.flush();
            path.pass(clock.now()).unwrap();
            while let Some(slice) = user.completion().unwrap() {
                let mut head = [0u8; 16];
                memory.bytes(slice.token, u32::from(slice.offset), 16).unwrap().copy_to(&mut head);
                assert_eq!(head[0], 7);
                user.post(slice.token);
                received += 1;
            }
        }
        let took: Span = clock.now().since(begin);
        println!("batches of {batch}: {:.0} ns a packet", took.as_ns() / received as f64);
    }
}
