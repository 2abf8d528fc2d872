//! Flags of virtual time for a driver in a real kernel; of experiments that can have it.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use serde::Deserialize;
use serde::de::IgnoredAny;
use warikomi_clock::Span;
use warikomi_shared::read_text;
use warikomi_target::kernel::GuestCosts;

use super::check::given;
use crate::SessionError;

/// Faster or slower ones say nothing.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.001..=1_000.0;

/// Whether a kernel's time is virtual.
#[derive(Args)]
#[command(next_help_heading = "Virtual time, with --target kernel")]
pub struct VirtualFlag {
    /// Virtual time: the kernel's time is ours, so deadlines and intervals are exact on any machine, and one seed is
    /// one history; what the kernel does takes what is declared, and nothing else does. Wants a kernel made by
    /// `warikomi kernel build --virtual`
    #[arg(long = "virtual")]
    pub virtual_time: bool,
}

/// Whether a kernel's time is virtual, and what its work costs then.
#[derive(Args)]
pub struct VirtualArguments {
    #[command(flatten)]
    flag: VirtualFlag,
    #[command(flatten)]
    costs: CostArguments,
    /// Costs as `warikomi calibrate` prints them, in its section `[kernel]` [default: all 0]
    #[arg(long = "costs", value_name = "FILE", requires = "virtual_time", value_hint = ValueHint::FilePath)]
    costs_file: Option<PathBuf>,
}

impl VirtualArguments {
    /// What work costs, if time is virtual.
    pub(super) fn costs(&self) -> Result<Option<GuestCosts>, SessionError> {
        let costs = || self.costs.over(self.costs_file.as_deref());
        self.flag.virtual_time.then(costs).transpose()
    }
}

/// What a kernel's work costs in virtual time.
#[derive(Args)]
#[command(next_help_heading = "Virtual time, with --target kernel")]
pub struct CostArguments {
    /// What a register access of the driver takes in virtual time [default: 0]
    #[arg(long, value_name = "TIME", requires = "virtual_time")]
    access_cost: Option<Span>,
    /// What an interrupt takes until its handler runs, besides the handler's accesses [default: 0]
    #[arg(long, value_name = "TIME", requires = "virtual_time")]
    interrupt_cost: Option<Span>,
    /// What a frame takes that the driver takes from its ring, or a descriptor that it has had sent, with all that is
    /// done with it; charged at the driver's next access [default: 0]
    #[arg(long, value_name = "TIME", requires = "virtual_time")]
    frame_cost: Option<Span>,
    /// What each byte takes that the card has copied to or from memory, such as 150ps: copying it again, for
    /// instance; charged at the driver's next access [default: 0]
    #[arg(long, value_name = "TIME", requires = "virtual_time")]
    byte_cost: Option<Span>,
    /// What if the processor were this many times as fast: divides what interrupts, frames and bytes take
    /// [default: 1]
    #[arg(long, value_name = "FACTOR", requires = "virtual_time", value_parser = speed)]
    cpu_speed: Option<f64>,
}

impl CostArguments {
    /// The flags that were given.
    pub fn given(&self) -> Vec<&'static str> {
        given([
            ("--access-cost", self.access_cost.is_some()),
            ("--interrupt-cost", self.interrupt_cost.is_some()),
            ("--frame-cost", self.frame_cost.is_some()),
            ("--byte-cost", self.byte_cost.is_some()),
            ("--cpu-speed", self.cpu_speed.is_some()),
        ])
    }

    /// What work costs: what these flags say, and for the rest the file.
    pub fn over(&self, file: Option<&Path>) -> Result<GuestCosts, SessionError> {
        let declared = file.map(read).transpose()?.unwrap_or_default();
        let costs = GuestCosts {
            access: self.access_cost.unwrap_or(declared.access),
            interrupt: self.interrupt_cost.unwrap_or(declared.interrupt),
            frame: self.frame_cost.unwrap_or(declared.frame),
            byte: self.byte_cost.unwrap_or(declared.byte),
        };
        Ok(costs.with_speed(self.cpu_speed.unwrap_or(1.0)))
    }
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok().filter(|speed| SPEEDS.contains(speed));
    speed.ok_or_else(|| format!("a factor such as 2 or 0.5 is expected, {SPEEDS:?}"))
}

/// The longest file of costs that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// A file of costs; its other sections are for driver processes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    kernel: GuestCosts,
    #[serde(rename = "costs")]
    _costs: Option<IgnoredAny>,
    #[serde(rename = "send")]
    _send: Option<IgnoredAny>,
}

fn read(path: &Path) -> Result<GuestCosts, SessionError> {
    let cannot = |what: &str| {
        SessionError::impossible(format!(
            "cannot use {} as costs of a kernel: {what}; `warikomi calibrate` prints such a file",
            path.display()
        ))
    };
    let text = std::fs::File::open(path).and_then(|file| read_text(file, MAX_BYTES));
    let text = text.map_err(|error| cannot(&error.to_string()))?;
    let file: File = toml::from_str(&text).map_err(|error| cannot(error.message()))?;
    Ok(file.kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> CostArguments {
        CostArguments {
            access_cost: None,
            interrupt_cost: None,
            frame_cost: None,
            byte_cost: None,
            cpu_speed: None,
        }
    }

    #[test]
    fn what_flags_say_comes_before_the_file_and_the_processor_before_neither() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "[costs]\n[kernel]\naccess_ns = 7\nframe_ns = 100\n").unwrap();
        let asked = CostArguments { access_cost: Some(Span::ZERO), cpu_speed: Some(2.0), ..none() };
        let costs = asked.over(Some(file.path())).unwrap();
        assert_eq!((costs.access, costs.frame), (Span::ZERO, Span::from_ns(50)));
        assert_eq!(none().over(None).unwrap(), GuestCosts::default());
    }

    #[test]
    fn a_file_without_an_end_is_refused() {
        let error = none().over(Some(Path::new("/dev/zero"))).unwrap_err().to_string();
        assert!(error.contains("more than 1048576 bytes"), "{error}");
    }

    #[test]
    fn a_file_without_a_kernels_costs_is_refused_with_where_to_get_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for text in ["[costs]\n", "[kernel]\nacess_ns = 1\n", "[kernel]\n[sent]\n", "kernel"] {
            std::fs::write(&file, text).unwrap();
            let error = none().over(Some(file.path())).unwrap_err().to_string();
            assert!(error.contains("warikomi calibrate"), "{error}");
        }
        assert!(none().over(Some(Path::new("/nonexistent"))).is_err());
    }

    #[test]
    fn a_speed_is_a_number_above_nothing() {
        assert_eq!(speed("0.5"), Ok(0.5));
        assert!(["0", "-1", "NaN", "fast", "1e9"].iter().all(|text| speed(text).is_err()));
    }
}
