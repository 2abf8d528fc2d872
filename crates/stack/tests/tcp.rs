//! The stack's TCP connection against another host's stack.

use std::net::Ipv4Addr;

use warikomi_clock::{Span, Time};
use warikomi_shared::{SharedWords, Wakeup};
use warikomi_stack::{
    Destination, Hosts, PacketMemory, Path, ProviderEnd, Shape, Slice, Station, UserEnd, flags,
};
use warikomi_wire::{Responder, Wire};

#[derive(Clone)]
struct NoWakeup;

impl Wakeup for NoWakeup {
    fn wake(&self) {}
}

/// Everything that is on the cable, in both directions.
fn cable(
    memory: &PacketMemory,
    driver: &mut ProviderEnd<SharedWords, NoWakeup>,
    host: &mut Responder,
    now: Time,
) {
    while let Some(frame) = driver.transmit().unwrap() {
        let mut bytes = vec![0u8; usize::from(frame.length)];
        let place = memory.bytes(frame.token, frame.offset.into(), frame.length.into());
        place.unwrap().copy_to(&mut bytes[..]);
        host.transmit(now, &bytes);
        assert!(driver.sent(frame.token, false));
    }
    while host.next_arrival() <= now
        && let Some(token) = driver.posted().unwrap()
    {
        let slice = match host.receive(now) {
            Some(frame) => {
                let length = frame.len() as u16;
                memory.bytes(token, 0, length.into()).unwrap().copy_from(&frame);
                Slice { length, ..Slice::posted(token) }
            }
            None => Slice { flags: flags::RETURNED, ..Slice::posted(token) },
        };
        assert!(driver.complete(slice));
    }
}

#[test]
fn a_stream_of_the_application_reaches_the_other_host() {
    const BUFFERS: u32 = 64;
    const WANTED_BYTES: u64 = 3_000_000;
    let (memory, _file) = PacketMemory::create(Shape {
        channels: 2,
        application_buffers: BUFFERS,
        stack_buffers: 64,
        buffer_bytes: 2_048,
        tsc_hz: 1_000_000_000,
    })
    .unwrap();
    let address = Ipv4Addr::new(10, 9, 0, 1);
    let station = Station { mac: [2, 0, 0, 0, 0, 1], address, prefix_bits: 24 };
    let (above, below) = (memory.channel(0).unwrap(), memory.channel(1).unwrap());
    let words = memory.words();
    let mut path =
        Path::new(memory.clone(), station, Hosts::default(), None, NoWakeup, &NoWakeup).unwrap();
    let mut user = UserEnd::new(words, above, memory.application_tokens(), 2_048, &NoWakeup);
    let mut driver = ProviderEnd::new(words, below, 0..BUFFERS + 64, 2_048, NoWakeup);
    let mut host = Responder::default();
    let responses = host.responses();

    // Half of the buffers to receive into, half to send from.
    let mut spare: Vec<u32> = (0..BUFFERS / 2).collect();
    (BUFFERS / 2..BUFFERS).for_each(|token| assert!(user.post(token)));
    let to = Destination { address: Responder::ADDRESS, port: Responder::TCP_PORT, source_port: 0 };
    let (mut given, mut now, mut passes) = (0, Time::ZERO, 0u64);
    while responses.tcp_bytes() < WANTED_BYTES {
        now += Span::from_us(5);
        passes += 1;
        assert!(passes < 10_000_000, "{given} bytes given, {} arrived", responses.tcp_bytes());
        while given < WANTED_BYTES
            && let Some(token) = spare.pop()
        {
            let slice = Slice {
                length: 1_500,
                flags: flags::STREAM,
                extra: to.to_word(),
                ..Slice::posted(token)
            };
            assert!(user.transmit(slice));
            given += 1_500;
        }
        user.flush();
        path.pass(now).unwrap();
        cable(&memory, &mut driver, &mut host, now);
        driver.flush();
        path.pass(now).unwrap();
        while let Some(sent) = user.sent().unwrap() {
            assert!(!sent.has(flags::FAILED), "the connection failed");
            spare.push(sent.token);
        }
        while let Some(back) = user.completion().unwrap() {
            assert!(user.post(back.token));
        }
    }
    assert_eq!(responses.tcp_bytes(), WANTED_BYTES);
}
