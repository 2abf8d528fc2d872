//! Flags of a second card in the same guest, of experiments whose packets may be forwarded to it.

use clap::{Args, ValueEnum};
use warikomi_inject::Forwarding;
use warikomi_nic::NicOptions;
use warikomi_wire::WireKind;

use super::check::given;
use super::kernel::model_of;
use crate::error::SessionError;
use crate::options::SecondCard;

/// Whether the guest's kernel forwards packets to a second card.
#[derive(Args, Clone)]
#[command(next_help_heading = "A second card, with --target kernel")]
pub struct SecondArguments {
    /// Let the guest's kernel forward packets to a second card, and account for each at that card's wire: delivered is
    /// what leaves there once, unchanged but for what forwarding must change
    #[arg(long, value_enum, value_name = "HOW")]
    through: Option<ThroughName>,
    /// The driver of the second card, as Linux calls it [default: that of the first]
    #[arg(long, value_name = "DRIVER", requires = "through")]
    second_driver: Option<String>,
    /// The NIC model of the second card [default: one that its driver drives]
    #[arg(long, value_name = "MODEL", requires = "through")]
    second_model: Option<String>,
    /// What the second card is cabled to, as --wire [default: sink]
    #[arg(long, value_name = "WIRE", requires = "through")]
    second_wire: Option<WireKind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ThroughName {
    /// As an IP router: with other hardware addresses, and one hop less to live
    Route,
    /// As an Ethernet bridge, unchanged; wants a kernel made by `warikomi kernel build --more-drivers`, as drivers of
    /// further cards do
    Bridge,
    /// As an IP router over a bond of both cards (mode broadcast): what comes in at the first leaves by both; wants such
    /// a kernel, too
    Bond,
}

impl SecondArguments {
    /// The flags that were given.
    pub fn given(&self) -> Vec<&'static str> {
        given([
            ("--through", self.through.is_some()),
            ("--second-driver", self.second_driver.is_some()),
            ("--second-model", self.second_model.is_some()),
            ("--second-wire", self.second_wire.is_some()),
        ])
    }

    /// The card that is asked for beside one that `first` drives.
    pub(super) fn card(&self, first: &str) -> Result<Option<SecondCard>, SessionError> {
        let Some(through) = self.through else { return Ok(None) };
        let driver = self.second_driver.as_deref().unwrap_or(first);
        let model = self.second_model.as_deref().map_or_else(|| model_of(driver), Ok)?;
        Ok(Some(SecondCard {
            driver: driver.to_owned(),
            nic: NicOptions::of(model),
            wire: self.second_wire.clone().unwrap_or(WireKind::Sink),
            forwarding: match through {
                ThroughName::Route => Forwarding::Route,
                ThroughName::Bridge => Forwarding::Bridge,
                ThroughName::Bond => Forwarding::Bond,
            },
        }))
    }
}
