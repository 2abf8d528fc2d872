//! `warikomi serve`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use warikomi_clock::{Span, TscClock};
use warikomi_nic::{MODELS, NicOptions};
use warikomi_target::vm::{VmTarget, cloud_hypervisor_arguments, qemu_arguments};
use warikomi_target::{CardId, Interrupted, Target, TargetCounters, TargetError};
use warikomi_wire::WireKind;

/// Serves a NIC to a virtual machine: QEMU from 10.1 on, or Cloud Hypervisor, finds it at the socket (vfio-user).
///
/// The socket is this user's alone, and so is the hypervisor. One has the card at a time; when it goes, the card stays
/// as it is, and the next may come. It ends with Ctrl-C. To inject packets: warikomi inject --target vm.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The NIC model
    #[arg(long, value_parser = models())]
    model: String,
    /// Where the hypervisor finds it
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// What the NIC is cabled to: sink, loopback, responder, pcap:FILE, pcap:FILE+responder, or
    /// socket:OURS,THEIRS: another program's network, such as QEMU's `-netdev dgram`
    #[arg(long, default_value = "responder")]
    wire: WireKind,
    /// Ends by itself after this time
    #[arg(long = "for", value_name = "TIME")]
    duration: Option<Span>,
}

fn models() -> clap::builder::PossibleValuesParser {
    MODELS.iter().map(|model| model.name).collect::<Vec<_>>().into()
}

/// Passes in a row without anything to do, after which the server sleeps until there is something: a hypervisor that
/// is busy with its card sends the next access within this.
const PASSES_AWAKE: u32 = 5_000;
/// It looks after Ctrl-C and new clients so often.
const NAP: Duration = Duration::from_millis(20);
/// Passes between two looks after these.
const PASSES_PER_LOOK: u32 = 256;

pub(crate) fn run(arguments: &Arguments, interrupted: &Interrupted) -> Result<ExitCode> {
    let wire = arguments.wire.build().context("cannot set up the wire")?;
    let nic = warikomi_nic::build(&NicOptions::of(&arguments.model), wire)?;
    let clock = TscClock::calibrate()?;
    let at = (arguments.socket.as_path(), false);
    let mut target = VmTarget::listen(at, nic, clock.into(), interrupted.clone())?;
    let socket = std::path::absolute(&arguments.socket).context("no such path")?;
    println!("{} waits for a hypervisor at {}", arguments.model, socket.display());
    println!("  qemu-system-x86_64 {} …", qemu_arguments(&socket));
    println!("  cloud-hypervisor {} …", cloud_hypervisor_arguments(&socket));
    let until =
        arguments.duration.map(|span| Instant::now() + Duration::from_nanos(span.as_ps() / 1_000));
    serve(&mut target, until)?;
    let (nic, _) = target.card(CardId::FIRST)?;
    nic.wire().finish().context("the wire failed")?;
    target.stop()?;
    Ok(ExitCode::SUCCESS)
}

/// Serves one hypervisor after the other until the user or the clock ends it.
fn serve(target: &mut VmTarget, until: Option<Instant>) -> Result<(), TargetError> {
    let mut visits = Visits::default();
    let mut idle = 0;
    loop {
        // One that has come may be gone again after the look.
        let ended = target.housekeep().and_then(|()| {
            visits.report(target);
            look(target, &mut idle)
        });
        match ended {
            Ok(()) => {}
            Err(TargetError::Interrupted) => return Ok(()),
            Err(error @ (TargetError::ClientGone | TargetError::ClientError { .. })) => {
                println!("{error}");
            }
            Err(error) => return Err(error),
        }
        if let Some(why) = target.take_refused() {
            println!("refused: {why}");
        }
        visits.report(target);
        if until.is_some_and(|until| Instant::now() >= until) {
            return Ok(());
        }
        if idle > PASSES_AWAKE {
            target.wait_for_work(NAP);
            idle = PASSES_AWAKE;
        }
    }
}

/// Whether there was a hypervisor at the last look, and what had been counted when it came.
#[derive(Default)]
struct Visits {
    had_client: bool,
    before: TargetCounters,
}

impl Visits {
    /// Says who has come, and what one that has gone has done.
    fn report(&mut self, target: &VmTarget) {
        let has_client = target.has_client();
        if std::mem::replace(&mut self.had_client, has_client) == has_client {
            return;
        }
        if has_client {
            println!("a hypervisor has come (process {})", target.process_id());
        } else {
            println!("{}", described(&target.counters().since(&self.before)));
        }
        self.before = target.counters();
    }
}

fn look(target: &mut VmTarget, idle: &mut u32) -> Result<(), TargetError> {
    for _ in 0..PASSES_PER_LOOK {
        let pass = target.poll()?;
        *idle = if pass.worked { 0 } else { *idle + 1 };
        if *idle > PASSES_AWAKE {
            break;
        }
    }
    Ok(())
}

fn described(counters: &TargetCounters) -> String {
    let TargetCounters { accesses, malformed, interrupts_sent, interrupts_dropped, .. } = counters;
    format!(
        "  it made {accesses} accesses and was sent {interrupts_sent} interrupts; {malformed} commands were refused, \
         {interrupts_dropped} interrupts dropped"
    )
}
