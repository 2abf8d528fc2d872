//! Which NIC, and what is set about it.

use crate::bus::{Bus, ParseBusError};
use crate::descriptor_fifo::{Card, DescriptorFifo};
use crate::rtl8139::{Chip, Rtl8139};
use crate::{MODELS, Nic, NicFunction, e1000e, igb, rtl8168};
use warikomi_wire::HEADER_BYTES;
use warikomi_wire::Wire;

/// Which NIC, and what is set about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicOptions {
    /// The model's name.
    pub model: String,
    /// The bus that its transfers take; `None` for what the model has: cards with a FIFO of descriptors have
    /// [one](crate::descriptor_fifo::Card); transfers of the others take no time and are done within the register write that starts them.
    pub bus: Option<Bus>,
    /// Bits that its line carries in a second, a million to 10¹²; `None` for what the model has.
    pub line_rate_bps: Option<u64>,
    /// The longest IP packet in bytes; `None` for what the model has.
    pub mtu: Option<u32>,
    /// Whether it names the steps that a driver must not take ([`crate::strict`]).
    pub strict: bool,
}

impl NicOptions {
    /// The model as it is.
    pub fn of(model: &str) -> NicOptions {
        NicOptions {
            model: model.to_owned(),
            bus: None,
            line_rate_bps: None,
            mtu: None,
            strict: false,
        }
    }
}

/// Why there is no such NIC.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NicError {
    /// No model of that name.
    #[error("there is no NIC model '{name}'; there are: {}", names())]
    UnknownModel {
        /// The name.
        name: String,
    },
    /// A bus that is not possible.
    #[error(transparent)]
    Bus(#[from] ParseBusError),
    /// A value is out of range.
    #[error("{what} of {got} {unit} is not possible for the NIC: from {least} to {most}")]
    Range {
        /// Name of the value.
        what: &'static str,
        /// The value that was given.
        got: u64,
        /// Unit of the value.
        unit: &'static str,
        /// The least that is possible.
        least: u64,
        /// The most.
        most: u64,
    },
}

fn names() -> String {
    MODELS.iter().map(|model| model.name).collect::<Vec<_>>().join(", ")
}

const LINE_RATES_BPS: [u64; 2] = [1_000_000, 1_000_000_000_000];
/// What every host must be able to take in one piece (RFC 791, 3.2).
const LEAST_MTU: u64 = 68;

/// What makes a NIC of its options: [`build`], or something that knows other models as well.
pub type MakeNic = fn(&NicOptions, Box<dyn Wire>) -> Result<Box<dyn Nic>, NicError>;

/// Makes the NIC, cabled to `wire`.
pub fn build(options: &NicOptions, wire: Box<dyn Wire>) -> Result<Box<dyn Nic>, NicError> {
    let NicOptions { model, bus, line_rate_bps, mtu, strict } = options;
    let info = MODELS.iter().find(|info| info.name == model);
    let info = info.ok_or_else(|| NicError::UnknownModel { name: model.clone() })?;
    if let Some(bus) = bus {
        bus.check()?;
    }
    if let Some(bps) = *line_rate_bps {
        within("a line rate", bps, "bit/s", LINE_RATES_BPS)?;
    }
    if let Some(mtu) = *mtu {
        let most = info.max_frame_bytes - HEADER_BYTES;
        within("an MTU", mtu.into(), "bytes", [LEAST_MTU, most as u64])?;
    }
    if let Some(card) = Card::named(info.name) {
        let bus = bus.or(card.usual_bus().map(|preset| preset.bus));
        let chip = DescriptorFifo::new(card, bus, *line_rate_bps, *mtu);
        return Ok(Box::new(NicFunction::new(chip, wire).made_strict(*strict)));
    }
    if let Some(chip) = Chip::named(info.name) {
        let chip = Rtl8139::with(chip, *bus, *line_rate_bps, *mtu);
        return Ok(Box::new(NicFunction::new(chip, wire).made_strict(*strict)));
    }
    if info.name == e1000e::INFO.name {
        let chip = e1000e::E1000e::with(*bus, *line_rate_bps, *mtu);
        return Ok(Box::new(NicFunction::new(chip, wire).made_strict(*strict)));
    }
    if info.name == igb::INFO.name {
        let chip = igb::Igb::with(*bus, *line_rate_bps, *mtu);
        return Ok(Box::new(NicFunction::new(chip, wire).made_strict(*strict)));
    }
    let chip = rtl8168::Rtl8168::with(*bus, *line_rate_bps, *mtu);
    Ok(Box::new(NicFunction::new(chip, wire).made_strict(*strict)))
}

fn within(
    what: &'static str,
    got: u64,
    unit: &'static str,
    [least, most]: [u64; 2],
) -> Result<(), NicError> {
    let possible = (least..=most).contains(&got);
    possible.then_some(()).ok_or(NicError::Range { what, got, unit, least, most })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::Preset;
    use warikomi_wire::CountedSink;

    fn made(options: NicOptions) -> Result<&'static str, String> {
        let nic = build(&options, Box::new(CountedSink::new()));
        nic.map(|nic| nic.info().name).map_err(|error| error.to_string())
    }

    #[test]
    fn every_model_is_made_by_its_name() {
        for info in MODELS {
            assert_eq!(made(NicOptions::of(info.name)), Ok(info.name));
        }
        let error = made(NicOptions::of("ne2000")).unwrap_err();
        assert!(MODELS.iter().all(|info| error.contains(info.name)), "{error}");
    }

    #[test]
    fn what_is_not_possible_is_refused_with_the_range() {
        for info in MODELS {
            let with = |line_rate_bps, mtu| {
                made(NicOptions { line_rate_bps, mtu, ..NicOptions::of(info.name) })
            };
            let most = (info.max_frame_bytes - HEADER_BYTES) as u32;
            assert_eq!(with(Some(10_000_000_000), Some(most)), Ok(info.name));
            assert!(with(Some(0), None).unwrap_err().contains("from 1000000 to"));
            for mtu in [0, 67, most + 1] {
                assert!(with(None, Some(mtu)).unwrap_err().contains("from 68 to"), "{mtu}");
            }
            let bus = Preset::named("pcie1-x1")
                .map(|preset| crate::bus::Bus { burst_bytes: 0, ..preset.bus });
            let error = made(NicOptions { bus, ..NicOptions::of(info.name) }).unwrap_err();
            assert!(error.contains("burst=0"), "{error}");
        }
    }
}
