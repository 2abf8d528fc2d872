//! Strategies as text: `poll`, `napi:64`, `hybrid:140us`, `auto:25%`.

use std::fmt;
use std::str::FromStr;

use warikomi_clock::{ParseSpanError, Span};

use super::{CpuBudget, Strategy};

/// Why a text is no strategy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseStrategyError {
    /// No strategy has this name.
    #[error(
        "'{0}' is no receive strategy; there are interrupt, poll, napi, hybrid, auto and awake"
    )]
    Unknown(String),
    /// A parameter for a strategy that has another, or none.
    #[error("{strategy} takes no {parameter}")]
    Unfitting {
        /// The strategy.
        strategy: &'static str,
        /// The parameter.
        parameter: &'static str,
    },
    /// The budget is out of range or no number.
    #[error("'{0}' is no budget; write a number of packets from 1 to 65536, such as 64")]
    Budget(String),
    /// A poll time that is none.
    #[error("poll time: {0}")]
    PollTime(#[from] ParseSpanError),
    /// A processor budget that is none.
    #[error("'{0}' is no processor budget; write a share above 0% and up to 100%, such as 25%")]
    CpuBudget(String),
}

const MOST_BUDGET: usize = 65_536;

impl Strategy {
    /// With another budget of packets.
    pub fn with_budget(self, packets: usize) -> Result<Strategy, ParseStrategyError> {
        if packets == 0 || packets > MOST_BUDGET {
            return Err(ParseStrategyError::Budget(packets.to_string()));
        }
        match self {
            Strategy::Napi { .. } => Ok(Strategy::Napi { budget: packets }),
            _ => Err(self.unfitting("budget of packets")),
        }
    }

    /// With another poll time.
    pub fn with_poll_time(self, poll_time: Span) -> Result<Strategy, ParseStrategyError> {
        match self {
            Strategy::Hybrid { .. } => Ok(Strategy::Hybrid { poll_time }),
            _ => Err(self.unfitting("poll time")),
        }
    }

    /// With another budget of processor time.
    pub fn with_cpu_budget(self, cpu_budget: CpuBudget) -> Result<Strategy, ParseStrategyError> {
        match self {
            Strategy::Auto { .. } => Ok(Strategy::Auto { cpu_budget }),
            _ => Err(self.unfitting("processor budget")),
        }
    }

    fn unfitting(self, parameter: &'static str) -> ParseStrategyError {
        ParseStrategyError::Unfitting { strategy: self.name(), parameter }
    }
}

impl FromStr for Strategy {
    type Err = ParseStrategyError;

    /// Reads a name, and behind a colon its parameter.
    fn from_str(text: &str) -> Result<Strategy, ParseStrategyError> {
        let (name, parameter) = match text.trim().split_once(':') {
            Some((name, parameter)) => (name, Some(parameter)),
            None => (text.trim(), None),
        };
        let strategy = Strategy::ALL
            .into_iter()
            .find(|strategy| strategy.name() == name)
            .ok_or_else(|| ParseStrategyError::Unknown(name.to_owned()))?;
        let Some(parameter) = parameter else { return Ok(strategy) };
        match strategy {
            Strategy::Napi { .. } => {
                let bad = |_| ParseStrategyError::Budget(parameter.to_owned());
                strategy.with_budget(parameter.parse().map_err(bad)?)
            }
            Strategy::Hybrid { .. } => strategy.with_poll_time(parameter.parse()?),
            Strategy::Auto { .. } => strategy.with_cpu_budget(parameter.parse()?),
            Strategy::Interrupt | Strategy::Poll | Strategy::Awake => {
                Err(strategy.unfitting("parameter"))
            }
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Strategy::Interrupt | Strategy::Poll | Strategy::Awake => Ok(()),
            Strategy::Napi { budget } => write!(f, ":{budget}"),
            Strategy::Hybrid { poll_time } => write!(f, ":{}", poll_time.exact()),
            Strategy::Auto { cpu_budget } => write!(f, ":{cpu_budget}"),
        }
    }
}

impl FromStr for CpuBudget {
    type Err = ParseStrategyError;

    /// Reads `25%`.
    fn from_str(text: &str) -> Result<CpuBudget, ParseStrategyError> {
        let bad = || ParseStrategyError::CpuBudget(text.to_owned());
        let percent = text.trim().strip_suffix('%').ok_or_else(bad)?;
        let percent: f64 = percent.trim().parse().map_err(|_| bad())?;
        let ppm = (percent * 1e4).round();
        if (1.0..=1e6).contains(&ppm) { Ok(CpuBudget(ppm as u32)) } else { Err(bad()) }
    }
}

impl fmt::Display for CpuBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.share() * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert_eq, proptest};

    #[test]
    fn reads_names_with_and_without_a_parameter() {
        assert_eq!("poll".parse(), Ok(Strategy::Poll));
        assert_eq!("napi:300".parse(), Ok(Strategy::Napi { budget: 300 }));
        let poll_time = Span::from_us(140);
        assert_eq!("hybrid:140us".parse(), Ok(Strategy::Hybrid { poll_time }));
        let cpu_budget = CpuBudget::from_ppm(125_000);
        assert_eq!(" auto:12.5% ".parse(), Ok(Strategy::Auto { cpu_budget }));
    }

    #[test]
    fn refuses_the_rest_and_says_why() {
        let error = |text: &str| text.parse::<Strategy>().unwrap_err().to_string();
        assert!(error("pol").starts_with("'pol' is no receive strategy"));
        assert_eq!(error("poll:3us"), "poll takes no parameter");
        assert!(error("napi:0").contains("from 1 to 65536"));
        assert!(error("hybrid:3").contains("no unit"));
        assert!(error("auto:0%").contains("above 0%"));
        assert!(error("auto:101%").contains("up to 100%"));
        let poll = Strategy::Poll.with_poll_time(Span::from_us(1)).unwrap_err();
        assert_eq!(poll.to_string(), "poll takes no poll time");
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_and_what_is_saved_is_loaded(kind in 0usize..5, budget in 1usize..65_536, poll_ns in 0u64..1_000_000, ppm in 1u32..=1_000_000) {
            let strategy = match Strategy::ALL[kind] {
                Strategy::Napi { .. } => Strategy::Napi { budget },
                Strategy::Hybrid { .. } => Strategy::Hybrid { poll_time: Span::from_ns(poll_ns) },
                Strategy::Auto { .. } => Strategy::Auto { cpu_budget: CpuBudget::from_ppm(ppm) },
                plain => plain,
            };
            prop_assert_eq!(strategy.to_string().parse(), Ok(strategy));
            let saved = serde_json::to_string(&strategy).unwrap();
            prop_assert_eq!(serde_json::from_str::<Strategy>(&saved).unwrap(), strategy);
        }

        #[test]
        fn never_panics_on_any_text(text in ".*", parameter in ".*") {
            let _ = text.parse::<Strategy>();
            for strategy in Strategy::ALL {
                let _ = format!("{}:{parameter}", strategy.name()).parse::<Strategy>();
            }
        }
    }
}
