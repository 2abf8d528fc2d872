//! `warikomi inject`.

use clap::{Args, ValueEnum};
use warikomi_clock::{Seed, Span};
use warikomi_inject::{
    Arrival, FAULT_FORMS, Fault, FaultKind, FrameBytes, LineRate, MAX_FLOWS, Plan, Receiver,
};
use warikomi_measure::RunResult;
use warikomi_measure::published;
use warikomi_session::{
    Prepared, SecondArguments, Session, StrictArguments, Strictness, TargetArguments, Usual,
    VirtualArguments,
};
use warikomi_wire::WireKind;

use super::order::Application;
use super::{columns, inject, run_id};
use crate::error::Error;
use crate::experiment::{Conclusion, Experiment};
use crate::values::ReceiverName;
use crate::watch::{Progress, Watch};

/// Boots a kernel as an ordinary process, binds its unmodified driver to a software NIC, injects
/// packets at absolute deadlines, and says what became of each: missed by the NIC, accepted by the
/// driver, received by an application in the guest.
///
/// Times are written with their unit: 200ns, 38us, 3.5ms, 1s; a bare 0 is "as fast as possible".
#[derive(Args)]
pub struct Inject {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    pub(crate) strict: StrictArguments,
    #[command(flatten)]
    time: VirtualArguments,
    #[command(flatten)]
    second: SecondArguments,
    #[command(flatten)]
    plan: PlanArguments,
    /// The socket's receive buffer of the application that receives, in bytes [default: 16777216]
    #[arg(long, value_name = "BYTES")]
    socket_buffer: Option<u32>,
    /// What the NIC is cabled to: sink, loopback, responder, pcap:FILE, pcap:FILE+responder, or
    /// socket:OURS,THEIRS: another program's network, such as QEMU's `-netdev dgram`
    #[arg(long, default_value = "sink")]
    pub(crate) wire: WireKind,
}

#[derive(Args)]
#[command(next_help_heading = "What arrives when")]
struct PlanArguments {
    /// Frame length without check sequence: 60 to 16379 bytes
    #[arg(long, value_name = "BYTES", default_value = "1500")]
    size: FrameBytes,
    /// Time from one packet to the next; 0 for as fast as possible
    #[arg(long, value_name = "TIME", default_value = "38us", allow_hyphen_values = true)]
    interval: Span,
    /// Number of packets
    #[arg(long, value_name = "N", default_value_t = 1000)]
    count: u64,
    /// Packets that arrive together, for one interrupt
    #[arg(long, value_name = "N", default_value_t = 1)]
    packets_per_interrupt: u32,
    /// Flows that the packets belong to, in turn: 1 to 65535
    ///
    /// Packet 0 is of the first flow, packet 1 of the second and so on, round and round. Each flow has
    /// a UDP source port of its own, from 5001 on. A NIC with several receive queues works out a
    /// packet's queue from addresses and ports (receive side scaling), so all packets of one flow go
    /// to one queue, and it takes many flows to fill all queues evenly: give some eight for each queue.
    /// The result then has a row for each queue and each interrupt vector. On a NIC with one queue
    /// flows change nothing but the ports.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_FLOWS)))]
    flows: u32,
    /// How far packets are meant to go: to an application over UDP, or to the driver only, with an
    /// EtherType that no protocol takes [default: application, where there is one]
    #[arg(long, value_enum, default_value = None)]
    receiver: Option<ReceiverName>,
    /// How arrivals are spread around the interval
    #[arg(long, value_enum, default_value_t = ArrivalName::Constant)]
    arrival: ArrivalName,
    /// Where random arrivals start from: one seed is one schedule
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// A line that the packets come over, such as 1G or 100M: none comes sooner than the line can
    /// carry it
    #[arg(long, value_name = "RATE")]
    line_rate: Option<LineRate>,
    /// Make something go wrong, once or by chance; may be given several times
    #[arg(long = "fault", value_name = "KIND:KEY=VALUE,...", long_help = fault_help())]
    faults: Vec<Fault>,
    /// Packets that go before those that count, to warm everything up [default: 1000]
    #[arg(long, value_name = "N")]
    warmup: Option<u64>,
}

#[derive(Clone, Copy, ValueEnum)]
enum ArrivalName {
    /// Every interval the same
    Constant,
    /// Exponentially distributed, with the interval as their mean
    Poisson,
    /// As a real NIC gave them, fitted to what was published: off by up to 2 us, and seldom (1 of 10,000) by up to 4 s
    FittedRealNic,
}

/// Every kind of fault, with what it takes.
fn fault_help() -> String {
    let mut help = "Make something go wrong; may be given several times.\n\nEach fault takes a time \
        after the first packet's deadline, at which it strikes once (at=5ms), or a probability with \
        which it strikes on every packet, or for the first three on every interrupt \
        (probability=0.01, from the --seed). The result says how often it did, and what the driver \
        did: recovered, lost packets, hung, or oopsed.\n\nExamples: \
        --fault interrupt-dropped:probability=0.01, --fault link-flap:at=5ms,for=2ms\n"
        .to_owned();
    for form in FAULT_FORMS {
        let takes = if form.keys.is_empty() { "" } else { "; also takes " };
        help.push_str(&format!("\n- {}: {}{takes}{}", form.name, form.summary, form.keys));
    }
    help
}

impl PlanArguments {
    fn plan(&self, receiver: Receiver) -> Result<Plan, Error> {
        let mut plan = Plan {
            size_bytes: self.size.0,
            interval: self.interval,
            count: self.count,
            packets_per_interrupt: self.packets_per_interrupt,
            flows: self.flows,
            receiver: self.receiver.map_or(receiver, Into::into),
            arrival: match self.arrival {
                ArrivalName::Constant => Arrival::Constant,
                ArrivalName::Poisson => Arrival::Poisson,
                ArrivalName::FittedRealNic => Arrival::FittedRealNic,
            },
            seed: Seed(self.seed),
            line_rate_bps: self.line_rate.map(|rate| rate.0),
            faults: self.faults.clone(),
            ..Plan::default()
        };
        if let Some(count) = self.warmup {
            plan.warmup.count = count;
        }
        plan.validate()?;
        Ok(plan)
    }
}

impl Experiment for Inject {
    const NAME: &'static str = "inject";
    const ABOUT: &'static str = "Inject packets into a driver at exact times, and account for each";
    const PUBLISHED: Option<&'static str> = Some(published::INJECTION);

    fn strict(&self) -> Option<Strictness> {
        self.strict.strict
    }

    fn run(&self, watch: &mut Watch) -> Result<Conclusion, Error> {
        self.carry_out(watch, |session, order, show| {
            let Ordered { plan, application, run_id } = order;
            Ok(inject(session, plan, application, run_id, show)?.conclude())
        })
    }

    fn describe(result: &mut RunResult) {
        columns::describe(result);
    }
}

/// What the flags ask for.
pub(crate) struct Ordered<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) application: Application,
    pub(crate) run_id: u32,
}

impl Inject {
    /// Flags of a second card that were given.
    pub(crate) fn second_given(&self) -> Vec<&'static str> {
        self.second.given()
    }

    /// What is to arrive.
    pub(crate) fn asked(&self) -> Result<Plan, Error> {
        if self.second.given().is_empty() {
            return self.plan.plan(self.target.receiver());
        }
        if self.plan.receiver.is_some() {
            return Err(Error::impossible(
                "--receiver is for packets that stay in the guest, and with --through they leave it; leave one of them \
                 out",
            ));
        }
        let plan = self.plan.plan(Receiver::SecondCard)?;
        let unplugged = |fault: &Fault| matches!(fault.kind, FaultKind::DeviceUnplugged { .. });
        match plan.faults.iter().any(unplugged) {
            false => Ok(plan),
            true => Err(Error::impossible(
                "--fault device-unplugged makes a new interface, which nothing is forwarded from; leave --through out",
            )),
        }
    }

    /// The target that is to be started; an error if there is none.
    pub(crate) fn prepared(&self) -> Result<Prepared, Error> {
        let how = (Usual::Packets, &self.time, self.plan.seed);
        Ok(self.target.prepare_with_second(&self.second, how)?)
    }

    /// Brings a session up, and has `injection` inject what the flags ask for.
    pub(crate) fn carry_out<R>(
        &self,
        watch: &mut Watch,
        injection: impl FnOnce(
            &mut Session,
            Ordered<'_>,
            &mut dyn FnMut(Progress<'_>),
        ) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let plan = self.asked()?;
        let application = Application::default().asked(self.socket_buffer, plan.receiver)?;
        let mut prepared = self.prepared()?;
        if plan.spacing() > Span::ZERO {
            prepared.defer_nothing();
        }
        let mut session = watch.start(&prepared, &self.wire)?;
        let order = Ordered { plan: &plan, application, run_id: run_id(&*session.target) };
        let made = injection(&mut session, order, &mut |progress| watch.tell(progress))?;
        session.stop()?;
        Ok(made)
    }
}
