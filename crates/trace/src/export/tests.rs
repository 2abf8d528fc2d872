use serde_json::{Value, json};
use warikomi_clock::Time;
use warikomi_nic::register::{Access as RegisterAccess, Register, Role};
use warikomi_nic::{Frame, ModelInfo, Reception, RxOutcome};
use warikomi_pci::{Interrupt, MsiMessage, Vector, Width};

use super::*;
use crate::testing::trace_of;
use crate::{Access, Event, EventKind, Header};

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
    let capture = crate::capture::read(&file).unwrap();
    assert_eq!(capture.schedule.sizes_bytes().collect::<Vec<_>>(), [60]);
    let comment = b"not receiving";
    assert!(file.windows(comment.len()).any(|window| window == comment));
}

const fn register(offset: u16, role: Role) -> Register {
    let (access, source) = (RegisterAccess::ReadWrite, "made up");
    Register::new("R", (0, offset), 4, access, source).with_role(role)
}

static TWO_VECTORS: ModelInfo = ModelInfo {
    name: "two-vectors",
    summary: "",
    linux_drivers: &[],
    register_bar: 0,
    rx_queues: 2,
    max_frame_bytes: 1_514,
    registers: &[
        register(0x00, Role::Status(Vector(0))),
        register(0x04, Role::Mask(Vector(0))),
        register(0x10, Role::Status(Vector(1))),
        register(0x14, Role::Mask(Vector(1))),
    ],
};

#[test]
fn two_vectors_are_on_tracks_of_their_own() {
    let access = |offset| Access { bar: Some(0), offset, width_bytes: 4 };
    let message = |vector: u16| {
        let message = MsiMessage { address: 0xfee0_0000, data: 0x41 + u32::from(vector) };
        EventKind::Interrupt(Interrupt::Msi(message), Some(Vector(vector)))
    };
    let events = [
        (0, message(0)),
        (1, message(1)),
        (3, EventKind::Read(access(0x10), 1)),
        (5, EventKind::Write(access(0x14), 1)),
        (6, EventKind::Read(access(0x00), 1)),
        (10, EventKind::Write(access(0x04), 1)),
        (11, EventKind::Placed(Reception { queue: 1, outcome: RxOutcome::OnRing })),
    ];
    let mut json = Vec::new();
    let header = Reader::new(&trace()[..]).unwrap().header().clone();
    let header = Header { model: TWO_VECTORS.name.into(), ..header };
    let mut line =
        perfetto::Timeline::new(&mut json, Some(&TWO_VECTORS), &header, Time::ZERO).unwrap();
    for (us, what) in events {
        line.event(&Event { at: Time::from_ps(us * 1_000_000), what }).unwrap();
    }
    line.end().unwrap();
    let timeline: Value = serde_json::from_slice(&json).unwrap();
    let events = timeline["traceEvents"].as_array().unwrap();
    let track = |name: &str| {
        let named = |event: &&Value| event["args"]["name"] == name && event["ph"] == "M";
        events.iter().find(named).unwrap()["tid"].clone()
    };
    let slices = |track: &Value| -> Vec<_> {
        let on_track = |event: &&Value| event["tid"] == *track && event["ph"] == "X";
        let slice = |event: &Value| json!([event["name"], event["ts"], event["dur"]]);
        events.iter().filter(on_track).map(slice).collect()
    };
    let (first, second) = (track("interrupts"), track("interrupts of vector 1"));
    assert_eq!(slices(&first), [json!(["interrupt", 0.0, 6.0]), json!(["handling", 6.0, 4.0])]);
    assert_eq!(slices(&second), [json!(["interrupt", 1.0, 2.0]), json!(["handling", 3.0, 2.0])]);
    let sent: Vec<_> = events.iter().filter(|event| event["name"] == "MSI").collect();
    assert_eq!((&sent[0]["tid"], &sent[1]["tid"]), (&first, &second));
    assert_eq!(sent[1]["args"], json!({"data": 0x42, "vector": 1}));
    let packet = events.iter().find(|event| event["name"] == "packet").unwrap();
    assert_eq!(packet["args"]["queue"], 1);
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
