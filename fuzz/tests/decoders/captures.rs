//! Captures (pcap and pcapng), which any program may have written.

use arbitrary::Unstructured;
use warikomi_clock::{Span, Time};
use warikomi_testbench::message;
use warikomi_trace::Reader;
use warikomi_trace::capture::{CaptureError, is_capture, read};
use warikomi_trace::export::{Format, export};
use warikomi_wire::WireKind;

use crate::harness::{Seeds, bounded};
use crate::traces::recorded;

fn pcap() -> Vec<u8> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pcap");
    let kind = WireKind::Pcap { path: path.clone(), inner: Box::new(WireKind::Sink) };
    let mut wire = kind.build().expect("a file");
    for number in 0..4_u64 {
        let at = Time::ZERO + Span::from_ns(1_000_000_007 * number);
        wire.transmit(at, &message(7, number, 100 + number as usize));
    }
    wire.finish().expect("a file");
    std::fs::read(path).expect("a file")
}

fn pcapng() -> Vec<u8> {
    let mut bytes = Vec::new();
    let trace = recorded(4, None);
    export(Reader::new(&trace[..]).expect("a trace"), Format::Pcapng, &mut bytes).expect("memory");
    bytes
}

fn check(bytes: &[u8]) {
    let capture = match read(bytes) {
        Ok(capture) => capture,
        Err(error) => {
            let behind = match &error {
                CaptureError::Truncated { begin, offset } => {
                    assert_eq!(*offset, bytes.len() as u64);
                    *begin
                }
                CaptureError::Damaged { offset, .. } => *offset,
                _ => 0,
            };
            assert!(behind <= bytes.len() as u64, "{error}");
            return;
        }
    };
    assert!(is_capture(bytes));
    let (counts, schedule) = (capture.counts, capture.schedule);
    let arrivals = schedule.arrivals();
    assert_eq!(counts.frames, arrivals.len() as u64 + counts.too_long + counts.too_short);
    assert!(arrivals.is_sorted_by_key(|arrival| arrival.after));
    assert!(counts.cut.max(counts.padded) <= arrivals.len() as u64);
    if let Ok(mut faster) = schedule.at_speed(1_000.0) {
        faster.readdress([2; 6]);
        let _ = (faster.duration(), faster.total_bytes(), faster.longest_frame_bytes());
        let _ = faster.in_bursts_of(3).is_run(7);
    }
}

#[test]
fn captures() {
    let seeds = Seeds::of("captures", &[("nanoseconds", pcap()), ("blocks", pcapng())], &[]);
    bolero::check!().with_max_len(2_048).for_each(|input: &[u8]| {
        let bytes = seeds.input(&mut Unstructured::new(input));
        bounded(|| check(&bytes));
    });
}
