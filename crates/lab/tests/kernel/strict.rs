//! What a strict card has against Linux's driver: docs/strict.md says what, and where.

use std::time::Duration;

use clap::{Args, Command, FromArgMatches};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use warikomi_clock::Span;
use warikomi_lab::replace::Replace;
use warikomi_lab::transmit::kernel::{Completion, Judge, Options, Sender, transmit};
use warikomi_lab::{Conclusion, Error, Experiment, Watch, carry_out};
use warikomi_measure::RunResult;
use warikomi_nic::{Link, NicOptions};
use warikomi_pci::Width;
use warikomi_protocol::commands::{
    LinkDown, LinkUp, LoadDriver, Pktgen, Renegotiate, UnloadDriver, WaitInterface,
};
use warikomi_session::{Session, SessionOptions, Strictness, TargetArguments};
use warikomi_target::{CardId, TargetError};
use warikomi_wire::{Wire, WireKind};

use crate::ask::{counters, on_the_wire};
use crate::bring::{image, options, plan, sink, started, wait_until, watch};
use crate::perfect::injected;

fn strict(wire: Box<dyn Wire>) -> Session {
    let nic = NicOptions { strict: true, ..NicOptions::of("rtl8168") };
    let options = SessionOptions { nic, ..options() };
    started(&options, wire)
}

/// What was found: kind, place and the first of them.
fn found(session: &mut Session) -> Vec<String> {
    let (nic, _) = session.target.card(CardId::FIRST).unwrap();
    let findings = nic.strict().expect("a strict card").findings();
    findings.list().iter().map(|one| format!("{}, {}: {}", one.kind, one.place, one.what)).collect()
}

/// The one that r8169 may have: rtl_tx rings once more where it finds a frame that is not done yet, because doorbells
/// of real cards are lost (r8169_main.c, "8168 hack"). The card may be done by then.
const EXTRA_DOORBELL: &str = "doorbell again, transmit queue 1";

/// What was found without that.
fn found_besides_extra_doorbells(session: &mut Session) -> Vec<String> {
    found(session).into_iter().filter(|finding| !finding.starts_with(EXTRA_DOORBELL)).collect()
}

fn up(session: &mut Session) {
    let address_cidr = Some("10.9.0.1/24".into());
    let up = LinkUp { interface: None, address_cidr, timeout_ms: 5_000 };
    session.target.ask(up, Duration::from_secs(5)).unwrap();
}

#[test]
fn r8169_receives_in_order_and_the_run_says_so() {
    let mut session = strict(sink());
    for (size, interval, count) in [(500, 100, 500), (1_500, 38, 5_000), (60, 0, 20_000)] {
        let run = injected(&mut session, &plan(size, Span::from_us(interval), count));
        assert_eq!(run.result.figures["strict_steps"], 0, "{:?}", found(&mut session));
    }
    session.stop().unwrap();
}

#[test]
fn r8169_comes_goes_and_follows_the_cable_in_order() {
    let mut session = strict(sink());
    for link in [Link::Down, Link::Up { mbps: 100 }, Link::Down, Link::Up { mbps: 1_000 }] {
        let (nic, mut host) = session.target.card(CardId::FIRST).unwrap();
        nic.set_link(&mut host, link);
        session.target.serve_for(Duration::from_millis(300)).unwrap();
    }
    for _ in 0..2 {
        session.target.ask(LinkDown { interface: None }, Duration::ZERO).unwrap();
        up(&mut session);
        session.target.ask(Renegotiate { interface: None }, Duration::ZERO).unwrap();
        counters(&mut session);
        injected(&mut session, &plan(500, Span::from_us(100), 200));
        let unload = UnloadDriver { name: "r8169".into() };
        session.target.ask(unload, Duration::from_secs(5)).unwrap();
        let load = LoadDriver { name: "r8169".into(), params: vec![] };
        session.target.ask(load, Duration::from_secs(5)).unwrap();
        let wait = WaitInterface::of("r8169", 5_000);
        session.target.ask(wait, Duration::from_secs(5)).unwrap();
        up(&mut session);
    }
    assert_eq!(found(&mut session), [""; 0]);
    session.stop().unwrap();
}

#[test]
fn r8169_transmits_in_order_but_for_extra_doorbells() {
    let mut session = strict(sink());
    for burst in [1, 16] {
        let pktgen = Pktgen {
            interface: None,
            count: 5_000,
            payload_bytes: 1_400,
            burst,
            destination: "10.9.0.2:9".into(),
            destination_mac: "02:57:4b:00:00:02".into(),
            timeout_ms: 20_000,
        };
        let sent = session.target.ask(pktgen, Duration::from_secs(25)).unwrap().sent;
        wait_until(&mut session, "all is on the wire", |session| on_the_wire(session) >= sent);
    }
    assert_eq!(found_besides_extra_doorbells(&mut session), [""; 0]);
    session.stop().unwrap();
}

/// Checksums and segments are the card's to make.
#[test]
fn r8169_asks_for_offloads_in_order() {
    let options = Options {
        sizes_bytes: vec![64, 16_000],
        senders: vec![Sender::Udp, Sender::Tcp],
        bursts: vec![1],
        completions: vec![Completion::Napi],
        tso: vec![false, true],
        count: 2_000,
        most_bytes: 8_000_000,
        repeat: 1,
        ..Options::default()
    };
    let (host, judge) = Judge::with_host();
    let mut session = strict(Box::new(host));
    transmit(&mut session, &judge, &options, &mut Watch::unobserved()).unwrap();
    assert_eq!(found_besides_extra_doorbells(&mut session), [""; 0]);
    session.stop().unwrap();
}

/// An experiment on the kernel to test with.
fn of_kernel<E: Experiment + FromArgMatches>(flags: &[&str]) -> E {
    let kernel = image().kernel();
    let flags = [&["--target", "kernel", "--kernel", kernel.to_str().unwrap()], flags].concat();
    let command = E::augment_args(Command::new(E::NAME).no_binary_name(true));
    E::from_arg_matches(&command.get_matches_from(flags)).unwrap()
}

/// The module goes and comes while frames go out as fast as they can, which is where it rings once more.
#[test]
fn r8169_is_replaced_in_order_but_for_extra_doorbells() {
    let replace = of_kernel::<Replace>(&["--strict", "--load", "heavy", "--trials", "3"]);
    let conclusion = carry_out(&replace, &mut Watch::unobserved()).unwrap();
    let figures = &conclusion.result.figures;
    let steps = figures["strict_steps"].as_u64().unwrap();
    let findings = figures.get("strict_findings").and_then(|findings| findings.as_array());
    let mut extra = 0;
    for finding in findings.into_iter().flatten() {
        let text = |key: &str| finding[key].as_str().unwrap();
        assert_eq!(format!("{}, {}", text("kind"), text("place")), EXTRA_DOORBELL, "{finding}");
        assert!(text("source").contains("8168 hack"), "{finding}");
        extra += finding["count"].as_u64().unwrap();
    }
    assert_eq!(steps, extra);
}

/// An experiment whose target dies when its card was read at a wrong place.
#[derive(Args)]
struct Dies {
    #[command(flatten)]
    target: TargetArguments,
}

impl Experiment for Dies {
    const NAME: &'static str = "dies";
    const ABOUT: &'static str = "Its target dies";

    fn strict(&self) -> Option<Strictness> {
        Some(Strictness::Warn)
    }

    fn run(&self, watch: &mut Watch) -> Result<Conclusion, Error> {
        let mut session = watch.start(&self.target.prepare()?, &WireKind::Sink)?;
        let (nic, mut host) = session.target.card(CardId::FIRST)?;
        nic.bar_read(&mut host, 2, 0x3d, Width::B4);
        kill(Pid::from_raw(session.target.process_id() as i32), Signal::SIGKILL).unwrap();
        session.target.serve_for(Duration::from_secs(20))?;
        panic!("it was not missed");
    }

    fn describe(_: &mut RunResult) {}
}

#[test]
fn a_run_whose_target_dies_keeps_what_was_found_and_says_so() {
    let runs = tempfile::tempdir().unwrap();
    let mut watch = watch(runs.path(), |_| ());
    let error = carry_out(&of_kernel::<Dies>(&[]), &mut watch).err().unwrap();
    let words = error.to_string();
    let Error::AfterSteps { error, .. } = error else { panic!("{words}") };
    assert!(matches!(*error, Error::Target(TargetError::Exited { .. })), "{words}");
    assert!(words.contains("access width, 1 times at IntrMask"), "{words}");
    let kept = watch.directory().unwrap().path().join("strict.json");
    assert!(words.contains(kept.to_str().unwrap()), "{words}");
    let kept: Value = serde_json::from_slice(&std::fs::read(kept).unwrap()).unwrap();
    assert_eq!(kept["findings"][0]["kind"], "access width", "{kept}");
}
