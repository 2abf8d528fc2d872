use std::rc::Rc;

use proptest::prelude::*;
use warikomi_clock::Time;
use warikomi_inject::{Addresses, FrameTemplate, Plan};
use warikomi_nic::{Frame, Link, Offer, Reception, RxFault, RxOutcome};
use warikomi_pci::{Interrupt, MsiMessage, Vector, Width};
use warikomi_testbench::{Bench, RTL8168, Subject};

use super::event::{Kind, link_number, message_number};
use super::*;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

fn header() -> Header {
    Header {
        version: "0.1.0".into(),
        driver: "r8169".into(),
        model: "rtl8168".into(),
        kernel: Some("6.12.1".into()),
        mac: MAC,
        run_id: 7,
        wire: "pcap:x.pcap+responder".into(),
        plan: Some(Plan::default()),
    }
}

fn file(tape: &Tape) -> Vec<u8> {
    file_with(&header(), tape)
}

fn file_with(header: &Header, tape: &Tape) -> Vec<u8> {
    let mut bytes = Vec::new();
    tape.write_to(header, &mut bytes).unwrap();
    bytes
}

fn read(bytes: &[u8]) -> Result<(Vec<Event>, Summary), TraceError> {
    let mut reader = Reader::new(bytes)?;
    let mut events = Vec::new();
    while let Some(event) = reader.next_event()? {
        events.push(event);
    }
    Ok((events, reader.summary().unwrap()))
}

fn offset(error: &TraceError) -> u64 {
    match error {
        TraceError::Foreign { offset }
        | TraceError::Truncated { offset }
        | TraceError::Damaged { offset, .. } => *offset,
        TraceError::Version { .. } => 8,
        TraceError::Io(error) => panic!("{error}"),
    }
}

/// One event of each kind that has only numbers, from any numbers.
fn plain() -> impl Strategy<Value = (Kind, u64, u64, EventKind)> {
    let access = (prop::option::of(0u8..7), any::<u32>(), 0u8..4)
        .prop_map(|(bar, offset, log)| Access { bar, offset, width_bytes: 1 << log });
    let dma = prop::sample::select(vec![Kind::DmaRead, Kind::DmaWrite, Kind::DmaFailed]);
    let word = prop::sample::select(vec![Kind::DmaLoad, Kind::DmaStore]);
    let vector = prop::option::of((0u16..2_048).prop_map(Vector));
    prop_oneof![
        (access, any::<u64>(), any::<bool>()).prop_map(|(access, value, write)| {
            let number = access.to_number();
            if write {
                (Kind::Write, number, value, EventKind::Write(access, value))
            } else {
                (Kind::Read, number, value, EventKind::Read(access, value))
            }
        }),
        (dma, any::<u64>(), any::<u64>()).prop_map(|(kind, address, len)| {
            let what = match kind {
                Kind::DmaRead => EventKind::DmaRead { address, len },
                Kind::DmaWrite => EventKind::DmaWrite { address, len },
                _ => EventKind::DmaFailed { address, len },
            };
            (kind, address, len, what)
        }),
        (word, any::<u64>(), any::<u32>()).prop_map(|(kind, address, value)| {
            let what = match kind {
                Kind::DmaLoad => EventKind::DmaLoad { address, value },
                _ => EventKind::DmaStore { address, value },
            };
            (kind, address, value.into(), what)
        }),
        (any::<u64>(), any::<u32>(), vector).prop_map(|(address, data, vector)| {
            let message = Interrupt::Msi(MsiMessage { address, data });
            let what = EventKind::Interrupt(message, vector);
            (Kind::Message, address, message_number(data, vector), what)
        }),
        any::<bool>().prop_map(|level| {
            (Kind::Wire, level.into(), 0, EventKind::Interrupt(Interrupt::Intx(level), None))
        }),
        Just((Kind::PowerOn, 0, 0, EventKind::PowerOn)),
        Just((Kind::Link, 0, 0, EventKind::Link(Link::Down))),
        (1u32..).prop_map(|mbps| (Kind::Link, mbps.into(), 0, EventKind::Link(Link::Up { mbps }))),
        any::<u16>().prop_filter_map("no offer", |bits| {
            let link = Link::Phy(Offer::from_bits(bits & 0x13e0)?);
            Some((Kind::Link, link_number(link), 0, EventKind::Link(link)))
        }),
        Just((Kind::Damaged, 1, 0, EventKind::Damaged(RxFault::Alignment))),
        Just((Kind::Damaged, 6, 99, EventKind::Damaged(RxFault::Length(99)))),
        Just((
            Kind::Placed,
            RxOutcome::Filtered.number(),
            3,
            EventKind::Placed(Reception { queue: 3, outcome: RxOutcome::Filtered })
        )),
    ]
}

/// Its check sequences are right: who wrote it has meant it so.
#[test]
fn a_plan_that_nothing_can_have_carried_out_is_damage() {
    let tape = Tape::with_capacity(0);
    for wrong in [
        Plan { packets_per_interrupt: 0, ..Plan::default() },
        Plan { flows: 0, ..Plan::default() },
        Plan { size_bytes: 0, ..Plan::default() },
    ] {
        let header = Header { plan: Some(wrong.clone()), ..header() };
        let error = Reader::new(&file_with(&header, &tape)[..]).err();
        let Some(TraceError::Damaged { what, .. }) = error else { panic!("{wrong:?}: {error:?}") };
        assert!(what.contains("plan"), "{what}");
    }
}

proptest! {
    #[test]
    fn what_is_recorded_is_read(events in prop::collection::vec((any::<u64>(), plain()), 0..2_000)) {
        let tape = Tape::with_capacity(1 << 20);
        for (at, (kind, a, b, _)) in &events {
            tape.put(*kind, Time::from_ps(*at), *a, *b);
        }
        let (got, summary) = read(&file(&tape)).unwrap();
        prop_assert_eq!(summary, Summary { events: events.len() as u64, dropped: 0 });
        let wanted = events.into_iter().map(|(at, (.., what))| Event { at: Time::from_ps(at), what });
        prop_assert_eq!(got, wanted.collect::<Vec<_>>());
    }

    #[test]
    fn every_frame_comes_back_byte_by_byte(
        frames in prop::collection::vec((0usize..3, any::<u64>(), any::<u32>()), 1..60),
        other in prop::collection::vec(any::<u8>(), 60..2_000),
    ) {
        let mut templates = [100, 1_500].map(|size| {
            FrameTemplate::new(&Addresses::to_guest(MAC), size, 7).unwrap()
        });
        let tape = Tape::with_capacity(1 << 20);
        let mut wanted = Vec::new();
        for (which, number, fcs) in frames {
            let bytes = match templates.get_mut(which) {
                Some(template) => template.frame(number).bytes.to_vec(),
                None => other.clone(),
            };
            tape.put_frame(Time::ZERO, &Frame { bytes: &bytes, fcs });
            wanted.push((bytes, fcs));
        }
        let mut frames = Frames::default();
        let got: Vec<_> = read(&file(&tape)).unwrap().0.into_iter().map(|event| match event.what {
            EventKind::Arrived { frame, fcs } => (frames.bytes(&frame).to_vec(), fcs),
            other => panic!("{other:?}"),
        }).collect();
        prop_assert_eq!(got, wanted);
    }

    #[test]
    fn any_bytes_are_refused_and_never_a_crash(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(read(&bytes).is_err());
        // Behind a beginning that is right, too.
        let mut good = file(&Tape::with_capacity(0));
        let end = good.len() - BLOCK_HEADER_BYTES - END_BYTES;
        good.truncate(end);
        good.extend(&bytes);
        let error = read(&good).unwrap_err();
        prop_assert!(offset(&error) >= end as u64);
    }

    /// Check sequences guard against accidents. Against malice the decoder guards itself.
    #[test]
    fn a_block_of_any_bytes_with_right_check_sequences_is_never_a_crash(
        payload in prop::collection::vec(any::<u8>(), 0..400), events in 0u32..100,
    ) {
        let mut good = file(&Tape::with_capacity(0));
        good.truncate(good.len() - BLOCK_HEADER_BYTES - END_BYTES);
        let begin = good.len();
        let mut head = BLOCK_MARK.to_vec();
        head.extend((payload.len() as u32).to_le_bytes());
        head.extend(events.to_le_bytes());
        head.extend(crc32fast::hash(&payload).to_le_bytes());
        head.extend(crc32fast::hash(&head).to_le_bytes());
        good.extend(head);
        good.extend(&payload);
        let error = read(&good).unwrap_err();
        prop_assert!((begin..=good.len()).contains(&(offset(&error) as usize)), "{}", error);
    }
}

/// Some packets as they come, with what the NIC does for each.
fn packets(count: u64) -> Tape {
    let tape = Tape::with_capacity(1 << 20);
    let mut template = FrameTemplate::new(&Addresses::to_guest(MAC), 1_500, 7).unwrap();
    for number in 0..count {
        let at = Time::from_ps(1_000_000_000 + number * 20_000_123);
        tape.put_frame(at, &template.frame(number));
        tape.put(Kind::DmaLoad, at, 0x10_0000 + number % 256 * 16, 0x8000_3fff);
        tape.put(Kind::DmaRead, at, 0x10_0004 + number % 256 * 16, 12);
        tape.put(Kind::DmaWrite, at, 0x45_6780 + number % 256 * 0x4000, 1_500);
        tape.put(Kind::DmaStore, at, 0x10_0000 + number % 256 * 16, 0x3000_05e0);
        tape.put(Kind::Message, at, 0xfee0_0000, 1);
        tape.put(Kind::Placed, at, 0, 0);
        let status = Access { bar: Some(2), offset: 0x3e, width_bytes: 2 };
        tape.put(Kind::Read, Time::from_ps(at.as_ps() + 5_000_000), status.to_number(), 1);
    }
    tape
}

#[test]
fn a_run_is_compact() {
    let tape = packets(2_000);
    let bytes = file(&tape).len() as f64 / tape.events() as f64;
    assert!(bytes < 12.0, "{bytes} bytes an event");
}

#[test]
fn every_truncation_is_refused_at_the_byte_that_is_missing() {
    let whole = file(&packets(40));
    assert!(read(&whole).is_ok());
    for len in 0..whole.len() {
        let error = read(&whole[..len]).unwrap_err();
        assert!(
            matches!(error, TraceError::Truncated { offset } if offset == len as u64),
            "{error}"
        );
    }
    let longer = [&whole[..], &[0]].concat();
    let error = read(&longer).unwrap_err();
    assert_eq!(offset(&error), whole.len() as u64, "{error}");
}

#[test]
fn every_flipped_byte_is_refused_not_behind_it() {
    let whole = file(&packets(40));
    for at in 0..whole.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut damaged = whole.clone();
            damaged[at] ^= flip;
            let error = read(&damaged).unwrap_err();
            let place = offset(&error) as usize;
            assert!(place <= at && at - place < BLOCK_HEADER_BYTES + BLOCK_BYTES, "{at}: {error}");
            if at < MAGIC.len() {
                assert!(
                    matches!(error, TraceError::Foreign { .. }) && place == at,
                    "{at}: {error}"
                );
            }
        }
    }
}

#[test]
fn the_header_says_where_it_comes_from() {
    let bytes = file(&Tape::with_capacity(0));
    let reader = Reader::new(&bytes[..]).unwrap();
    assert_eq!(reader.header(), &header());
    assert_eq!(reader.header().wire_kind().unwrap().to_string(), "responder");
}

/// The same file, as if another version had written it.
fn of_version(bytes: &[u8], version: u32) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let front = MAGIC.len()..MAGIC.len() + 12;
    bytes[front.clone()][..4].copy_from_slice(&version.to_le_bytes());
    let check = crc32fast::hash(&bytes[front.clone()]);
    bytes[front.end..front.end + 4].copy_from_slice(&check.to_le_bytes());
    bytes
}

#[test]
fn the_form_before_this_is_read_and_no_other() {
    let now = file(&packets(10));
    let read_now = read(&now).unwrap();
    let message = Interrupt::Msi(MsiMessage { address: 0xfee0_0000, data: 1 });
    let first = EventKind::Interrupt(message, Some(Vector(0)));
    assert!(read_now.0.iter().any(|event| event.what == first));
    assert_eq!(read(&of_version(&now, OLDEST_VERSION)).unwrap(), read_now);
    for version in [OLDEST_VERSION - 1, VERSION + 1, u32::MAX] {
        let error = read(&of_version(&now, version)).unwrap_err();
        assert!(error.to_string().contains(&format!("has form {version}")), "{error}");
    }
}

#[test]
fn a_full_tape_has_the_beginning_and_says_how_much_is_missing() {
    let tape = Tape::with_capacity(1_000);
    for number in 0..500u64 {
        tape.put(Kind::Read, Time::from_ps(number), number << 5 | 2 << 3, number);
    }
    let (events, summary) = read(&file(&tape)).unwrap();
    assert!(summary.events > 50 && summary.dropped > 50);
    assert_eq!((summary.events + summary.dropped, events.len() as u64), (500, summary.events));
    assert_eq!(events.last().unwrap().at, Time::from_ps(summary.events - 1));
}

#[test]
fn a_recorder_changes_nothing_and_can_be_taken_away() {
    let tape = Rc::new(Tape::with_capacity(1 << 16));
    let card = |wire| Recorded::around(Subject::of(RTL8168).build(wire), Rc::clone(&tape));
    let mut bench = Bench::cabled(card).at(Time::from_ps(5));
    // Memory decoding on (PCI 3.0, 6.2.2), then the chip command register: reset.
    bench.config(4, Width::B2, 2);
    bench.write(0x37, Width::B1, 0x10);
    let value = bench.read(0x37, Width::B1);
    let frame = [2; 60];
    assert_eq!(bench.receive(&frame), RxOutcome::NotReceiving);
    bench.nic = Recorded::removed(Recorded::removed(bench.nic));
    assert_eq!(bench.read(0x37, Width::B1), value);
    let command = Access { bar: Some(2), offset: 0x37, width_bytes: 1 };
    let config = Access { bar: None, offset: 4, width_bytes: 2 };
    let got = read(&file(&tape)).unwrap().0;
    assert!(got.iter().all(|event| event.at == Time::from_ps(5)));
    let got: Vec<_> = got.into_iter().map(|event| event.what).collect();
    assert_eq!(
        got,
        [
            EventKind::Write(config, 2),
            EventKind::Write(command, 0x10),
            EventKind::Read(command, value),
            EventKind::Arrived {
                frame: FrameBytes::Whole(frame.to_vec()),
                fcs: warikomi_nic::fcs(&frame)
            },
            EventKind::Placed(Reception::first(RxOutcome::NotReceiving)),
        ]
    );
}

#[test]
fn a_recorder_passes_on_that_work_is_ahead() {
    let tape = Rc::new(Tape::with_capacity(1 << 16));
    let card = |wire| Recorded::around(Subject::of(RTL8168).build(wire), Rc::clone(&tape));
    let mut bench = Bench::cabled(card);
    bench.plug(warikomi_nic::Link::Down);
    assert_eq!(bench.line.work_ahead(), 1);
}
