//! Flags that say how the card is attached.

use clap::Args;
use warikomi_inject::LineRate;
use warikomi_nic::NicOptions;
use warikomi_nic::bus::Bus;
use warikomi_session::flags::given;

#[derive(Args)]
#[command(next_help_heading = "Card")]
pub(super) struct CardArguments {
    /// Cards that are compared with each other, with commas: oc48, oc192 (packet over SONET), ge10 (10 Gigabit
    /// Ethernet), rtl8168. Each is driven by the driver of its name, and sends everything
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(super) cards: Vec<String>,
    /// The bus: a name (pci-64-66, pcix-133, pcie1-x1 to pcie5-x16, as their documents have them; fitted-2004, as
    /// published results have it), then what differs from it, as in
    /// pci-64-66,arbitration=800ns,wait=60ns,burst=512,fetch=600ns,mapping=200ns,rate=400MB
    /// [default: of oc48 pci-64-66; of oc192 and ge10 pcix-133; of rtl8168 one that takes no time]
    #[arg(long, value_name = "BUS")]
    pub(super) bus: Option<Bus>,
    /// The line that frames leave on, such as 10G [default: of oc48 2.4G; of oc192
    /// 9.6G; of ge10 10G; of rtl8168 one that takes no time]
    #[arg(long, value_name = "RATE")]
    line_rate: Option<LineRate>,
    /// The card's DMA begins at multiples of this number of bytes, 1 to 64: the driver copies the rest, as cards of 2004
    /// forced it to; with --bounces without auto [default: 1; a kernel's driver copies for itself]
    #[arg(long, value_name = "BYTES")]
    alignment: Option<u32>,
}

impl CardArguments {
    /// Flags that were given and mean nothing to a kernel.
    pub(super) fn of_process(&self) -> Vec<&'static str> {
        given([("--cards", !self.cards.is_empty()), ("--alignment", self.alignment.is_some())])
    }

    pub(super) fn alignment_bytes(&self) -> u32 {
        self.alignment.unwrap_or(1)
    }

    pub(super) fn line_rate_bps(&self) -> Option<u64> {
        self.line_rate.map(|rate| rate.0)
    }

    /// This card on the bus and the line that were asked for.
    pub(super) fn attach(&self, nic: NicOptions) -> NicOptions {
        NicOptions { bus: self.bus, line_rate_bps: self.line_rate_bps(), ..nic }
    }
}
