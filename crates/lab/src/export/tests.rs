use serde_json::Value;
use warikomi_nic::Frame;
use warikomi_pci::Width;

use super::*;
use crate::testing::trace_of;

/// A frame that finds the receiver off, and a read of the interrupt status a microsecond later.
fn trace() -> Vec<u8> {
    trace_of([(5_000_000, false), (6_000_000, true)], |read, nic, host| {
        if read {
            nic.bar_read(host, 2, 0x3e, Width::B2);
        } else {
            nic.receive(host, Frame::new(&[7; 60]));
        }
    })
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
