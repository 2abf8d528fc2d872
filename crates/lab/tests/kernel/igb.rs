//! What only the 82576 and the unmodified igb have: several queues of each kind, a vector for each, and flows over them. The
//! rest is in [`drivers`](crate::drivers).

use std::time::Duration;

use warikomi_clock::Span;
use warikomi_inject::Plan;
use warikomi_lab::inject::Backlog;
use warikomi_nic::NicOptions;
use warikomi_protocol::answers::InterruptKind;
use warikomi_protocol::commands::Transmit;
use warikomi_session::{GuestSettings, Session, SessionOptions};
use warikomi_target::CardId;
use warikomi_testbench::skipped;

use crate::ask::{counters, on_the_wire};
use crate::bring::{image_with_more_drivers, options_with, plan, sink, started, wait_until};
use crate::perfect::perfect;
use crate::sizes::{USUAL_BYTES, all_arrive};

/// igb with its card, and this number of pairs of queues; the driver takes one by itself, because there is one processor.
fn options(channels: Option<u32>) -> Option<SessionOptions> {
    let options = options_with(&image_with_more_drivers()?);
    let settings = GuestSettings { channels, ..options.settings };
    let (driver, nic) = ("igb".into(), NicOptions::of("igb"));
    Some(SessionOptions { driver, nic, settings, ..options })
}

/// The same by our bridge, which has several vectors.
fn with_channels(channels: Option<u32>) -> Option<Session> {
    let options = options(channels)?;
    if !options.bridge {
        skipped("virt-pci has one vector");
        return None;
    }
    Some(started(&options, sink()))
}

#[test]
fn each_queue_has_a_vector_and_the_rest_has_one() {
    // Where there are many, the two queues of a pair share theirs (igb_set_flag_queue_pairs).
    for (channels, vectors) in [(None, 3), (Some(2), 5), (Some(4), 9), (Some(8), 9)] {
        let Some(mut session) = with_channels(channels) else { return };
        let counted = counters(&mut session);
        assert_eq!(counted.interrupt_kind, InterruptKind::MsiX);
        assert_eq!(counted.interrupts.len(), vectors, "{channels:?}: {:?}", counted.interrupts);
        session.stop().unwrap();
    }
}

#[test]
fn flows_are_spread_over_the_queues_and_each_has_its_account() {
    let mut repeated = Vec::new();
    for channels in [2_u32, 4, 8] {
        let Some(mut session) = with_channels(Some(channels)) else { return };
        let plan = Plan { flows: 1_000, ..plan(200, Span::from_us(200), 4_000) };
        let Some(run) = perfect(&mut session, &plan, &mut repeated) else { return };
        let (all, queues) = (run.ledger.totals(), run.ledger.queue_totals());
        assert_eq!((all.accepted, all.delivered, all.unaccounted), (4_000, 4_000, 0), "{all:?}");
        assert_eq!(queues.len(), 16, "those of the card");
        let (wanted, others) = queues.split_at(channels as usize);
        let mut used = 0;
        for (number, queue) in wanted.iter().enumerate() {
            assert!(queue.adds_up(), "{channels}: {number}: {queue:?}");
            assert_eq!(queue.delivered, queue.planned, "{channels}: {number}: {queue:?}");
            used += u32::from(queue.delivered > 0);
        }
        // The key of the hash is random, and one key in a thousand leaves out every other queue.
        assert!(used > 1 && 2 * used >= channels, "{channels}: {wanted:?}");
        assert!(others.iter().all(|queue| queue.planned == 0), "{others:?}");
        assert_eq!(wanted.iter().map(|queue| queue.delivered).sum::<u64>(), 4_000);
        // Packets of one flow go to one queue.
        let rows: Vec<_> = run.ledger.rows().map(|row| row.queue.unwrap()).collect();
        let flows = plan.flows as usize;
        assert!(rows.iter().enumerate().all(|(nth, queue)| *queue == rows[nth % flows]));
        // Every queue that was used has interrupted.
        let raised = counters(&mut session).interrupts;
        let busy = raised.iter().filter(|line| line.count > 0).count();
        assert!(busy >= used as usize, "{raised:?}");
        session.stop().unwrap();
    }
}

#[test]
fn datagrams_leave_by_several_queues() {
    const CHANNELS: u64 = 4;
    let Some(mut session) = with_channels(Some(CHANNELS as u32)) else { return };
    let before = on_the_wire(&mut session);
    for port in 6_000..6_032 {
        let some = Transmit {
            count: 10,
            payload_bytes: 200,
            destination: format!("10.9.0.2:{port}"),
            run_id: 1,
            interval_us: 0,
            vlan: None,
            timeout_ms: 5_000,
        };
        session.target.ask(some, Duration::from_secs(5)).unwrap();
    }
    wait_until(&mut session, "all is on the wire", |session| on_the_wire(session) - before >= 320);
    let (nic, mut host) = session.target.card(CardId::FIRST).unwrap();
    let tails = (0..CHANNELS).map(|queue| nic.register(&mut host, 0, 0xe018 + 0x40 * queue));
    let tails: Vec<_> = tails.collect();
    let used = tails.iter().filter(|tail| tail.is_some_and(|tail| tail > 0)).count();
    assert!(used > 1, "{tails:?}");
    session.stop().unwrap();
}

#[test]
fn frames_of_every_size_are_received_by_messages_and_by_the_pin() {
    for kind in [InterruptKind::MsiX, InterruptKind::Intx] {
        let Some(mut options) = options(None) else { return };
        if !options.bridge {
            return skipped("virt-pci has no INTx");
        }
        if kind == InterruptKind::Intx {
            options.kernel_arguments.push("pci=nomsi".into());
        }
        let mut session = started(&options, sink());
        assert_eq!(counters(&mut session).interrupt_kind, kind);
        println!("interrupts: {kind:?}");
        if all_arrive(&mut session, &USUAL_BYTES, Backlog::Taken).is_none() {
            return;
        }
        session.stop().unwrap();
    }
}
