//! `warikomi at`.

use clap::Args;
use warikomi_measure::RunResult;
use warikomi_session::{CoreWatch, Prepared, TargetArguments, VirtualFlag};

use super::columns;
use crate::error::Error;
use crate::experiment::{Conclusion, Experiment};
use crate::inject::time_base;
use crate::strike::{
    Attempt, Check, Condition, KernelCode, Operation, Scene, StrikePlace, Striking, Trial, checks,
    condition_help, operation_help, resolve, striking_help,
};
use crate::watch::Watch;

/// Stops the unmodified driver in a real kernel when it reaches a place, delivers a packet with its interrupt
/// there (or what --deliver says), lets it go on, and says what came of it: whether each packet was answered, what the kernel reports, and
/// where the handler ran, with the stacks at both. Where the kernel has interrupts off, the interrupt waits, as on
/// hardware.
///
/// Lines and stacks need a kernel with debug information: `warikomi kernel build --debug`.
///
/// Examples: warikomi at rtl_rx+0x1c, warikomi at r8169_main.c:4542, warikomi at 'read IntrStatus',
/// warikomi at rtl8169_close --operation 'ip link set eth0 down', warikomi at rtl8169_poll --if mask=open
#[derive(Args)]
pub struct At {
    /// A function (rtl_rx), a function and an offset in bytes (rtl_rx+0x1c), a line (r8169_main.c:4542), a name that
    /// the driver's source gives (here:NAME, by include/warikomi_here.h), or a register access (read IntrStatus,
    /// write 0x3c, or any access, with --nth)
    #[arg(value_name = "PLACE")]
    place: StrikePlace,
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    time: VirtualFlag,
    /// Strike a second time, at this place, the next time that it is reached behind the first
    #[arg(long, value_name = "PLACE")]
    then: Option<StrikePlace>,
    /// Only where this holds; of several, all of them. --nth counts the times that it does
    #[arg(long = "if", value_name = "CONDITION", long_help = condition_help())]
    conditions: Vec<Condition>,
    /// Strike when the place is reached for the Nth time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    nth: u64,
    /// What strikes
    #[arg(long, value_name = "WHAT", default_value_t = Striking::Packet, long_help = striking_help())]
    deliver: Striking,
    /// What the driver is made to do
    #[arg(long, value_name = "OPERATION", default_value = "ping", long_help = operation_help())]
    operation: Operation,
    /// Times that it is tried
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    count: u64,
}

impl Experiment for At {
    const NAME: &'static str = "at";
    const ABOUT: &'static str = "Deliver an interrupt when the driver reaches a place in its code";

    fn run(&self, watch: &mut Watch) -> Result<Conclusion, Error> {
        let Tried { trials, scene, cores } = self.carry_out(watch)?;
        let machine = scene.session.machine_since(&cores);
        let mut result = RunResult::new(Self::NAME, time_base(&scene.session), machine);
        result.target = scene.session.info.clone();
        columns::fill(&mut result, &trials);
        Ok(Conclusion::new(result))
    }

    fn describe(result: &mut RunResult) {
        columns::describe(result);
    }
}

/// What came of it, and the target as it is then.
pub(crate) struct Tried {
    pub(crate) trials: Vec<Trial>,
    pub(crate) scene: Scene,
    cores: CoreWatch,
}

impl At {
    /// An error if what is asked for cannot be.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.deliver.check(self.operation)?;
        self.operation.check(self.time.virtual_time)?;
        self.deliver.check_then(self.then.is_some())
    }

    /// The target that is to be started; an error if there is none.
    pub(crate) fn prepared(&self) -> Result<Prepared, Error> {
        self.check()?;
        Ok(self.target.prepare_to_debug(&self.time)?)
    }

    /// Strikes as often as the flags ask for.
    pub(crate) fn carry_out(&self, watch: &mut Watch) -> Result<Tried, Error> {
        let prepared = self.prepared()?;
        let conditions = checks(&self.conditions, &prepared)?;
        let mut kernel = KernelCode::default();
        let mut scene = Scene::start(watch, &prepared, &mut kernel)?;
        let cores = scene.session.watch_cores();
        let mut attempt = self.attempt(&mut scene, &conditions)?;
        let mut trials = Vec::new();
        for number in 0..self.count {
            watch.progress(number, self.count, &self.place.to_string());
            let trial = scene.attempt(&attempt)?;
            let spoilt = trial.spoils_the_target();
            trials.push(trial);
            if spoilt && number + 1 < self.count {
                scene = Scene::start(watch, &prepared, &mut kernel)?;
                // Each kernel loads the driver to another address.
                attempt = self.attempt(&mut scene, &conditions)?;
            }
        }
        Ok(Tried { trials, scene, cores })
    }

    /// What is tried, in this kernel.
    fn attempt(&self, scene: &mut Scene, conditions: &[Check]) -> Result<Attempt, Error> {
        let mut place =
            |place: &StrikePlace| resolve(&scene.program, &mut *scene.session.target, place);
        Ok(Attempt {
            place: place(&self.place)?,
            then: self.then.as_ref().map(&mut place).transpose()?,
            nth: self.nth,
            conditions: conditions.to_vec(),
            operation: self.operation,
            striking: self.deliver.clone(),
        })
    }
}
