//! What is asked of a kernel's configuration, and whether it was granted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bridge;
use crate::error::{KernelError, Result};
use crate::hash::fnv1a;

const BASE: &str = include_str!("../config/base.config");
const PREFER: &str = include_str!("../config/prefer.config");
const DRIVERS: &str = include_str!("../config/drivers.config");
const MORE_DRIVERS: &str = include_str!("../config/more-drivers.config");
const SELFTESTS: &str = include_str!("../config/selftest.config");
const PREFER_SELFTESTS: &str = include_str!("../config/prefer-selftest.config");
const DEBUG: &str = include_str!("../config/debug.config");
const PREFER_DEBUG: &str = include_str!("../config/prefer-debug.config");
const DWARF: &str = include_str!("../config/dwarf.config");
const PREFER_DWARF: &str = include_str!("../config/prefer-dwarf.config");
const VIRTUAL: &str = include_str!("../config/virtual.config");

/// Changes whenever the same fragments would lead to another image.
const RECIPE: u32 = 2;

/// The NIC drivers that every image has, and their symbols.
const USUAL_DRIVERS: [(&str, &str); 2] = [("r8169", "CONFIG_R8169"), ("8139too", "CONFIG_8139TOO")];
/// Those that an image has besides if more are asked for.
const FURTHER_DRIVERS: [(&str, &str); 3] =
    [("e1000e", "CONFIG_E1000E"), ("igb", "CONFIG_IGB"), ("8139cp", "CONFIG_8139CP")];

/// Whether a driver is only in images with more drivers.
pub fn needs_more_drivers(driver: &str) -> bool {
    FURTHER_DRIVERS.iter().any(|(name, _)| *name == driver)
}

/// What an unlucky user should read beside the symbol's name.
const MEANINGS: [(&str, &str); 10] = [
    ("CONFIG_UML_PCI_OVER_VIRTIO", "PCI over virtio, without which there is no NIC"),
    ("CONFIG_UML_PCI_OVER_VIRTIO_DEVICE_ID", "the virtio device that carries PCI"),
    ("CONFIG_VIRTIO_UML", "virtio devices on a socket, without which there is no NIC"),
    ("CONFIG_PCI_MSI", "message signalled interrupts"),
    ("CONFIG_MODULES", "modules, so that a driver can be reloaded"),
    ("CONFIG_BLK_DEV_INITRD", "the initramfs that holds the guest agent"),
    ("CONFIG_SSL", "the serial line to the guest agent"),
    ("CONFIG_R8169", "the r8169 driver"),
    ("CONFIG_INET", "IPv4"),
    ("CONFIG_UML_TIME_TRAVEL_SUPPORT", "virtual time, which SMP excludes"),
];

/// Whether the NIC drivers are modules, which can be reloaded, or part of the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriverMode {
    /// Modules.
    #[default]
    Module,
    /// Part of the kernel.
    BuiltIn,
}

/// What kind of image a build makes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ImageKind {
    /// Where the NIC drivers are.
    pub(crate) drivers: DriverMode,
    /// With those of further cards.
    pub(crate) more_drivers: bool,
    /// With what the kernel's own tests need; further drivers included.
    pub(crate) selftests: bool,
    /// With debug information and checks.
    pub(crate) debug: bool,
    /// With time that can be virtual.
    pub(crate) virtual_time: bool,
}

/// A setting of a fragment: `None` is "is not set".
type Setting<'a> = (&'a str, Option<&'a str>);

/// The configuration that a build asks for.
pub(crate) struct Fragment {
    demanded: String,
    preferred: String,
}

impl Fragment {
    /// For images of this kind.
    pub(crate) fn new(kind: ImageKind) -> Self {
        let ImageKind { drivers: mode, more_drivers, selftests, debug, virtual_time } = kind;
        let drivers = match more_drivers || selftests {
            true => format!("{DRIVERS}{MORE_DRIVERS}"),
            false => DRIVERS.into(),
        };
        let drivers = match mode {
            DriverMode::Module => drivers,
            DriverMode::BuiltIn => drivers.replace("=m\n", "=y\n"),
        };
        let (mut demanded, mut preferred) = (vec![BASE, &drivers], vec![PREFER]);
        if selftests {
            demanded.push(SELFTESTS);
            preferred.push(PREFER_SELFTESTS);
        }
        if debug || virtual_time {
            demanded.push(DWARF);
            preferred.push(PREFER_DWARF);
        }
        if debug {
            demanded.push(DEBUG);
            preferred.push(PREFER_DEBUG);
        }
        if virtual_time {
            demanded.push(VIRTUAL);
        }
        Self { demanded: demanded.join("\n"), preferred: preferred.join("\n") }
    }

    /// For `KCONFIG_ALLCONFIG`.
    pub(crate) fn text(&self) -> String {
        format!("{}\n{}", self.demanded, self.preferred)
    }

    /// Sixteen hexadecimal digits that stand for everything in the recipe but the sources.
    pub(crate) fn hash(&self) -> String {
        let bridge: String = bridge::sources().collect();
        let recipe = format!("{RECIPE}\n{}\n{bridge}", self.text());
        format!("{:016x}", fnv1a(recipe.as_bytes()))
    }

    /// An error that names every demanded symbol that `config` does not have as asked.
    pub(crate) fn check(&self, config: &str) -> Result<()> {
        let granted: BTreeMap<_, _> = settings(config).collect();
        let refused: Vec<String> = settings(&self.demanded)
            .filter(|(symbol, value)| granted.get(symbol).copied().flatten() != *value)
            .map(|(symbol, value)| describe(symbol, value, granted.get(symbol).copied().flatten()))
            .collect();
        if refused.is_empty() { Ok(()) } else { Err(KernelError::Config { symbols: refused }) }
    }
}

fn describe(symbol: &str, wanted: Option<&str>, has: Option<&str>) -> String {
    let meaning = MEANINGS.iter().find(|(name, _)| *name == symbol);
    let meaning = meaning.map_or(String::new(), |(_, meaning)| format!(", {meaning}"));
    let wanted = wanted.unwrap_or("n");
    format!("{symbol}={wanted} (it has {}{meaning})", has.unwrap_or("n"))
}

/// The settings of a configuration or of a fragment.
pub(crate) fn settings(config: &str) -> impl Iterator<Item = Setting<'_>> {
    config.lines().filter_map(|line| {
        if let Some(rest) = line.strip_prefix("# CONFIG_") {
            let symbol = rest.strip_suffix(" is not set")?;
            // The prefix belongs to the name.
            return Some((&line[2..2 + "CONFIG_".len() + symbol.len()], None));
        }
        let (symbol, value) = line.split_once('=')?;
        symbol.starts_with("CONFIG_").then_some((symbol, Some(value)))
    })
}

/// Whether a driver is a module or built in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriverPlace {
    /// Part of the kernel.
    BuiltIn,
    /// The driver is a module.
    Module,
}

/// The NIC drivers that a configuration has.
pub(crate) fn drivers_of(config: &str) -> BTreeMap<String, DriverPlace> {
    settings(config)
        .filter_map(|(symbol, value)| {
            let mut all = USUAL_DRIVERS.iter().chain(&FURTHER_DRIVERS);
            let (name, _) = all.find(|(_, wanted)| *wanted == symbol)?;
            let place = match value? {
                "y" => DriverPlace::BuiltIn,
                "m" => DriverPlace::Module,
                _ => return None,
            };
            Some(((*name).to_owned(), place))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_that_grants_everything_passes() {
        for drivers in [DriverMode::Module, DriverMode::BuiltIn] {
            for (more_drivers, extra) in [(false, false), (false, true), (true, false)] {
                let (debug, virtual_time, selftests) = (extra, extra, extra);
                let kind = ImageKind { drivers, more_drivers, selftests, debug, virtual_time };
                let fragment = Fragment::new(kind);
                fragment.check(&fragment.text()).unwrap();
            }
        }
    }

    #[test]
    fn what_is_refused_is_named_with_its_meaning() {
        let fragment = Fragment::new(ImageKind::default());
        let config = fragment
            .text()
            .replace("CONFIG_UML_PCI_OVER_VIRTIO=y\n", "")
            .replace("CONFIG_R8169=m", "CONFIG_R8169=y")
            .replace("# CONFIG_8139TOO_PIO is not set", "CONFIG_8139TOO_PIO=y");
        let text = fragment.check(&config).unwrap_err().to_string();
        assert!(text.contains("CONFIG_UML_PCI_OVER_VIRTIO=y (it has n, PCI over virtio"), "{text}");
        assert!(text.contains("CONFIG_R8169=m (it has y"), "{text}");
        assert!(text.contains("CONFIG_8139TOO_PIO=n (it has y"), "{text}");
        assert!(!text.contains("CONFIG_INET"), "{text}");
    }

    #[test]
    fn what_is_only_preferred_may_be_refused() {
        let fragment = Fragment::new(ImageKind::default());
        let config = fragment.text().replace("CONFIG_CRC32=y", "CONFIG_CRC32=m");
        fragment.check(&config).unwrap();
    }

    #[test]
    fn a_configuration_has_one_hash_and_another_has_another() {
        let module = Fragment::new(ImageKind::default()).hash();
        assert_eq!(module, Fragment::new(ImageKind::default()).hash());
        let others = [
            ImageKind { drivers: DriverMode::BuiltIn, ..ImageKind::default() },
            ImageKind { more_drivers: true, ..ImageKind::default() },
            ImageKind { selftests: true, ..ImageKind::default() },
        ];
        assert!(others.iter().all(|kind| Fragment::new(*kind).hash() != module));
        assert_eq!(module.len(), 16);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
    }

    #[test]
    fn every_driver_of_an_image_is_asked_for() {
        for (config, drivers) in [(DRIVERS, &USUAL_DRIVERS[..]), (MORE_DRIVERS, &FURTHER_DRIVERS)] {
            for (_, symbol) in drivers {
                assert!(config.contains(&format!("{symbol}=m\n")), "{symbol}");
            }
            assert_eq!(drivers_of(config).len(), drivers.len(), "uio and pktgen drive no NIC");
        }
        assert!(needs_more_drivers("e1000e") && !needs_more_drivers("r8169"));
    }

    #[test]
    fn settings_are_read_in_both_notations() {
        let config = "# a comment\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=\"x=y\"\n";
        let found: Vec<_> = settings(config).collect();
        let expected = [("CONFIG_A", Some("y")), ("CONFIG_B", None), ("CONFIG_C", Some("\"x=y\""))];
        assert_eq!(found, expected);
    }
}
