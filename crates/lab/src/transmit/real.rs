//! In real time: the sender is a process of its own.

use std::time::Duration;

use serde_json::Map;
use warikomi_driver::DriverInfo;
use warikomi_inject::{NETWORK_IP, NETWORK_MAC, UDP_PORT};
use warikomi_measure::{Thresholds, TimeBase, warnings};
use warikomi_nic::NicOptions;
use warikomi_process::Orders;
use warikomi_session::{PacketPath, ProcessSessionOptions, Session};
use warikomi_stack::send::SendPlan;
use warikomi_stack::{Topology, Waiting};
use warikomi_wire::peer::Judged;
use warikomi_wire::peer::numbered::{Look, Numbered, Seen};

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
    let wanted = session_options(options, driver, watch);
    let interrupted = watch.interrupted.clone();
    let status = &mut |what: &str| watch.waiting(what);
    let mut session = Session::start_process(&wanted, Box::new(wire), &interrupted, status)?;
    let mut bench = Real { session: &mut session, judge };
    let rows = series::rows(options, driver, &mut bench, watch)?;
    session.stop()?;
    Ok(rows)
}

fn session_options(options: &Options, driver: &DriverInfo, watch: &Watch) -> ProcessSessionOptions {
    let parts = watch.parts;
    ProcessSessionOptions {
        driver: driver.name.to_owned(),
        program: (parts.driver)(driver.name),
        nic: NicOptions { strict: watch.is_strict(), ..options.nic.clone() },
        make_nic: warikomi_nic::build,
        orders: Orders::default(),
        settings: Map::new(),
        dma_bytes: options.dma_bytes(driver),
        path: PacketPath {
            topology: Topology::Sender,
            waiting: Waiting::Wait,
            copy_out: false,
            tcp_port: None,
            program: parts.above,
        },
        application: None,
    }
}

struct Real<'a> {
    session: &'a mut Session,
    judge: Judged<Numbered>,
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
        let timeout = RUN_TIMEOUT.saturating_add(pace);
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let to = format!("{NETWORK_IP}:{UDP_PORT}");
        let command = plan.to_command(NETWORK_MAC, to, timeout_ms);
        let sent = self.session.target.ask(command, timeout)?;
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
