//! The kernel's own packet generator: what it counts is what the wire sees.

use std::time::Duration;

use warikomi_guest::answers::Generated;
use warikomi_guest::commands::Pktgen;
use warikomi_lab::Session;
use warikomi_nic::FunctionCounters;

use crate::bring::{session, wait_until};

fn pktgen(burst: u32, payload_bytes: u32) -> Pktgen {
    Pktgen {
        interface: None,
        count: 5_000,
        payload_bytes,
        burst,
        destination: "10.9.0.2:9".into(),
        destination_mac: "02:57:4b:00:00:02".into(),
        timeout_ms: 20_000,
    }
}

/// What the generator says, and what the NIC has done meanwhile.
fn generated(session: &mut Session, command: Pktgen) -> (Generated, FunctionCounters) {
    let (nic, _) = session.target.nic();
    let (wire, before) = (nic.wire().counters(), nic.counters());
    let sent = session.target.ask(command, Duration::from_secs(25)).unwrap();
    wait_until(session, "all is on the wire", |session| {
        session.target.nic().0.wire().counters().tx_frames - wire.tx_frames >= sent.sent
    });
    let (nic, _) = session.target.nic();
    assert_eq!(nic.wire().counters().tx_frames - wire.tx_frames, sent.sent, "{sent:?}");
    let after = nic.counters();
    let since = FunctionCounters {
        doorbells: after.doorbells - before.doorbells,
        tx_descriptors: after.tx_descriptors - before.tx_descriptors,
        ..FunctionCounters::default()
    };
    (sent, since)
}

#[test]
fn what_pktgen_counts_is_on_the_wire_and_a_burst_saves_doorbells() {
    let mut session = session("sink");
    for payload_bytes in [18, 1_472] {
        let (sent, single) = generated(&mut session, pktgen(1, payload_bytes));
        assert_eq!((sent.sent, sent.errors, sent.timed_out), (5_000, 0, false));
        assert_eq!(single.tx_descriptors, 5_000, "one a frame");
        assert!(single.doorbells >= 5_000, "{single:?}");
        let (sent, burst) = generated(&mut session, pktgen(16, payload_bytes));
        assert_eq!((sent.errors, sent.timed_out), (0, false));
        assert!((5_000..5_016).contains(&sent.sent), "the last burst is whole: {sent:?}");
        assert!(burst.doorbells < 5_000 / 4, "{burst:?}");
    }
    session.stop().unwrap();
}

#[test]
fn pktgen_is_stopped_in_time_and_can_be_had_again() {
    let mut session = session("sink");
    let endless = Pktgen { count: 9_999_999_999, timeout_ms: 300, ..pktgen(8, 100) };
    let (sent, _) = generated(&mut session, endless);
    assert!(sent.timed_out && sent.sent > 0, "{sent:?}");
    let too_long = session.target.ask(pktgen(1, 1_473), Duration::from_secs(5)).unwrap_err();
    assert!(too_long.to_string().contains("16 to 1472"), "{too_long}");
    assert_eq!(generated(&mut session, pktgen(1, 100)).0.sent, 5_000);
    session.stop().unwrap();
}
