//! The 82574L and the unmodified e1000e, in a kernel with the drivers of further cards, which is built if it is not
//! there.

use std::sync::OnceLock;
use std::time::Duration;

use warikomi_clock::Span;
use warikomi_kernel::{BuildOptions, Cache, Cancel, Image, Source, build};
use warikomi_lab::Watch;
use warikomi_lab::replace::kernel::{Options, Traffic, replace};
use warikomi_lab::replace::{Load, Row};
use warikomi_nic::{Link, Nic, NicOptions};
use warikomi_protocol::answers::InterruptKind;
use warikomi_protocol::commands::{
    Configure, Counters, LinkState, Pktgen, ReadFile, TransmitTcp, VlanAdd, WaitInterface,
};
use warikomi_session::{GuestSettings, Session, SessionOptions};
use warikomi_target::{CardId, Interrupted};
use warikomi_testbench::skipped;
use warikomi_wire::{Responder, Wire, WireKind};

use crate::bring::{plan, wait_until};
use crate::options::options_of;
use crate::perfect::injected;

fn image() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let source = Source::Distribution { version: std::env::var("WARIKOMI_TEST_KERNEL").ok() };
        let options = BuildOptions { source, more_drivers: true, ..BuildOptions::default() };
        let cache = Cache::of_this_user().expect("a cache");
        let image = build(&cache, &options, &Cancel::new(), &mut |_| ());
        image.unwrap_or_else(|error| panic!("{error}"))
    })
}

/// e1000e with its card; `parameters` are the module's. Without our bridge it has MSI alone.
fn options(parameters: &[&str]) -> SessionOptions {
    let options = options_of(image());
    let without_bridge =
        std::env::var("WARIKOMI_TEST_ATTACHMENT").is_ok_and(|asked| asked == "virt-pci");
    SessionOptions {
        driver: "e1000e".into(),
        driver_parameters: parameters.iter().map(|one| (*one).to_owned()).collect(),
        nic: NicOptions::of("e1000e"),
        bridge: options.bridge && !without_bridge,
        ..options
    }
}

fn started(options: &SessionOptions, wire: Box<dyn Wire>) -> Session {
    Session::start(options, wire, &Interrupted::default(), &mut |_| ())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn wire(kind: &str) -> Box<dyn Wire> {
    kind.parse::<WireKind>().unwrap().build().unwrap()
}

fn counters(session: &mut Session) -> warikomi_protocol::answers::Counters {
    session.target.ask(Counters { interface: None }, Duration::ZERO).unwrap()
}

fn nic(session: &mut Session) -> &mut dyn Nic {
    session.target.card(CardId::FIRST).unwrap().0
}

#[test]
fn the_driver_finds_its_card_and_takes_three_vectors() {
    let options = options(&[]);
    if !options.bridge {
        return skipped("virt-pci has one vector");
    }
    let mut session = started(&options, wire("sink"));
    let interface = WaitInterface { driver: "e1000e".into(), timeout_ms: 0 };
    let found = session.target.ask(interface, Duration::ZERO).unwrap();
    assert_eq!(found.mac, "02:57:4b:00:00:01");
    let id = ReadFile { path: format!("/sys/bus/pci/devices/{}/device", found.pci_address) };
    assert_eq!(session.target.ask(id, Duration::ZERO).unwrap().text.trim(), "0x10d3");
    let state = session.target.ask(LinkState { interface: None }, Duration::ZERO).unwrap();
    assert_eq!((state.carrier, state.speed_mbps), (true, Some(1_000)));
    let counted = counters(&mut session);
    assert_eq!(counted.interrupt_kind, InterruptKind::MsiX);
    assert_eq!(counted.interrupts.len(), 3, "{:?}", counted.interrupts);
    session.stop().unwrap();
}

#[test]
fn frames_of_every_size_are_received_by_each_kind_of_interrupt() {
    let modes = [("IntMode=2", InterruptKind::MsiX), ("IntMode=1", InterruptKind::Msi)];
    for (mode, kind) in modes {
        // No throttling: each packet has its interrupt.
        let options = options(&[mode, "InterruptThrottleRate=0"]);
        if !options.bridge && kind == InterruptKind::MsiX {
            continue;
        }
        let mut session = started(&options, wire("sink"));
        assert_eq!(counters(&mut session).interrupt_kind, kind);
        for size in [60, 61, 64, 300, 1_024, 1_513, 1_514] {
            let run = injected(&mut session, &plan(size, Span::from_us(200), 500));
            let ledger = run.ledger.totals();
            let seen = (ledger.accepted, ledger.delivered, ledger.unaccounted);
            assert_eq!(seen, (500, 500, 0), "{mode}: {size} bytes");
        }
        session.stop().unwrap();
    }
}

#[test]
fn long_frames_come_in_split_buffers() {
    let options = options(&[]);
    let settings = GuestSettings { mtu: Some(4_000), ..options.settings };
    let mut session = started(&SessionOptions { settings, ..options }, wire("sink"));
    for size in [60, 1_514, 4_014] {
        let run = injected(&mut session, &plan(size, Span::from_us(300), 300));
        assert_eq!(run.ledger.totals().delivered, 300, "{size} bytes");
    }
    let counted = counters(&mut session);
    assert!(counted.driver["rx_header_split"] >= 900, "{:?}", counted.driver);
    session.stop().unwrap();
}

#[test]
fn what_pktgen_sends_is_on_the_wire_and_in_the_statistics() {
    let mut session = started(&options(&[]), wire("sink"));
    for payload_bytes in [18, 1_472] {
        let before = nic(&mut session).wire().counters().tx_frames;
        let command = Pktgen {
            interface: None,
            count: 2_000,
            payload_bytes,
            burst: 1,
            destination: "10.9.0.2:9".into(),
            destination_mac: "02:57:4b:00:00:02".into(),
            timeout_ms: 20_000,
        };
        let sent = session.target.ask(command, Duration::from_secs(25)).unwrap();
        assert_eq!((sent.sent, sent.errors, sent.timed_out), (2_000, 0, false));
        wait_until(&mut session, "all is on the wire", |session| {
            nic(session).wire().counters().tx_frames - before >= 2_000
        });
    }
    // The driver reads the card's counters every two seconds, and for ethtool.
    wait_until(&mut session, "the card's counters are the driver's", |session| {
        counters(session).driver["tx_packets"] >= 4_000
    });
    let counted = counters(&mut session);
    for name in ["tx_errors", "tx_timeout_count", "rx_crc_errors", "rx_missed_errors"] {
        assert_eq!(counted.driver[name], 0, "{name}");
    }
    session.stop().unwrap();
}

#[test]
fn a_tcp_stream_is_cut_into_segments_by_the_card() {
    const BYTES: u64 = 2_000_000;
    let responder = Responder::default();
    let responses = responder.responses();
    let mut session = started(&options(&[]), Box::new(responder));
    let offloads = ["sg", "tx", "tso"].map(|name| (name.to_owned(), true)).into();
    let wanted = Configure { offloads, ..Configure::report_only() };
    let in_force = session.target.ask(wanted, Duration::ZERO).unwrap().after.offloads;
    assert!(in_force["tx-tcp-segmentation"]);
    let by_both = |session: &mut Session| {
        let packets = counters(session).interface["tx_packets"];
        (packets, nic(session).wire().counters().tx_frames)
    };
    let send = TransmitTcp {
        count_bytes: BYTES,
        write_bytes: 65_536,
        destination: "10.9.0.2:5001".into(),
        timeout_ms: 10_000,
    };
    let descriptors = nic(&mut session).counters().tx_descriptors;
    let before = by_both(&mut session);
    let sent = session.target.ask(send, Duration::from_secs(30)).unwrap();
    assert_eq!(sent.sent_bytes, BYTES);
    wait_until(&mut session, "all of it has arrived", |_| responses.tcp_bytes() >= BYTES);
    assert_eq!(responses.tcp_bytes(), BYTES, "and no more");
    let frames = by_both(&mut session).1 - before.1;
    let used = nic(&mut session).counters().tx_descriptors - descriptors;
    assert!(frames > used, "{frames} frames out of {used} descriptors");
    session.stop().unwrap();
}

#[test]
fn a_vlan_tag_goes_out() {
    let capture = tempfile::NamedTempFile::new().unwrap();
    let mut session = started(&options(&[]), wire(&format!("pcap:{}", capture.path().display())));
    let address_cidr = "10.9.7.1/24".into();
    let vlan = VlanAdd { interface: None, vlan: 7, address_cidr, header_with_tag: false };
    session.target.ask(vlan, Duration::ZERO).unwrap();
    let before = nic(&mut session).wire().counters().tx_frames;
    let tagged = warikomi_protocol::commands::Transmit {
        count: 10,
        payload_bytes: 200,
        destination: "10.9.7.2:5002".into(),
        run_id: 1,
        interval_us: 0,
        vlan: Some(7),
        timeout_ms: 5_000,
    };
    session.target.ask(tagged, Duration::from_secs(5)).unwrap();
    wait_until(&mut session, "a frame is on the wire", |session| {
        nic(session).wire().counters().tx_frames > before
    });
    nic(&mut session).wire().finish().unwrap();
    let frames = std::fs::read(capture.path()).unwrap();
    let tagged_arp = [0x81, 0x00, 0x00, 0x07, 0x08, 0x06];
    assert!(frames.windows(6).any(|bytes| bytes == tagged_arp));
    session.stop().unwrap();
}

#[test]
fn the_link_follows_the_cable() {
    let mut session = started(&options(&[]), wire("sink"));
    for (link, speed) in [(Link::Down, None), (Link::Up { mbps: 100 }, Some(100))] {
        let (card, mut host) = session.target.card(CardId::FIRST).unwrap();
        card.set_link(&mut host, link);
        // The driver's watchdog asks the PHY.
        wait_until(&mut session, "the driver has noticed", |session| {
            let asked = LinkState { interface: None };
            let state = session.target.ask(asked, Duration::ZERO).unwrap();
            state.carrier == speed.is_some() && (speed.is_none() || state.speed_mbps == speed)
        });
    }
    let run = injected(&mut session, &plan(200, Span::from_us(200), 500));
    assert_eq!(run.ledger.totals().delivered, 500);
    session.stop().unwrap();
}

#[test]
fn the_module_is_replaced_again_and_again() {
    let options = options(&[]);
    let (host, traffic) = Traffic::with_host();
    let mut session = started(&options, Box::new(host));
    let asked = Options { loads: vec![Load::Idle], trials: 3, ..Options::default() };
    let replaced = replace(&mut session, &options, &traffic, &asked, &mut Watch::unobserved());
    let rows = replaced.unwrap_or_else(|error| panic!("{error}")).rows.unwrap();
    let row = serde_json::Value::Object(rows.into_iter().next().expect("a row"));
    let row: Row = serde_json::from_value(row).unwrap();
    assert_eq!((row.replacements, row.lost), (3, 0), "{row:?}");
    session.stop().unwrap();
}
