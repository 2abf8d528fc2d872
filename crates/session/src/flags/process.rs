//! Flags of a driver in a process of its own.

use clap::{Args, ValueEnum};
use serde_json::{Map, Value};
use warikomi_clock::Span;
use warikomi_driver::strategy::{CpuBudget, Strategy};
use warikomi_nic::NicOptions;
use warikomi_process::{Orders, Program};
use warikomi_stack::{Topology, Waiting};

use super::check::given;
use crate::error::SessionError;
use crate::options::{OwnParts, PacketPath, ProcessSessionOptions};

/// DMA memory of a driver process, in bytes, unless its buffers need more.
const DMA_BYTES: u64 = 32 << 20;
/// What its rings need of it, at most.
const RINGS_BYTES: u64 = 1 << 20;
/// Receive buffers that may be asked for, and their length in bytes.
const MAX_BUFFERS: u64 = 1_024;
const MAX_BUFFER_BYTES: u64 = 16_383;

/// How stack and application wait: asleep, because they share the driver's core.
const PATH_WAITING: Waiting = Waiting::Wait;

#[derive(Args, Clone)]
#[command(next_help_heading = "With --target process")]
pub(super) struct ProcessArguments {
    /// When the driver looks at its ring and when it sleeps: interrupt, poll, napi, hybrid, auto or awake;
    /// a parameter may follow, as in hybrid:140us [default: napi; of accuracy: awake]
    #[arg(long)]
    strategy: Option<Strategy>,
    /// hybrid: how long to poll after the last packet [default: 100us]
    #[arg(long, value_name = "TIME")]
    poll_time: Option<Span>,
    /// auto: the share of a processor that receiving may take [default: 25%]
    #[arg(long, value_name = "SHARE")]
    pub(super) cpu_budget: Option<CpuBudget>,
    /// napi: packets taken before others may run [default: 64]
    #[arg(long, value_name = "N")]
    budget: Option<usize>,
    /// What packets go through above the driver; its processes share the driver's core [default: stack; of receive and
    /// round-trip: direct; of accuracy, and of a program of your own: driver]
    #[arg(long, value_enum)]
    pub(super) path: Option<PathName>,
    /// Receive buffers on the ring [default: as many as the driver likes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_BUFFERS))]
    ring_buffers: Option<u64>,
    /// Bytes of each [default: what the driver likes]
    #[arg(long, value_name = "BYTES",
        value_parser = clap::value_parser!(u64).range(64..=MAX_BUFFER_BYTES))]
    ring_buffer_bytes: Option<u64>,
}

impl ProcessArguments {
    /// The flags that were given.
    pub(super) fn given(&self) -> Vec<&'static str> {
        given([
            ("--strategy", self.strategy.is_some()),
            ("--poll-time", self.poll_time.is_some()),
            ("--cpu-budget", self.cpu_budget.is_some()),
            ("--budget", self.budget.is_some()),
            ("--path", self.path.is_some()),
            ("--ring-buffers", self.ring_buffers.is_some()),
            ("--ring-buffer-bytes", self.ring_buffer_bytes.is_some()),
        ])
    }

    /// What to bring up.
    pub(super) fn options(
        &self,
        driver: &str,
        model: Option<&str>,
        path: PathName,
        usual: Option<Strategy>,
    ) -> Result<ProcessSessionOptions, SessionError> {
        let orders = match usual {
            Some(usual) => self.orders(usual)?,
            None => Orders::default(),
        };
        let mut settings = Map::new();
        settings.insert("strategy".into(), Value::String(orders.strategy.to_string()));
        for (name, value) in [("buffers", orders.buffers), ("buffer_bytes", orders.buffer_bytes)] {
            if value != 0 {
                settings.insert(name.into(), value.into());
            }
        }
        let program = program(driver)?;
        // Drivers of ours are called like the models that they drive; another may drive any.
        let mut models = warikomi_nic::MODELS.iter().map(|info| info.name);
        let same_name = models.clone().find(|name| *name == driver).or(models.next());
        Ok(ProcessSessionOptions {
            driver: driver.to_owned(),
            program,
            nic: NicOptions::of(model.or(same_name).unwrap_or(driver)),
            make_nic: warikomi_nic::build,
            orders,
            settings,
            dma_bytes: dma_bytes(&orders),
            path: PacketPath {
                topology: path.topology(),
                waiting: PATH_WAITING,
                copy_out: false,
                tcp_port: None,
                program: OwnParts::OURSELVES.above,
            },
            application: None,
            confined: true,
        })
    }

    fn orders(&self, usual: Strategy) -> Result<Orders, SessionError> {
        let mut strategy = self.strategy.unwrap_or(usual);
        let refused = |flag: &'static str| {
            move |error: warikomi_driver::strategy::ParseStrategyError| {
                SessionError::impossible(format!("{flag}: {error}"))
            }
        };
        if let Some(poll_time) = self.poll_time {
            strategy = strategy.with_poll_time(poll_time).map_err(refused("--poll-time"))?;
        }
        if let Some(cpu_budget) = self.cpu_budget {
            strategy = strategy.with_cpu_budget(cpu_budget).map_err(refused("--cpu-budget"))?;
        }
        if let Some(budget) = self.budget {
            strategy = strategy.with_budget(budget).map_err(refused("--budget"))?;
        }
        let (buffers, buffer_bytes) =
            (self.ring_buffers.unwrap_or_default(), self.ring_buffer_bytes.unwrap_or_default());
        Ok(Orders { strategy, buffers, buffer_bytes })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PathName {
    /// Nothing: the driver counts frames and gives their buffers back
    Driver,
    /// An application in the driver's own process: a user-level network interface
    Direct,
    /// An application in a process of its own
    Application,
    /// A stack (UDP, TCP/IP) and an application, each in a process of its own
    Stack,
}

impl PathName {
    fn topology(self) -> Topology {
        match self {
            PathName::Driver => Topology::DriverAlone,
            PathName::Direct => Topology::Direct,
            PathName::Application => Topology::Application,
            PathName::Stack => Topology::Stack,
        }
    }
}

/// What runs a driver that is one of ours by its name, or a program by its path.
pub fn program(driver: &str) -> Result<Program, SessionError> {
    // A name has no slash; a path can always be written with one.
    if driver.contains('/') {
        return Ok(Program { path: driver.into(), ..Program::default() });
    }
    let known: Vec<_> = warikomi_driver::DRIVERS.iter().map(|info| info.name).collect();
    if !known.contains(&driver) {
        return Err(SessionError::impossible(format!(
            "there is no driver '{driver}' that runs in a process; there are: {}; a program of your own \
             is given by its path, such as ./{driver}",
            known.join(", ")
        )));
    }
    Ok((OwnParts::OURSELVES.driver)(driver))
}

/// DMA memory for the rings, and for so many buffers.
pub(super) fn dma_bytes(orders: &Orders) -> u64 {
    let each = match orders.buffer_bytes {
        0 => MAX_BUFFER_BYTES + 1,
        bytes => bytes,
    };
    (RINGS_BYTES + orders.buffers * each).next_multiple_of(1 << 12).max(DMA_BYTES)
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};

    use super::*;

    fn parsed(flags: &[&str]) -> ProcessArguments {
        let command = ProcessArguments::augment_args(Command::new("test").no_binary_name(true));
        ProcessArguments::from_arg_matches(&command.get_matches_from(flags)).unwrap()
    }

    #[test]
    fn a_budget_of_the_processor_is_for_auto_and_where_several_ways_are_tried_for_none_in_particular()
     {
        let arguments = parsed(&["--cpu-budget", "10%"]);
        let prepared = |usual| arguments.options("rtl8168", None, PathName::Direct, usual);
        let napi = Strategy::Napi { budget: 64 };
        let refused = prepared(Some(napi)).unwrap_err().to_string();
        assert!(refused.contains("--cpu-budget"), "{refused}");
        assert_eq!(prepared(None).unwrap().orders, Orders::default());
        let of_auto = parsed(&["--strategy", "auto", "--cpu-budget", "10%"]);
        let orders = of_auto.options("rtl8168", None, PathName::Direct, Some(napi)).unwrap().orders;
        let Strategy::Auto { cpu_budget } = orders.strategy else { panic!("{orders:?}") };
        assert_eq!(cpu_budget.share(), 0.1);
    }
}
