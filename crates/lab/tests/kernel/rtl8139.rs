//! What only the RTL8139 and 8139too have; the rest is in [`drivers`](crate::drivers).

use warikomi_clock::Span;
use warikomi_inject::{Plan, Warmup};
use warikomi_nic::NicOptions;
use warikomi_session::SessionOptions;
use warikomi_testbench::skipped;

use crate::ask::received;
use crate::bring::{options, plan, sink, started, wait_until};
use crate::hotplug::send;
use crate::perfect::attempt;

/// `rtl8139_poll` acknowledges each frame that it takes. When its budget of 64 is used up it is called again, finds no
/// cause in the status, and is done, with the rest on the ring.
#[test]
fn of_a_burst_8139too_takes_64_frames_and_the_rest_when_others_come() {
    const BURST: u64 = 200;
    let options =
        SessionOptions { driver: "8139too".into(), nic: NicOptions::of("rtl8139"), ..options() };
    if !options.bridge {
        return skipped("virt-pci has no INTx");
    }
    let mut session = started(&options, sink());
    let warmup = Warmup::NONE;
    let burst = Plan { warmup, ..plan(60, Span::ZERO, BURST) };
    // The last frame must come before the 64th is acknowledged. It does unless our core is taken from us then.
    let left = (0..10).find_map(|_| {
        let before = received(&mut session);
        let totals = attempt(&mut session, &burst).ledger.totals();
        assert_eq!(totals.accepted + totals.lost_on_ring, BURST, "{totals:?}");
        (totals.lost_on_ring > 0).then_some((before, totals.lost_on_ring))
    });
    let (before, left) = left.expect("a burst of which some is left behind");
    assert!(left <= BURST - 64, "it takes its budget at least: {left}");
    // Each further frame is an interrupt, upon which it takes 64 more. Two that come together may be one interrupt.
    let (mut others, mut on_ring) = (0, left);
    while on_ring > 0 {
        send(&mut *session.target, 1);
        others += 1;
        on_ring = (on_ring + 1).saturating_sub(64);
        wait_until(&mut session, "64 more have been taken", |session| {
            received(session) - before >= BURST + others - on_ring
        });
    }
    assert_eq!(received(&mut session) - before, BURST + others);
    session.stop().unwrap();
}
