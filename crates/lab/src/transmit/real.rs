//! In real time: the sender is a process of its own.

use std::time::Duration;

use serde_json::Map;
use warikomi_clock::Span;
use warikomi_driver::DriverInfo;
use warikomi_inject::{Addresses, FrameTemplate, NETWORK_IP, NETWORK_MAC, UDP_PORT};
use warikomi_measure::{Thresholds, TimeBase, warnings};
use warikomi_nic::NicOptions;
use warikomi_process::Orders;
use warikomi_process::programs::sender;
use warikomi_session::{PacketPath, ProcessSessionOptions, Session};
use warikomi_stack::send::{RECEIVED_FRAME_BYTES, SendPlan};
use warikomi_stack::{Topology, Waiting};
use warikomi_target::CardId;
use warikomi_wire::Wire;
use warikomi_wire::peer::Judged;
use warikomi_wire::peer::numbered::{Look, Numbered, Seen};
use warikomi_wire::peer::talker::{Talk, Talker};

use super::made::{self, Transmitted};
use super::options::{Options, driver};
use super::row::{Outcome, Repetition, Row};
use super::series::{self, Bench};
use crate::error::Error;
use crate::watch::Watch;

/// How long a run may take beyond its pace; the slowest row takes a few seconds.
const RUN_TIMEOUT: Duration = Duration::from_secs(60);
/// What the device still has behind a dead-lock is on the wire after this time.
const DRAIN: Duration = Duration::from_millis(50);

/// Compares all rows, each as often as asked for, in one process.
pub fn transmit(options: &Options, watch: &mut Watch) -> Result<Transmitted, Error> {
    transmit_all(std::slice::from_ref(options), watch)
}

/// The same over several cards, one after the other, each with a process of its own.
pub fn transmit_all(cards: &[Options], watch: &mut Watch) -> Result<Transmitted, Error> {
    for options in cards {
        options.validate(driver(&options.driver)?)?;
    }
    let rows = made::of_each(cards, |options| over_a_card(options, watch))?;
    let mut found = Transmitted::of(cards, TimeBase::Real, watch.seen(), rows);
    found.result.warnings = warnings(&found.result, &Thresholds::default());
    Ok(found)
}

fn over_a_card(options: &Options, watch: &mut Watch) -> Result<(Vec<Row>, Vec<Repetition>), Error> {
    let driver = driver(&options.driver)?;
    let (wire, judge) = Numbered::sink();
    let bytes = options.dma_bytes(driver);
    over(options, (Box::new(wire), bytes), (judge, None), watch, |bench, watch| {
        series::rows(options, driver, bench, watch)
    })
}

/// In a process that can carry out any of these plans, while frames come if they say so.
pub(super) fn with_bench<R>(
    options: &Options,
    plans: &[SendPlan],
    watch: &mut Watch,
    work: impl FnOnce(&mut dyn Bench, &mut Watch) -> Result<R, Error>,
) -> Result<R, Error> {
    let driver = driver(&options.driver)?;
    let (wire, judge) = Numbered::sink();
    let (wire, talk) = Talker::new(wire);
    let bytes = plans.iter().map(|plan| sender::dma_bytes(driver, plan)).max().unwrap_or(0);
    over(options, (Box::new(wire), bytes), (judge, Some(talk)), watch, work)
}

/// In a process with so many bytes of DMA memory, cabled to this wire.
fn over<R>(
    options: &Options,
    (wire, dma_bytes): (Box<dyn Wire>, u64),
    (judge, talk): (Judged<Numbered>, Option<Talk>),
    watch: &mut Watch,
    work: impl FnOnce(&mut dyn Bench, &mut Watch) -> Result<R, Error>,
) -> Result<R, Error> {
    let wanted = session_options(options, driver(&options.driver)?, dma_bytes, watch);
    let interrupted = watch.interrupted.clone();
    let status = &mut |what: &str| watch.waiting(what);
    let mut session = Session::start_process(&wanted, wire, &interrupted, status)?;
    watch.keep_findings_of(&mut session)?;
    let mut bench = Real { session: &mut session, judge, talk };
    let worked = work(&mut bench, watch)?;
    session.stop()?;
    Ok(worked)
}

fn session_options(
    options: &Options,
    driver: &DriverInfo,
    dma_bytes: u64,
    watch: &Watch,
) -> ProcessSessionOptions {
    let parts = watch.parts;
    ProcessSessionOptions {
        driver: driver.name.to_owned(),
        program: (parts.driver)(driver.name),
        nic: NicOptions { strict: watch.is_strict(), ..options.nic.clone() },
        make_nic: warikomi_nic::build,
        orders: Orders::default(),
        settings: Map::new(),
        dma_bytes,
        path: PacketPath {
            topology: Topology::Sender,
            waiting: Waiting::Wait,
            copy_out: false,
            tcp_port: None,
            program: parts.above,
        },
        application: None,
        confined: true,
    }
}

struct Real<'a> {
    session: &'a mut Session,
    judge: Judged<Numbered>,
    /// Of a wire that has frames for the card.
    talk: Option<Talk>,
}

impl Real<'_> {
    /// Frames come from now on, if the plan has any.
    fn talk(&mut self, plan: &SendPlan) -> Result<(), Error> {
        let mixed = plan.mixed.as_ref().filter(|_| plan.receives());
        let Some((talk, mixed)) = self.talk.as_ref().zip(mixed) else { return Ok(()) };
        let mac = self.session.target.card(CardId::FIRST)?.0.mac_address();
        let addresses = Addresses::to_guest(mac);
        let mut template = FrameTemplate::new(&addresses, RECEIVED_FRAME_BYTES, plan.run_id)?;
        let (interval, now) =
            (Span::from_ps(mixed.receive_interval_ps), self.session.target.clock().now());
        talk.begin(move |number| template.frame(number).bytes.to_vec(), interval, now + interval);
        Ok(())
    }
}

impl Bench for Real<'_> {
    fn send(
        &mut self,
        plan: &SendPlan,
        look: Look,
        watch: &mut Watch,
    ) -> Result<(Outcome, Seen), Error> {
        let before = self.session.watch_cores();
        let all = plan.warmup.saturating_add(plan.count);
        self.judge.lock().begin(plan.run_id, all, look);
        self.judge.lock().expect_checksums(plan.checksum);
        self.judge.lock().expect_stream(plan.segment_bytes());
        let pace = Duration::from_nanos((plan.interval_ps / 1_000).saturating_mul(all));
        let load = plan.mixed.as_ref().map_or(0, |mixed| {
            let phases = mixed.phases.len() as u64 * u64::from(mixed.rounds);
            (mixed.phase_ps / 1_000).saturating_mul(phases)
        });
        let timeout = RUN_TIMEOUT.saturating_add(pace).saturating_add(Duration::from_nanos(load));
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let to = format!("{NETWORK_IP}:{UDP_PORT}");
        let command = plan.to_command(NETWORK_MAC, to, timeout_ms);
        self.talk(plan)?;
        let sent = self.session.target.ask(command, timeout);
        if let Some(talk) = &self.talk {
            talk.end();
        }
        let sent = sent?;
        if sent.dead_locked {
            self.session.target.serve_for(DRAIN)?;
        }
        watch.saw(self.session, &before);
        let seen = self.judge.lock().seen();
        Ok((
            Outcome { sent, segments_per_message: seen.segments_per_message(), digest: None },
            seen,
        ))
    }
}
