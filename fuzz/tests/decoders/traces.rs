//! Traces (`.wkt`), which are recorded elsewhere.

use std::io;
use std::rc::Rc;

use arbitrary::Unstructured;
use warikomi_clock::Time;
use warikomi_inject::Plan;
use warikomi_nic::{Link, MAX_FRAME_BYTES, NicOptions, build};
use warikomi_pci::Width;
use warikomi_testbench::{Bench, frame};
use warikomi_trace::export::{Format, export};
use warikomi_trace::{Behaviour, EventKind, Frames, Header, Reader, Recorded, Tape, TraceError};

use crate::harness::{Seeds, bounded};

/// Where the form has its parts: `crates/trace/src/lib.rs` draws it.
const FRONT: usize = 8;
const HEADER: usize = 24;
const BLOCK_HEADER: usize = 20;

pub(crate) fn recorded(packets: u64, plan: Option<Plan>) -> Vec<u8> {
    let tape = Rc::new(Tape::with_capacity(1 << 16));
    let card = |wire| {
        let nic = build(&NicOptions::of("rtl8168"), wire).expect("a model");
        Recorded::around(nic, Rc::clone(&tape))
    };
    let mut bench = Bench::cabled(card);
    for number in 0..packets {
        bench.now = Time::from_ps(1_000_000 * (number + 1));
        bench.config(4, Width::B2, 6);
        bench.read(0x3e, Width::B2);
        bench.write(0x3c, Width::B2, number);
        bench.receive(&frame(60 + number as usize, 0));
        bench.plug(if number % 2 == 0 { Link::Down } else { Link::Up { mbps: 1_000 } });
    }
    let header = Header {
        version: "0.1.0".into(),
        driver: "r8169".into(),
        model: "rtl8168".into(),
        kernel: Some("6.12.1".into()),
        mac: [2, 0, 0, 0, 0, 9],
        run_id: 7,
        wire: "responder".into(),
        plan,
    };
    let mut bytes = Vec::new();
    tape.write_to(&header, &mut bytes).expect("memory has room");
    bytes
}

/// Puts check sequences right, as far as the lengths lead to them: what is behind them is looked at only then.
fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    fn word(bytes: &[u8], at: usize) -> Option<usize> {
        Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize)
    }
    fn seal(bytes: &mut [u8], of: std::ops::Range<usize>, at: usize) -> Option<()> {
        let sum = crc32fast::hash(bytes.get(of)?).to_le_bytes();
        bytes.get_mut(at..at + 4)?.copy_from_slice(&sum);
        Some(())
    }
    fn put_right(bytes: &mut [u8]) -> Option<()> {
        let mut at = HEADER + word(bytes, FRONT + 4)?;
        seal(bytes, HEADER..at, FRONT + 8)?;
        seal(bytes, FRONT..FRONT + 12, FRONT + 12)?;
        loop {
            let end = at + BLOCK_HEADER + word(bytes, at + 4)?;
            seal(bytes, at + BLOCK_HEADER..end, at + 12)?;
            seal(bytes, at..at + 16, at + 16)?;
            at = end;
        }
    }
    put_right(&mut bytes);
    bytes
}

/// The error names a byte of the file, or the one behind it.
fn check(error: &TraceError, bytes: &[u8]) {
    match error {
        TraceError::Foreign { offset } | TraceError::Damaged { offset, .. } => {
            assert!(*offset <= bytes.len() as u64, "{error}");
        }
        TraceError::Truncated { offset } => assert_eq!(*offset, bytes.len() as u64),
        TraceError::Version { .. } => {}
        TraceError::Io(error) => panic!("memory can be read: {error}"),
    }
}

fn read(bytes: &[u8]) {
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return check(&error, bytes),
    };
    let _ = reader.header().wire_kind();
    let mut behaviour = Behaviour::new(&reader.header().model);
    let (mut frames, mut count) = (Frames::default(), 0);
    let ended = loop {
        match reader.next_event() {
            Ok(None) => break true,
            Ok(Some(event)) => {
                count += 1;
                if let EventKind::Arrived { frame, .. } = &event.what {
                    assert!(frames.bytes(frame).len() <= MAX_FRAME_BYTES);
                }
                behaviour.record(event);
            }
            Err(error) => {
                check(&error, bytes);
                break false;
            }
        }
    };
    assert!(2 * count <= bytes.len() as u64, "{count} events of two bytes at least");
    assert_eq!(ended.then_some(count), reader.summary().map(|summary| summary.events));
    for format in [Format::Pcapng, Format::Perfetto] {
        let trace = Reader::new(bytes).expect("it was read before");
        assert!(export(trace, format, &mut io::sink()).is_ok() == ended);
    }
    let again = behaviour.compare(Reader::new(bytes).expect("it was read before"));
    if let Ok(comparison) = again {
        assert_eq!((comparison.different_arrivals, comparison.different_outcomes), (0, 0));
    }
}

#[test]
fn traces() {
    let made = [("empty", recorded(0, None)), ("packets", recorded(6, Some(Plan::default())))];
    let seeds = Seeds::of("traces", &made, &["WKB\u{1}", "WKB\u{2}", "null", "pcap:", "oc48"]);
    bolero::check!().with_max_len(2_048).for_each(|input: &[u8]| {
        let mut from = Unstructured::new(input);
        let bytes = seeds.input(&mut from);
        bounded(|| {
            read(&bytes);
            read(&resealed(bytes));
        });
    });
}
