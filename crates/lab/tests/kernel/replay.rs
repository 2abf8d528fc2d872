//! Recorded runs and real traffic, given to a driver again.

use std::fs;
use std::path::{Path, PathBuf};

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, TsResolution};
use tempfile::TempDir;
use warikomi_clock::{Span, read_tsc};
use warikomi_inject::{Plan, Receiver};
use warikomi_lab::inject::Application;
use warikomi_lab::record::record;
use warikomi_lab::replay::{Origin, ReplayOptions, Replayed, load, replay};
use warikomi_measure::Fate;
use warikomi_session::Session;
use warikomi_trace::export::{Format, export};
use warikomi_trace::{EventKind, Frames, Reader};
use warikomi_wire::WireKind;

use crate::bring::{plan, session};

const OPTIONS: ReplayOptions = ReplayOptions {
    keep_addresses: false,
    application: Application { socket_buffer_bytes: 16 << 20, wait: None },
};

/// Records a run into a file.
fn recorded(session: &mut Session, plan: &Plan, folder: &TempDir) -> PathBuf {
    let run_id = read_tsc() as u32;
    let wire = WireKind::Sink;
    let recording =
        record(session, plan, Application::default(), run_id, &wire, &mut |_| ()).unwrap();
    recording.injected.check().unwrap();
    let mut bytes = Vec::new();
    recording.trace.write_to(&mut bytes).unwrap();
    let path = folder.path().join("trace.wkt");
    fs::write(&path, bytes).unwrap();
    path
}

fn replayed(session: &mut Session, file: &Path, speed: f64, options: ReplayOptions) -> Replayed {
    let replayable = load(file, speed).unwrap();
    let run_id = read_tsc() as u32;
    let done = replay(session, replayable, options, &WireKind::Sink, run_id, &mut |_| ()).unwrap();
    done.injected.check().unwrap();
    done
}

/// When each frame arrived, in picoseconds after the first, with its bytes and check sequence.
fn arrivals(trace: &[u8]) -> Vec<(u64, Vec<u8>, u32)> {
    let (mut frames, mut first, mut found) = (Frames::default(), None, Vec::new());
    for event in Reader::new(trace).unwrap() {
        let event = event.unwrap();
        if let EventKind::Arrived { frame, fcs } = event.what {
            let first = *first.get_or_insert(event.at);
            found.push((event.at.since(first).as_ps(), frames.bytes(&frame).to_vec(), fcs));
        }
    }
    found
}

/// When each packet was due, in picoseconds after the first.
fn due_ps(run: &Replayed) -> Vec<u64> {
    let planned: Vec<_> = run.injected.ledger.rows().filter_map(|row| row.planned).collect();
    planned.iter().map(|at| at.since(planned[0]).as_ps()).collect()
}

#[test]
fn a_recorded_run_is_replayed_packet_by_packet_at_its_times() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = session("sink");
    let trace = recorded(&mut first, &plan(1500, Span::from_us(20), 2_000), &folder);
    first.stop().unwrap();
    // Another kernel process, so that nothing is left of the first.
    let mut second = session("sink");
    let run = replayed(&mut second, &trace, 1.0, OPTIONS);
    second.stop().unwrap();

    let (was, is) = (arrivals(&fs::read(&trace).unwrap()), arrivals(&run.trace));
    assert_eq!((was.len(), is.len()), (2_000, 2_000));
    let what = |(_, bytes, fcs): &(u64, Vec<u8>, u32)| (bytes.clone(), *fcs);
    assert!(was.iter().map(what).eq(is.iter().map(what)), "the same bytes in the same order");
    // Each is due when it arrived in the recording, exactly; and never comes before.
    let due = due_ps(&run);
    assert!(due.iter().eq(was.iter().map(|(at, ..)| at)));
    let start = run.injected.start;
    for row in run.injected.ledger.rows() {
        assert!(row.injected >= row.planned && row.planned >= Some(start));
    }
    let comparison = run.comparison.unwrap();
    assert_eq!((comparison.arrivals, comparison.different_arrivals), (2_000, 0));
    let totals = run.injected.ledger.totals();
    assert_eq!((totals.injected, totals.unaccounted), (2_000, 0));
    assert!(totals.delivered > 0, "the application knows the packets of the recording");
    assert!(run.injected.result.figures.contains_key("interval_error_p50_ns"));
}

#[test]
fn bursts_stay_bursts_and_speed_shortens_what_is_between_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session("sink");
    let plan = Plan {
        packets_per_interrupt: 4,
        receiver: Receiver::Driver,
        ..plan(200, Span::from_us(200), 400)
    };
    let trace = recorded(&mut session, &plan, &folder);
    let run = replayed(&mut session, &trace, 2.0, OPTIONS);
    session.stop().unwrap();
    let was = arrivals(&fs::read(&trace).unwrap());
    let due = due_ps(&run);
    for (burst, recorded) in due.chunks(4).zip(was.chunks(4)) {
        assert!(burst.iter().all(|&at| at == burst[0]), "one deadline for a burst");
        assert!(burst[0].abs_diff(recorded[0].0 / 2) <= 1, "half the time");
    }
    let totals = run.injected.ledger.totals();
    assert_eq!((totals.injected, totals.delivered, totals.unaccounted), (400, 0, 0));
    assert_eq!(totals.unclaimed, totals.accepted);
    let raised = run.injected.result.interrupts.unwrap().raised;
    assert!(raised <= 100, "{raised} interrupts for 100 bursts");
}

/// A capture with a frame every 100 µs: for the guest, for another station, for all, and two odd ones.
fn capture(folder: &TempDir) -> PathBuf {
    let header = PcapHeader {
        ts_resolution: TsResolution::NanoSecond,
        datalink: DataLink::ETHERNET,
        ..PcapHeader::default()
    };
    let path = folder.path().join("real.pcap");
    let mut file = PcapWriter::with_header(fs::File::create(&path).unwrap(), header).unwrap();
    for number in 0..300u32 {
        let mut frame = vec![number as u8; [60, 42, 1_400][number as usize % 3]];
        frame[..6].copy_from_slice(if number % 10 == 9 { &[0xff; 6] } else { &[2, 9, 9, 9, 9, 9] });
        // An EtherType of nobody, so that no stack answers.
        frame[12..14].copy_from_slice(&[0x88, 0xb5]);
        let at = std::time::Duration::from_nanos(
            1_700_000_000_000_000_000 + u64::from(number) * 100_007,
        );
        file.write_packet(&PcapPacket::new(at, frame.len() as u32, &frame)).unwrap();
    }
    path
}

#[test]
fn real_traffic_reaches_the_driver_with_its_own_timing() {
    let folder = tempfile::tempdir().unwrap();
    let path = capture(&folder);
    let mut session = session("sink");
    let run = replayed(&mut session, &path, 1.0, OPTIONS);
    assert!(
        due_ps(&run)
            .iter()
            .eq((0..300).map(|number| number * 100_007_000).collect::<Vec<_>>().iter())
    );
    let totals = run.injected.ledger.totals();
    assert_eq!((totals.accepted, totals.unclaimed, totals.unaccounted), (300, 300, 0));
    assert!(run.comparison.is_none() && run.trace.is_empty());
    // Left as they are, only what is for all is let in.
    let run =
        replayed(&mut session, &path, 10.0, ReplayOptions { keep_addresses: true, ..OPTIONS });
    let totals = run.injected.ledger.totals();
    assert_eq!((totals.accepted, totals.filtered, totals.unaccounted), (30, 270, 0));
    let let_in = run.injected.ledger.rows().filter(|row| row.fate == Fate::Unclaimed);
    assert!(let_in.map(|row| row.sequence).eq((0..300).filter(|number| number % 10 == 9)));
    session.stop().unwrap();
    match load(&path, 1.0).unwrap().origin {
        Origin::Capture(counts) => assert_eq!((counts.frames, counts.padded), (300, 100)),
        Origin::Trace { .. } => panic!("it is a capture"),
    }
}

#[test]
fn a_trace_of_the_real_driver_is_compact_and_opens_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session("sink");
    let trace = recorded(&mut session, &plan(1500, Span::from_us(50), 500), &folder);
    session.stop().unwrap();
    let bytes = fs::read(&trace).unwrap();
    let events = Reader::new(&bytes[..]).unwrap().count();
    assert!(bytes.len() < 24 * events, "{} bytes for {events} events", bytes.len());

    let mut pcapng = Vec::new();
    export(Reader::new(&bytes[..]).unwrap(), Format::Pcapng, &mut pcapng).unwrap();
    let mut file = PcapNgReader::new(&pcapng[..]).unwrap();
    let mut frames = Vec::new();
    while let Some(block) = file.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap() {
            frames.push((packet.timestamp.as_nanos(), packet.data.into_owned()));
        }
    }
    let wanted = arrivals(&bytes);
    assert_eq!(frames.len(), wanted.len());
    for ((ns, frame), (ps, bytes, _)) in frames.iter().zip(&wanted) {
        assert_eq!(frame, bytes);
        assert!((ns - frames[0].0).abs_diff(u128::from(ps / 1_000)) <= 1);
    }

    let mut json = Vec::new();
    export(Reader::new(&bytes[..]).unwrap(), Format::Perfetto, &mut json).unwrap();
    let timeline: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let events = timeline["traceEvents"].as_array().unwrap();
    let named = |name: &str| events.iter().filter(|event| event["name"] == name).count();
    assert_eq!(named("packet"), 500);
    assert!(named("read IntrStatus") > 0 && named("write IntrMask") > 0);
    let interrupts = named("interrupt");
    assert!(interrupts > 0 && named("handling") > 0 && named("MSI") >= interrupts);
}
