//! Lines between the support side and a guest's agent, in both directions.

use std::io::Write;
use std::os::unix::net::UnixStream;

use arbitrary::Unstructured;
use serde_json::json;
use warikomi_protocol::answers::{
    Alive, Counters, Interface, LinkState, ReceiveTotals, WorkTotals,
};
use warikomi_protocol::commands::{LinkUp, PingAgent, ReceiveRuns, ReceiveStart, VlanAdd};
use warikomi_protocol::lines::{Line, Splitter};
use warikomi_protocol::payload::Head;
use warikomi_protocol::{Envelope, Event, FromGuest, MAX_REQUEST_BYTES, Outcome, Ready, Response};
use warikomi_target::agent::AgentLine;

use crate::harness::{Seeds, bounded};

fn requests() -> Vec<u8> {
    let link = LinkUp {
        interface: Some("eth0".into()),
        address_cidr: Some("10.9.0.1/24".into()),
        timeout_ms: 5_000,
    };
    let vlan = VlanAdd {
        interface: None,
        vlan: 7,
        address_cidr: "10.9.7.1/24".into(),
        header_with_tag: true,
    };
    let lines = [
        Envelope::new(1, PingAgent {}),
        Envelope::new(2, link),
        Envelope::new(3, vlan),
        Envelope::new(4, ReceiveStart::on_port(5_001, 7)),
        Envelope::new(u64::MAX, ReceiveRuns { from: 0, max: 1_000 }),
    ];
    lines.iter().flat_map(|line| line.to_line().into_bytes()).collect()
}

fn answers() -> Vec<u8> {
    let ready = Ready {
        kernel_release: "6.12.1".into(),
        agent_version: "0.1.0".into(),
        uptime_ms: 20,
        memory_bytes: 1 << 28,
        pci_devices: Vec::new(),
        warnings: vec!["none".into()],
    };
    let answer = |id, value| Response { id, outcome: Outcome::Ok(value) }.to_line();
    let lines = [
        Event::Ready(ready).to_line(),
        answer(1, json!({"tsc": 5, "uptime_ms": 20})),
        answer(2, json!({"runs": [[0, 4, 10], [7, 1, 20]], "total": 2})),
        answer(3, serde_json::to_value(ReceiveTotals::default()).expect("totals are JSON")),
        answer(4, serde_json::to_value(WorkTotals::default()).expect("totals are JSON")),
        Response { id: 5, outcome: Outcome::Error("no".into()) }.to_line(),
    ];
    lines.concat().into_bytes()
}

/// What the agent hears.
fn heard(bytes: &[u8], piece: usize) {
    let mut splitter = Splitter::default();
    let mut lines = 0;
    for part in bytes.chunks(piece) {
        splitter.push(part);
        while let Some(line) = splitter.next() {
            lines += 1;
            if let Line::Text(text) = &line {
                assert!(text.len() < MAX_REQUEST_BYTES && !text.contains(&b'\n'));
            }
            if let Ok(request) = line.parse() {
                let again = request.to_line();
                let again = Line::Text(again.trim_end().as_bytes().to_vec());
                assert_eq!(again.parse().as_ref(), Ok(&request));
            }
        }
    }
    assert_eq!(lines, bytes.iter().filter(|byte| **byte == b'\n').count());
}

/// What the support side hears.
fn answered(bytes: &[u8], piece: usize) {
    let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
    let mut line = AgentLine::new(ours).expect("a socket");
    for part in bytes.chunks(piece) {
        theirs.write_all(part).expect("it is read meanwhile");
        line.pump();
    }
    let _ = line.ready();
    for id in [1, 3, u64::MAX] {
        assert!(line.answer(id).is_none_or(|answer| answer.id == id));
    }
    for text in String::from_utf8_lossy(bytes).lines() {
        match FromGuest::parse(text) {
            Ok(FromGuest::Response(response)) => {
                assert_eq!(Response::parse(&response.to_line()).ok().as_ref(), Some(&response));
                let _ = response.clone().into_answer::<Alive>();
                let _ = response.clone().into_answer::<Counters>();
                let _ = response.clone().into_answer::<Interface>();
                let _ = response.clone().into_answer::<LinkState>();
                let _ = response.clone().into_answer::<ReceiveTotals>();
                let _ = response.into_answer::<WorkTotals>();
            }
            Ok(FromGuest::Event(event)) => {
                let again = FromGuest::parse(&event.to_line());
                assert_eq!(again.ok(), Some(FromGuest::Event(event)));
            }
            Err(error) => assert!(error.to_string().len() < 2_000, "it quotes the line's start"),
        }
    }
}

#[test]
fn agent_lines() {
    let words =
        &["\n", "{\"id\":1,", "\"ok\":", "\"error\":", "\"event\":\"ready\"", "[[[[", "null"];
    let seeds =
        Seeds::of("agent_lines", &[("requests", requests()), ("answers", answers())], words);
    bolero::check!().with_max_len(2_048).for_each(|input: &[u8]| {
        let mut from = Unstructured::new(input);
        let piece = from.int_in_range(1..=5_000).unwrap_or(1);
        let bytes = seeds.input(&mut from);
        bounded(|| {
            heard(&bytes, piece);
            answered(&bytes, piece);
            if let Some(head) = Head::from_bytes(&bytes) {
                assert!(bytes.starts_with(&head.to_bytes()));
            }
        });
    });
}
