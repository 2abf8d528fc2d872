//! From the guest to the wire.

use std::time::Duration;

use warikomi_protocol::commands::{Configure, JoinMulticast, Ping, Transmit, TransmitTcp, VlanAdd};
use warikomi_target::CardId;
use warikomi_wire::Responder;

use crate::ask::{counters, on_the_wire};
use crate::bring::{session, session_with, wait_until};

fn transmit(count: u64, payload_bytes: u32) -> Transmit {
    Transmit {
        count,
        payload_bytes,
        destination: "10.9.0.2:5002".into(),
        run_id: 1,
        interval_us: 0,
        vlan: None,
        timeout_ms: 5_000,
    }
}

#[test]
fn the_guest_pings_what_answers_at_the_other_end() {
    let mut session = session("responder");
    let ping = Ping {
        address: "10.9.0.2".into(),
        count: 20,
        interval_ms: 0,
        payload_bytes: 1_000,
        timeout_ms: 2_000,
    };
    let pinged = session.target.ask(ping, Duration::from_secs(45)).unwrap();
    assert_eq!((pinged.sent, pinged.received, pinged.corrupted), (20, 20, 0));
    session.stop().unwrap();
}

#[test]
fn every_datagram_sent_reaches_the_wire_once() {
    let mut session = session("sink");
    let before = session.target.card(CardId::FIRST).unwrap().0.wire().counters();
    let sent = session.target.ask(transmit(5_000, 1_000), Duration::from_secs(10)).unwrap();
    assert_eq!((sent.sent, sent.errors, sent.timed_out), (5_000, 0, false));
    wait_until(&mut session, "all is on the wire", |session| {
        on_the_wire(session) - before.tx_frames >= 5_000
    });
    let after = session.target.card(CardId::FIRST).unwrap().0.wire().counters();
    assert_eq!(after.tx_frames - before.tx_frames, 5_000);
    assert_eq!(after.tx_bytes - before.tx_bytes, 5_000 * (1_000 + 42));
    let counted = counters(&mut session);
    assert_eq!(counted.driver["tx_errors"], 0);
    session.stop().unwrap();
}

#[test]
fn a_tcp_stream_arrives_whole_with_and_without_segmentation_offload() {
    const BYTES: u64 = 2_000_000;
    let responder = Responder::default();
    let responses = responder.responses();
    let mut session = session_with(Box::new(responder));
    for (round, offload) in [false, true].into_iter().enumerate() {
        let offloads = ["sg", "tx", "tso"].map(|name| (name.to_owned(), offload)).into();
        let wanted = Configure { offloads, ..Configure::report_only() };
        let in_force = session.target.ask(wanted, Duration::ZERO).unwrap().after.offloads;
        assert_eq!(in_force["tx-tcp-segmentation"], offload);
        let before = sent_by_both(&mut session);
        let send = TransmitTcp {
            count_bytes: BYTES,
            write_bytes: 65_536,
            destination: "10.9.0.2:5001".into(),
            timeout_ms: 10_000,
        };
        let sent = session.target.ask(send, Duration::from_secs(30)).unwrap();
        assert_eq!(sent.sent_bytes, BYTES, "offload {offload}");
        let all = BYTES * (round as u64 + 1);
        wait_until(&mut session, "all of it has arrived", |_| responses.tcp_bytes() >= all);
        assert_eq!(responses.tcp_bytes(), all, "and no more, offload {offload}");
        assert_eq!(responses.tcp_wrong_bytes(), 0, "as they were sent, offload {offload}");
        let after = sent_by_both(&mut session);
        let (by_driver, by_nic) = (after.0 - before.0, after.1 - before.1);
        let segmented = by_nic > 2 * by_driver;
        assert_eq!(segmented, offload, "{by_driver} packets of the driver, {by_nic} frames");
    }
    session.stop().unwrap();
}

/// Packets that the driver has handed over, and frames on the wire.
fn sent_by_both(session: &mut warikomi_session::Session) -> (u64, u64) {
    (counters(session).interface["tx_packets"], on_the_wire(session))
}

#[test]
fn a_vlan_tag_goes_out() {
    let capture = tempfile::NamedTempFile::new().unwrap();
    let mut session = session(&format!("pcap:{}", capture.path().display()));
    let address_cidr = "10.9.7.1/24".into();
    let vlan = VlanAdd { interface: None, vlan: 7, address_cidr, header_with_tag: false };
    session.target.ask(vlan, Duration::ZERO).unwrap();
    let before = on_the_wire(&mut session);
    let tagged =
        Transmit { destination: "10.9.7.2:5002".into(), vlan: Some(7), ..transmit(10, 200) };
    session.target.ask(tagged, Duration::from_secs(5)).unwrap();
    wait_until(&mut session, "a frame is on the wire", |session| on_the_wire(session) > before);
    session.target.card(CardId::FIRST).unwrap().0.wire().finish().unwrap();
    // Nobody has that address, so what goes out is the question who has, with the VLAN's tag.
    let frames = std::fs::read(capture.path()).unwrap();
    let tagged_arp = [0x81, 0x00, 0x00, 0x07, 0x08, 0x06];
    assert!(frames.windows(6).any(|bytes| bytes == tagged_arp));
    session.stop().unwrap();
}

#[test]
fn a_multicast_group_that_was_joined_gets_through_the_filter() {
    use warikomi_inject::{Addresses, FrameTemplate};
    use warikomi_nic::RxOutcome;

    let mut session = session("sink");
    let group = Addresses::to_guest([0x01, 0x00, 0x5e, 0x01, 0x02, 0x03]);
    let mut template = FrameTemplate::new(&group, 100, 1).unwrap();
    let mut receive = |session: &mut warikomi_session::Session| {
        let (nic, mut host) = session.target.card(CardId::FIRST).unwrap();
        nic.receive(&mut host, template.frame(0))
    };
    assert_eq!(receive(&mut session), RxOutcome::Filtered);
    let join = JoinMulticast { interface: None, group: "239.1.2.3".into() };
    session.target.ask(join, Duration::ZERO).unwrap();
    assert_eq!(receive(&mut session), RxOutcome::OnRing);
    session.stop().unwrap();
}
