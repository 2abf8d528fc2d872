//! What the guest sends is what the wire sees: the kernel's packet generator, and the comparison of senders.
//! Which is faster is for the experiment to tell.

use std::time::Duration;

use warikomi_lab::Watch;
use warikomi_lab::transmit::kernel::{Completion, Judge, Options, Row, Sender, transmit};
use warikomi_nic::FunctionCounters;
use warikomi_protocol::answers::Generated;
use warikomi_protocol::commands::Pktgen;
use warikomi_session::Session;
use warikomi_target::CardId;

use crate::bring::{session, session_with, sleeping_session_with, wait_until};

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
    let (nic, _) = session.target.card(CardId::FIRST).unwrap();
    let (wire, before) = (nic.wire().counters(), nic.counters());
    let sent = session.target.ask(command, Duration::from_secs(25)).unwrap();
    wait_until(session, "all is on the wire", |session| {
        session.target.card(CardId::FIRST).unwrap().0.wire().counters().tx_frames - wire.tx_frames
            >= sent.sent
    });
    let (nic, _) = session.target.card(CardId::FIRST).unwrap();
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

/// A short comparison.
fn options(sender: Sender) -> Options {
    Options {
        sizes_bytes: vec![64],
        senders: vec![sender],
        bursts: vec![1],
        completions: vec![Completion::Napi],
        tso: vec![false],
        count: 3_000,
        most_bytes: 8_000_000,
        repeat: 1,
        ..Options::default()
    }
}

fn compared(options: &Options) -> Vec<Row> {
    let (host, judge) = Judge::with_host();
    let mut session = sleeping_session_with(Box::new(host));
    let compared = transmit(&mut session, &judge, options, &mut Watch::unobserved());
    let compared = compared.unwrap_or_else(|error| panic!("{error}"));
    let console = session.target.console().to_string();
    assert!(!console.contains("is not a head"), "the guest's queue broke: {console}");
    session.stop().unwrap();
    let rows = compared.result.rows.unwrap();
    assert_eq!(rows.len(), compared.rows.len());
    for row in &compared.rows {
        assert_eq!((&row.not_available, &*row.common.buffers), (&None, "skb"), "{row:?}");
        assert!(row.common.pps.unwrap() > 0.0 && row.messages.unwrap() > 0, "{row:?}");
        // A run of less than two ticks says nothing of it.
        assert!(row.common.cpu_share.is_none_or(|cpu| (0.0..1.06).contains(&cpu)), "{row:?}");
    }
    compared.rows
}

#[test]
fn each_burst_of_pktgen_is_a_row_and_longer_ones_ring_fewer_doorbells() {
    let rows = compared(&Options {
        sizes_bytes: vec![16, 1_472, 4_096],
        bursts: vec![1, 32],
        ..options(Sender::Pktgen)
    });
    assert_eq!(rows.len(), 4, "frames hold no 4,096 bytes");
    for pair in rows.chunks(2) {
        let doorbells = |row: &Row| row.doorbells_per_packet.unwrap();
        assert!(doorbells(&pair[0]) >= 1.0, "{pair:?}");
        assert!(doorbells(&pair[1]) < 0.25, "{pair:?}");
        for row in pair {
            assert_eq!(row.frames_per_packet, Some(1.0));
            assert!((row.common.transfers_per_packet.unwrap() - 1.0).abs() < 0.01, "{row:?}");
        }
    }
}

#[test]
fn every_length_of_datagram_reaches_the_wire_whole() {
    let rows = compared(&Options {
        sizes_bytes: vec![16, 1_472, 1_473, 16_384, 65_507],
        ..options(Sender::Udp)
    });
    let frames: Vec<_> = rows.iter().map(|row| row.frames_per_packet.unwrap()).collect();
    // 1,480 bytes of UDP header and payload to a fragment.
    assert_eq!(frames, [1.0, 1.0, 2.0, 12.0, 45.0]);
}

#[test]
fn with_segmentation_offload_the_driver_hands_over_less_for_the_same_frames() {
    let rows = compared(&Options {
        sizes_bytes: vec![65_507],
        tso: vec![false, true],
        ..options(Sender::Tcp)
    });
    let [off, on] = &rows[..] else { panic!("{rows:?}") };
    let per_frame =
        |row: &Row| row.common.transfers_per_packet.unwrap() / row.frames_per_packet.unwrap();
    assert!(per_frame(off) >= 1.0, "{off:?}");
    assert!(per_frame(on) < 0.5 * per_frame(off), "{on:?} {off:?}");
    let doorbells = |row: &Row| row.doorbells_per_packet.unwrap() / row.frames_per_packet.unwrap();
    assert!(doorbells(on) < doorbells(off), "{on:?} {off:?}");
}

#[test]
fn coalescing_saves_interrupts() {
    let rows = compared(&Options {
        completions: vec![
            Completion::Napi,
            Completion::Coalesce { usecs: 2_000, frames: 32 },
            Completion::Coalesce { usecs: 2_000, frames: 0 },
        ],
        interval_us: 50,
        ..options(Sender::Udp)
    });
    let interrupts: Vec<_> =
        rows.iter().map(|row| row.common.interrupts_per_packet.unwrap()).collect();
    assert!(interrupts[1] < interrupts[0] / 2.0, "{interrupts:?}");
    assert!(interrupts[2] < interrupts[0] / 2.0, "{interrupts:?}");
}

#[test]
fn what_the_driver_cannot_do_is_a_row_with_its_own_reason() {
    let (host, judge) = Judge::with_host();
    let mut session = session_with(Box::new(host));
    let far = Completion::Coalesce { usecs: 1_000_000, frames: 4 };
    let both = Options { completions: vec![far, Completion::Napi], ..options(Sender::Udp) };
    let rows = transmit(&mut session, &judge, &both, &mut Watch::unobserved()).unwrap().rows;
    assert!(rows[0].not_available.as_ref().unwrap().contains("os error"), "{rows:?}");
    assert_eq!((rows[0].common.pps, rows[0].messages), (None, None));
    assert!(rows[1].not_available.is_none() && rows[1].common.pps.is_some());
    session.stop().unwrap();
}
