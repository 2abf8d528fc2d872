//! What only the 82574L and the unmodified e1000e have; the rest is in [`drivers`](crate::drivers).

use warikomi_clock::Span;
use warikomi_lab::inject::Backlog;
use warikomi_nic::NicOptions;
use warikomi_protocol::answers::InterruptKind;
use warikomi_session::{GuestSettings, SessionOptions};
use warikomi_testbench::skipped;

use crate::ask::counters;
use crate::bring::{image_with_more_drivers, options_with, plan, sink, started};
use crate::perfect::perfect;
use crate::sizes::{USUAL_BYTES, all_arrive};

/// e1000e with its card; `parameters` are the module's. Without our bridge it has MSI alone.
fn options(parameters: &[&str]) -> Option<SessionOptions> {
    Some(SessionOptions {
        driver: "e1000e".into(),
        driver_parameters: parameters.iter().map(|one| (*one).to_owned()).collect(),
        nic: NicOptions::of("e1000e"),
        ..options_with(&image_with_more_drivers()?)
    })
}

#[test]
fn it_takes_three_vectors() {
    let Some(options) = options(&[]) else { return };
    if !options.bridge {
        return skipped("virt-pci has one vector");
    }
    let mut session = started(&options, sink());
    let counted = counters(&mut session);
    assert_eq!(counted.interrupt_kind, InterruptKind::MsiX);
    assert_eq!(counted.interrupts.len(), 3, "{:?}", counted.interrupts);
    session.stop().unwrap();
}

#[test]
fn frames_of_every_size_are_received_by_each_kind_of_interrupt() {
    let modes = [
        ("IntMode=2", InterruptKind::MsiX),
        ("IntMode=1", InterruptKind::Msi),
        ("IntMode=0", InterruptKind::Intx),
    ];
    for (mode, kind) in modes {
        // No throttling: each packet has its interrupt.
        let Some(options) = options(&[mode, "InterruptThrottleRate=0"]) else { return };
        if !options.bridge && kind != InterruptKind::Msi {
            continue;
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

#[test]
fn long_frames_come_in_split_buffers() {
    let Some(options) = options(&[]) else { return };
    let settings = GuestSettings { mtu: Some(4_000), ..options.settings };
    let mut session = started(&SessionOptions { settings, ..options }, sink());
    let mut repeated = Vec::new();
    for size in [60, 1_514, 4_014] {
        let plan = plan(size, Span::from_us(300), 300);
        let Some(run) = perfect(&mut session, &plan, &mut repeated) else { return };
        assert_eq!(run.ledger.totals().delivered, 300, "{size} bytes");
    }
    let counted = counters(&mut session);
    assert!(counted.driver["rx_header_split"] >= 900, "{:?}", counted.driver);
    session.stop().unwrap();
}
