//! In real time: the sender is a process of its own.

use std::time::Duration;

use serde_json::Map;
use warikomi_driver::DriverInfo;
use warikomi_inject::{NETWORK_IP, NETWORK_MAC, UDP_PORT};
use warikomi_measure::{Thresholds, TimeBase, warnings};
use warikomi_process::Orders;
use warikomi_session::OwnParts;
use warikomi_stack::send::SendPlan;
use warikomi_stack::{Topology, Waiting};
use warikomi_target::Interrupted;
use warikomi_wire::peer::Judged;
use warikomi_wire::peer::numbered::{Look, Numbered, Seen};

use super::row::Outcome;
use super::series::{self, Bench};
use super::{Options, Progress, Transmitted, result};
use crate::{Error, PacketPath, ProcessSessionOptions, Session};

/// How long a run may take beyond its pace; the slowest row takes a few seconds.
const RUN_TIMEOUT: Duration = Duration::from_secs(60);
/// What the device still has behind a dead-lock is on the wire after this time.
const DRAIN: Duration = Duration::from_millis(50);

/// Compares all rows, each as often as asked for, in one process.
pub fn transmit(
    options: &Options,
    parts: OwnParts,
    interrupted: &Interrupted,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Transmitted, Error> {
    let driver = super::driver(&options.driver)?;
    options.validate(driver)?;
    let (wire, judge) = Numbered::sink();
    let wanted = session_options(options, driver, parts);
    let mut session = Session::start_process(&wanted, Box::new(wire), interrupted, &mut |_| ())?;
    let watch = session.watch_cores();
    let mut bench = Real { session: &mut session, judge };
    let frame_bytes = options.max_frame_bytes(driver);
    let (rows, repetitions) = series::rows(options, frame_bytes, &mut bench, progress)?;
    let (machine, info) = (session.machine_since(&watch), session.info.clone());
    session.stop()?;
    let mut result = result(options, TimeBase::Real, machine, info, &rows);
    result.warnings = warnings(&result, &Thresholds::default());
    Ok(Transmitted { result, rows, repetitions })
}

fn session_options(
    options: &Options,
    driver: &DriverInfo,
    parts: OwnParts,
) -> ProcessSessionOptions {
    ProcessSessionOptions {
        driver: driver.name.to_owned(),
        program: (parts.driver)(driver.name),
        nic: options.nic.clone(),
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
    }
}

struct Real<'a> {
    session: &'a mut Session,
    judge: Judged<Numbered>,
}

impl Bench for Real<'_> {
    fn send(&mut self, plan: &SendPlan, look: Look) -> Result<(Outcome, Seen), Error> {
        let all = plan.warmup.saturating_add(plan.count);
        self.judge.lock().begin(plan.run_id, all, look);
        let pace = Duration::from_nanos((plan.interval_ps / 1_000).saturating_mul(all));
        let timeout = RUN_TIMEOUT.saturating_add(pace);
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let to = format!("{NETWORK_IP}:{UDP_PORT}");
        let command = plan.to_command(NETWORK_MAC, to, timeout_ms);
        let sent = self.session.target.ask(command, timeout)?;
        if sent.dead_locked {
            self.session.target.serve_for(DRAIN)?;
        }
        Ok((Outcome { sent, digest: None }, self.judge.lock().seen()))
    }
}
