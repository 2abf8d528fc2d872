//! What a strict card says of memory, and where a driver is: the kernel keeps count of what is mapped and what is free.

use std::time::Duration;

use warikomi_lab::Error;
use warikomi_lab::inject::Inject;
use warikomi_lab::replace::Replace;
use warikomi_lab::strict;
use warikomi_nic::NicOptions;
use warikomi_nic::strict::{Finding, FindingKind, Place};
use warikomi_protocol::commands::{
    LinkDown, LinkUp, LoadDriver, Pktgen, UnloadDriver, WaitInterface,
};
use warikomi_session::{Session, SessionOptions};
use warikomi_target::{CardId, Interrupted};
use warikomi_wire::WireKind;

use crate::options::options_of;
use crate::planted::{DRIVER_VERSION, RINGS_ONCE, image};
use crate::{run, run_unmodified};

/// A strict card with its witness, and this driver.
fn session(driver: &str) -> Session {
    let options = SessionOptions {
        driver: driver.into(),
        is_own_driver: driver != "r8169",
        nic: NicOptions { strict: true, ..NicOptions::of("rtl8168") },
        ..options_of(image())
    };
    let wire = "sink".parse::<WireKind>().unwrap().build().unwrap();
    let session = Session::start(&options, wire, &Interrupted::default(), &mut |_| ());
    let mut session = session.unwrap_or_else(|error| panic!("{error}"));
    strict::call(&mut session, &options).unwrap();
    let (nic, _) = session.target.card(CardId::FIRST).unwrap();
    assert_eq!(nic.strict().unwrap().findings().unseen(), [""; 0], "all is looked at");
    session
}

fn findings(session: &mut Session) -> Vec<Finding> {
    let (nic, _) = session.target.card(CardId::FIRST).unwrap();
    nic.strict().expect("a strict card").findings().list().to_vec()
}

/// The run of the command, with what it says.
#[test]
fn a_driver_that_receives_into_its_own_buffers_is_in_order() {
    let conclusion =
        run_unmodified::<Inject>(&["--strict", "--count", "300", "--interval", "100us"]).unwrap();
    let figures = &conclusion.result.figures;
    assert_eq!(figures["strict_steps"], 0, "{:#?}", figures.get("strict_findings"));
    assert_eq!(figures.get("strict_unseen"), None, "all is looked at");
}

/// What the command has against a driver of one's own, in the newest kernel that has it or in one that is named.
#[test]
fn buffers_that_are_not_mapped_for_the_card_to_write_to_are_named() {
    let kernel = image().kernel();
    let chosen = ["--debug", "--kernel-version", DRIVER_VERSION];
    let named = ["--kernel", kernel.to_str().unwrap()];
    for (driver, says, kernel) in [
        ("r8169_unmaps", "not mapped", &chosen[..]),
        ("r8169_direction", "other direction", &named[..]),
    ] {
        let strict = ["--strict=fail", "--driver", driver, "--model", "rtl8168"];
        let plan = ["--count", "300", "--interval", "100us"];
        let conclusion = run::<Inject>(&[&strict[..], kernel, &plan].concat()).unwrap();
        assert!(matches!(conclusion.failed, Some(Error::NotStrict { steps: 300.. })), "{driver}");
        let found = conclusion.result.figures["strict_findings"].as_array().unwrap();
        let [finding] = &found[..] else { panic!("{found:#?}") };
        let text = |key: &str| finding[key].as_str().unwrap_or_default();
        assert_eq!((text("kind"), text("place")), ("memory not mapped", "memory"));
        assert!(text("what").contains(says), "{finding}");
        assert!(finding["count"].as_u64().unwrap() >= 300, "{finding}");
        assert!(finding["stack"].as_array().unwrap().len() > 1, "{finding}");
    }
}

/// Sends this many frames.
fn send(session: &mut Session, count: u64) {
    let pktgen = Pktgen {
        interface: None,
        count,
        payload_bytes: 1_000,
        burst: 1,
        destination: "10.9.0.2:9".into(),
        destination_mac: "02:57:4b:00:00:02".into(),
        timeout_ms: 20_000,
    };
    session.target.ask(pktgen, Duration::from_secs(25)).unwrap();
    session.target.serve_for(Duration::from_millis(100)).unwrap();
}

fn up(session: &mut Session) {
    let address_cidr = Some("10.9.0.1/24".into());
    let up = LinkUp { interface: None, address_cidr, timeout_ms: 5_000 };
    session.target.ask(up, Duration::from_secs(5)).unwrap();
}

/// Another module takes its place meanwhile, so that it lies elsewhere afterwards.
#[test]
fn a_step_of_a_driver_that_was_loaded_again_has_its_stack() {
    let mut session = session("r8169_frees");
    let unload = UnloadDriver { name: "r8169_frees".into() };
    session.target.ask(unload, Duration::from_secs(5)).unwrap();
    for name in ["8139too", "r8169_frees"] {
        let load = LoadDriver { name: name.into(), params: vec![] };
        session.target.ask(load, Duration::from_secs(5)).unwrap();
    }
    let wait = WaitInterface::of("r8169_frees", 5_000);
    session.target.ask(wait, Duration::from_secs(5)).unwrap();
    let (nic, _) = session.target.card(CardId::FIRST).unwrap();
    nic.strict().unwrap().take_findings();
    up(&mut session);
    // The doorbell is a write, for which the driver does not wait: if our side is late, it has gone on meanwhile.
    let stacks: Vec<_> = (0..5).map(|_| stack_of_freed(&mut session)).collect();
    let in_driver = |stack: &Vec<String>| stack.iter().any(|at| at.contains("rtl8169_start_xmit+"));
    assert!(stacks.iter().any(in_driver), "{stacks:#?}");
    session.stop().unwrap();
}

/// Where the driver was at the first frame, of some that are sent, that it had freed before.
fn stack_of_freed(session: &mut Session) -> Vec<String> {
    send(session, 100);
    let (nic, _) = session.target.card(CardId::FIRST).unwrap();
    let found = nic.strict().unwrap().take_findings();
    let freed = found.list().iter().find(|finding| finding.kind == FindingKind::Freed);
    freed.unwrap_or_else(|| panic!("{found:#?}")).stack.clone()
}

/// A driver that has sent 2,000 frames, and gone down and up.
fn sent(driver: &str) -> Vec<Finding> {
    let mut session = session(driver);
    send(&mut session, 2_000);
    session.target.ask(LinkDown { interface: None }, Duration::ZERO).unwrap();
    up(&mut session);
    let findings = findings(&mut session);
    session.stop().unwrap();
    findings
}

#[test]
fn memory_that_is_freed_before_it_is_sent_is_named() {
    let of_memory = |finding: &Finding| finding.place == Place::Memory;
    assert_eq!(sent("r8169").into_iter().find(of_memory), None);
    let is_freed = |finding: &Finding| finding.kind == FindingKind::Freed;
    let freed = sent("r8169_frees").into_iter().find(is_freed).expect("found");
    assert!(freed.what.contains("freed that object"), "{freed:?}");
    assert!(freed.count > 1_000, "{freed:?}");
    assert!(freed.stack.len() > 1, "{freed:?}");
}

/// Doorbells that come once more than there were frames are those of the line in `rtl_tx` that says so, and no others:
/// without it there is none.
#[test]
fn the_only_step_of_a_replaced_driver_is_the_extra_doorbell_of_rtl_tx() {
    let replaced = |driver: &[&str]| {
        let load = ["--target", "kernel", "--strict", "--load", "heavy", "--trials", "2"];
        let conclusion = run_unmodified::<Replace>(&[&load[..], driver].concat()).unwrap();
        let row = &conclusion.result.rows.as_ref().unwrap()[0];
        assert!(row["sent"].as_u64().unwrap() > 1_000, "{row:?}");
        let found = conclusion.result.figures.get("strict_findings").cloned();
        let found = found.and_then(|found| found.as_array().cloned()).unwrap_or_default();
        let kinds = found.iter().map(|one| format!("{}, {}", one["kind"], one["what"]));
        kinds.collect::<Vec<_>>()
    };
    assert_eq!(replaced(&["--driver", RINGS_ONCE, "--model", "rtl8168"]), [""; 0]);
    let is_extra = |found: &String| found.starts_with("\"doorbell again\"");
    let unmodified = replaced(&[]);
    assert!(unmodified.iter().all(is_extra), "{unmodified:#?}");
}
