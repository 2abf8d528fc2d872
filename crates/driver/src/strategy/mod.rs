//! When to look at the ring, and when to sleep.
//!
//! A [`Strategy`] is a choice with its parameters; a [`Receiver`] carries it out. It is a state machine
//! that is told the time and what each look at the ring has found, and says what comes next, so the
//! same code runs in a process of its own and in virtual time.

mod auto;
mod receiver;
mod text;

use serde::{Deserialize, Serialize};
use warikomi_clock::Span;
use warikomi_pci::attach::layout::strategy as codes;

pub use receiver::{Next, Receiver};
pub use text::ParseStrategyError;

/// A strategy to receive: when to look at the ring, and when to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase")]
pub enum Strategy {
    /// An interrupt, then all packets that are there, then sleep.
    Interrupt,
    /// Never sleep.
    Poll,
    /// An interrupt, then looks at the ring until one finds less than the budget.
    Napi {
        /// Packets that one look takes at most; others may run between two.
        budget: usize,
    },
    /// Look for a time after the last packet, then sleep until an interrupt.
    Hybrid {
        /// This long.
        poll_time: Span,
    },
    /// Hybrid, with the time that suits the arrivals and a budget of processor time.
    Auto {
        /// The share of a processor that receiving may take.
        cpu_budget: CpuBudget,
    },
    /// An interrupt for each packet, taken by a driver that never sleeps: for looking at interrupts
    /// without what a wake-up adds to them.
    Awake,
}

/// A share of a processor, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CpuBudget(u32);

impl CpuBudget {
    /// So many millionths, a whole processor at most.
    pub fn from_ppm(ppm: u32) -> CpuBudget {
        CpuBudget(ppm.min(1_000_000))
    }

    /// The budget in millionths of a processor.
    pub fn ppm(self) -> u32 {
        self.0
    }

    /// The budget as a share of a processor, 0 to 1.
    pub fn share(self) -> f64 {
        f64::from(self.0) / 1e6
    }
}

/// Packets that one look at the ring takes, unless something else is asked for: what Linux's NAPI
/// takes (NAPI_POLL_WEIGHT in include/linux/netdevice.h).
pub const DEFAULT_BUDGET: usize = 64;
/// The shortest of the published poll times.
pub const DEFAULT_POLL_TIME: Span = Span::from_us(100);
/// The lowest of the published uses of the processor.
pub const DEFAULT_CPU_BUDGET: CpuBudget = CpuBudget(250_000);

/// A poll time that is as good as for ever: an hour.
const MOST_POLL_NS: u64 = 3_600_000_000_000;

impl Strategy {
    /// Every strategy, with the parameters that it has when nothing else is asked for.
    pub const ALL: [Strategy; 6] = [
        Strategy::Interrupt,
        Strategy::Poll,
        Strategy::Napi { budget: DEFAULT_BUDGET },
        Strategy::Hybrid { poll_time: DEFAULT_POLL_TIME },
        Strategy::Auto { cpu_budget: DEFAULT_CPU_BUDGET },
        Strategy::Awake,
    ];

    /// The strategy's name without its parameters.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::Interrupt => "interrupt",
            Strategy::Poll => "poll",
            Strategy::Napi { .. } => "napi",
            Strategy::Hybrid { .. } => "hybrid",
            Strategy::Auto { .. } => "auto",
            Strategy::Awake => "awake",
        }
    }

    /// As it stands in the orders page: code, poll time in nanoseconds, budget, processor budget in
    /// millionths.
    pub fn to_orders(self) -> [u64; 4] {
        match self {
            Strategy::Interrupt => [codes::INTERRUPT, 0, 0, 0],
            Strategy::Poll => [codes::POLL, 0, 0, 0],
            Strategy::Napi { budget } => [codes::NAPI, 0, budget as u64, 0],
            Strategy::Hybrid { poll_time } => [codes::HYBRID, poll_time.as_ps() / 1_000, 0, 0],
            Strategy::Auto { cpu_budget } => [codes::AUTO, 0, 0, cpu_budget.ppm().into()],
            Strategy::Awake => [codes::AWAKE, 0, 0, 0],
        }
    }

    /// What the orders page says; `None` if that is no strategy.
    pub fn from_orders([code, poll_ns, budget, ppm]: [u64; 4]) -> Option<Strategy> {
        Some(match code {
            codes::INTERRUPT => Strategy::Interrupt,
            codes::POLL => Strategy::Poll,
            codes::NAPI if budget == 0 => Strategy::Napi { budget: DEFAULT_BUDGET },
            codes::NAPI => Strategy::Napi { budget: usize::try_from(budget).ok()? },
            codes::HYBRID => {
                Strategy::Hybrid { poll_time: Span::from_ns(poll_ns.min(MOST_POLL_NS)) }
            }
            codes::AUTO => {
                let ppm = u32::try_from(ppm).ok()?;
                Strategy::Auto { cpu_budget: CpuBudget::from_ppm(ppm) }
            }
            codes::AWAKE => Strategy::Awake,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn any_orders_are_a_strategy_or_none(code in 0u64..7, words: [u64; 3]) {
            let orders = [code, words[0], words[1], words[2]];
            match Strategy::from_orders(orders) {
                Some(strategy) => {
                    prop_assert_eq!(Strategy::from_orders(strategy.to_orders()), Some(strategy));
                }
                None => prop_assert!(code > 5 || words[2] > u64::from(u32::MAX)),
            }
        }
    }
}
