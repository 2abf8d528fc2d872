use std::rc::Rc;

use serde_json::Value;
use warikomi_clock::Time;
use warikomi_inject::trace::{Header, Recorded, Tape};
use warikomi_nic::Frame;
use warikomi_nic::wire::CountedSink;
use warikomi_pci::{Host, IntrLine, SharedMemory, Width};

use super::*;

struct Nowhere;

impl IntrLine for Nowhere {
    fn signal(&mut self, _: warikomi_pci::Interrupt) {}
}

/// A frame that finds the receiver off, and a read of the interrupt status a microsecond later.
fn trace() -> Vec<u8> {
    let tape = Rc::new(Tape::with_capacity(1 << 16));
    let nic = warikomi_nic::by_name("rtl8168", Box::new(CountedSink::new())).unwrap();
    let mut nic = Recorded::around(nic, Rc::clone(&tape));
    let memory = SharedMemory::anonymous(0, 0x1000).unwrap();
    let mut call = |ps, read: bool| {
        let now = Time::from_ps(ps);
        let mut host = Host { now, memory: &memory, interrupts: &mut Nowhere };
        if read {
            nic.bar_read(&mut host, 2, 0x3e, Width::B2);
        } else {
            nic.receive(&mut host, Frame::new(&[7; 60]));
        }
    };
    call(5_000_000, false);
    call(6_000_000, true);
    let header = Header {
        version: String::new(),
        driver: "r8169".into(),
        model: "rtl8168".into(),
        kernel: None,
        mac: [0; 6],
        run_id: 0,
        wire: "sink".into(),
        plan: None,
    };
    let mut bytes = Vec::new();
    tape.write_to(&header, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_timeline_has_names_and_microseconds() {
    let mut json = Vec::new();
    export(Reader::new(&trace()[..]).unwrap(), Format::Perfetto, &mut json).unwrap();
    let timeline: Value = serde_json::from_slice(&json).unwrap();
    let events = timeline["traceEvents"].as_array().unwrap();
    let find = |name: &str| events.iter().find(|event| event["name"] == name).unwrap();
    assert_eq!(find("packet")["ts"], 0.0);
    assert_eq!(find("packet")["args"]["size_bytes"], 60);
    assert_eq!(find("packet")["args"]["outcome"], "not receiving");
    assert_eq!(find("read IntrStatus")["ts"], 1.0);
    assert_eq!(find("process_name")["args"]["name"], "r8169 on rtl8168");
}

#[test]
fn a_capture_has_the_frame_and_says_why_it_was_not_taken() {
    let mut file = Vec::new();
    assert_eq!(export(Reader::new(&trace()[..]).unwrap(), Format::Pcapng, &mut file).unwrap(), 1);
    let capture = warikomi_inject::capture::read(&file).unwrap();
    assert_eq!(capture.schedule.sizes_bytes().collect::<Vec<_>>(), [60]);
    let comment = b"not receiving";
    assert!(file.windows(comment.len()).any(|window| window == comment));
}

#[test]
fn a_damaged_trace_is_not_exported() {
    let mut bytes = trace();
    let at = bytes.len() - 1;
    bytes[at] ^= 1;
    for format in [Format::Pcapng, Format::Perfetto] {
        let error = export(Reader::new(&bytes[..]).unwrap(), format, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("byte"), "{error}");
    }
}
