//! Every fault against the real driver: that it happened, what the driver did, and that every packet
//! is accounted for (which `injected` insists on).

use warikomi_clock::Span;
use warikomi_inject::Plan;
use warikomi_lab::inject::Injected;
use warikomi_measure::{Evidence, FaultFinding, Totals, Verdict};
use warikomi_session::Session;

use crate::bring::{at_least, plan, session};
use crate::perfect::injected;

/// What came of one run with faults.
struct Outcome {
    totals: Totals,
    findings: Vec<FaultFinding>,
    evidence: Evidence,
}

fn with_faults(faults: &[&str], plan: Plan) -> Plan {
    Plan { faults: faults.iter().map(|fault| fault.parse().unwrap()).collect(), ..plan }
}

fn outcome(run: &Injected) -> Outcome {
    let report = run.result.faults.clone().expect("a run with faults has a report on them");
    for finding in &report.findings {
        println!("{finding:?}");
    }
    println!("{:?}\n{:?}", report.evidence, run.ledger.totals());
    Outcome { totals: run.ledger.totals(), findings: report.findings, evidence: report.evidence }
}

/// 1,000 packets of 500 bytes, one every 50 µs, with this fault.
fn suffer(session: &mut Session, fault: &str) -> Outcome {
    outcome(&injected(session, &with_faults(&[fault], plan(500, Span::from_us(50), 1_000))))
}

/// One run in a kernel of its own.
fn alone(fault: &str) -> Outcome {
    let mut session = session("sink");
    let outcome = suffer(&mut session, fault);
    session.stop().unwrap();
    outcome
}

/// The driver works as before. A packet that a busy machine lost is no fault of the driver's.
fn works(outcome: &Outcome) {
    let verdict = outcome.findings[0].verdict;
    let works = matches!(verdict, Verdict::Recovered | Verdict::LostPackets);
    assert!(works, "{verdict:?}: {:?}", outcome.evidence);
    assert_eq!(outcome.evidence.probe_accepted, outcome.evidence.probe_packets);
    assert!(outcome.evidence.probe_packets > 0);
}

fn hangs(outcome: &Outcome) {
    assert_eq!(outcome.findings[0].verdict, Verdict::Hung, "{:?}", outcome.evidence);
    assert!(outcome.evidence.probe_accepted < outcome.evidence.probe_packets);
    assert!(!outcome.evidence.kernel_died && !outcome.evidence.tainted);
}

#[test]
fn late_doubled_and_groundless_interrupts_are_survived() {
    let mut session = session("sink");
    for fault in [
        "interrupt-delayed:probability=0.05,by=300us",
        "interrupt-duplicated:probability=0.2",
        "interrupt-spurious:probability=0.1",
    ] {
        let outcome = suffer(&mut session, fault);
        assert!(outcome.findings[0].injected > 5, "{fault}: {:?}", outcome.findings);
        works(&outcome);
    }
    let spurious = suffer(&mut session, "interrupt-spurious:at=10ms");
    assert_eq!(spurious.findings[0].injected, 1);
    works(&spurious);
    session.stop().unwrap();
}

#[test]
fn a_storm_is_survived_and_all_of_it_goes_to_the_kernel() {
    let mut session = session("sink");
    let before = session.target.counters();
    let outcome = suffer(&mut session, "interrupt-storm:at=5ms,count=2000,every=20us");
    let counters = session.target.counters().since(&before);
    // A guest that a busy machine keeps from its core leaves too many unread, and loses the rest.
    let signalled = counters.interrupts_sent + counters.interrupts_dropped;
    assert!(signalled > 2_000, "{counters:?}");
    assert_eq!(outcome.findings[0].injected, 1);
    works(&outcome);
    session.stop().unwrap();
}

#[test]
fn an_interrupt_that_is_dropped_leaves_the_driver_waiting_for_ever() {
    let outcome = alone("interrupt-dropped:at=10ms");
    assert_eq!(outcome.findings[0].injected, 1);
    hangs(&outcome);
    assert_eq!(outcome.evidence.probe_accepted, 0);
    assert!(outcome.totals.lost_on_ring > 0 && outcome.totals.no_descriptor > 0);
    assert!(outcome.findings[0].accepted_after.unwrap() < 10, "{:?}", outcome.findings);
}

#[test]
fn a_descriptor_that_is_never_completed_leaves_the_driver_a_lap_behind_for_ever() {
    // The driver waits for the descriptor until the NIC has come round the ring to it. Then it takes
    // all that is there, and waits at the same place again, while the NIC is one ahead.
    let mut session = session("sink");
    let short =
        with_faults(&["descriptor-never-completed:at=5ms"], plan(500, Span::from_us(50), 150));
    let short = outcome(&injected(&mut session, &short));
    assert_eq!((short.findings[0].injected, short.totals.not_completed), (1, 1));
    assert_eq!(short.findings[0].accepted_after, Some(0));
    assert!(short.totals.lost_on_ring > 0, "{:?}", short.totals);
    hangs(&short);
    session.stop().unwrap();

    let long = alone("descriptor-never-completed:at=10ms");
    assert_eq!((long.findings[0].injected, long.totals.not_completed), (1, 1));
    assert_eq!(long.evidence.hit_packets, 1);
    assert!(long.findings[0].accepted_after >= Some(256), "{:?}", long.findings);
    hangs(&long);
}

#[test]
fn descriptors_that_are_completed_late_arrive_late() {
    let mut session = session("sink");
    let outcome = suffer(&mut session, "descriptor-completed-late:probability=0.02,by=400us");
    assert!(outcome.findings[0].injected > 3, "{:?}", outcome.findings);
    works(&outcome);
    assert_eq!(outcome.totals.not_completed, 0);
    session.stop().unwrap();
}

#[test]
fn frames_with_error_bits_are_refused_and_counted_by_the_driver() {
    let mut session = session("sink");
    for fault in ["descriptor-crc", "descriptor-runt", "descriptor-rwt"] {
        let outcome = suffer(&mut session, &format!("{fault}:probability=0.05"));
        let injected = outcome.findings[0].injected;
        assert!(injected > 5, "{:?}", outcome.findings);
        // The ledger is checked against the driver's own rx_errors.
        let unseen = outcome.totals.lost_on_ring;
        assert!(outcome.totals.refused <= injected);
        assert!(outcome.totals.refused + unseen >= injected, "{:?}", outcome.totals);
        works(&outcome);
    }
    session.stop().unwrap();
}

#[test]
fn a_wrong_length_is_taken_by_the_driver_and_dropped_behind_it() {
    let mut session = session("sink");
    let outcome = suffer(&mut session, "descriptor-length:probability=0.05,bytes=64");
    let injected = outcome.findings[0].injected;
    assert!(injected > 5, "{:?}", outcome.findings);
    assert!(outcome.totals.lost_in_stack >= injected, "{:?}", outcome.totals);
    works(&outcome);
    // More than there is: the rest of the buffer comes along, and the network stack cuts it off.
    let longer = suffer(&mut session, "descriptor-length:probability=0.05,bytes=16000");
    assert!(longer.findings[0].injected > 5);
    works(&longer);
    session.stop().unwrap();
}

#[test]
fn a_length_shorter_than_a_check_sequence_kills_the_kernel() {
    // r8169 takes four from it, and then has a packet of nearly 4 GB to copy.
    let mut session = session("sink");
    let outcome = suffer(&mut session, "descriptor-length:at=5ms,bytes=3");
    let Outcome { findings, evidence, totals } = &outcome;
    assert_eq!((findings[0].injected, findings[0].verdict), (1, Verdict::Oopsed));
    assert!(evidence.kernel_died && evidence.ended.is_some(), "{evidence:?}");
    if at_least(7, 0) {
        // Too much of the kernel is written over for it to say why; it dies of a second fault.
        assert!(evidence.ended.as_deref().unwrap().contains("SIGSEGV"), "{evidence:?}");
        assert!(evidence.console.iter().any(|line| line.contains("Modules linked in")));
    } else {
        assert!(evidence.alarm().unwrap().contains("Kernel panic"), "{evidence:?}");
        assert!(evidence.console.iter().any(|line| line.contains("rtl8169_poll")), "{evidence:?}");
    }
    assert!(totals.not_injected > 0 && totals.adds_up(), "{totals:?}");
    session.stop().unwrap();
}

#[test]
fn a_link_that_flaps_comes_back() {
    let mut session = session("sink");
    let outcome = suffer(&mut session, "link-flap:at=5ms,for=2ms");
    assert_eq!(outcome.findings[0].injected, 1);
    assert!(outcome.totals.not_receiving > 0, "{:?}", outcome.totals);
    works(&outcome);
    assert_eq!(outcome.findings[0].verdict, Verdict::LostPackets);
    session.stop().unwrap();
}

#[test]
fn a_dma_error_stops_the_chip_and_the_driver_does_not_start_it_again() {
    let outcome = alone("dma-error:at=10ms");
    assert_eq!((outcome.findings[0].injected, outcome.evidence.hit_packets), (1, 1));
    assert!(outcome.totals.dma_error > 1, "{:?}", outcome.totals);
    hangs(&outcome);
}

#[test]
fn a_device_that_is_gone_ends_cleanly() {
    let outcome = alone("device-gone:at=10ms");
    assert_eq!(outcome.findings[0].injected, 1);
    assert!(outcome.totals.not_receiving > 0, "{:?}", outcome.totals);
    hangs(&outcome);
    assert_eq!(outcome.evidence.probe_accepted, 0);
}

#[test]
fn a_fault_without_an_occasion_is_not_injected_and_the_next_run_is_clean() {
    let mut session = session("sink");
    let outcome = suffer(&mut session, "dma-error:at=10s");
    assert_eq!(outcome.findings[0].injected, 0);
    assert_eq!(outcome.findings[0].verdict, Verdict::NotInjected);
    let clean = injected(&mut session, &plan(500, Span::from_us(50), 500));
    assert_eq!(clean.result.faults, None);
    session.stop().unwrap();
}

#[test]
fn one_seed_is_one_history_of_faults() {
    let mut session = session("sink");
    let faults = ["descriptor-crc:probability=0.02", "descriptor-rwt:probability=0.02"];
    let quiet = with_faults(&faults, plan(300, Span::from_us(100), 1_000));
    let counts = |session: &mut Session| -> Vec<u64> {
        let outcome = outcome(&injected(session, &quiet));
        outcome.findings.iter().map(|finding| finding.injected).collect()
    };
    let first = counts(&mut session);
    assert!(first.iter().all(|&count| count > 0), "{first:?}");
    assert_eq!(first, counts(&mut session));
    session.stop().unwrap();
}
